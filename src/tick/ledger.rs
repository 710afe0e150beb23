//! The ledger of a poller: written before each commit, read back from the document that names its last
//! segment (F6). A segment that cannot be written keeps its batch from being committed: the rows come
//! again.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use futures_util::stream::{self, StreamExt};

use super::hand_over::{Fate, Handed};
use super::memory::tried;
use super::operate::Found;
use super::reading::load;
use super::report::TickError;
use super::{Poller, Progress};
use crate::clock::Timestamp;
use crate::model::history::short;
use crate::model::ledger::{Ledger, LedgerMode, Mark, Marks, Segment};
use crate::model::page::{EventId, Page};
use crate::model::position::Position;
use crate::model::state::StateDocument;
use crate::store::StoreKey;

/// Segments that are fetched at once.
const AT_ONCE: usize = 16;

/// What sinks have done about events, for one segment.
#[derive(Debug, Default)]
pub(super) struct Recording {
    is_wanted: bool,
    ids: Vec<EventId>,
    numbers: HashMap<EventId, usize>,
    sinks: BTreeMap<String, Marks>,
}

impl Recording {
    pub(super) fn of(poller: &Poller) -> Self {
        let names = poller.sink_names().into_iter();
        Self {
            is_wanted: poller.ledger == LedgerMode::Full,
            sinks: names.map(|name| (name, Marks::default())).collect(),
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// What is pending is not told of.
    pub(super) fn add(&mut self, sink: &str, page: &Page, handed: &Handed) {
        if !self.is_wanted {
            return;
        }
        for (event, fate) in page.events().iter().zip(&handed.fates) {
            match fate {
                Fate::Taken => self.mark(sink, event.id, Mark::Taken),
                Fate::Bad { .. } => self.mark(sink, event.id, Mark::Quarantined),
                Fate::Pending => {}
            }
        }
    }

    pub(super) fn mark(&mut self, sink: &str, id: EventId, mark: Mark) {
        let next = self.ids.len();
        let number = *self.numbers.entry(id).or_insert(next);
        if number == next {
            self.ids.push(id);
        }
        let marks = self.sinks.entry(sink.to_owned()).or_default();
        marks.add(number, mark);
    }
}

/// The ledger with one more segment, for the write that commits what it tells of. `None` where the
/// poller has none.
pub(super) async fn record(
    poller: &Poller,
    document: &StateDocument,
    batch_id: Option<String>,
    recording: Recording,
    progress: &mut Progress,
) -> Result<Option<Ledger>, TickError> {
    if poller.ledger == LedgerMode::Off {
        return Ok(None);
    }
    if recording.ids.is_empty() {
        return Ok(document.ledger.clone());
    }
    progress.tally.writes += 1;
    put(poller, document, batch_id, recording).await.map(Some)
}

pub(super) async fn put(
    poller: &Poller,
    document: &StateDocument,
    batch_id: Option<String>,
    recording: Recording,
) -> Result<Ledger, TickError> {
    let before = document.ledger.as_ref();
    let segment = Segment {
        poller: poller.name.clone(),
        at: poller.clock.now(),
        batch_id,
        previous: before.map(|before| before.head.clone()),
        begins: before.is_none_or(|before| before.closed),
        above: highest(document),
        ids: recording.ids,
        sinks: recording.sinks,
    };
    let number = before.map_or(0, |before| before.segments) + 1;
    let (name, body) = segment.encode(number);
    let body = Bytes::from(body);
    let key = key(&poller.state_key, &name)?;
    tried(poller, &key, || poller.objects.put(&key, body.clone())).await?;
    let bytes = body.len() as u64;
    Ok(Ledger::after(before, name, &segment, bytes))
}

/// Nothing above it was delivered. The checkpoint may have been higher before it was moved by hand.
fn highest(document: &StateDocument) -> Option<Position> {
    let source = short(&document.source_fingerprint);
    let kept = document.history.iter();
    let kept = kept.filter(|entry| entry.source == source);
    let kept = kept.filter_map(|entry| entry.cursor.as_ref().map(|mark| &mark.position));
    let spilled = document.late.spilled.iter().map(|segment| &segment.to);
    let above = document.delivered.values().chain(spilled).chain(kept);
    above.chain(document.position()).max().cloned()
}

/// What the ledger says about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    pub sink: String,
    pub at: Timestamp,
    pub mark: Mark,
    pub batch_id: Option<String>,
    /// The backfill that brought it; `None`: the poller itself.
    pub backfill: Option<String>,
}

/// A ledger, and the document that leads to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerOf {
    pub document: StoreKey,
    pub ledger: Ledger,
    /// `None`: of the poller itself.
    pub backfill: Option<String>,
}

/// How far back a ledger was read.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reach {
    pub segments: u64,
    pub rows: u64,
    /// When the oldest of them was written.
    pub back_to: Option<Timestamp>,
    /// An older one that is gone or damaged; storage rules may remove what is old.
    pub gone: Option<String>,
    /// For each sink: all that it got above this place is in the ledger (`None`: all it ever got). A sink
    /// that is not here is not told of.
    pub covers: BTreeMap<String, Option<Position>>,
}

/// What a ledger says about some events.
#[derive(Debug, Clone, Default)]
pub struct Records {
    /// The newest first; an event that was never recorded is not here.
    pub found: BTreeMap<EventId, Vec<Recorded>>,
    /// `None`: the poller has no ledger.
    pub reach: Option<Reach>,
}

impl Poller {
    /// What the ledgers of the poller and of its backfills say about these events, and how far back that of
    /// the poller reaches.
    pub async fn recorded(&self, ids: &BTreeSet<EventId>) -> Result<Records, TickError> {
        let mut records = Records::default();
        for of in self.ledgers().await? {
            let found = &mut records.found;
            let reach = self.read_ledger(&of, |segment| {
                for (at, id) in segment.ids.iter().enumerate() {
                    if !ids.contains(id) {
                        continue;
                    }
                    let sinks = segment.sinks.iter();
                    for (sink, mark) in sinks.filter_map(|(s, marks)| Some((s, marks.of(at)?))) {
                        found.entry(*id).or_default().push(Recorded {
                            sink: sink.clone(),
                            at: segment.at,
                            mark,
                            batch_id: segment.batch_id.clone(),
                            backfill: of.backfill.clone(),
                        });
                    }
                }
            });
            let reach = reach.await?;
            if of.backfill.is_none() {
                records.reach = Some(reach);
            }
        }
        for recorded in records.found.values_mut() {
            recorded.sort_by_key(|it| std::cmp::Reverse(it.at));
        }
        Ok(records)
    }

    /// That of the poller first, if it has one.
    pub async fn ledgers(&self) -> Result<Vec<LedgerOf>, TickError> {
        let mut all = Vec::new();
        if let Found::Document(document) = self.found().await?
            && let Some(ledger) = document.ledger
        {
            all.push(LedgerOf {
                document: self.state_key.clone(),
                ledger,
                backfill: None,
            });
        }
        let prefix = self.state_key.backfills();
        for key in self.store.list(&prefix).await? {
            // backfill/{app}/{poller}/{name}/range-01.json
            let path = key.as_str().strip_prefix(&prefix).unwrap_or_default();
            let range = path
                .strip_suffix(".json")
                .and_then(|it| it.split_once("/range-"));
            let Some((backfill, number)) = range else {
                continue;
            };
            let name = format!("{}/{backfill}/{number}", self.name);
            let Some(loaded) = load(self, &key).await? else {
                continue;
            };
            let document = StateDocument::from_bytes(&loaded.body, &name, &self.key_columns);
            let document = document.map_err(|source| TickError::Document {
                key: key.to_string(),
                poller: name,
                source,
            })?;
            all.extend(document.ledger.map(|ledger| LedgerOf {
                backfill: Some(backfill.to_owned()),
                document: key.clone(),
                ledger,
            }));
        }
        Ok(all)
    }

    /// Goes back from the last segment, as far as they are there. Only what the document leads to counts:
    /// others are of somebody who died, or was too late.
    pub async fn read_ledger(
        &self,
        LedgerOf {
            document, ledger, ..
        }: &LedgerOf,
        mut see: impl FnMut(&Segment),
    ) -> Result<Reach, TickError> {
        let prefix = document.ledger();
        let mut keys = self.objects.names(&prefix).await?;
        let head = key(document, &ledger.head)?;
        keys.retain(|key| *key <= head);
        keys.reverse();
        let fetched = keys.into_iter().map(async |key| {
            let body = tried(self, &key, || self.objects.get(&key)).await;
            (key, body)
        });
        let mut fetched = Box::pin(stream::iter(fetched).buffered(AT_ONCE));
        let mut ahead = None;
        let mut reach = Reach::default();
        let mut wanted = Some(ledger.head.clone());
        // Who was no receiver for a while, or whose rows went out without the ledger, begins anew.
        let mut told_of: Option<BTreeSet<String>> = ledger.closed.then(BTreeSet::new);
        while let Some(name) = wanted {
            let key = key(document, &name)?;
            while ahead.as_ref().is_none_or(|(next, _)| *next > key) {
                match fetched.next().await {
                    Some(next) => ahead = Some(next),
                    None => break,
                }
            }
            let body = match ahead.take_if(|(next, _)| *next == key) {
                Some((_, body)) => body?,
                None => tried(self, &key, || self.objects.get(&key)).await?,
            };
            let decoded = body.map(|body| Segment::decode(&name, &body));
            let Some(Ok(segment)) = decoded else {
                reach.gone = Some(name);
                break;
            };
            let told_of = told_of.get_or_insert_with(|| segment.sinks.keys().cloned().collect());
            told_of.retain(|sink| segment.sinks.contains_key(sink));
            reach.pass(&segment, told_of);
            if segment.begins {
                told_of.clear();
            }
            see(&segment);
            wanted = segment.previous;
        }
        Ok(reach)
    }
}

impl Reach {
    fn pass(&mut self, segment: &Segment, told_of: &BTreeSet<String>) {
        self.segments += 1;
        self.rows += segment.ids.len() as u64;
        self.back_to = Some(segment.at);
        for sink in told_of {
            self.covers.insert(sink.clone(), segment.above.clone());
        }
    }
}

fn key(document: &StoreKey, name: &str) -> Result<StoreKey, TickError> {
    let prefix = document.ledger();
    StoreKey::new(format!("{prefix}{name}")).map_err(|error| TickError::Bug {
        what: error.to_string(),
    })
}
