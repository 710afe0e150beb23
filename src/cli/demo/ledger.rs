//! What went in, what came out, what is committed: the figures by which the demo judges itself.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use tokio::sync::watch;

use crate::clock::Timestamp;

use super::receiver::Arrival;

#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Row ids with the time of their commit.
    inserted: BTreeMap<i64, Timestamp>,
    /// Row ids of batches that the receiver has answered with 200.
    delivered: BTreeSet<i64>,
    /// Ids of all events that came, answered or not.
    events: HashSet<String>,
    /// By batch id: the fencing token of each delivery, and how many of its events came before.
    deliveries: HashMap<String, Vec<(u64, usize)>>,
    pub(super) duplicates: usize,
    pub(super) batches: usize,
    pub(super) ticks: usize,
    pub(super) kills: usize,
    /// The last row id below the checkpoint.
    pub(super) committed: i64,
}

/// Rows above the checkpoint, and the age of the oldest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Lag {
    pub(super) rows: usize,
    pub(super) seconds: f64,
}

impl Ledger {
    pub(super) fn insert(&mut self, ids: &[i64], at: Timestamp) {
        self.inserted.extend(ids.iter().map(|id| (*id, at)));
    }

    /// Returns how many of these events came before.
    pub(super) fn arrive(&mut self, batch: &str, token: u64, events: Vec<String>) -> usize {
        let total = events.len();
        let fresh = events
            .into_iter()
            .filter(|id| self.events.insert(id.clone()))
            .count();
        let repeated = total - fresh;
        let deliveries = self.deliveries.entry(batch.to_owned()).or_default();
        deliveries.push((token, repeated));
        self.batches += 1;
        self.duplicates += repeated;
        repeated
    }

    pub(super) fn deliver(&mut self, ids: &[i64]) {
        self.delivered.extend(ids);
    }

    /// The higher token under which that batch came again, every event with the id it had.
    pub(super) fn came_again(&self, arrival: &Arrival) -> Option<u64> {
        let mut deliveries = self.deliveries.get(&arrival.batch)?.iter();
        deliveries
            .find(|(token, repeated)| *token > arrival.token && *repeated == arrival.rows)
            .map(|(token, _)| *token)
    }

    pub(super) fn inserted(&self) -> usize {
        self.inserted.len()
    }

    pub(super) fn delivered(&self) -> usize {
        self.delivered.len()
    }

    pub(super) fn committed_rows(&self) -> usize {
        self.inserted.range(..=self.committed).count()
    }

    /// Inserted, and never acknowledged.
    pub(super) fn missing(&self) -> usize {
        let ids = self.inserted.keys();
        ids.filter(|id| !self.delivered.contains(id)).count()
    }

    /// Passed by the checkpoint, and never acknowledged: what must not exist.
    pub(super) fn lost_below_checkpoint(&self) -> usize {
        let ids = self.inserted.range(..=self.committed);
        ids.filter(|(id, _)| !self.delivered.contains(id)).count()
    }

    /// Everything has arrived, and the checkpoint is behind it.
    pub(super) fn is_settled(&self) -> bool {
        self.missing() == 0 && self.lag(Timestamp::UNIX_EPOCH).rows == 0
    }

    pub(super) fn lag(&self, now: Timestamp) -> Lag {
        let mut waiting = self.inserted.range(self.committed + 1..).peekable();
        let oldest = waiting.peek().map(|(_, at)| (now - **at).as_seconds_f64());
        Lag {
            seconds: oldest.unwrap_or_default().max(0.0),
            rows: waiting.count(),
        }
    }
}

/// The ledger of all parts of the demo; whoever waits for a figure is woken by every change.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedLedger(watch::Sender<Ledger>);

impl SharedLedger {
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Ledger) -> T) -> T {
        let mut result = None;
        self.0.send_modify(|ledger| result = Some(change(ledger)));
        result.expect("send_modify runs its closure once")
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        read(&self.0.borrow())
    }

    pub(super) async fn wait<T>(&self, mut pick: impl FnMut(&Ledger) -> Option<T>) -> T {
        let mut ledger = self.0.subscribe();
        loop {
            if let Some(value) = pick(&ledger.borrow_and_update()) {
                return value;
            }
            if ledger.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::TimeDelta;

    use super::*;

    #[test]
    fn a_row_is_missing_until_its_batch_was_acknowledged() {
        let mut ledger = Ledger::default();
        let at = Timestamp::UNIX_EPOCH;
        ledger.insert(&[1, 2], at);
        assert_eq!(ledger.arrive("b", 1, vec!["x".into(), "y".into()]), 0);
        assert_eq!((ledger.missing(), ledger.is_settled()), (2, false));
        assert_eq!(ledger.arrive("b", 2, vec!["x".into(), "y".into()]), 2);
        ledger.deliver(&[1, 2]);
        assert_eq!((ledger.missing(), ledger.is_settled()), (0, false));
        let lag = ledger.lag(at + TimeDelta::seconds(3));
        assert_eq!((lag.rows, lag.seconds), (2, 3.0));
        ledger.committed = 2;
        assert!(ledger.is_settled());
        assert_eq!((ledger.duplicates, ledger.batches), (2, 2));
    }
}
