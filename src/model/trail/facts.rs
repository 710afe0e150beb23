//! What was found out about a row before anything is said about it.

use std::collections::BTreeSet;

use crate::clock::Timestamp;
use crate::model::page::{EventId, Op};
use crate::model::position::Position;

/// All that is known about a key.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// `false`: the poller has no state yet.
    pub begun: bool,
    pub checkpoint: Option<Position>,
    /// Where it stands, if that is a place in another source or order: it says nothing about the row.
    pub elsewhere: Option<String>,
    /// Every row and tombstone with the key now.
    pub rows: Vec<RowFacts>,
    /// What a query does not show is not seen.
    pub is_query: bool,
    pub has_filter: bool,
    /// Rows that were there before the first tick are not all delivered.
    pub starts_later: bool,
    /// When and how somebody has moved the checkpoint, the last time.
    pub moved: Option<String>,
    /// Versions of the row that a sink did not take.
    pub set_aside: Vec<SetAside>,
    /// Objects in quarantine that cannot be read: each may be one more.
    pub unreadable: usize,
    /// Other versions of the row that were delivered above the checkpoint.
    pub other_versions: usize,
    pub sinks: Vec<SinkFacts>,
    /// Paused or marked failed, by whom, since when, why.
    pub halt: Option<String>,
    /// What keeps a tick from working now, or fails it.
    pub obstacle: Option<Obstacle>,
    /// Transactions that rows wait for, where they are delivered in the order of the cursor.
    pub waits_for: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// Another instance is at work.
    Held(String),
    /// A receiver asked for it.
    Waits(String),
    /// Nothing goes out before that is resolved.
    Fails(String),
}

/// One row or tombstone, as it is now.
#[derive(Debug, Clone)]
pub struct RowFacts {
    /// `None`: its cursor is NULL.
    pub position: Option<Position>,
    pub op: Op,
    pub id: Option<EventId>,
    pub passes_filter: bool,
    /// Ahead of the database's clock or sequence.
    pub is_future: bool,
    /// This version is in the set that was delivered above the checkpoint.
    pub is_remembered: bool,
    /// What the ledger says about this version; `None`: there is no ledger.
    pub ledger: Option<LedgerFacts>,
}

#[derive(Debug, Clone, Default)]
pub struct LedgerFacts {
    pub lines: Vec<LedgerLine>,
    /// Sinks of which the ledger has all that they got at this place.
    pub reaches: Vec<String>,
}

#[derive(Debug, Clone)]
pub struct LedgerLine {
    pub sink: String,
    pub at: Timestamp,
    /// Or else it was set aside, and may have been sent again since.
    pub taken: bool,
}

#[derive(Debug, Clone)]
pub struct SetAside {
    pub sink: String,
    pub id: Option<EventId>,
    pub at: Timestamp,
    pub error: String,
}

/// What the state says about a sink.
#[derive(Debug, Clone, Default)]
pub struct SinkFacts {
    pub name: String,
    /// It gets nothing new until it has caught up: since when, from where.
    pub behind: Option<Behind>,
    pub failure: Option<FailureFacts>,
}

#[derive(Debug, Clone)]
pub struct Behind {
    pub since: Timestamp,
    pub position: Option<Position>,
    /// What it has got above that.
    pub delivered: Vec<EventId>,
}

#[derive(Debug, Clone)]
pub struct FailureFacts {
    pub event_id: String,
    /// Events that the receiver has named.
    pub named: Vec<String>,
    pub attempts: u32,
    pub error: String,
}

impl Facts {
    pub(super) fn set_aside_as(&self, id: EventId) -> Option<&SetAside> {
        self.set_aside.iter().find(|aside| aside.id == Some(id))
    }

    /// What can be said where nothing was found.
    pub(super) fn nothing_set_aside(&self) -> String {
        let mut text = "no version of it".to_owned();
        if self.rows.iter().all(|row| row.position.is_none()) {
            // Another spelling may be the same key to the database.
            text += ", with the key as it is written here,";
        }
        match self.unreadable {
            0 => text + " is in quarantine",
            objects => {
                text + " is among what can be read in quarantine; " + &cannot_be_read(objects)
            }
        }
    }

    /// `it lies below the checkpoint and …`
    pub(super) fn not_set_aside(&self) -> String {
        match self.unreadable {
            0 => "is not in quarantine".to_owned(),
            objects => format!(
                "is not among what can be read in quarantine ({})",
                cannot_be_read(objects)
            ),
        }
    }

    /// It was set aside, and is not found there now.
    pub(super) fn gone_from_quarantine(&self) -> String {
        let by_hand = "it was sent again or discarded by hand, which `dbtick history` tells";
        match self.unreadable {
            0 => format!("it is no longer in quarantine: {by_hand}"),
            objects => format!(
                "it is not among what can be read in quarantine: {by_hand}, or it is there still ({})",
                cannot_be_read(objects)
            ),
        }
    }
}

fn cannot_be_read(objects: usize) -> String {
    match objects {
        1 => "1 object cannot be".to_owned(),
        several => format!("{several} objects cannot be"),
    }
}

impl RowFacts {
    /// Sinks of which it is written down that they took this version.
    pub(super) fn takers(&self) -> BTreeSet<&str> {
        self.sinks(true)
    }

    /// Sinks of which it is written down that they did not take it, and nothing else since.
    pub(super) fn refusers(&self) -> BTreeSet<&str> {
        &self.sinks(false) - &self.sinks(true)
    }

    fn sinks(&self, taken: bool) -> BTreeSet<&str> {
        let lines = self.ledger.iter().flat_map(|ledger| &ledger.lines);
        let such = lines.filter(|line| line.taken == taken);
        such.map(|line| line.sink.as_str()).collect()
    }

    /// Sinks that would be in the ledger if they had got this version, and are not.
    pub(super) fn without_a_line(&self) -> Vec<&str> {
        let Some(ledger) = &self.ledger else {
            return Vec::new();
        };
        let has = |sink: &&String| ledger.lines.iter().any(|line| line.sink == **sink);
        let reached = ledger.reaches.iter().filter(|sink| !has(sink));
        reached.map(String::as_str).collect()
    }
}

impl FailureFacts {
    pub(super) fn concerns(&self, id: EventId) -> bool {
        let id = id.to_string();
        self.event_id == id || self.named.contains(&id)
    }
}
