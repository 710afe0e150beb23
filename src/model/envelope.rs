//! What receivers get: one JSON object per batch, assembled around events that are encoded already.
//!
//! Its shape is fixed by `schema/batch.schema.json`. Other envelopes are made from its bytes when a
//! sink asks for one: rows are never encoded again.

mod cloudevents;
mod debezium;
mod message;
mod sequences;

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::lease::FencingToken;
use super::page::{EventId, Op, Page};
use super::shard::Shard;

pub use message::ClaimCheck;
pub use sequences::Sequences;

pub const ENVELOPE_VERSION: u32 = 1;

/// Between the head of a batch and its first event.
const EVENTS: &[u8] = b",\"events\":[";
/// Behind its last.
const END: &[u8] = b"]}";

/// Equal whenever the same rows are sent again by the same poller: the Idempotency-Key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BatchId(String);

/// A receiver that remembers the highest (token, sequence) can reject an older attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fence {
    pub token: FencingToken,
    pub sequence: u64,
    /// Fences of different shards have nothing to do with each other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
}

/// What a body looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Envelope {
    #[default]
    Native,
    /// A batch of CloudEvents 1.0 in JSON.
    CloudEvents,
    /// What readers of Debezium expect, as far as a poller knows it.
    Debezium,
}

/// A batch on its way: the bytes are final, every sink sends the same ones.
#[derive(Debug, Clone)]
pub struct Batch {
    pub id: BatchId,
    pub fence: Fence,
    pub attempt: u32,
    pub event_ids: Vec<EventId>,
    /// In the native envelope.
    pub body: Bytes,
    /// A `traceparent` of W3C, for receivers that follow traces.
    pub trace: Option<Arc<str>>,
    poller: Arc<str>,
    types: Arc<serde_json::Map<String, serde_json::Value>>,
    places: Vec<EventPlace>,
    cloudevents: OnceLock<Bytes>,
    debezium: OnceLock<Bytes>,
}

/// Where an event and its parts are in the native body.
#[derive(Debug, Clone)]
struct EventPlace {
    op: Op,
    start: usize,
    end: usize,
    key: Range<usize>,
    data: Range<usize>,
}

/// One event, as it was encoded.
#[derive(Clone)]
struct Encoded<'a> {
    id: EventId,
    op: Op,
    json: &'a [u8],
    /// Inside the JSON.
    key: Range<usize>,
    data: Range<usize>,
}

impl<'a> Encoded<'a> {
    fn key(&self) -> &'a [u8] {
        &self.json[self.key.clone()]
    }

    fn data(&self) -> &'a [u8] {
        &self.json[self.data.clone()]
    }
}

#[derive(Serialize)]
struct Head<'a> {
    version: u32,
    poller: &'a str,
    batch_id: &'a str,
    attempt: u32,
    fence: Fence,
    types: &'a serde_json::Map<String, serde_json::Value>,
}

impl Batch {
    #[must_use]
    pub fn assemble(
        poller: &str,
        types: &[(String, String)],
        page: &Page,
        fence: Fence,
        attempt: u32,
        trace: Option<Arc<str>>,
    ) -> Self {
        let types = types
            .iter()
            .map(|(column, name)| (column.clone(), name.as_str().into()))
            .collect();
        let events = page.events().iter().map(|event| Encoded {
            id: event.id,
            op: event.op,
            json: page.json(event),
            key: event.key.clone(),
            data: event.data.clone(),
        });
        Self::of(
            poller.into(),
            Arc::new(types),
            trace,
            events,
            fence,
            attempt,
        )
    }

    /// One event that was sent before, as it was encoded then. `None`: this is no event.
    #[must_use]
    pub fn again(
        poller: &str,
        types: &serde_json::Map<String, serde_json::Value>,
        json: &str,
        id: EventId,
        fence: Fence,
    ) -> Option<Self> {
        #[derive(Deserialize)]
        struct Parts<'a> {
            op: Op,
            #[serde(borrow)]
            key: &'a RawValue,
            #[serde(borrow)]
            data: &'a RawValue,
        }
        let Parts { op, key, data } = serde_json::from_str(json).ok()?;
        let within = |part: &RawValue| {
            let start = part.get().as_ptr().addr() - json.as_ptr().addr();
            start..start + part.get().len()
        };
        let event = Encoded {
            id,
            op,
            json: json.as_bytes(),
            key: within(key),
            data: within(data),
        };
        let events = std::iter::once(event);
        let types = Arc::new(types.clone());
        Some(Self::of(poller.into(), types, None, events, fence, 1))
    }

    /// Some of its events, at least one, as a batch of their own.
    #[must_use]
    pub fn part(
        &self,
        events: impl IntoIterator<Item = usize, IntoIter: Clone>,
        fence: Fence,
    ) -> Self {
        Self::of(
            Arc::clone(&self.poller),
            Arc::clone(&self.types),
            self.trace.clone(),
            events.into_iter().map(|index| self.event(index)),
            fence,
            self.attempt,
        )
    }

    fn of<'a>(
        poller: Arc<str>,
        types: Arc<serde_json::Map<String, serde_json::Value>>,
        trace: Option<Arc<str>>,
        events: impl Iterator<Item = Encoded<'a>> + Clone,
        fence: Fence,
        attempt: u32,
    ) -> Self {
        let event_ids: Vec<_> = events.clone().map(|event| event.id).collect();
        let id = BatchId::of(&poller, &event_ids);
        let mut body = opened(&Head {
            version: ENVELOPE_VERSION,
            poller: &poller,
            batch_id: &id.0,
            attempt,
            fence,
            types: &types,
        });
        let bytes: usize = events.clone().map(|event| event.json.len() + 1).sum();
        body.reserve_exact(bytes + 16);
        body.extend_from_slice(EVENTS);
        let mut places = Vec::with_capacity(event_ids.len());
        for (index, event) in events.enumerate() {
            if index > 0 {
                body.push(b',');
            }
            let start = body.len();
            body.extend_from_slice(event.json);
            places.push(EventPlace {
                op: event.op,
                start,
                end: body.len(),
                key: event.key,
                data: event.data,
            });
        }
        body.extend_from_slice(END);
        Self {
            id,
            fence,
            attempt,
            event_ids,
            body: body.into(),
            trace,
            poller,
            types,
            places,
            cloudevents: OnceLock::new(),
            debezium: OnceLock::new(),
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.event_ids.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.event_ids.is_empty()
    }

    #[must_use]
    pub fn poller(&self) -> &str {
        &self.poller
    }

    /// Column names and their types in the source.
    #[must_use]
    pub fn types(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.types
    }

    /// The JSON object of each event, as in the body, in order.
    pub fn events_json(&self) -> impl Iterator<Item = &[u8]> {
        self.places
            .iter()
            .map(|place| &self.body[place.start..place.end])
    }

    /// Made once, however many sinks ask for it.
    #[must_use]
    pub fn body_in(&self, envelope: Envelope) -> &Bytes {
        match envelope {
            Envelope::Native => &self.body,
            Envelope::CloudEvents => self.cloudevents.get_or_init(|| cloudevents::encode(self)),
            Envelope::Debezium => self.debezium.get_or_init(|| debezium::encode(self)),
        }
    }

    fn events(&self) -> impl Iterator<Item = Encoded<'_>> {
        (0..self.len()).map(|index| self.event(index))
    }

    fn event(&self, index: usize) -> Encoded<'_> {
        let place = &self.places[index];
        Encoded {
            id: self.event_ids[index],
            op: place.op,
            json: &self.body[place.start..place.end],
            key: place.key.clone(),
            data: place.data.clone(),
        }
    }
}

impl Envelope {
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Native | Self::Debezium => "application/json",
            Self::CloudEvents => "application/cloudevents-batch+json",
        }
    }
}

/// The JSON of an object of plain values, without its closing brace.
fn opened(object: &impl Serialize) -> Vec<u8> {
    let mut json = serde_json::to_vec(object).expect("an object of plain values is representable");
    let closing_brace = json.pop();
    debug_assert_eq!(closing_brace, Some(b'}'));
    json
}

impl BatchId {
    fn of(poller: &str, events: &[EventId]) -> Self {
        let mut hash = Sha256::new();
        hash.update((poller.len() as u64).to_le_bytes());
        hash.update(poller.as_bytes());
        for id in events {
            hash.update(id.as_bytes());
        }
        Self(format!("batch_{}", HEXLOWER.encode(&hash.finalize()[..16])))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests;
