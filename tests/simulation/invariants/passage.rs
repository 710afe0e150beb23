//! I1: the checkpoint passes nobody.

use bytes::Bytes;
use dbtick::clock::Timestamp;
use dbtick::model::ledger::LedgerMode;
use dbtick::model::shard::Shard;
use dbtick::model::sinks::Lag;
use dbtick::model::state::StateDocument;

use super::super::layout::Layout;
use super::super::receivers::{Receiver, Receivers, Version};
use super::super::table::{Place, Table};
use super::{Held, Known, Span, require};

/// An accepted write, seen against the truth.
pub(crate) struct Accepted<'a> {
    pub(crate) before: Option<&'a StateDocument>,
    /// When that was, by the store's clock.
    pub(crate) written: Option<Timestamp>,
    pub(crate) after: &'a StateDocument,
    pub(crate) now: Timestamp,
    /// Whether everybody can know how old a lease is.
    pub(crate) store_tells_time: bool,
    /// Whether the marker of the poller's birth is there.
    pub(crate) marked: bool,
    /// Of a shard: the rows that it answers for.
    pub(crate) shard: Option<Shard>,
    /// Of a range: the rows that it answers for.
    pub(crate) span: Option<Span>,
    /// It was not shown every row.
    pub(crate) has_gaps: bool,
    pub(crate) ledger: LedgerMode,
    /// The newest of the ledger, by its name, if it is there.
    pub(crate) segment: Option<(String, Option<Bytes>)>,
    pub(crate) layout: Layout,
    pub(crate) table: &'a Table,
    pub(crate) receivers: &'a Receivers,
}

pub(super) fn at(lag: &Lag) -> Option<Place> {
    let mark = lag.position.as_ref();
    mark.map(|mark| Place::from(&mark.position))
}

impl Accepted<'_> {
    pub(super) fn lag(&self, sink: &str) -> Option<&Lag> {
        self.after.sinks.get(sink)?.lag.as_ref()
    }

    pub(super) fn answers_for(&self, place: Place) -> bool {
        let inside = self.span.is_none_or(|span| span.holds(place));
        !self.has_gaps && inside && place.is_in(self.shard)
    }

    /// By whom this document is of.
    fn has(&self, receiver: &Receiver, row: Version) -> bool {
        match self.span {
            Some(_) => receiver.has_again(row),
            None => receiver.has(row),
        }
    }

    /// Enough sinks have this row, and it is still to come to each of the others (E1, E3).
    fn is_covered(&self, place: Place, version: u64) -> Held {
        let row = (place.key, version);
        let mut missing = false;
        let votes = self.receivers.all().zip(self.layout.optional);
        let votes = votes.map(|((_, receiver), optional)| {
            let has = self.has(receiver, row);
            missing |= !has;
            (!optional, has)
        });
        require(self.layout.commit.is_met(votes.collect::<Vec<_>>()), || {
            format!("row {place} is passed, and too few have it")
        })?;
        if !missing {
            return Ok(());
        }
        let id = self.receivers.id_of(row);
        for (name, _) in self.receivers.all().filter(|(_, it)| !self.has(it, row)) {
            let comes = self.lag(name).is_some_and(|lag| {
                at(lag) < Some(place) && id.is_none_or(|id| !lag.delivered.contains_key(&id))
            });
            require(comes, || {
                format!("row {place} is passed, and never comes to {name}")
            })?;
        }
        Ok(())
    }
}

/// What sinks had beyond the checkpoint, and nobody remembers, because they are not behind any more.
pub(super) fn forgotten(write: &Accepted<'_>) -> u64 {
    let checkpoint = Place::of(write.after);
    let before = write.before.iter().flat_map(|before| &before.sinks);
    let came_level = before.filter(|(name, _)| write.lag(name).is_none());
    let had = came_level.filter_map(|(_, sink)| sink.lag.as_ref());
    let had = had.flat_map(|lag| &lag.delivered);
    let forgotten = had.filter(|(id, position)| {
        Some(Place::from(*position)) > checkpoint && !write.after.delivered.contains_key(*id)
    });
    forgotten.count() as u64
}

/// For every row that is visible now: at or below the checkpoint, or remembered above it.
pub(super) fn nothing_is_passed_over(_: &mut Known, write: &Accepted<'_>) -> Held {
    for (id, position) in &write.after.delivered {
        let place = Place::from(position);
        let Some((_, version)) = write.receivers.version_of(*id) else {
            return Err(format!("row {place} is remembered and was never sent"));
        };
        if write.answers_for(place) && write.table.version_at(place) == Some(version) {
            write.is_covered(place, version)?;
        }
    }
    let Some(checkpoint) = Place::of(write.after) else {
        return Ok(());
    };
    let own = |place: &Place| place.is_in(write.shard);
    for place in write.table.on_the_way().filter(own) {
        require(place > checkpoint, || {
            format!("the checkpoint {checkpoint} passes row {place}, which is on its way")
        })?;
    }
    let rows = write.table.rows();
    for (place, version) in rows.take_while(|(place, _)| *place <= checkpoint) {
        if write.answers_for(place) {
            write.is_covered(place, version)?;
        }
    }
    Ok(())
}

/// For a sink with a place of its own.
pub(super) fn whoever_is_behind_has_what_it_says(_: &mut Known, write: &Accepted<'_>) -> Held {
    for (name, receiver) in write.receivers.all() {
        let Some(lag) = write.lag(name) else {
            continue;
        };
        let at = at(lag);
        require(at <= Place::of(write.after), || {
            format!("{name} is behind at {at:?}, beyond the checkpoint")
        })?;
        for (id, position) in &lag.delivered {
            let version = write.receivers.version_of(*id);
            // A version that is no more cannot be missed.
            let place = Place::from(position);
            if !write.answers_for(place) {
                continue;
            }
            if version.is_some_and(|(_, version)| write.table.version_at(place) != Some(version)) {
                continue;
            }
            require(version.is_some_and(|it| write.has(receiver, it)), || {
                format!("{name} is said to have {place}")
            })?;
        }
    }
    Ok(())
}
