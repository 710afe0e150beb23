//! The checkpoints that are kept (G3): the last few, then one for each of the last minutes, hours,
//! days and weeks in which something was committed. So a poller that commits every second and one
//! that commits once a day both reach back for weeks, in a few KiB.

use std::collections::{BTreeMap, BTreeSet};

use super::state::CursorMark;
use crate::clock::Timestamp;

/// The newest entries are all kept.
const NEWEST: usize = 4;
/// Of each kind of period the newest so many keep their first entry. Each period lies inside the
/// next, so an entry that stands for its week has stood for its day, hour and minute before.
const PERIODS: [(i64, usize); 4] = [
    (MINUTE, 4),
    (60 * MINUTE, 5),
    (24 * 60 * MINUTE, 7),
    (7 * 24 * 60 * MINUTE, 4),
];
const MINUTE: i64 = 60;
/// What stood there before the last few changes by hand: their undo.
const UNDO: usize = 4;
/// No history is longer.
pub const MOST_KEPT: usize = NEWEST + 4 + 5 + 7 + 4 + UNDO;

/// A checkpoint as it stood once.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryEntry {
    /// Grows by one with every commit and every change by hand; never given again.
    pub version: u64,
    pub at: Timestamp,
    /// `None`: the beginning.
    pub cursor: Option<CursorMark>,
    pub batch_id: Option<String>,
    /// In the batch of this commit.
    pub rows: u64,
    /// Committed by this poller so far.
    pub total_rows: u64,
    /// Hash of the schema.
    pub schema: Option<String>,
    /// The start of the fingerprint of the source that it is a place in.
    pub source: String,
    /// `reset`, `rollback`, …; `None` for a commit.
    pub by: Option<String>,
    /// A change by hand replaced it.
    pub undo: bool,
    /// The database's next transaction when it was read (B9).
    pub transaction: Option<u64>,
    /// Sinks that did not have all that is below it, and where they were; `None`: at the beginning.
    pub behind: BTreeMap<String, Option<CursorMark>>,
}

/// Enough of a fingerprint to tell two sources apart.
#[must_use]
pub fn short(fingerprint: &str) -> String {
    let digits = fingerprint.strip_prefix("sha256:").unwrap_or(fingerprint);
    digits.chars().take(16).collect()
}

/// Leaves out what need not be kept. Entries are in the order of their versions. While the clock
/// goes forward, doing it after each commit keeps what doing it once at the end would.
pub(super) fn thin(entries: &mut Vec<HistoryEntry>) {
    let mut kept: BTreeSet<u64> = entries
        .iter()
        .rev()
        .take(NEWEST)
        .map(|e| e.version)
        .collect();
    let undo = entries.iter().rev().filter(|entry| entry.undo);
    kept.extend(undo.take(UNDO).map(|entry| entry.version));
    for (seconds, most) in PERIODS {
        kept.extend(first_of_each(entries, seconds, most));
    }
    entries.retain(|entry| kept.contains(&entry.version));
}

/// The first version in each of the newest `most` periods that have any.
fn first_of_each(entries: &[HistoryEntry], seconds: i64, most: usize) -> Vec<u64> {
    let mut firsts: Vec<(i64, u64)> = Vec::new();
    for entry in entries.iter().rev() {
        let period = entry.at.timestamp().div_euclid(seconds);
        // A clock that went back may return to a period: the first version still stands for it.
        match firsts.iter().position(|(known, _)| *known == period) {
            Some(at) => firsts[at].1 = entry.version,
            None if firsts.len() == most => {}
            None => firsts.push((period, entry.version)),
        }
    }
    firsts.into_iter().map(|(_, version)| version).collect()
}

#[cfg(test)]
mod tests;
