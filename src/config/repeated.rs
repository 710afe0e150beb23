//! Finds keys that are written twice in one object: JSON readers keep the last in silence.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// JSON in which no object has a key twice.
pub(super) struct OnceOnly;

impl<'de> Deserialize<'de> for OnceOnly {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Walk)
    }
}

struct Walk;

impl<'de> Visitor<'de> for Walk {
    type Value = OnceOnly;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OnceOnly, A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if seen.contains(&key) {
                return Err(A::Error::custom(format_args!(
                    "a key is written twice: {key}"
                )));
            }
            seen.insert(key);
            map.next_value::<OnceOnly>()?;
        }
        Ok(OnceOnly)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<OnceOnly, A::Error> {
        while items.next_element::<OnceOnly>()?.is_some() {}
        Ok(OnceOnly)
    }

    fn visit_unit<E: Error>(self) -> Result<OnceOnly, E> {
        Ok(OnceOnly)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<OnceOnly, E> {
        Ok(OnceOnly)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<OnceOnly, E> {
        Ok(OnceOnly)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<OnceOnly, E> {
        Ok(OnceOnly)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<OnceOnly, E> {
        Ok(OnceOnly)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<OnceOnly, E> {
        Ok(OnceOnly)
    }
}
