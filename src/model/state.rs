//! The state document: checkpoint and lease of one poller in one place (C1), so that whoever moves
//! the checkpoint proves in the same conditional write that it still may.
//!
//! `wire` turns it into JSON and back; `transitions` is the only code that changes it.

mod wire;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::counters::Counters;
use super::definition::SourceDefinition;
use super::history::HistoryEntry;
use super::late::Late;
use super::lease::{Lease, WriteMark};
use super::ledger::Ledger;
use super::page::EventId;
use super::position::{CursorKind, Position};
use super::pulse::Beat;
use super::schema::Schema;
use super::sinks::{Failure, SinkState, Sinks};
use super::trouble::Trouble;
use crate::clock::Timestamp;

pub use wire::DocumentError;

/// The only version this program reads and writes.
pub const VERSION: u64 = 1;

#[derive(Debug, Clone, PartialEq)]
pub struct StateDocument {
    pub poller_name: String,
    pub source_fingerprint: String,
    /// The same in words, so that a changed source can be told by what changed.
    pub source: Option<SourceDefinition>,
    pub checkpoint: Checkpoint,
    pub lease: Lease,
    /// The last write of the last holder; other writers preserve it.
    pub holder: Option<WriteMark>,
    /// Delivered above the checkpoint: exact, because a false member would be a lost row.
    pub delivered: BTreeMap<EventId, Position>,
    pub late: Late,
    pub sinks: Sinks,
    /// `None`: what was delivered was never written down.
    pub ledger: Option<Ledger>,
    pub status: Status,
    pub counters: Counters,
    /// `None`: the last tick that looked found its source in order.
    pub trouble: Option<Trouble>,
    /// The last minutes with commits, the newest last.
    pub pulse: Vec<Beat>,
    /// The columns as they were at the checkpoint.
    pub schema: Option<Arc<Schema>>,
    /// The server that the checkpoint is from, where it tells its identity (B9).
    pub server: Option<Arc<str>>,
    /// Kept checkpoints by version; the last one is the checkpoint itself.
    pub history: Vec<HistoryEntry>,
    /// The schemas that the history names, each once; that of the checkpoint is not among them.
    pub past_schemas: BTreeMap<String, Arc<Schema>>,
    /// Who changed what by hand, when and why; the oldest entries are dropped.
    pub audit: Vec<AuditEntry>,
    /// What is stuck and somebody looks into, by its code (F2).
    pub reviews: BTreeMap<String, Review>,
    /// Fields of writers newer than us survive a rewrite (I15).
    pub(super) unknown: Map<String, Value>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Checkpoint {
    /// `None` until the first batch is committed: the beginning.
    pub cursor: Option<CursorMark>,
    pub last_successful_batch_id: Option<String>,
    pub updated_at: Option<Timestamp>,
    pub metadata: Map<String, Value>,
}

/// A position with what a reader of the document needs to understand it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CursorMark {
    pub kind: CursorKind,
    pub position: Position,
    pub key_columns: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[default]
    Active,
    Paused,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditEntry {
    pub at: Timestamp,
    pub who: String,
    pub what: String,
    pub why: String,
    /// Fresh per change: tells whether a write whose answer was lost has happened (C6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// Who looks into something that is stuck.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// Since when it was stuck: what is stuck since later is something else.
    pub since: Timestamp,
    pub at: Timestamp,
    pub who: String,
    pub why: String,
}

impl CursorMark {
    #[must_use]
    pub fn new(position: Position, key_columns: &[String]) -> Self {
        Self {
            kind: CursorKind::of(position.cursor()),
            position,
            key_columns: key_columns.to_vec(),
        }
    }
}

impl StateDocument {
    /// The document of a poller that has never delivered anything.
    #[must_use]
    pub fn first(poller_name: &str, source_fingerprint: &str, start: Option<CursorMark>) -> Self {
        Self {
            poller_name: poller_name.to_owned(),
            source_fingerprint: source_fingerprint.to_owned(),
            source: None,
            checkpoint: Checkpoint {
                cursor: start,
                ..Checkpoint::default()
            },
            lease: Lease::default(),
            holder: None,
            delivered: BTreeMap::new(),
            late: Late::default(),
            sinks: Sinks::new(),
            ledger: None,
            status: Status::Active,
            counters: Counters::default(),
            trouble: None,
            pulse: Vec::new(),
            schema: None,
            server: None,
            history: Vec::new(),
            past_schemas: BTreeMap::new(),
            audit: Vec::new(),
            reviews: BTreeMap::new(),
            unknown: Map::new(),
        }
    }

    /// What is known about a sink.
    #[must_use]
    pub fn sink(&self, name: &str) -> SinkState {
        self.sinks.get(name).cloned().unwrap_or_default()
    }

    /// What stands in the way, by sink.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &Failure)> {
        let sinks = self.sinks.iter();
        sinks.filter_map(|(name, sink)| Some((name.as_str(), sink.failure.as_ref()?)))
    }

    /// A sink is behind the checkpoint, so rows below it may still be needed.
    #[must_use]
    pub fn is_anybody_behind(&self) -> bool {
        self.sinks.values().any(|sink| sink.lag.is_some())
    }

    #[must_use]
    pub fn position(&self) -> Option<&Position> {
        self.checkpoint.cursor.as_ref().map(|mark| &mark.position)
    }

    /// The version of the checkpoint; `None` before there is any history.
    #[must_use]
    pub fn version(&self) -> Option<u64> {
        self.history.last().map(|entry| entry.version)
    }

    #[must_use]
    pub fn kept(&self, version: u64) -> Option<&HistoryEntry> {
        self.history.iter().find(|entry| entry.version == version)
    }

    /// The schema at a kept checkpoint.
    #[must_use]
    pub fn schema_of(&self, entry: &HistoryEntry) -> Option<&Arc<Schema>> {
        let hash = entry.schema.as_ref()?;
        let current = self.schema.as_ref().filter(|now| now.hash() == hash);
        current.or_else(|| self.past_schemas.get(hash))
    }

    /// Nothing has been committed yet, so the marker of its birth may still be missing.
    #[must_use]
    pub fn is_newborn(&self) -> bool {
        self.counters.batches == 0
    }
}

#[cfg(test)]
mod tests;
