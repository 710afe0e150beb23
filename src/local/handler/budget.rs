//! How many errors in a row make the host give up.

use std::time::Duration;

use tokio::time::Instant;

const WINDOW: Duration = Duration::from_secs(30 * 60);

/// Errors closer than half an hour to the previous one add up.
#[derive(Debug)]
pub(super) struct ErrorBudget {
    threshold: u32,
    errors: u32,
    last: Option<Instant>,
}

impl ErrorBudget {
    /// Spent by the `threshold`-th error.
    pub(super) fn new(threshold: u32) -> ErrorBudget {
        ErrorBudget {
            threshold,
            errors: 0,
            last: None,
        }
    }

    pub(super) fn is_spent_by_error_at(&mut self, now: Instant) -> bool {
        if self
            .last
            .is_some_and(|last| now.duration_since(last) > WINDOW)
        {
            self.errors = 0;
        }
        self.last = Some(now);
        self.errors = self.errors.saturating_add(1);
        self.errors >= self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{Clock, SystemClock};

    fn check(minutes: &[u64], expected: &[bool]) {
        let start = SystemClock.monotonic();
        let mut budget = ErrorBudget::new(3);
        let got: Vec<bool> = minutes
            .iter()
            .map(|minute| budget.is_spent_by_error_at(start + Duration::from_secs(60 * minute)))
            .collect();
        assert_eq!(got, expected, "{minutes:?}");
    }

    #[test]
    fn the_third_error_in_a_window_spends_the_budget() {
        check(&[0, 1, 2], &[false, false, true]);
        check(&[0, 29, 58], &[false, false, true]);
    }

    #[test]
    fn half_an_hour_without_an_error_starts_a_new_window() {
        check(&[0, 1, 32, 33, 34], &[false, false, false, false, true]);
        check(&[0, 1, 31], &[false, false, true]);
    }
}
