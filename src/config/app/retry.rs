//! The host's own retry policy (D10): it repeats a failed tick before the next one comes.

use std::time::Duration;

use serde_json::Value;

use crate::config::human;

/// What a policy comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostRetry {
    Times {
        /// At least one.
        count: u32,
        /// All of its pauses together, without what the ticks themselves take.
        pauses: Duration,
    },
    Endless,
    /// Something that the host may understand and we do not.
    Unreadable,
}

/// The policy of function.json, or of host.json where it has none; `None` when nothing is repeated.
pub(super) fn effective(function: Option<&Value>, host: Option<&Value>) -> Option<HostRetry> {
    let policy = function.or(host).filter(|policy| !policy.is_null())?;
    match read(policy) {
        Some(HostRetry::Times { count: 0, .. }) => None,
        Some(retry) => Some(retry),
        None => Some(HostRetry::Unreadable),
    }
}

fn read(policy: &Value) -> Option<HostRetry> {
    let count = member(policy, "maxRetryCount")?.parse::<i64>().ok()?;
    let span = |name| span(&member(policy, name)?);
    let strategy = member(policy, "strategy")?.to_ascii_lowercase();
    let (first, longest) = match strategy.as_str() {
        "fixeddelay" => {
            let delay = span("delayInterval")?;
            (delay, delay)
        }
        "exponentialbackoff" => (span("minimumInterval")?, span("maximumInterval")?),
        _ => return None,
    };
    if count == -1 {
        return Some(HostRetry::Endless);
    }
    let count = u32::try_from(count).ok()?;
    let pauses = pauses(count, first, longest);
    Some(HostRetry::Times { count, pauses })
}

/// The host reads members without case, and numbers also as text.
fn member(policy: &Value, name: &str) -> Option<String> {
    let mut members = policy.as_object()?.iter();
    match members.find(|(key, _)| key.eq_ignore_ascii_case(name))?.1 {
        Value::String(text) => Some(text.trim().to_owned()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn span(text: &str) -> Option<Duration> {
    human::duration(text).ok().filter(|_| text.contains(':'))
}

/// Doubling, up to the longest.
fn pauses(count: u32, first: Duration, longest: Duration) -> Duration {
    let (mut total, mut pause) = (Duration::ZERO, first);
    for left in (1..=count).rev() {
        if pause >= longest || pause.is_zero() {
            return total.saturating_add(pause.min(longest).saturating_mul(left));
        }
        total = total.saturating_add(pause);
        pause = pause.saturating_mul(2);
    }
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn times(count: u32, seconds: u64) -> Option<HostRetry> {
        let pauses = Duration::from_secs(seconds);
        Some(HostRetry::Times { count, pauses })
    }

    fn fixed(count: impl Into<Value>, delay: &str) -> Value {
        json!({ "strategy": "fixedDelay", "maxRetryCount": count.into(), "delayInterval": delay })
    }

    fn backoff(count: i64, minimum: &str, maximum: &str) -> Value {
        json!({
            "strategy": "exponentialBackoff", "maxRetryCount": count,
            "minimumInterval": minimum, "maximumInterval": maximum
        })
    }

    #[test]
    fn a_policy_is_told_by_how_often_and_how_long() {
        for (policy, expected) in [
            (fixed(3, "00:00:10"), times(3, 30)),
            (fixed(0, "00:00:10"), None),
            (fixed(-1, "00:00:10"), Some(HostRetry::Endless)),
            (fixed("3", "00:00:10"), times(3, 30)),
            (fixed(u32::MAX, "00:00:00"), times(u32::MAX, 0)),
            (backoff(1, "00:00:05", "00:15:00"), times(1, 5)),
            (
                backoff(4, "00:00:05", "00:15:00"),
                times(4, 5 + 10 + 20 + 40),
            ),
            (
                backoff(4, "00:00:05", "00:00:12"),
                times(4, 5 + 10 + 12 + 12),
            ),
            (backoff(2, "00:00:05", "00:00:01"), times(2, 2)),
            (
                backoff(-1, "00:00:05", "00:15:00"),
                Some(HostRetry::Endless),
            ),
            (Value::Null, None),
        ] {
            assert_eq!(effective(Some(&policy), None), expected, "{policy}");
            assert_eq!(effective(None, Some(&policy)), expected, "{policy}");
        }
        let upper =
            json!({ "Strategy": "FixedDelay", "MaxRetryCount": 1, "DelayInterval": "00:00:01" });
        assert_eq!(effective(None, Some(&upper)), times(1, 1));
    }

    #[test]
    fn a_policy_that_is_not_understood_is_still_one() {
        for policy in [
            json!({}),
            json!(true),
            json!({ "strategy": "fixedDelay" }),
            json!({ "strategy": "sometimes", "maxRetryCount": 1 }),
            fixed(-2, "00:00:10"),
            fixed(1.5, "00:00:10"),
            fixed(1, "10s"),
            fixed(1, "soon"),
        ] {
            let found = effective(Some(&policy), None);
            assert_eq!(found, Some(HostRetry::Unreadable), "{policy}");
        }
    }

    #[test]
    fn the_policy_of_a_function_comes_before_that_of_the_host() {
        let (own, host) = (fixed(1, "00:00:10"), fixed(-1, "00:00:10"));
        assert_eq!(effective(Some(&own), Some(&host)), times(1, 10));
        assert_eq!(effective(Some(&fixed(0, "00:00:10")), Some(&host)), None);
        assert_eq!(effective(None, None), None);
    }
}
