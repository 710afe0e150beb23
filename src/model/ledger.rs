//! The ledger: which events each sink took, and when, in immutable segments (F6).
//!
//! A segment is written before the commit that names it. Each names the one before it, and the document
//! names the last, so a segment of somebody who died or was too late is on no way back from there and
//! counts for nothing.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::page::EventId;
use super::position::{Position, PositionError};
use crate::clock::Timestamp;

const VERSION: u32 = 1;
/// Between the description of a segment and its ids.
const END_OF_HEADER: u8 = b'\n';

/// Whether a poller writes down what was delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LedgerMode {
    #[default]
    Off,
    Full,
}

/// What a state document keeps of the ledger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    /// The name of the last segment.
    pub head: String,
    pub segments: u64,
    /// Over all segments; a row counts as often as it was written down.
    pub rows: u64,
    pub bytes: u64,
    /// From then on nothing was committed without it.
    pub since: Timestamp,
    /// Something was: the next segment begins anew.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
}

/// What one commit has delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub poller: String,
    pub at: Timestamp,
    pub batch_id: Option<String>,
    /// The segment before it; `None` for the first.
    pub previous: Option<String>,
    /// What was committed before it, if anything, is not all in segments.
    pub begins: bool,
    /// Nothing above this place had been delivered before; `None`: nothing at all.
    pub above: Option<Position>,
    pub ids: Vec<EventId>,
    /// All sinks that the events were meant for.
    pub sinks: BTreeMap<String, Marks>,
}

/// Which of the events of a segment, by their number.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Marks {
    /// First and last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    taken: Vec<(usize, usize)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<(usize, usize)>,
}

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mark {
    Taken,
    Quarantined,
}

/// Why an object is no segment.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    #[error("its content does not fit its name")]
    Damaged,
    #[error("it has no readable header")]
    Unreadable(#[from] serde_json::Error),
    #[error("it has version {0}, this program knows version {VERSION}")]
    Version(u32),
    #[error("it has a position that cannot be read")]
    Position(#[from] PositionError),
}

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    poller: String,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    previous: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    begins: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    above: Option<String>,
    rows: usize,
    sinks: BTreeMap<String, Marks>,
}

impl Marks {
    pub fn add(&mut self, at: usize, mark: Mark) {
        let spans = match mark {
            Mark::Taken => &mut self.taken,
            Mark::Quarantined => &mut self.quarantined,
        };
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == at => *last = at,
            _ => spans.push((at, at)),
        }
    }

    /// Those of one kind, by their number.
    pub fn all(&self, mark: Mark) -> impl Iterator<Item = usize> {
        let spans = match mark {
            Mark::Taken => &self.taken,
            Mark::Quarantined => &self.quarantined,
        };
        spans.iter().flat_map(|(first, last)| *first..=*last)
    }

    fn are_within(&self, rows: usize) -> bool {
        let mut spans = self.taken.iter().chain(&self.quarantined);
        spans.all(|(first, last)| first <= last && *last < rows)
    }

    #[must_use]
    pub fn of(&self, at: usize) -> Option<Mark> {
        let within = |spans: &[(usize, usize)]| {
            spans
                .iter()
                .any(|(first, last)| (*first..=*last).contains(&at))
        };
        if within(&self.taken) {
            Some(Mark::Taken)
        } else {
            within(&self.quarantined).then_some(Mark::Quarantined)
        }
    }
}

impl Segment {
    /// Its bytes and its name: its number, so that names can be listed in order, and its hash.
    #[must_use]
    pub fn encode(&self, number: u64) -> (String, Vec<u8>) {
        let header = Header {
            version: VERSION,
            poller: self.poller.clone(),
            at: self.at,
            batch_id: self.batch_id.clone(),
            previous: self.previous.clone(),
            begins: self.begins,
            above: self.above.as_ref().map(Position::to_tagged),
            rows: self.ids.len(),
            sinks: self.sinks.clone(),
        };
        let mut bytes = serde_json::to_vec(&header).expect("a header is always representable");
        bytes.push(END_OF_HEADER);
        bytes.reserve_exact(self.ids.len() * EventId::BYTES);
        for id in &self.ids {
            bytes.extend_from_slice(id.as_bytes());
        }
        (format!("{number:010}-{}", hash(&bytes)), bytes)
    }

    pub fn decode(name: &str, bytes: &[u8]) -> Result<Self, SegmentError> {
        let end = bytes.iter().position(|byte| *byte == END_OF_HEADER);
        let (Some(end), true) = (end, name.ends_with(&hash(bytes))) else {
            return Err(SegmentError::Damaged);
        };
        let header: Header = serde_json::from_slice(&bytes[..end])?;
        if header.version != VERSION {
            return Err(SegmentError::Version(header.version));
        }
        let ids = bytes[end + 1..].chunks_exact(EventId::BYTES);
        let is_whole = ids.remainder().is_empty() && ids.len() == header.rows;
        let mut marks = header.sinks.values();
        if !is_whole || !marks.all(|marks| marks.are_within(header.rows)) {
            return Err(SegmentError::Damaged);
        }
        let above = header.above.as_deref().map(Position::from_tagged);
        Ok(Self {
            poller: header.poller,
            at: header.at,
            batch_id: header.batch_id,
            previous: header.previous,
            begins: header.begins,
            above: above.transpose()?,
            ids: ids.filter_map(EventId::from_bytes).collect(),
            sinks: header.sinks,
        })
    }
}

impl Ledger {
    /// The ledger behind one more segment.
    #[must_use]
    pub fn after(before: Option<&Self>, head: String, segment: &Segment, bytes: u64) -> Self {
        let (segments, rows, all_bytes) = before.map_or((0, 0, 0), |before| {
            (before.segments, before.rows, before.bytes)
        });
        let since = before
            .filter(|_| !segment.begins)
            .map(|before| before.since);
        Self {
            head,
            segments: segments.saturating_add(1),
            rows: rows.saturating_add(segment.ids.len() as u64),
            bytes: all_bytes.saturating_add(bytes),
            since: since.unwrap_or(segment.at),
            closed: false,
        }
    }
}

fn hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..16])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::position::Scalar;
    use chrono::DateTime;

    fn segment(rows: u128) -> Segment {
        let mut sinks = BTreeMap::from([("hook".to_owned(), Marks::default())]);
        let ids: Vec<_> = (0..rows)
            .filter_map(|row| EventId::from_bytes(&row.to_be_bytes()))
            .collect();
        for at in 0..ids.len() {
            let mark = if at == 5 {
                Mark::Quarantined
            } else {
                Mark::Taken
            };
            sinks.get_mut("hook").unwrap().add(at, mark);
        }
        let place = || vec![Scalar::Integer(7)];
        Segment {
            poller: "orders".to_owned(),
            at: DateTime::from_timestamp(1_775_000_000, 0).unwrap(),
            batch_id: Some("batch_0123456789abcdef0123456789abcdef".to_owned()),
            previous: Some("0000000008-0123456789abcdef0123456789abcdef".to_owned()),
            begins: false,
            above: Some(Position::new(place(), place())),
            ids,
            sinks,
        }
    }

    #[test]
    fn a_segment_is_read_back_as_it_was_and_a_damaged_one_is_refused() {
        let written = segment(10);
        let (name, mut bytes) = written.encode(9);
        assert!(name.starts_with("0000000009-"));
        let read = Segment::decode(&name, &bytes).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.sinks["hook"].of(5), Some(Mark::Quarantined));
        assert_eq!(read.sinks["hook"].of(9), Some(Mark::Taken));
        assert_eq!(read.sinks["hook"].of(10), None);
        *bytes.last_mut().unwrap() ^= 1;
        assert!(matches!(
            Segment::decode(&name, &bytes),
            Err(SegmentError::Damaged)
        ));
    }

    /// Under a name that fits: written by something other than dbtick.
    #[test]
    fn a_segment_whose_parts_do_not_fit_each_other_is_refused() {
        let (_, bytes) = segment(10).encode(9);
        let text = |from: &str, to: &str| {
            let end = bytes
                .iter()
                .position(|byte| *byte == END_OF_HEADER)
                .unwrap();
            let header = String::from_utf8(bytes[..end].to_vec()).unwrap();
            assert!(header.contains(from), "{header}");
            let header = header.replace(from, to);
            [header.as_bytes(), &bytes[end..]].concat()
        };
        for (what, bytes) in [
            ("a cut id", bytes[..bytes.len() - 1].to_vec()),
            (
                "an id too few",
                bytes[..bytes.len() - EventId::BYTES].to_vec(),
            ),
            ("marks beyond the ids", text("[6,9]", "[6,10]")),
            ("marks that go back", text("[5,5]", "[5,4]")),
        ] {
            let name = format!("0000000009-{}", hash(&bytes));
            let read = Segment::decode(&name, &bytes);
            assert!(
                matches!(read, Err(SegmentError::Damaged)),
                "{what}: {read:?}"
            );
        }
    }

    #[test]
    fn a_row_of_a_full_batch_costs_less_than_twenty_bytes() {
        let (_, bytes) = segment(500).encode(9);
        assert!(bytes.len() < 500 * 20, "{}", bytes.len());
    }
}
