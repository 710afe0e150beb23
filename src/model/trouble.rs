//! Ticks that fail before they come to a delivery: written down in the document, so that somebody who
//! looks from elsewhere knows since when and why.

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// While it lasts, this often at the most: a broken database should not cost a write with every tick.
const SAID_AGAIN: TimeDelta = TimeDelta::minutes(5);
/// A document is no place for essays.
const LONGEST: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    /// The outcome of the ticks, as in the log.
    pub outcome: String,
    pub error: String,
    pub since: Timestamp,
    pub last_at: Timestamp,
}

impl Trouble {
    #[must_use]
    pub fn new(outcome: &str, error: &str, now: Timestamp) -> Self {
        Self {
            outcome: outcome.to_owned(),
            error: error.chars().take(LONGEST).collect(),
            since: now,
            last_at: now,
        }
    }

    /// What the document says from now on; `None`: what it says already.
    #[must_use]
    pub(super) fn after(&self, known: Option<&Self>) -> Option<Self> {
        let Some(known) = known.filter(|known| known.outcome == self.outcome) else {
            return Some(self.clone());
        };
        if known.error == self.error && self.last_at - known.last_at < SAID_AGAIN {
            return None;
        }
        Some(Self {
            since: known.since,
            ..self.clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(outcome: &str, error: &str, second: i64) -> Trouble {
        let now = chrono::DateTime::from_timestamp(second, 0).unwrap();
        Trouble::new(outcome, error, now)
    }

    #[test]
    fn trouble_that_lasts_is_said_again_only_after_a_while_and_keeps_its_beginning() {
        let first = trouble("source_failed", "no route", 0);
        assert_eq!(first.after(None), Some(first.clone()));
        assert_eq!(
            trouble("source_failed", "no route", 200).after(Some(&first)),
            None
        );
        let later = trouble("source_failed", "no route", 300).after(Some(&first));
        let later = later.unwrap();
        assert_eq!((later.since, later.last_at.timestamp()), (first.since, 300));
        // Another cause is said at once; another kind begins anew.
        let other = trouble("source_failed", "wrong password", 10).after(Some(&first));
        assert_eq!(other.unwrap().since, first.since);
        let kind = trouble("schema_changed", "id is text now", 10).after(Some(&first));
        assert_eq!(kind.unwrap().since.timestamp(), 10);
    }
}
