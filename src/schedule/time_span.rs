//! .NET's `TimeSpan` text (`hh:mm`, `hh:mm:ss`, `d.hh:mm:ss`, with an optional fraction), which
//! host.json, function.json and timer schedules use. Negative spans and a bare number of days are
//! refused: nobody who writes `"5"` means five days.

use std::time::Duration;

/// Why a text is no time span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a time span; write hh:mm:ss or d.hh:mm:ss")]
pub struct InvalidTimeSpan(String);

/// Reads a span; hours are 0-23, minutes and seconds 0-59, as `TimeSpan.Parse` has them.
pub fn parse(text: &str) -> Result<Duration, InvalidTimeSpan> {
    spans(text.trim()).ok_or_else(|| InvalidTimeSpan(text.to_owned()))
}

fn spans(text: &str) -> Option<Duration> {
    let (days, clock) = match text.split_once('.') {
        Some((days, clock)) if clock.contains(':') => (number(days, 10_675_199)?, clock),
        _ => (0, text),
    };
    let mut parts = clock.split(':');
    let hours = number(parts.next()?, 23)?;
    let minutes = number(parts.next()?, 59)?;
    let (seconds, nanos) = match parts.next() {
        None => (0, 0),
        Some(part) => seconds(part)?,
    };
    if parts.next().is_some() {
        return None;
    }
    let whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds;
    Some(Duration::new(whole, nanos))
}

fn seconds(text: &str) -> Option<(u64, u32)> {
    let Some((whole, fraction)) = text.split_once('.') else {
        return Some((number(text, 59)?, 0));
    };
    if fraction.is_empty() || fraction.len() > 7 {
        return None;
    }
    let nanos = number(&format!("{fraction:0<9}"), 999_999_999)?;
    Some((number(whole, 59)?, u32::try_from(nanos).ok()?))
}

fn number(text: &str, max: u64) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|value| *value <= max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_read_as_dotnet_reads_them() {
        for (text, expected) in [
            ("00:05:00", Some(300.0)),
            ("1.00:00:01", Some(86_401.0)),
            ("23:59", Some(86_340.0)),
            ("00:00:00.25", Some(0.25)),
            ("24:00:00", None),
            ("00:60:00", None),
            ("5", None),
            ("-1", None),
            ("-00:00:01", None),
            ("00:00:00:00:01", None),
            ("", None),
        ] {
            let got = parse(text).ok().map(|span| span.as_secs_f64());
            assert_eq!(got, expected, "{text}");
        }
    }
}
