//! A row that a sink never took, with all that is needed to understand it and to send it again.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::envelope::{Batch, Fence};
use super::page::EventId;
use super::position::{Position, PositionError};
use super::sinks::Failure;
use crate::clock::Timestamp;

const VERSION: u32 = 1;

/// An immutable object, written before the checkpoint passes the row (I13).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Case {
    version: u32,
    pub poller: String,
    pub sink: String,
    pub event_id: String,
    /// Typed, as in the state document.
    position: String,
    pub batch_id: String,
    pub quarantined_at: Timestamp,
    /// Of the ticks that failed at it.
    pub first_failed_at: Timestamp,
    pub attempts: u32,
    /// What the receiver said last.
    pub error: String,
    types: Map<String, Value>,
    /// As it was sent, byte for byte.
    event: Box<RawValue>,
}

/// Why an object in quarantine cannot be understood; it is left as it is.
#[derive(Debug, thiserror::Error)]
pub enum CaseError {
    #[error("it is not a quarantined row: {0}")]
    Unreadable(#[from] serde_json::Error),
    #[error("it has version {0}, this program knows version {VERSION}")]
    Version(u32),
}

impl Case {
    /// An event of a batch, at its place in the source.
    #[must_use]
    pub fn new(batch: &Batch, at: usize, position: &Position, now: Timestamp) -> Self {
        let event = batch.events_json().nth(at).unwrap_or(b"null");
        let event = serde_json::from_slice(event).expect("an encoded event is JSON");
        Self {
            version: VERSION,
            poller: batch.poller().to_owned(),
            sink: String::new(),
            event_id: batch.event_ids[at].to_string(),
            position: position.to_tagged(),
            batch_id: batch.id.to_string(),
            quarantined_at: now,
            first_failed_at: now,
            attempts: 1,
            error: String::new(),
            types: batch.types().clone(),
            event,
        }
    }

    /// `before`: what was counted until this tick.
    #[must_use]
    pub fn refused(self, sink: &str, error: &str, before: Option<&Failure>) -> Self {
        Self {
            sink: sink.to_owned(),
            error: error.to_owned(),
            attempts: before.map_or(0, |before| before.attempts).saturating_add(1),
            first_failed_at: before.map_or(self.first_failed_at, |before| before.first_at),
            ..self
        }
    }

    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("a case is always representable")
    }

    /// For a queue of notices: the case, or, where that would be too large, the case without its event.
    #[must_use]
    pub fn notice(&self, whole: bool) -> Vec<u8> {
        let mut notice = self.clone();
        if !whole {
            notice.event = RawValue::NULL.to_owned();
        }
        serde_json::to_vec(&notice).expect("a case is always representable")
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CaseError> {
        let case: Self = serde_json::from_slice(bytes)?;
        match case.version {
            VERSION => Ok(case),
            other => Err(CaseError::Version(other)),
        }
    }

    pub fn position(&self) -> Result<Position, PositionError> {
        Position::from_tagged(&self.position)
    }

    #[must_use]
    pub fn id(&self) -> Option<EventId> {
        EventId::parse(&self.event_id)
    }

    /// The event as a batch of its own; `salt` gives it an id that no receiver has seen.
    #[must_use]
    pub fn batch(&self, fence: Fence, salt: Option<u128>) -> Option<Batch> {
        let id = self.id()?;
        let json = self.event.get();
        // Its id is the first thing that an event says; another object is none of ours.
        let behind = json.strip_prefix(&format!("{{\"id\":\"{id}\""))?;
        let Some(salt) = salt else {
            return Batch::again(&self.poller, &self.types, json, id, fence);
        };
        let fresh = id.another(salt);
        let json = format!("{{\"id\":\"{fresh}\"{behind}");
        Batch::again(&self.poller, &self.types, &json, fresh, fence)
    }

    /// The event as it was sent; row data.
    #[must_use]
    pub fn event(&self) -> &RawValue {
        &self.event
    }

    /// The key of the row, as JSON.
    #[must_use]
    pub fn key(&self) -> String {
        #[derive(Deserialize)]
        struct Keyed<'a> {
            #[serde(borrow)]
            key: &'a RawValue,
        }
        let keyed: Result<Keyed<'_>, _> = serde_json::from_str(self.event.get());
        keyed.map_or_else(|_| String::new(), |keyed| keyed.key.get().to_owned())
    }
}
