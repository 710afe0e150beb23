//! What a poller has done since it began. It rides in the document and is written with what is written
//! anyway, because timers and status pages run on different instances.
//!
//! Sums only, so that two readings make a rate. They saturate: a document with a figure at its end is
//! still a good document.

use std::time::Duration;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Counters {
    pub batches: u64,
    pub rows: u64,
    pub failed_ticks: u64,
    /// Rows set aside because a sink does not take them; what became of them is not counted here.
    pub quarantined: u64,
    /// Of the committed batches, as they were sent.
    pub bytes: u64,
    /// Rows that were sent again to a sink that may have them: at least so many duplicates.
    pub resent: u64,
    /// Writes of a holder that did not succeed or whose answer was lost.
    pub failed_commits: u64,
    /// Time spent reading the batches that were committed.
    pub read: Timing,
    /// Time spent delivering them.
    pub deliver: Timing,
    /// Time spent in the writes of holders: claims, commits, heartbeats.
    pub commit: Timing,
}

/// How often, and for how long in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Timing {
    pub count: u64,
    /// Microseconds: what takes less than a millisecond is most of what happens on one machine.
    pub us: u64,
}

/// What it took to bring batches to their commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    pub bytes: u64,
    pub read: Duration,
    pub deliver: Duration,
}

/// What became of a holder's writes. How long a write took is known after it, so it goes into the
/// document with the next one; that of the last write of a tick goes into none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Writes {
    pub failed: u64,
    pub took: Timing,
}

impl Counters {
    pub(super) fn failed_tick(&mut self) {
        self.failed_ticks = self.failed_ticks.saturating_add(1);
    }

    pub(super) fn committed(&mut self, batches: u64, rows: u64, cost: &Cost) {
        self.batches = self.batches.saturating_add(batches);
        self.rows = self.rows.saturating_add(rows);
        self.bytes = self.bytes.saturating_add(cost.bytes);
        self.read.add_several(batches, cost.read);
        self.deliver.add_several(batches, cost.deliver);
    }

    pub(super) fn told(&mut self, set_aside: u64, resent: u64) {
        self.quarantined = self.quarantined.saturating_add(set_aside);
        self.resent = self.resent.saturating_add(resent);
    }

    pub(super) fn wrote(&mut self, writes: &Writes) {
        self.failed_commits = self.failed_commits.saturating_add(writes.failed);
        self.commit.count = self.commit.count.saturating_add(writes.took.count);
        self.commit.us = self.commit.us.saturating_add(writes.took.us);
    }
}

impl Timing {
    pub fn add(&mut self, took: Duration) {
        self.add_several(1, took);
    }

    /// So many of them took so long in all.
    fn add_several(&mut self, count: u64, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.count = self.count.saturating_add(count);
        self.us = self.us.saturating_add(us);
    }
}

impl Cost {
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            read: self.read.saturating_add(other.read),
            deliver: self.deliver.saturating_add(other.deliver),
        }
    }
}

impl Writes {
    /// Without those that have been written down.
    pub fn forget(&mut self, told: &Self) {
        self.failed = self.failed.saturating_sub(told.failed);
        self.took.count = self.took.count.saturating_sub(told.took.count);
        self.took.us = self.took.us.saturating_sub(told.took.us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_at_their_end_stay_there() {
        let full = Timing {
            count: u64::MAX,
            us: u64::MAX,
        };
        let mut counters = Counters {
            batches: u64::MAX,
            rows: u64::MAX - 1,
            failed_ticks: u64::MAX,
            quarantined: u64::MAX,
            bytes: u64::MAX,
            resent: u64::MAX,
            failed_commits: u64::MAX,
            read: full,
            deliver: full,
            commit: full,
        };
        let cost = Cost {
            bytes: 1,
            read: Duration::MAX,
            deliver: Duration::MAX,
        };
        counters.committed(1, 5, &cost);
        counters.failed_tick();
        counters.told(1, 1);
        counters.wrote(&Writes {
            failed: 1,
            took: full,
        });
        assert_eq!(counters.rows, u64::MAX);
        let sums = [
            counters.batches,
            counters.failed_ticks,
            counters.quarantined,
        ];
        assert_eq!(sums, [u64::MAX; 3]);
        let timings = [counters.read, counters.deliver, counters.commit];
        assert_eq!(timings, [full; 3]);
        // As JSON and back, it is what it was.
        let json = serde_json::to_string(&counters).unwrap();
        assert_eq!(serde_json::from_str::<Counters>(&json).unwrap(), counters);
    }

    #[test]
    fn figures_of_an_older_program_are_kept_and_the_others_begin() {
        let older = r#"{"batches":3,"rows":7,"failed_ticks":1,"quarantined":2}"#;
        let counters: Counters = serde_json::from_str(older).unwrap();
        assert_eq!((counters.batches, counters.quarantined), (3, 2));
        assert_eq!((counters.resent, counters.commit), (0, Timing::default()));
    }

    #[test]
    fn only_what_was_written_down_is_forgotten() {
        let mut writes = Writes::default();
        writes.took.add(Duration::from_millis(5));
        let told = writes;
        writes.failed += 1;
        writes.took.add(Duration::from_millis(2));
        writes.forget(&told);
        let left = Writes {
            failed: 1,
            took: Timing { count: 1, us: 2000 },
        };
        assert_eq!(writes, left);
    }
}
