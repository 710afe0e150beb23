//! Durations and sizes as people write them.

use std::time::Duration;

use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a duration; {DURATION_FORMS}")]
pub struct NotADuration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not a size; {SIZE_FORMS}")]
pub struct NotASize;

/// The forms that [`duration`] reads, for hints.
pub const DURATION_FORMS: &str = "write it like 500ms, 5s, 2m, 1h, 7d or 00:01:30";

/// The forms that [`size`] reads, for hints.
pub const SIZE_FORMS: &str = "write it like 512B, 64KiB, 1MiB or 1MB";

const DURATION_UNITS: [(&str, u64); 5] = [
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1_000),
    ("ms", 1),
];

/// The units in which [`show_size`] writes come first, largest first.
const SIZE_UNITS: [(&str, u64); 8] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
];

/// `500ms`, `5s`, `2m`, `1h`, `7d`, or `hh:mm:ss` as in host.json, which may begin with days: `1.00:00:00`.
pub fn duration(text: &str) -> Result<Duration, NotADuration> {
    let text = text.trim();
    if text.contains(':') {
        return clock_face(text).ok_or(NotADuration);
    }
    quantity(text, &DURATION_UNITS)
        .map(Duration::from_millis)
        .ok_or(NotADuration)
}

/// `512B`, `64KiB`, `1MiB`, `1MB`.
pub fn size(text: &str) -> Result<u64, NotASize> {
    quantity(text.trim(), &SIZE_UNITS).ok_or(NotASize)
}

/// The shortest form that [`duration`] reads back; finer than a millisecond is cut off.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        "0s".to_owned()
    } else {
        show(millis, &DURATION_UNITS)
    }
}

/// The shortest form that [`size`] reads back.
#[must_use]
pub fn show_size(bytes: u64) -> String {
    if bytes == 0 {
        "0B".to_owned()
    } else {
        show(bytes, &SIZE_UNITS[..4])
    }
}

fn show(amount: u64, units: &[(&str, u64)]) -> String {
    units
        .iter()
        .find(|(_, factor)| amount.is_multiple_of(*factor))
        .map_or_else(String::new, |(unit, factor)| {
            format!("{}{unit}", amount / factor)
        })
}

fn quantity(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit())?;
    let (digits, unit) = text.split_at(end);
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    digits.parse::<u64>().ok()?.checked_mul(*factor)
}

fn clock_face(text: &str) -> Option<Duration> {
    let (days, time) = text.split_once('.').unwrap_or(("0", text));
    let mut parts = time.split(':');
    let (hours, minutes, seconds) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    let below = |part: &str, limit: u64| {
        let all_digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let value = part.parse::<u64>().ok()?;
        (all_digits && value < limit).then_some(value)
    };
    let days = below(days, 10_000)?;
    let hours = below(hours, 24)?;
    let minutes = below(minutes, 60)?;
    let seconds = below(seconds, 60)?;
    Some(Duration::from_secs(
        ((days * 24 + hours) * 60 + minutes) * 60 + seconds,
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_read_in_every_accepted_form() {
        for (text, millis) in [
            ("500ms", Some(500)),
            ("5s", Some(5_000)),
            ("5 s", Some(5_000)),
            ("2m", Some(120_000)),
            ("1h", Some(3_600_000)),
            ("7d", Some(604_800_000)),
            ("00:01:30", Some(90_000)),
            ("1.00:00:01", Some(86_401_000)),
            ("0s", Some(0)),
            ("", None),
            ("5", None),
            ("s", None),
            ("-5s", None),
            ("1.5s", None),
            ("5 minutes", None),
            ("00:60:00", None),
            ("24:00:00", None),
            ("00:01", None),
            ("+1:00:00", None),
            ("99999999999999999h", None),
        ] {
            let expected = millis.map(Duration::from_millis).ok_or(NotADuration);
            assert_eq!(duration(text), expected, "{text}");
        }
    }

    #[test]
    fn sizes_are_read_in_every_accepted_form() {
        for (text, bytes) in [
            ("512B", Some(512)),
            ("64KiB", Some(65_536)),
            ("1MiB", Some(1_048_576)),
            ("1MB", Some(1_000_000)),
            ("1 kB", Some(1_000)),
            ("1GiB", Some(1 << 30)),
            ("1024", None),
            ("1mib", None),
            ("MiB", None),
            ("-1B", None),
            ("99999999999999GiB", None),
        ] {
            assert_eq!(size(text), bytes.ok_or(NotASize), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_shown_duration_reads_back(millis in any::<u64>()) {
            let value = Duration::from_millis(millis);
            prop_assert_eq!(duration(&show_duration(value)), Ok(value));
        }

        #[test]
        fn a_shown_size_reads_back(bytes in any::<u64>()) {
            prop_assert_eq!(size(&show_size(bytes)), Ok(bytes));
        }

        #[test]
        fn whatever_is_read_can_be_shown_and_read_again(text in "[0-9]{0,20} ?(ms|s|m|h|B|KiB|MB|.*)") {
            if let Ok(value) = duration(&text) {
                prop_assert_eq!(duration(&show_duration(value)), Ok(value));
            }
            if let Ok(value) = size(&text) {
                prop_assert_eq!(size(&show_size(value)), Ok(value));
            }
        }
    }
}
