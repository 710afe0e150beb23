//! The `retry` policy of a function.json, in memory only as in the host.

use std::time::Duration;

/// How often and after which pauses a failed invocation runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Retries after the first attempt; `-1` has no end.
    pub max_retry_count: i32,
    /// The pauses between attempts.
    pub strategy: RetryStrategy,
}

/// The pauses between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryStrategy {
    /// Always the same.
    FixedDelay(Duration),
    /// Doubling with jitter between two bounds.
    ExponentialBackoff {
        /// The first pause.
        minimum: Duration,
        /// No pause is longer.
        maximum: Duration,
    },
}

impl RetryPolicy {
    /// The pause before retry number `retry` (from 1), or `None` when the policy is spent.
    pub fn pause(&self, retry: u32, random: u128) -> Option<Duration> {
        if u32::try_from(self.max_retry_count).is_ok_and(|max| retry > max) {
            return None;
        }
        Some(match self.strategy {
            RetryStrategy::FixedDelay(delay) => delay,
            RetryStrategy::ExponentialBackoff { minimum, maximum } => {
                let jitter = 0.8 + 0.4 * (random % 1001) as f64 / 1000.0;
                let growth = 2_f64.powi((retry - 1).min(62) as i32) - 1.0;
                let seconds = minimum.as_secs_f64() * (1.0 + growth * jitter);
                Duration::from_secs_f64(seconds.min(maximum.as_secs_f64()))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(max_retry_count: i32, strategy: RetryStrategy) -> RetryPolicy {
        RetryPolicy {
            max_retry_count,
            strategy,
        }
    }

    #[test]
    fn a_fixed_delay_ends_after_its_count() {
        let delay = Duration::from_secs(10);
        let policy = policy(2, RetryStrategy::FixedDelay(delay));
        let pauses: Vec<_> = (1..=3).map(|retry| policy.pause(retry, 0)).collect();
        assert_eq!(pauses, [Some(delay), Some(delay), None]);
    }

    #[test]
    fn minus_one_retries_without_end() {
        let policy = policy(-1, RetryStrategy::FixedDelay(Duration::ZERO));
        assert_eq!(policy.pause(u32::MAX, 0), Some(Duration::ZERO));
    }

    #[test]
    fn a_backoff_starts_at_its_minimum_grows_and_stops_at_its_maximum() {
        let (minimum, maximum) = (Duration::from_secs(5), Duration::from_secs(60));
        let policy = policy(9, RetryStrategy::ExponentialBackoff { minimum, maximum });
        assert_eq!(policy.pause(1, 777), Some(minimum));
        let second = policy.pause(2, 0).unwrap();
        assert!(
            second > minimum && second < Duration::from_secs(12),
            "{second:?}"
        );
        assert_eq!(policy.pause(9, 0), Some(maximum));
    }
}
