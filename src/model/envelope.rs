//! What receivers get: one JSON object per batch, assembled around events that are encoded already.
//!
//! Its shape is fixed by `schema/batch.schema.json`. Other envelopes are made from its bytes when a
//! sink asks for one: rows are never encoded again.

mod cloudevents;
mod debezium;

use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::lease::FencingToken;
use super::page::{EventId, Op, Page};

pub const ENVELOPE_VERSION: u32 = 1;

/// Equal whenever the same rows are sent again by the same poller: the Idempotency-Key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BatchId(String);

/// A receiver that remembers the highest (token, sequence) can reject an older attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Fence {
    pub token: FencingToken,
    pub sequence: u64,
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
    poller: String,
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
struct Encoded<'a> {
    id: EventId,
    op: Op,
    json: &'a [u8],
    key: &'a [u8],
    data: &'a [u8],
}

#[derive(Serialize)]
struct Head<'a> {
    version: u32,
    poller: &'a str,
    batch_id: &'a str,
    attempt: u32,
    fence: Fence,
    types: serde_json::Map<String, serde_json::Value>,
}

impl Batch {
    #[must_use]
    pub fn assemble(
        poller: &str,
        types: &[(String, String)],
        page: &Page,
        fence: Fence,
        attempt: u32,
    ) -> Self {
        let id = BatchId::of(poller, page);
        let head = Head {
            version: ENVELOPE_VERSION,
            poller,
            batch_id: &id.0,
            attempt,
            fence,
            types: types
                .iter()
                .map(|(column, name)| (column.clone(), name.as_str().into()))
                .collect(),
        };
        let mut body = opened(&head);
        let events: usize = page.events().iter().map(|e| page.json(e).len() + 1).sum();
        body.reserve_exact(events + 16);
        body.extend_from_slice(b",\"events\":[");
        let mut places = Vec::with_capacity(page.len());
        for (index, event) in page.events().iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            let start = body.len();
            body.extend_from_slice(page.json(event));
            places.push(EventPlace {
                op: event.op,
                start,
                end: body.len(),
                key: event.key.clone(),
                data: event.data.clone(),
            });
        }
        body.extend_from_slice(b"]}");
        Self {
            id,
            fence,
            attempt,
            event_ids: page.events().iter().map(|event| event.id).collect(),
            body: body.into(),
            poller: poller.to_owned(),
            places,
            cloudevents: OnceLock::new(),
            debezium: OnceLock::new(),
        }
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
        self.places.iter().zip(&self.event_ids).map(|(place, id)| {
            let json = &self.body[place.start..place.end];
            Encoded {
                id: *id,
                op: place.op,
                json,
                key: &json[place.key.clone()],
                data: &json[place.data.clone()],
            }
        })
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
    fn of(poller: &str, page: &Page) -> Self {
        let mut hash = Sha256::new();
        hash.update((poller.len() as u64).to_le_bytes());
        hash.update(poller.as_bytes());
        for event in page.events() {
            hash.update(event.id.as_bytes());
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
