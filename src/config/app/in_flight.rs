//! How much the batches of all ticks at work may weigh together.

use crate::config::fault::{Faults, Place};
use crate::config::{Settings, human};

const SETTING: &str = "DBTICK_IN_FLIGHT";
const DEFAULT: u64 = 128 << 20;
const LEAST: u64 = 1 << 20;
const MOST: u64 = 64 << 30;

pub(super) fn in_flight(settings: &Settings, faults: &mut Faults) -> u64 {
    let Some(text) = settings.filled(SETTING) else {
        return DEFAULT;
    };
    match human::size(text.trim()) {
        Ok(bytes) if (LEAST..=MOST).contains(&bytes) => bytes,
        _ => {
            faults.add(
                &Place::root(),
                format!("the app setting {SETTING} is not a size from 1MiB to 64GiB"),
                "write it like \"128MiB\", which is assumed until then",
            );
            DEFAULT
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_in_flight_is_a_size_within_bounds() {
        for (value, expected, faulty) in [
            (None, DEFAULT, false),
            (Some(""), DEFAULT, false),
            (Some("1MiB"), 1 << 20, false),
            (Some(" 2GiB "), 2 << 30, false),
            (Some("1KiB"), DEFAULT, true),
            (Some("much"), DEFAULT, true),
        ] {
            let settings = value.map(|value| (SETTING, value)).into_iter().collect();
            let mut faults = Faults::of(Path::new("host.json"));
            let bytes = in_flight(&settings, &mut faults);
            assert_eq!((bytes, !faults.is_empty()), (expected, faulty), "{value:?}");
        }
    }
}
