//! The numbers of attempts that are made beside a live poller, under a token of its.

use crate::clock::Timestamp;
use crate::model::lease::FencingToken;

/// Beyond every number that a live poller comes to under one token.
const FIRST: u64 = 1 << 32;
/// Attempts that one holder makes before it gives the lease back.
const MOST_OF_A_HOLDER: u64 = 1 << 14;

/// Those of one range of a backfill. Each holder of the range's own lease goes on behind the one before, whatever the
/// clocks of both say.
#[derive(Debug, Clone, Copy)]
pub struct Sequences {
    first: u64,
    step: u64,
}

impl Sequences {
    /// `number`: from one. Greater than those of a backfill that began earlier, and no other range has the same.
    #[must_use]
    pub fn of_range(number: usize, ranges: usize, began: Timestamp) -> Self {
        let began = u64::try_from(began.timestamp_micros()).unwrap_or(0);
        Self {
            first: began.max(FIRST) + number as u64,
            step: ranges as u64,
        }
    }

    /// The last one that a holder before this one may have used.
    #[must_use]
    pub fn before(self, holder: FencingToken) -> u64 {
        let claims = holder.get().saturating_mul(MOST_OF_A_HOLDER);
        self.first.saturating_add(claims.saturating_mul(self.step))
    }

    #[must_use]
    pub fn step(self) -> u64 {
        self.step
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use chrono::{DateTime, TimeDelta};

    use super::*;

    fn used(sequences: Sequences, holder: u64, attempts: u64) -> impl Iterator<Item = u64> {
        let before = sequences.before(FencingToken::default().at_least(holder));
        (1..=attempts).map(move |attempt| before + attempt * sequences.step())
    }

    #[test]
    fn each_holder_of_a_range_goes_on_behind_the_one_before() {
        let sequences = Sequences::of_range(2, 3, Timestamp::default());
        let mut greatest = FIRST;
        for holder in 1..5 {
            for sequence in used(sequences, holder, MOST_OF_A_HOLDER) {
                assert!(sequence > greatest, "{sequence} after {greatest}");
                greatest = sequence;
            }
        }
    }

    #[test]
    fn no_two_ranges_use_the_same_number() {
        let mut seen = BTreeSet::new();
        for range in 1..=4 {
            let sequences = Sequences::of_range(range, 4, Timestamp::default());
            for sequence in (1..4).flat_map(|holder| used(sequences, holder, 100)) {
                assert!(seen.insert(sequence), "{sequence}");
            }
        }
    }

    #[test]
    fn what_began_later_uses_greater_numbers_and_all_are_exact_in_javascript() {
        let began = DateTime::from_timestamp_secs(1_800_000_000).unwrap();
        let first = Sequences::of_range(64, 64, began);
        // A holder has a range for two seconds.
        let last = used(first, 1800, 1).next().unwrap();
        let later = Sequences::of_range(1, 1, began + TimeDelta::hours(1));
        assert!(used(later, 1, 1).next().unwrap() > last);
        let in_a_century = began + TimeDelta::days(36_500);
        let most = used(Sequences::of_range(64, 64, in_a_century), 1_000_000, 1);
        assert!(most.max().unwrap() < 1 << 53);
    }
}
