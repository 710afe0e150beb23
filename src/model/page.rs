//! Rows on their way out: each is encoded once, straight into the buffer that is sent.
//!
//! An event's id is a hash of the logical poller name and of every byte that the event carries
//! besides the id, so it is equal on every replay and restart, and different when the row's content
//! differs (A6). Rows are never turned into trees of values.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::position::Position;
use super::shard::Shard;

/// What happened to a row, as far as a poller can tell: insert and update look alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Upsert,
    Delete,
}

/// 128 bits of a SHA-256: the identity of one version of one row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId([u8; Self::BYTES]);

/// One event inside a page: its identity, its place, and where its bytes are.
#[derive(Debug, Clone)]
pub struct EventSpan {
    pub id: EventId,
    pub position: Position,
    pub op: Op,
    start: usize,
    end: usize,
    /// Inside the JSON of the event.
    pub(super) key: Range<usize>,
    pub(super) data: Range<usize>,
}

/// A run of rows in order, encoded. Parts of one share its bytes.
#[derive(Debug, Clone, Default)]
pub struct Page {
    bytes: Bytes,
    events: Vec<EventSpan>,
    /// Places of rows that were read and belong to another shard, in order.
    foreign: Vec<Position>,
}

/// Appends events to a page, within its limits.
#[derive(Debug)]
pub struct PageWriter {
    bytes: Vec<u8>,
    events: Vec<EventSpan>,
    foreign: Vec<Position>,
    seed: Sha256,
    max_rows: usize,
    max_bytes: usize,
    /// Rows of others are passed, and not taken.
    shard: Option<Shard>,
}

/// What to do with a row that would exceed the page's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    /// It begins the next page.
    Limited,
    /// It has the position of the row before it, and must not be parted from it: a page that begins
    /// behind that position would pass it over.
    Taken,
}

/// Whether a row was taken into the page, or belongs to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It is in; there may be room for another.
    Yes,
    /// It would exceed the page's bytes; read it again as the first row of the next page.
    NoRoom,
}

impl Page {
    #[must_use]
    pub fn events(&self) -> &[EventSpan] {
        &self.events
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// The JSON object of one event of this page.
    #[must_use]
    pub fn json(&self, event: &EventSpan) -> &[u8] {
        &self.bytes[event.start..event.end]
    }

    #[must_use]
    pub fn last_position(&self) -> Option<&Position> {
        self.events.last().map(|event| &event.position)
    }

    /// How many rows of other shards were read with it.
    #[must_use]
    pub fn foreign(&self) -> usize {
        self.foreign.len()
    }

    /// Of all rows that were read, in order: also of those that belong to another shard.
    pub fn places(&self) -> impl Iterator<Item = &Position> {
        let mut own = self.events.iter().map(|event| &event.position).peekable();
        let mut foreign = self.foreign.iter().peekable();
        std::iter::from_fn(move || match (own.peek(), foreign.peek()) {
            (Some(one), Some(other)) if *one > *other => foreign.next(),
            (Some(_), _) => own.next(),
            (None, _) => foreign.next(),
        })
    }

    /// The last place that was read: behind it, reading goes on.
    #[must_use]
    pub fn reached(&self) -> Option<&Position> {
        self.last_position().max(self.foreign.last())
    }

    /// Leaves out the first row that does not pass and all behind it; where these are.
    pub fn cut(&mut self, passes: impl Fn(&Position) -> bool) -> Vec<Position> {
        let first = self.places().find(|place| !passes(place)).cloned();
        let Some(first) = first else {
            return Vec::new();
        };
        let kept = self.events.partition_point(|event| event.position < first);
        let own = self.events.split_off(kept);
        let kept = self.foreign.partition_point(|place| *place < first);
        let foreign = self.foreign.split_off(kept);
        let own = own.into_iter().map(|event| event.position);
        own.chain(foreign).collect()
    }

    /// Together, if the events of both are no more and no larger than this; else the other one.
    pub fn append(&mut self, other: Self, max_rows: usize, max_bytes: usize) -> Result<(), Self> {
        let bytes = |page: &Self| page.events.iter().map(|e| e.end - e.start).sum::<usize>();
        if self.len() + other.len() > max_rows || bytes(self) + bytes(&other) > max_bytes {
            return Err(other);
        }
        self.join(other);
        Ok(())
    }

    /// So many events, and what else is at the place of the last of them: a row and its tombstone are never parted.
    #[must_use]
    pub fn beginning(mut self, most: usize) -> Self {
        let last = most.checked_sub(1).map(|last| self.events.get(last));
        match last.map(|event| event.map(|event| event.position.clone())) {
            None => self.events.clear(),
            Some(Some(last)) => self.events.retain(|event| event.position <= last),
            Some(None) => {}
        }
        self
    }

    /// With the events of another one behind its own, however large they are.
    pub fn join(&mut self, other: Self) {
        let mut bytes = self.bytes.to_vec();
        for event in other.events {
            let start = bytes.len();
            bytes.extend_from_slice(&other.bytes[event.start..event.end]);
            let end = bytes.len();
            self.events.push(EventSpan {
                start,
                end,
                ..event
            });
        }
        self.bytes = bytes.into();
    }

    /// In parts, each with as many events as a batch may have, at least one. What is at one place is never
    /// parted. No part keeps room for the others: there may be as many of them as rows.
    #[must_use]
    pub fn into_batches(self, max_rows: usize, max_bytes: usize) -> Vec<Self> {
        let part = |events: Vec<EventSpan>| Self {
            bytes: self.bytes.clone(),
            events,
            foreign: Vec::new(),
        };
        let mut batches = Vec::new();
        let mut events = self.events.into_iter();
        let mut batch: Vec<EventSpan> = Vec::with_capacity(max_rows.min(events.len()));
        let mut bytes = 0;
        while let Some(event) = events.next() {
            let size = event.end - event.start;
            let fits = batch.len() < max_rows && bytes + size <= max_bytes;
            let before = batch.last();
            if before.is_some_and(|before| !fits && before.position != event.position) {
                let room = max_rows.min(events.len() + 1);
                batches.push(part(std::mem::replace(
                    &mut batch,
                    Vec::with_capacity(room),
                )));
                bytes = 0;
            }
            bytes += size;
            batch.push(event);
        }
        if !batch.is_empty() {
            batches.push(part(batch));
        }
        batches
    }

    /// For who needs to know no more than where its events are: the bytes may be as large as a batch.
    pub fn drop_bytes(&mut self) {
        self.bytes = Bytes::new();
    }

    /// Without what they carry.
    #[must_use]
    pub fn into_events(self) -> Vec<EventSpan> {
        self.events
    }

    /// Leaves out the events that need not be sent again.
    #[must_use]
    pub fn without(mut self, skip: impl Fn(&EventId) -> bool) -> Self {
        self.events.retain(|event| !skip(&event.id));
        self
    }
}

impl PageWriter {
    /// `events_as` is the logical poller name that ids are made for.
    #[must_use]
    pub fn new(events_as: &str, max_rows: usize, max_bytes: usize) -> Self {
        let mut seed = Sha256::new();
        seed.update((events_as.len() as u64).to_le_bytes());
        seed.update(events_as.as_bytes());
        Self {
            bytes: Vec::new(),
            events: Vec::new(),
            foreign: Vec::new(),
            seed,
            max_rows,
            max_bytes,
            shard: None,
        }
    }

    /// Takes the rows of this shard only; it passes the others, without encoding them.
    #[must_use]
    pub fn only(self, shard: Shard) -> Self {
        Self {
            shard: Some(shard),
            ..self
        }
    }

    /// An empty one like it.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            bytes: Vec::new(),
            events: Vec::new(),
            foreign: Vec::new(),
            seed: self.seed.clone(),
            max_rows: self.max_rows,
            max_bytes: self.max_bytes,
            shard: self.shard,
        }
    }

    /// How many rows are read for one page at the most, those of other shards included: about as many as
    /// have a page of this one among them.
    #[must_use]
    pub fn most_read(&self) -> usize {
        match self.shard {
            Some(shard) => shard.most_read(self.max_rows),
            None => self.max_rows,
        }
    }

    /// No row was read yet, of this shard or of another.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.read() == 0
    }

    #[must_use]
    pub fn is_full(&self) -> bool {
        self.events.len() >= self.max_rows
            || self.bytes.len() >= self.max_bytes
            || self.read() >= self.most_read()
    }

    fn read(&self) -> usize {
        self.events.len() + self.foreign.len()
    }

    /// Appends one event. The three closures write the JSON of the cursor, of the key object and
    /// of the data. A row larger than a whole page still gets a page of its own.
    pub fn push(
        &mut self,
        op: Op,
        position: Position,
        cursor: impl FnOnce(&mut Vec<u8>),
        key: impl FnOnce(&mut Vec<u8>),
        data: impl FnOnce(&mut Vec<u8>),
    ) -> Taken {
        self.push_into(Room::Limited, op, position, cursor, key, data)
    }

    /// Like [`push`](Self::push), for a row that may have to stay with the one before it.
    pub fn push_into(
        &mut self,
        room: Room,
        op: Op,
        position: Position,
        cursor: impl FnOnce(&mut Vec<u8>),
        key: impl FnOnce(&mut Vec<u8>),
        data: impl FnOnce(&mut Vec<u8>),
    ) -> Taken {
        if self.shard.is_some_and(|shard| !shard.holds(position.key())) {
            self.foreign.push(position);
            return Taken::Yes;
        }
        let out = &mut self.bytes;
        let start = out.len();
        out.extend_from_slice(b"{\"id\":\"");
        let id_at = out.len();
        out.extend_from_slice(&[b'0'; EventId::HEX]);
        out.extend_from_slice(b"\",");
        let hashed_from = out.len();
        out.extend_from_slice(op.json());
        out.extend_from_slice(b",\"cursor\":");
        cursor(out);
        out.extend_from_slice(b",\"key\":");
        let key = written(out, start, key);
        out.extend_from_slice(b",\"data\":");
        let data = written(out, start, data);
        out.push(b'}');

        let too_large = out.len() > self.max_bytes && !self.events.is_empty();
        if too_large && room == Room::Limited {
            out.truncate(start);
            return Taken::NoRoom;
        }
        let mut hash = self.seed.clone();
        // Text and bytes may look alike in JSON.
        for scalar in position.cursor().iter().chain(position.key()) {
            hash.update(scalar.scalar_type().name());
        }
        let id = EventId::from_digest(hash.chain_update(&out[hashed_from..]));
        HEXLOWER.encode_mut(&id.0, &mut out[id_at..id_at + EventId::HEX]);
        let end = out.len();
        self.events.push(EventSpan {
            id,
            position,
            op,
            start,
            end,
            key,
            data,
        });
        Taken::Yes
    }

    #[must_use]
    pub fn finish(self) -> Page {
        Page {
            bytes: self.bytes.into(),
            events: self.events,
            foreign: self.foreign,
        }
    }
}

/// Where `write` wrote, counted from `start`.
fn written(out: &mut Vec<u8>, start: usize, write: impl FnOnce(&mut Vec<u8>)) -> Range<usize> {
    let from = out.len() - start;
    write(out);
    from..out.len() - start
}

impl Op {
    fn json(self) -> &'static [u8] {
        match self {
            Self::Upsert => b"\"op\":\"upsert\"",
            Self::Delete => b"\"op\":\"delete\"",
        }
    }
}

impl EventId {
    pub const BYTES: usize = 16;
    const HEX: usize = 32;

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        Self::from_bytes(&bytes)
    }

    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Another id for the same version of a row, for a receiver that has seen this one.
    #[must_use]
    pub fn another(&self, salt: u128) -> Self {
        let hash = Sha256::new().chain_update(self.0);
        Self::from_digest(hash.chain_update(salt.to_le_bytes()))
    }

    fn from_digest(hash: Sha256) -> Self {
        let mut id = [0; Self::BYTES];
        id.copy_from_slice(&hash.finalize()[..Self::BYTES]);
        Self(id)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
