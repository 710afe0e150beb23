//! How far a backfill has come, for whoever looks on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What others may look at while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub(super) total: AtomicU64,
    pub(super) done: AtomicU64,
    pub(super) before: AtomicU64,
    notes: Mutex<BTreeMap<usize, String>>,
    pub(super) reconciling: AtomicU64,
}

impl Progress {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Rows that were committed.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed).min(self.total())
    }

    /// Rows that were committed when this process began.
    #[must_use]
    pub fn before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_reconciling(&self) -> bool {
        self.reconciling.load(Ordering::Relaxed) > 0
    }

    /// Why ranges wait.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let (range, note) = notes.first_key_value()?;
        Some(format!("range {range}: {note}"))
    }

    pub(super) fn says(&self, range: usize, note: Option<String>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        match note {
            Some(note) => notes.insert(range, note),
            None => notes.remove(&range),
        };
    }
}
