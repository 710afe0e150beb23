//! One event as a message of its own: the head of its batch, and the event as it was encoded.
//!
//! The shape is fixed by `schema/queue-message.schema.json`. Bytes are taken from the batch, never
//! made anew.

use serde::Serialize;

use super::{Batch, END, EVENTS};

const EVENT: &[u8] = b",\"event\":";
const DATA: &[u8] = b",\"data\":";
const CLAIM_CHECK: &[u8] = b",\"claim_check\":";

/// Where an event lies that is too large for a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClaimCheck<'a> {
    pub container: &'a str,
    pub blob: &'a str,
    pub bytes: usize,
    /// Of those bytes, in hex.
    pub sha256: String,
}

impl Batch {
    /// By how much a message is longer than its head and its event.
    pub const MESSAGE_FRAME: usize = EVENT.len() + 1;
    /// By how much a batch is longer than its head, its events and the commas between them.
    pub const FRAME: usize = EVENTS.len() + END.len();

    /// The message of the event at `index`.
    #[must_use]
    pub fn message(&self, index: usize) -> Vec<u8> {
        let event = self.event_json(index);
        let parts = [self.head(), EVENT, event, b"}"];
        parts.concat()
    }

    /// The message of an event whose data is elsewhere.
    #[must_use]
    pub fn claim(&self, index: usize, check: &ClaimCheck<'_>) -> Vec<u8> {
        let data = self.places[index].data.start;
        let event = &self.event_json(index)[..data - DATA.len()];
        let check = serde_json::to_vec(check).expect("an object of plain values is representable");
        let parts = [self.head(), EVENT, event, b"}", CLAIM_CHECK, &check, b"}"];
        parts.concat()
    }

    /// Version, poller, batch id, attempt, fence and types: an object that is not closed yet.
    #[must_use]
    pub fn head(&self) -> &[u8] {
        let first = self.places.first().map(|place| place.start);
        let events = first.unwrap_or(self.body.len() - END.len());
        &self.body[..events - EVENTS.len()]
    }

    #[must_use]
    pub fn event_json(&self, index: usize) -> &[u8] {
        let place = &self.places[index];
        &self.body[place.start..place.end]
    }

    #[must_use]
    pub fn event_key(&self, index: usize) -> &[u8] {
        let place = &self.places[index];
        &self.event_json(index)[place.key.clone()]
    }
}
