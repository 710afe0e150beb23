//! The `Retry-After` header: seconds or a date, from a stranger.

use chrono::{DateTime, TimeDelta};

use crate::clock::Timestamp;

/// A receiver may not silence a poller for longer than this.
const LONGEST: TimeDelta = TimeDelta::hours(24);

/// When to call again; `None` when the header is absent, senseless or already past.
#[must_use]
pub fn parse(header: &str, now: Timestamp) -> Option<Timestamp> {
    let header = header.trim();
    let wait = match header.parse::<u64>() {
        Ok(seconds) => TimeDelta::try_seconds(i64::try_from(seconds).ok()?).unwrap_or(LONGEST),
        Err(_) if !header.is_empty() && header.bytes().all(|b| b.is_ascii_digit()) => LONGEST,
        Err(_) => DateTime::parse_from_rfc2822(header).ok()?.to_utc() - now,
    };
    (wait > TimeDelta::zero()).then(|| now + wait.min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_dates_are_obeyed_within_a_day_and_nonsense_is_ignored() {
        let now = DateTime::parse_from_rfc3339("2026-11-16T10:00:00Z")
            .unwrap()
            .to_utc();
        for (header, expected) in [
            ("120", Some(120)),
            (" 1 ", Some(1)),
            ("0", None),
            ("-5", None),
            ("", None),
            ("soon", None),
            ("1e9", None),
            ("999999999", Some(86_400)),
            ("99999999999999999999999999", Some(86_400)),
            ("Mon, 16 Nov 2026 10:00:30 GMT", Some(30)),
            ("Mon, 16 Nov 2026 09:00:00 GMT", None),
            ("Tue, 16 Nov 2100 10:00:00 GMT", Some(86_400)),
        ] {
            let seconds = parse(header, now).map(|at| (at - now).num_seconds());
            assert_eq!(seconds, expected, "{header:?}");
        }
    }
}
