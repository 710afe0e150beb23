//! What receivers get: one JSON object per batch, assembled around events that are encoded already.
//!
//! Its shape is fixed by `schema/batch.schema.json`.

use std::fmt;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::lease::FencingToken;
use super::page::{EventId, Page};

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

/// A batch on its way: the bytes are final, every sink sends the same ones.
#[derive(Debug, Clone)]
pub struct Batch {
    pub id: BatchId,
    pub fence: Fence,
    pub attempt: u32,
    pub event_ids: Vec<EventId>,
    pub body: Bytes,
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
        let mut body = serde_json::to_vec(&head).expect("a head of plain values is representable");
        let closing_brace = body.pop();
        debug_assert_eq!(closing_brace, Some(b'}'));
        let events: usize = page.events().iter().map(|e| page.json(e).len() + 1).sum();
        body.reserve_exact(events + 16);
        body.extend_from_slice(b",\"events\":[");
        for (index, event) in page.events().iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(page.json(event));
        }
        body.extend_from_slice(b"]}");
        Self {
            id,
            fence,
            attempt,
            event_ids: page.events().iter().map(|event| event.id).collect(),
            body: body.into(),
        }
    }
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
