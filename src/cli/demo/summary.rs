//! What the demo comes to.

use std::fmt;

use super::ledger::Ledger;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Summary {
    inserted: usize,
    delivered: usize,
    lost: usize,
    duplicates: usize,
    batches: usize,
    ticks: usize,
    kills: usize,
    checkpoint: i64,
}

impl Summary {
    pub(super) fn of(ledger: &Ledger) -> Self {
        Self {
            inserted: ledger.inserted(),
            delivered: ledger.delivered(),
            lost: ledger.missing(),
            duplicates: ledger.duplicates,
            batches: ledger.batches,
            ticks: ledger.ticks,
            kills: ledger.kills,
            checkpoint: ledger.committed,
        }
    }

    /// Every row that was inserted has been acknowledged by the receiver.
    pub(super) fn is_complete(&self) -> bool {
        self.lost == 0
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let repeats = match (self.duplicates, self.kills) {
            (0, _) => "no event came twice",
            (_, 0) => "events that came again, with the id they had before",
            _ => "events that came again after the kill, with the id they had before",
        };
        let lost = match self.lost {
            0 => "every row that was inserted has arrived",
            _ => "inserted, and never acknowledged by the receiver",
        };
        writeln!(f, "  inserted    {:>7}  rows", self.inserted)?;
        writeln!(f, "  delivered   {:>7}  rows", self.delivered)?;
        writeln!(f, "  lost        {:>7}  {lost}", self.lost)?;
        writeln!(f, "  duplicates  {:>7}  {repeats}", self.duplicates)?;
        writeln!(f, "  batches     {:>7}", self.batches)?;
        writeln!(f, "  ticks       {:>7}", self.ticks)?;
        writeln!(f, "  kills       {:>7}", self.kills)?;
        write!(
            f,
            "  checkpoint  {:>7}  the last id committed",
            self.checkpoint
        )
    }
}
