//! What the document knows about each sink of a poller: its failures, counted across ticks and
//! processes, how far it is behind, and how much it takes at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::TimeDelta;
use serde::{Deserialize, Serialize};

use super::lease::later;
use super::page::EventId;
use super::position::Position;
use super::state::CursorMark;
use crate::clock::Timestamp;

/// Rows among which those that were set aside are counted.
const WINDOW: u64 = 1000;
/// So many rows that a receiver has named are counted one by one.
const MOST_NAMED: usize = 100;
/// More of them cost more in the document than their duplicates.
const MOST_DELIVERED: usize = 1024;
/// A receiver that took less at once may take more by then.
const LIMIT_HOLDS: TimeDelta = TimeDelta::hours(24);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
const REPEATED_WITHIN: TimeDelta = TimeDelta::minutes(1);

/// By name; all of them, so that one that was added, renamed or removed is noticed (E3). Empty in
/// documents of older versions.
pub type Sinks = BTreeMap<String, SinkState>;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SinkState {
    /// `None`: its last answer was good.
    pub failure: Option<Failure>,
    /// It is behind the checkpoint, gets no live batches, and catches up by reading again.
    pub lag: Option<Lag>,
    pub limit: Option<SizeLimit>,
    /// Rows that it has taken or will never take.
    pub rows: u64,
    /// How many these were when one was set aside; of the last thousand only.
    pub set_aside: Vec<u64>,
    /// What was sent to it and comes again.
    pub again: Option<Again>,
}

/// Why an event could not be delivered, counted until that very event is acknowledged or set aside: a
/// batch is cut differently with each tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub event_id: String,
    pub attempts: u32,
    /// Of the attempts, those in which the receiver answered that it does not take it.
    #[serde(default)]
    pub rejections: u32,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// The sink is left alone until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    pub error: String,
    /// Events that the receiver has named in partial answers, and how often.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub named: BTreeMap<String, u32>,
}

/// Its own position and delivered set (E3). The position never goes beyond the checkpoint: a row that
/// commits late would be behind it.
#[derive(Debug, Clone, PartialEq)]
pub struct Lag {
    /// `None`: the beginning.
    pub position: Option<CursorMark>,
    /// What it has acknowledged above its position, as far as that is remembered.
    pub delivered: BTreeMap<EventId, Position>,
    pub since: Timestamp,
}

/// A batch of more bytes was too large for the receiver (413).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimit {
    pub bytes: u64,
    pub until: Timestamp,
}

/// What a tick has learned about its sinks; goes into the document with the commit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct News {
    /// Of each sink that was asked.
    pub sinks: BTreeMap<String, SinkNews>,
    /// Nobody is there any more: the poller stops until a person says otherwise.
    pub gone: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct SinkNews {
    /// `None`: all is well.
    pub failure: Option<Failure>,
    pub falls_behind: Option<Lag>,
    pub limit: Option<SizeLimit>,
    /// Taken, or set aside.
    pub rows: u64,
    pub set_aside: u32,
    /// Of the rows that were sent, those that it may have got before.
    pub resent: u64,
    pub again: Option<Again>,
}

impl News {
    /// Every sink that was asked has taken everything, and nothing else was learned.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let quiet = |news: &SinkNews| {
            let counted = SinkNews {
                rows: news.rows,
                resent: news.resent,
                ..SinkNews::default()
            };
            *news == counted
        };
        self.gone.is_none() && self.sinks.values().all(quiet)
    }

    /// Together with news of a later batch; both are quiet.
    pub fn add_quiet(&mut self, later: &Self) {
        for (name, later) in &later.sinks {
            let news = self.sinks.entry(name.clone()).or_default();
            news.rows = news.rows.saturating_add(later.rows);
            news.resent = news.resent.saturating_add(later.resent);
        }
    }
}

/// Rows that were sent to a sink and not committed, so that they come again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Again {
    pub first: String,
    /// With those behind the first one.
    pub rows: u64,
}

/// Configured and recorded names differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SinksDiffer {
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

/// Whether the document was written for these sinks.
pub fn compare(known: &Sinks, configured: &[String]) -> Result<(), SinksDiffer> {
    if known.is_empty() {
        return Ok(());
    }
    let configured: BTreeSet<&String> = configured.iter().collect();
    let added: Vec<_> = configured
        .iter()
        .filter(|name| !known.contains_key(**name))
        .map(ToString::to_string)
        .collect();
    let removed: Vec<_> = known
        .keys()
        .filter(|name| !configured.contains(name))
        .cloned()
        .collect();
    match added.is_empty() && removed.is_empty() {
        true => Ok(()),
        false => Err(SinksDiffer { added, removed }),
    }
}

/// From now on these are the sinks: a new one begins at the checkpoint. `behind`: where rows above it
/// were delivered to the others, it gets them by catching up.
pub(super) fn register(known: &mut Sinks, configured: &[String], behind: Option<&Lag>) {
    known.retain(|name, _| configured.contains(name));
    for name in configured {
        known.entry(name.clone()).or_insert_with(|| SinkState {
            lag: behind.cloned(),
            ..SinkState::default()
        });
    }
}

pub(super) fn note(known: &mut Sinks, news: &News) {
    for (name, news) in &news.sinks {
        let SinkNews {
            failure,
            falls_behind,
            limit,
            rows,
            set_aside,
            resent: _,
            again,
        } = news;
        let state = known.entry(name.clone()).or_default();
        state.failure.clone_from(failure);
        if falls_behind.is_some() {
            state.lag.clone_from(falls_behind);
        }
        if limit.is_some() {
            state.limit = *limit;
        }
        state.rows = state.rows.saturating_add(*rows);
        state.again.clone_from(again);
        let rows = state.rows;
        let again = std::iter::repeat_n(rows, *set_aside as usize);
        state.set_aside.extend(again);
        state.set_aside.retain(|at| is_recent(*at, rows));
    }
}

/// The poller begins elsewhere: attempts belong to the old place. A sink that is behind the new place
/// too goes on from its own; one that is not gets what the others get.
pub(super) fn begin_at(known: &mut Sinks, place: Option<&Position>) {
    for state in known.values_mut() {
        state.failure = None;
        state.again = None;
        let behind = |lag: &Lag| lag.position.as_ref().map(|mark| &mark.position) < place;
        state.lag = state.lag.take().filter(behind);
    }
}

/// Who is behind, and where.
pub(super) fn behind(known: &Sinks) -> BTreeMap<String, Option<CursorMark>> {
    let place = |sink: &SinkState| sink.lag.as_ref().map(|lag| lag.position.clone());
    let behind = known.iter();
    behind
        .filter_map(|(name, sink)| Some((name.clone(), place(sink)?)))
        .collect()
}

/// The poller goes to a place at which these were behind. Whether they have got since what they lacked is
/// not known any more, so it comes to them again.
pub(super) fn again_behind(
    known: &mut Sinks,
    then: &BTreeMap<String, Option<CursorMark>>,
    now: Timestamp,
) {
    let place = |mark: &Option<CursorMark>| mark.as_ref().map(|mark| mark.position.clone());
    for (name, mark) in then {
        let Some(state) = known.get_mut(name) else {
            continue;
        };
        let lag = state.lag.as_ref();
        if lag.is_none_or(|lag| place(mark) < place(&lag.position)) {
            state.lag = Some(Lag::new(mark.clone(), BTreeMap::new(), now));
        }
    }
}

/// Another document takes the place of one: whoever is behind in either is behind.
pub(super) fn keep_behind(sinks: &mut Sinks, before: &Sinks) {
    if sinks.is_empty() {
        sinks.clone_from(before);
        return;
    }
    let place = |lag: &Lag| lag.position.as_ref().map(|mark| mark.position.clone());
    for (name, before) in before {
        sinks.entry(name.clone()).or_insert_with(|| before.clone());
    }
    for (name, state) in sinks {
        let was = before.get(name).and_then(|before| before.lag.as_ref());
        let further = |was: &&Lag| state.lag.as_ref().is_none_or(|is| place(was) < place(is));
        if let Some(was) = was.filter(further) {
            state.lag = Some(was.clone());
        }
    }
}

/// How long to leave a sink alone after so many failed ticks in a row. The first few are close
/// together: most troubles are short.
#[must_use]
pub fn back_off(attempts: u32) -> Duration {
    match attempts {
        0..=5 => Duration::ZERO,
        more => LONGEST_PAUSE.min(Duration::from_secs(1 << (more - 5).min(16))),
    }
}

fn is_recent(at: u64, rows: u64) -> bool {
    rows.saturating_sub(at) < WINDOW
}

impl SinkState {
    /// How many rows of a batch of so many may be set aside.
    #[must_use]
    pub fn room_aside(&self, most: u32, batch: usize) -> usize {
        let rows = self.rows.saturating_add(batch as u64);
        let recent = self.set_aside.iter();
        let recent = recent.filter(|at| is_recent(**at, rows));
        (most as usize).saturating_sub(recent.count())
    }

    /// What it takes at once, as far as it has shown.
    #[must_use]
    pub fn largest(&self, now: Timestamp) -> Option<u64> {
        let limit = self.limit.filter(|limit| now < limit.until);
        limit.map(|limit| limit.bytes)
    }

    /// Which of these events it may have got before, as far as that is known.
    #[must_use]
    pub fn sent_before(&self, ids: &[EventId]) -> Vec<bool> {
        let mut sent = vec![false; ids.len()];
        if let Some(again) = &self.again
            && let Some(first) = EventId::parse(&again.first)
            && let Some(at) = ids.iter().position(|id| *id == first)
        {
            let rows = usize::try_from(again.rows).unwrap_or(usize::MAX);
            sent.iter_mut()
                .skip(at)
                .take(rows)
                .for_each(|sent| *sent = true);
        }
        sent
    }

    #[must_use]
    pub fn not_before(&self) -> Option<Timestamp> {
        self.failure.as_ref().and_then(|failure| failure.not_before)
    }

    /// When a sink that is behind may be asked again. Nobody waits for it, so it is left alone from the
    /// first failure on.
    #[must_use]
    pub fn catches_up_from(&self) -> Option<Timestamp> {
        let failure = self.failure.as_ref()?;
        let pause = LONGEST_PAUSE.min(Duration::from_secs(1 << failure.attempts.min(16)));
        failure.not_before.max(Some(later(failure.last_at, pause)))
    }
}

impl Again {
    /// Those of a batch that were sent and come again.
    #[must_use]
    pub fn of(ids: &[EventId], comes_again: impl Fn(usize) -> bool) -> Option<Self> {
        let mut again = (0..ids.len()).filter(|at| comes_again(*at));
        Some(Self {
            first: ids[again.next()?].to_string(),
            rows: 1 + again.count() as u64,
        })
    }
}

impl SizeLimit {
    /// After a batch of so many bytes was too large.
    #[must_use]
    pub fn below(bytes: usize, now: Timestamp) -> Self {
        Self {
            bytes: (bytes / 2) as u64,
            until: now + LIMIT_HOLDS,
        }
    }
}

impl Lag {
    /// What is remembered of it stays small: the rest comes again.
    pub(super) fn remember(&mut self, delivered: &BTreeMap<EventId, Position>) {
        self.delivered.extend(delivered.clone());
        if self.delivered.len() > MOST_DELIVERED {
            self.delivered.clear();
        }
    }

    /// A sink that had everything up to `position`, and of what is above it `delivered`.
    #[must_use]
    pub fn new(
        position: Option<CursorMark>,
        delivered: BTreeMap<EventId, Position>,
        since: Timestamp,
    ) -> Self {
        let mut lag = Self {
            position,
            delivered: BTreeMap::new(),
            since,
        };
        lag.remember(&delivered);
        lag
    }
}

/// How one more failure is counted.
#[derive(Debug, Clone)]
pub struct Attempt<'a> {
    /// The event that stands in the way now.
    pub event_id: EventId,
    /// Those that are not delivered, this one among them.
    pub pending: &'a BTreeSet<EventId>,
    pub error: String,
    pub rejected: bool,
    /// The receiver asked for it.
    pub not_before: Option<Timestamp>,
    /// Those that the receiver has named this time.
    pub named: Vec<EventId>,
    /// Those that are left were looked at one by one: the search goes on with them.
    pub searched: bool,
    /// The host repeats a tick that has just failed: that is not another failure (D10).
    pub repeated: bool,
}

impl Failure {
    #[must_use]
    pub fn after(before: Option<&Self>, attempt: Attempt<'_>, now: Timestamp) -> Self {
        let Attempt {
            event_id,
            pending,
            error,
            rejected,
            not_before,
            named,
            searched,
            repeated,
        } = attempt;
        let same = before.filter(|before| before.concerns(pending));
        // An endless policy of the host must not keep a row from ever being looked for.
        let just_now = |same: &Self| now - same.last_at < REPEATED_WITHIN;
        let once = u32::from(!repeated || !same.is_some_and(just_now));
        let attempts = same.map_or(0, |same| same.attempts).saturating_add(once);
        let counted = same.or(before.filter(|_| searched));
        let rejections = counted.map_or(0, |counted| counted.rejections);
        let own_pause = match back_off(attempts) {
            Duration::ZERO => None,
            pause => Some(later(now, pause)),
        };
        let mut counts = before.map_or_else(BTreeMap::new, |before| before.named.clone());
        // What is still pending keeps its count through ticks that failed for another reason.
        counts.retain(|id, _| EventId::parse(id).is_some_and(|id| pending.contains(&id)));
        for id in named {
            let id = id.to_string();
            if counts.len() < MOST_NAMED || counts.contains_key(&id) {
                let count = counts.entry(id).or_default();
                *count = count.saturating_add(once);
            }
        }
        Self {
            event_id: same.map_or_else(|| event_id.to_string(), |same| same.event_id.clone()),
            attempts,
            rejections: rejections.saturating_add(once * u32::from(rejected)),
            first_at: same.map_or(now, |same| same.first_at),
            last_at: now,
            not_before: not_before.max(own_pause),
            error,
            named: counts,
        }
    }

    /// Whether the event that it counts is among these.
    #[must_use]
    pub fn concerns(&self, pending: &BTreeSet<EventId>) -> bool {
        EventId::parse(&self.event_id).is_some_and(|id| pending.contains(&id))
    }

    /// How often the receiver has named this event so far.
    #[must_use]
    pub fn times_named(&self, id: &EventId) -> u32 {
        self.named.get(&id.to_string()).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
