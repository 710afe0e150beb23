//! What was found out about a row before anything is said about it.

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
    /// What the ledger has about this version; `None`: no ledger reaches back to it.
    pub ledger: Option<Vec<Delivered>>,
}

/// A line of the ledger.
#[derive(Debug, Clone)]
pub struct Delivered {
    pub sink: String,
    pub at: Timestamp,
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

impl FailureFacts {
    pub(super) fn concerns(&self, id: EventId) -> bool {
        let id = id.to_string();
        self.event_id == id || self.named.contains(&id)
    }
}
