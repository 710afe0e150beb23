//! Names in a store.

use std::fmt;

/// A path of safe segments, such as `state/shop/orders.json`: it means the same thing in a blob
/// container, a directory and a table, and cannot climb out of any of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreKey(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a state path may hold letters, digits, '-', '_' and '.' between slashes, and no segment may start with a dot: {0:?}"
)]
pub struct KeyError(String);

impl StoreKey {
    pub fn new(path: impl Into<String>) -> Result<Self, KeyError> {
        let path = path.into();
        let legal = |segment: &str| {
            !segment.is_empty()
                && !segment.starts_with('.')
                && segment
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
        };
        if path.split('/').all(legal) {
            Ok(Self(path))
        } else {
            Err(KeyError(path))
        }
    }

    /// The one document of a poller (C9).
    pub fn state(app: &str, poller: &str) -> Result<Self, KeyError> {
        Self::new(format!("state/{app}/{poller}.json"))
    }

    /// Stays when the document is deleted, so that a lost document is not taken for a first run.
    pub fn birth_marker(app: &str, poller: &str) -> Result<Self, KeyError> {
        Self::new(format!("state/{app}/{poller}.born"))
    }

    /// An object of the poller whose document this is: ids that did not fit into it.
    pub fn late_object(&self, name: &str) -> Result<Self, KeyError> {
        let path = self.0.strip_prefix("state/").unwrap_or(&self.0);
        let path = path.strip_suffix(".json").unwrap_or(path);
        Self::new(format!("late/{path}/{name}"))
    }

    /// Below this are the segments of the poller's ledger.
    #[must_use]
    pub fn ledger(&self) -> String {
        let path = self.0.strip_prefix("state/").unwrap_or(&self.0);
        let path = path.strip_suffix(".json").unwrap_or(path);
        format!("ledger/{path}/")
    }

    /// Below this are the backfills of the poller whose document this is, each with a plan and a document
    /// for each of its ranges.
    #[must_use]
    pub fn backfills(&self) -> String {
        format!("backfill/{}/", self.poller())
    }

    /// `app/poller`, also of a document of one of its backfills.
    fn poller(&self) -> String {
        match self.0.strip_prefix("backfill/") {
            Some(path) => path.split('/').take(2).collect::<Vec<_>>().join("/"),
            None => {
                let path = self.0.strip_prefix("state/").unwrap_or(&self.0);
                path.strip_suffix(".json").unwrap_or(path).to_owned()
            }
        }
    }

    /// Below this are the rows that sinks of the poller never took, whether they came by itself or by a
    /// backfill.
    #[must_use]
    pub fn quarantine(&self) -> String {
        format!("quarantine/{}/", self.poller())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StoreKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_cannot_climb_out_of_its_store() {
        for path in [
            "",
            "/",
            "a//b",
            "../x",
            "a/../b",
            "a/.hidden",
            "a\\b",
            "a b",
            "a/\u{e9}",
        ] {
            assert!(StoreKey::new(path).is_err(), "{path:?}");
        }
        assert!(StoreKey::new("state/my-app_1/orders.json").is_ok());
    }

    #[test]
    fn what_a_backfill_sets_aside_is_where_its_poller_has_it() {
        let live = StoreKey::state("shop", "orders").unwrap();
        let range = StoreKey::new(format!("{}spring/range-01.json", live.backfills())).unwrap();
        assert_eq!(range.as_str(), "backfill/shop/orders/spring/range-01.json");
        assert_eq!(range.quarantine(), live.quarantine());
        assert_eq!(range.backfills(), live.backfills());
        assert_ne!(range.ledger(), live.ledger());
    }
}
