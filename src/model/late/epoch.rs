//! Whether the database is still the one that the checkpoint is from, and has kept what it had (B9).
//!
//! A server that was restarted may have lost its last commits, and gives their numbers out again; a
//! replica that took over may lack more; a restored copy lacks everything since. Rows that come
//! after that stand below a checkpoint that they have never been read at, so the checkpoint goes
//! back to a place that was surely kept.

use std::time::Duration;

use chrono::TimeDelta;

use crate::clock::Timestamp;
use crate::model::history::HistoryEntry;

/// Commits that a crash may take with it (asynchronous commits are written within a second), and
/// the difference between the database's clock and ours.
const AFTER_RESTART: Duration = Duration::from_secs(10);
/// Clocks are corrected by less than this in normal life.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Since when the server runs, and how far it has come, by its own word. Who it is, is told beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Changes when a replica takes over.
    pub timeline: Option<String>,
    pub started: Option<Timestamp>,
    /// Start times are told to so many seconds.
    pub started_within: u32,
    /// The transaction that comes next: never goes back.
    pub transaction: Option<u64>,
    /// The one that came next when the server last wrote everything down: as it stops, or as it starts
    /// after a crash. Not kept.
    pub written_down: Option<u64>,
    pub now: Timestamp,
}

/// What became of the server since an epoch was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Continuity {
    Same,
    /// The same server, which was stopped in between.
    Restarted,
    /// Another server of the same cluster took over.
    TookOver,
    /// Transactions that had happened have not: an older copy was restored.
    Restored {
        transaction: u64,
    },
    /// Its clock was put back.
    ClockBack,
}

/// Where the checkpoint goes after something became of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rewind {
    /// It is old enough to be trusted.
    Nowhere,
    To {
        version: u64,
    },
    /// To the beginning of the rows, from where the poller has come a moment ago.
    Beginning,
    /// Nothing that is kept is old enough.
    Unknown,
}

impl Epoch {
    #[must_use]
    pub fn continues(&self, was: &Self) -> Continuity {
        match (was.transaction, self.reached_since(was)) {
            (Some(was), Some(transaction)) if transaction < was => {
                return Continuity::Restored { transaction };
            }
            _ => {}
        }
        if was.timeline.is_some() && self.timeline.is_some() && was.timeline != self.timeline {
            return Continuity::TookOver;
        }
        if self.is_another_start(was) {
            return Continuity::Restarted;
        }
        if was.now - self.now > delta(CLOCK_STEP) {
            return Continuity::ClockBack;
        }
        Continuity::Same
    }

    /// Of two that were written down by different documents, whether this one is the later one.
    #[must_use]
    pub fn is_after(&self, other: &Self) -> bool {
        if self.timeline != other.timeline {
            return self.timeline > other.timeline;
        }
        match self.is_another_start(other) {
            true => self.started > other.started,
            false => (self.transaction, self.now) > (other.transaction, other.now),
        }
    }

    /// How far a server had come when it started, as well as that can be told: transactions since then
    /// may have made up for those that are lost. A replica that takes over writes down later.
    fn reached_since(&self, was: &Self) -> Option<u64> {
        let is_same_line = self.timeline.is_some() && self.timeline == was.timeline;
        match self.written_down {
            Some(number) if is_same_line && self.is_another_start(was) => Some(number),
            _ => self.transaction,
        }
    }

    fn is_another_start(&self, was: &Self) -> bool {
        let slack = i64::from(self.started_within.max(was.started_within));
        was.started
            .zip(self.started)
            .is_some_and(|(before, now)| (now - before).abs() > TimeDelta::seconds(slack))
    }

    /// What was committed before has outlived a restart.
    fn surely_kept(&self) -> Timestamp {
        self.started.unwrap_or(self.now).min(self.now) - delta(AFTER_RESTART)
    }
}

/// The newest kept checkpoint that the server has surely kept too. Times of the history are ours,
/// times of an epoch the database's.
#[must_use]
pub fn rewind_target(
    history: &[HistoryEntry],
    was: &Epoch,
    is: &Epoch,
    continuity: &Continuity,
    recovery_point: Duration,
) -> Rewind {
    let kept: Box<dyn Fn(&HistoryEntry) -> bool> = match continuity {
        Continuity::Same => return Rewind::Nowhere,
        Continuity::Restarted => {
            let before = is.surely_kept();
            Box::new(move |entry| entry.at <= before)
        }
        Continuity::ClockBack => {
            let before = is.now - delta(AFTER_RESTART);
            Box::new(move |entry| entry.at <= before)
        }
        Continuity::TookOver => {
            let before = was.now - delta(recovery_point);
            Box::new(move |entry| entry.at <= before)
        }
        Continuity::Restored { transaction } => {
            let transaction = *transaction;
            Box::new(move |entry| entry.transaction.is_some_and(|seen| seen <= transaction))
        }
    };
    let [first, ..] = history else {
        return Rewind::Nowhere;
    };
    if history.last().is_some_and(&kept) {
        return Rewind::Nowhere;
    }
    let restored = matches!(continuity, Continuity::Restored { .. });
    // A crash takes numbers of transactions with it, too.
    let crashed = is.is_another_start(was) && first.at > is.surely_kept();
    // Of a place that was reached by hand nobody knows what it rests on.
    match history.iter().rev().find(|entry| kept(entry)) {
        Some(entry) => Rewind::To {
            version: entry.version,
        },
        None if restored && !crashed => Rewind::Unknown,
        // All that is kept is younger: back to where the poller began.
        None if is_first_commit(first) => Rewind::Beginning,
        None => Rewind::To {
            version: first.version,
        },
    }
}

/// The rows before it were read from the beginning; a place to start from is an entry of its own.
fn is_first_commit(entry: &HistoryEntry) -> bool {
    entry.by.is_none() && entry.batch_id.is_some() && entry.rows == entry.total_rows
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests;
