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
    /// Nothing that is kept is old enough.
    Unknown,
}

impl Epoch {
    #[must_use]
    pub fn continues(&self, was: &Self) -> Continuity {
        match (was.transaction, self.transaction) {
            (Some(was), Some(transaction)) if transaction < was => {
                return Continuity::Restored { transaction };
            }
            _ => {}
        }
        if was.timeline.is_some() && self.timeline.is_some() && was.timeline != self.timeline {
            return Continuity::TookOver;
        }
        if let (Some(before), Some(now)) = (was.started, self.started) {
            let slack = i64::from(self.started_within.max(was.started_within));
            if (now - before).abs() > TimeDelta::seconds(slack) {
                return Continuity::Restarted;
            }
        }
        if was.now - self.now > delta(CLOCK_STEP) {
            return Continuity::ClockBack;
        }
        Continuity::Same
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
            let stopped = is.started.unwrap_or(is.now).min(is.now) - delta(AFTER_RESTART);
            Box::new(move |entry| entry.at <= stopped)
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
    let Some(current) = history.last() else {
        return Rewind::Nowhere;
    };
    if kept(current) {
        return Rewind::Nowhere;
    }
    let restored = matches!(continuity, Continuity::Restored { .. });
    // Of a place that was reached by hand nobody knows what it rests on.
    match history.iter().rev().find(|entry| kept(entry)) {
        Some(entry) => Rewind::To {
            version: entry.version,
        },
        None if restored => Rewind::Unknown,
        // All that is kept is younger: its first place is where the poller began.
        None => Rewind::To {
            version: history[0].version,
        },
    }
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}
