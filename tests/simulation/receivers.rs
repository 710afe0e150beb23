//! The truth about receivers: what each has stored, whatever the sender was told, and what is kept
//! aside for it.

use std::collections::{BTreeMap, BTreeSet};

use dbtick::model::envelope::Fence;
use dbtick::model::page::EventId;
use dbtick::model::quarantine::Case;
use dbtick::model::shard::Shard;
use serde::Deserialize;

use super::backfill::Hand;
use super::faults::Bug;
use super::invariants::{Violation, violation};
use super::layout::{Fences, Layout, MOST_SINKS};
use super::manners::Manners;
use super::table::Place;

/// One version of one row.
pub(crate) type Version = (i64, u64);

#[derive(Debug)]
pub(crate) struct Receivers {
    layout: Layout,
    /// Of each row they keep the newest, by its fence.
    compares: bool,
    sinks: Vec<Receiver>,
    /// Every event that was ever sent (I12).
    ids: BTreeMap<Version, EventId>,
    versions: BTreeMap<EventId, Version>,
}

#[derive(Debug, Default)]
pub(crate) struct Receiver {
    pub(crate) manners: Manners,
    stored: BTreeMap<Version, u64>,
    /// What a backfill has brought.
    again: BTreeSet<Version>,
    /// Of each row, what a receiver has that compares fences.
    latest: BTreeMap<i64, (Fence, u64)>,
    aside: BTreeSet<Version>,
    /// Events that it has named as not taken while it took others.
    named: BTreeSet<Version>,
    /// Each shard counts for itself.
    highest_fence: BTreeMap<Option<Shard>, Fence>,
    last_first: Option<Place>,
    last_of_key: BTreeMap<i64, Place>,
}

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) id: EventId,
    pub(crate) place: Place,
    pub(crate) version: u64,
}

#[derive(Deserialize)]
struct WireBatch {
    events: Vec<WireEvent>,
}

#[derive(Deserialize)]
struct WireEvent {
    id: String,
    cursor: i64,
    key: WireKey,
    data: WireData,
}

#[derive(Deserialize)]
struct WireKey {
    id: i64,
}

#[derive(Deserialize)]
struct WireData {
    version: u64,
}

impl From<WireEvent> for Event {
    fn from(event: WireEvent) -> Self {
        Self {
            id: EventId::parse(&event.id).unwrap(),
            place: Place {
                cursor: event.cursor,
                key: event.key.id,
            },
            version: event.data.version,
        }
    }
}

impl Event {
    pub(crate) fn all(body: &[u8]) -> Vec<Self> {
        let wire: WireBatch = serde_json::from_slice(body).unwrap();
        wire.events.into_iter().map(Self::from).collect()
    }

    fn row(&self) -> Version {
        (self.place.key, self.version)
    }
}

pub(crate) fn name(sink: usize) -> &'static str {
    const NAMES: [&str; MOST_SINKS] = ["sink-0", "sink-1", "sink-2"];
    NAMES[sink]
}

impl Receiver {
    pub(crate) fn stored(&self, row: Version) -> bool {
        self.stored.contains_key(&row)
    }

    /// A backfill has brought it, or never will and it is kept.
    pub(crate) fn has_again(&self, row: Version) -> bool {
        self.again.contains(&row) || self.is_aside(row)
    }

    /// The version that it ends with.
    pub(crate) fn latest_of(&self, key: i64) -> Option<u64> {
        let (_, version) = self.latest.get(&key)?;
        Some(*version)
    }

    fn keep_the_latest(&mut self, fence: Fence, event: &Event, compares: bool) {
        let seen = self.latest.get(&event.place.key);
        if !compares || seen.is_none_or(|(seen, _)| *seen <= fence) {
            let kept = (fence, event.version);
            self.latest.insert(event.place.key, kept);
        }
    }

    /// The rows that are kept aside for it.
    pub(crate) fn aside(&self) -> impl Iterator<Item = Version> + '_ {
        self.aside.iter().copied()
    }

    pub(crate) fn is_aside(&self, row: Version) -> bool {
        self.aside.contains(&row)
    }

    pub(crate) fn has_named(&self, row: Version) -> bool {
        self.named.contains(&row)
    }

    pub(crate) fn name(&mut self, event: &Event) {
        self.named.insert(event.row());
    }

    /// It was delivered, or never will be and is kept.
    pub(crate) fn has(&self, row: Version) -> bool {
        self.stored(row) || self.is_aside(row)
    }

    /// Rejects what is older than what it has seen.
    /// Where several batches are on their way at once, only the token tells an older attempt.
    fn lets_in(&mut self, fence: Fence, checks: bool, several: bool) -> bool {
        let is_older = |seen: Fence| match several {
            true => fence.token < seen.token,
            false => fence < seen,
        };
        let seen = self.highest_fence.get(&fence.shard).copied();
        if checks && seen.is_some_and(is_older) {
            return false;
        }
        let highest = seen.map_or(fence, |seen| seen.max(fence));
        self.highest_fence.insert(fence.shard, highest);
        true
    }

    /// I10, for a row that comes for the first time. Where an event may come again alone, order is
    /// promised among the versions of one row only (A5).
    fn keeps_order(&mut self, place: Place, total: bool) -> Result<(), Violation> {
        let last = match total {
            true => self.last_first.replace(place),
            false => self.last_of_key.insert(place.key, place),
        };
        match last >= Some(place) {
            true => violation("I10", format!("{place} comes after {last:?}")),
            false => Ok(()),
        }
    }
}

impl Receivers {
    pub(crate) fn new(layout: Layout, bug: Option<Bug>, manners: Vec<Manners>) -> Self {
        let receiver = |manners| Receiver {
            manners,
            ..Receiver::default()
        };
        Self {
            layout,
            compares: bug != Some(Bug::RowFencesIgnored),
            sinks: manners.into_iter().map(receiver).collect(),
            ids: BTreeMap::new(),
            versions: BTreeMap::new(),
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (&'static str, &Receiver)> {
        let sinks = self.sinks.iter().enumerate();
        sinks.map(|(index, sink)| (name(index), sink))
    }

    pub(crate) fn at(&mut self, sink: usize) -> &mut Receiver {
        &mut self.sinks[sink]
    }

    pub(crate) fn version_of(&self, id: EventId) -> Option<Version> {
        self.versions.get(&id).copied()
    }

    pub(crate) fn id_of(&self, row: Version) -> Option<EventId> {
        self.ids.get(&row).copied()
    }

    pub(crate) fn bad_rows(&self) -> usize {
        self.sinks.iter().map(|sink| sink.manners.bad.len()).sum()
    }

    /// What is written from now on is good.
    pub(crate) fn heal(&mut self, versions: u64) {
        for sink in &mut self.sinks {
            sink.manners.bad.retain(|version, _| *version <= versions);
            sink.manners.moods.clear();
        }
    }

    pub(crate) fn duplicates(&self) -> u64 {
        let per_sink = |sink: &Receiver| sink.stored.values().map(|times| times - 1).sum::<u64>();
        self.sinks.iter().map(per_sink).sum()
    }

    pub(crate) fn set_aside(&mut self, case: &Case) {
        let event: WireEvent = serde_json::from_str(case.event().get()).unwrap();
        let sink = (0..self.sinks.len()).find(|index| name(*index) == case.sink);
        let row = Event::from(event).row();
        self.sinks[sink.unwrap()].aside.insert(row);
    }

    /// I12
    pub(crate) fn see(&mut self, events: &[Event]) -> Result<(), Violation> {
        for event in events {
            let (row, id) = (event.row(), event.id);
            let known = *self.ids.entry(row).or_insert(id);
            if known != id {
                return violation("I12", format!("{row:?} is {known}, then {id}"));
            }
            let known = *self.versions.entry(id).or_insert(row);
            if known != row {
                return violation("I12", format!("{known:?} and {row:?} share an id"));
            }
        }
        Ok(())
    }

    /// Stores these events, or rejects them as older than what was seen.
    pub(crate) fn take(
        &mut self,
        sink: usize,
        fence: Fence,
        events: &[Event],
        hand: Hand,
    ) -> Result<bool, Violation> {
        let checks_fence = self.layout.fences == Fences::PerPoller;
        let receiver = &mut self.sinks[sink];
        if !receiver.lets_in(fence, checks_fence, self.layout.max_inflight > 1) {
            return Ok(false);
        }
        for event in events {
            let times = receiver.stored.entry(event.row()).or_default();
            *times += 1;
            let is_first = *times == 1 && hand == Hand::Poller;
            receiver.keep_the_latest(fence, event, self.compares);
            if hand == Hand::Range {
                receiver.again.insert(event.row());
            }
            if is_first && checks_fence && self.layout.is_in_order() {
                let total = !self.layout.has_manners && self.layout.shards == 1;
                receiver.keeps_order(event.place, total)?;
            }
        }
        Ok(true)
    }
}
