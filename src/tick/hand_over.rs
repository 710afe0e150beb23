//! One batch to one sink, as far as it can be brought there: whole, in halves where it is too large,
//! and one by one where a row is looked for that the sink never takes (D8).
//!
//! Nothing is decided here about the checkpoint: the outcome says of each event what became of it.

mod judging;

pub(super) use judging::witnesses_wanted;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use tokio::time::timeout_at;
use tracing::Instrument;

use super::budget::Budget;
use super::keeper::{Fences, Lease};
use super::{Call, Poller};
use crate::config::Batch as BatchLimits;
use crate::model::envelope::Batch;
use crate::model::page::EventId;
use crate::model::policy::Poisoned;
use crate::model::position::Position;
use crate::model::sinks::{Attempt, Failure, SinkState, SizeLimit};
use crate::model::state::StateDocument;
use crate::sink::{DeliveryFailure, FailureKind, Sink, Stance, Unaccepted, Verdict};
use crate::telemetry::spans;

/// What a sink has done about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fate {
    Taken,
    /// It will never take it, and that is not the sink's fault.
    Bad {
        reason: String,
    },
    Pending,
}

#[derive(Debug)]
pub(super) struct Handed {
    /// Of each event of the batch.
    pub(super) fates: Vec<Fate>,
    /// Why some are pending.
    pub(super) failure: Option<DeliveryFailure>,
    pub(super) limit: Option<SizeLimit>,
    /// Sent again after others of the batch were taken.
    pub(super) resent: Vec<usize>,
    /// Of each event, whether the sink may have got it, now or before.
    pub(super) sent: Vec<bool>,
    /// How many rows were sent that it may have got before.
    pub(super) repeats: u64,
    named: Vec<EventId>,
    /// The receiver has said that it does not take it.
    rejected: bool,
    searched: bool,
}

/// All that a delivery needs beside the batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dispatch<'a> {
    pub(super) poller: &'a Poller,
    pub(super) fences: &'a Fences,
    pub(super) budget: &'a Budget,
    /// What every sink that is not behind has got above the checkpoint.
    delivered: &'a BTreeMap<EventId, Position>,
    /// The host repeats a tick that has just failed.
    pub(super) repeated: bool,
    /// Batches that may be judged by this document, each without knowing of the others.
    at_once: usize,
}

impl<'a> Dispatch<'a> {
    pub(super) fn of(
        poller: &'a Poller,
        call: &'a Call,
        lease: &'a Lease,
        document: &'a StateDocument,
    ) -> Self {
        Self {
            poller,
            fences: lease.fences(),
            budget: &call.budget,
            delivered: &document.delivered,
            repeated: call.repeated,
            at_once: 1,
        }
    }

    /// Together these set aside no more rows than one may.
    pub(super) fn one_of(self, at_once: usize) -> Self {
        Self { at_once, ..self }
    }
}

impl Handed {
    pub(super) fn is_pending(&self, index: usize) -> bool {
        self.fates[index] == Fate::Pending
    }

    pub(super) fn is_settled(&self) -> bool {
        !self.fates.contains(&Fate::Pending)
    }

    /// It was about these events of a batch: the others are pending, and as often `sent` as before.
    pub(super) fn spread(mut self, events: &[usize], mut sent: Vec<bool>) -> Self {
        if events.len() < sent.len() {
            let mut fates = vec![Fate::Pending; sent.len()];
            for (at, (fate, now)) in events.iter().zip(self.fates.into_iter().zip(self.sent)) {
                fates[*at] = fate;
                sent[*at] = now;
            }
            self.fates = fates;
            self.sent = sent;
        }
        self
    }

    /// How it goes into the document; `None` where nothing is pending.
    pub(super) fn counted(
        &self,
        batch: &Batch,
        before: Option<&Failure>,
        dispatch: Dispatch<'_>,
    ) -> Option<Failure> {
        let pending: Vec<EventId> = (0..self.fates.len())
            .filter(|index| self.is_pending(*index))
            .map(|index| batch.event_ids[index])
            .collect();
        let first = *pending.first()?;
        let failure = self.failure.as_ref()?;
        let attempt = Attempt {
            event_id: first,
            pending: &pending.iter().copied().collect(),
            error: failure.reason.clone(),
            rejected: self.rejected,
            not_before: failure.not_before,
            named: self.named.clone(),
            searched: self.searched,
            repeated: dispatch.repeated,
        };
        let now = dispatch.poller.clock.now();
        Some(Failure::after(before, attempt, now))
    }
}

pub(super) async fn hand_over(
    dispatch: Dispatch<'_>,
    sink: &dyn Sink,
    state: &SinkState,
    batch: &Batch,
    sent_before: Vec<bool>,
) -> Handed {
    let span = spans::deliver(sink.name(), batch.len(), batch.body.len());
    let mut work = Work::new(dispatch, sink, state, batch, sent_before);
    let sending = async {
        work.send_all().await;
        if dispatch.poller.poison.then == Poisoned::Quarantine {
            work.judge_suspects().await;
        }
    };
    sending.instrument(span.clone()).await;
    let handed = work.finish();
    spans::delivered(&span, handed.failure.as_ref());
    handed
}

struct Work<'a> {
    dispatch: Dispatch<'a>,
    sink: &'a dyn Sink,
    before: Option<&'a Failure>,
    /// What the sink has got before, and still above its place.
    earlier: &'a BTreeMap<EventId, Position>,
    /// The place of one that is behind: the row there was the last that it has got.
    reached: Option<&'a Position>,
    batch: &'a Batch,
    /// The same event has failed often enough: look for the row that is to blame.
    isolating: bool,
    /// How many may be set aside.
    room: usize,
    todo: VecDeque<Range<usize>>,
    sent_whole: bool,
    fates: Vec<Fate>,
    suspects: BTreeMap<usize, Suspect>,
    resent: Vec<usize>,
    sent: Vec<bool>,
    repeats: u64,
    /// It took a row after it had refused the last of those that were sent alone.
    took_since: bool,
    /// It took a row that it had got before.
    took_earlier: bool,
    named: Vec<EventId>,
    limit: Option<SizeLimit>,
    failure: Option<DeliveryFailure>,
    rejected: bool,
}

#[derive(Debug)]
struct Suspect {
    reason: String,
    /// By the answer to it alone, not by name while others were taken: it is asked once more.
    alone: bool,
    /// The reason is the receiver's, who may say anything in it: it is kept, and not logged (S7).
    own_words: bool,
}

impl Suspect {
    /// For logs and documents.
    fn said(&self, id: EventId) -> String {
        match self.own_words {
            true => format!("it does not take event {id}"),
            false => self.reason.clone(),
        }
    }
}

impl<'a> Work<'a> {
    fn new(
        dispatch: Dispatch<'a>,
        sink: &'a dyn Sink,
        state: &'a SinkState,
        batch: &'a Batch,
        sent: Vec<bool>,
    ) -> Self {
        let poison = dispatch.poller.poison;
        let before = state.failure.as_ref();
        let same = before.filter(|before| {
            let ids = batch.event_ids.iter().copied().collect();
            before.concerns(&ids)
        });
        let rejections = same.map_or(0, |same| same.rejections);
        let limit = state.largest(dispatch.poller.clock.now());
        Self {
            isolating: !dispatch.repeated && rejections + 1 >= poison.attempts,
            room: state.room_aside(poison.most, batch.len()) / dispatch.at_once,
            todo: pieces(batch, limit, dispatch.poller.batch).into(),
            sent_whole: false,
            fates: vec![Fate::Pending; batch.len()],
            suspects: BTreeMap::new(),
            resent: Vec::new(),
            sent,
            repeats: 0,
            took_since: false,
            took_earlier: false,
            named: Vec::new(),
            limit: None,
            failure: None,
            rejected: false,
            dispatch,
            sink,
            before,
            reached: state
                .lag
                .as_ref()
                .and_then(|lag| lag.position.as_ref())
                .map(|mark| &mark.position),
            earlier: match &state.lag {
                Some(lag) => &lag.delivered,
                None => dispatch.delivered,
            },
            batch,
        }
    }

    async fn send_all(&mut self) {
        while let Some(range) = self.todo.pop_front() {
            match self.send(range.clone()).await {
                Verdict::Acknowledged => {
                    self.fates[range].fill(Fate::Taken);
                    self.took_since = true;
                }
                Verdict::Partly(unaccepted) => self.take_partly(range, unaccepted),
                Verdict::Failed(failure) => self.take_failure(range, failure),
            }
            let now = self.dispatch.poller.clock.monotonic();
            if self.failure.is_none() && !self.todo.is_empty() && self.dispatch.budget.is_spent(now)
            {
                self.failure = Some(out_of_time());
            }
            if self.failure.is_some() || self.has_seen_enough() {
                return;
            }
        }
    }

    /// More rows are suspected than may be set aside, or nothing may pass the first of them.
    fn has_seen_enough(&self) -> bool {
        match self.dispatch.poller.poison.then {
            Poisoned::Quarantine => self.suspects.len() > self.room,
            Poisoned::Block => !self.suspects.is_empty(),
        }
    }

    fn take_failure(&mut self, range: Range<usize>, failure: DeliveryFailure) {
        let too_large = failure.kind == FailureKind::TooLarge;
        if too_large && range.len() > 1 {
            let now = self.dispatch.poller.clock.now();
            let bytes = self.bytes(&range);
            self.limit = Some(SizeLimit::below(bytes, now));
            self.split(range);
            return;
        }
        let blames_content = blames_content(failure.kind);
        self.rejected |= blames_content;
        if !blames_content || !self.isolating {
            self.failure = Some(failure);
        } else if range.len() > 1 {
            self.split(range);
        } else {
            let suspect = Suspect {
                alone: true,
                reason: failure.reason,
                own_words: false,
            };
            self.suspects.insert(range.start, suspect);
            self.took_since = false;
        }
    }

    /// Those that are not named are taken. Who is named too often, or once for all, is suspected.
    fn take_partly(&mut self, range: Range<usize>, unaccepted: Vec<Unaccepted>) {
        let poison = self.dispatch.poller.poison;
        let (lost, named): (Vec<_>, Vec<_>) = unaccepted
            .into_iter()
            .partition(|event| event.stance == Stance::NotTried);
        if let Some(lost) = lost.first() {
            let failure = DeliveryFailure::new(FailureKind::Passing, lost.reason.clone());
            self.failure = Some(failure);
        }
        let lost: BTreeSet<EventId> = lost.into_iter().map(|event| event.id).collect();
        let mut named: BTreeMap<EventId, Unaccepted> =
            named.into_iter().map(|event| (event.id, event)).collect();
        self.rejected |= !named.is_empty();
        let single = range.len() == 1;
        let ids = &self.batch.event_ids[range.clone()];
        let all = ids.iter().all(|id| named.contains_key(id));
        // Those that it has named before, while it took others, may well be all that is left.
        let known = ids.iter().all(|id| self.times_named(id) > 0);
        if all && !known && range.len() > 1 {
            let reason = named
                .pop_first()
                .map_or_else(String::new, |(_, event)| event.reason);
            tracing::debug!(sink = self.sink.name(), "{reason}");
            let reason = format!("it names all of {} events as not taken", range.len());
            let failure = DeliveryFailure::new(FailureKind::Rejected, reason);
            return self.take_failure(range, failure);
        }
        for at in range {
            let id = self.batch.event_ids[at];
            let Some(event) = named.remove(&id) else {
                if !lost.contains(&id) {
                    self.fates[at] = Fate::Taken;
                    self.took_since = true;
                }
                continue;
            };
            let times = self.times_named(&id) + 1;
            self.named.push(id);
            // One that is sent alone is named without others that are taken.
            let searched = single && self.isolating;
            if event.stance == Stance::Never || times >= poison.attempts || searched {
                let suspect = Suspect {
                    reason: event.reason,
                    alone: single,
                    own_words: true,
                };
                self.suspects.insert(at, suspect);
                self.took_since &= !single;
            }
        }
    }

    /// Every attempt has a fence of its own; that of the batch is good for one.
    async fn send(&mut self, range: Range<usize>) -> Verdict {
        for sent in &mut self.sent[range.clone()] {
            self.repeats += u64::from(*sent);
            *sent = true;
        }
        let part;
        let batch = if range.len() == self.batch.len() && !self.sent_whole {
            self.sent_whole = true;
            self.batch
        } else {
            part = self.batch.part(range, self.dispatch.fences.next());
            &part
        };
        let abandon = self.dispatch.budget.abandon_at();
        match timeout_at(abandon, self.sink.deliver(batch)).await {
            Ok(verdict) => verdict,
            Err(_) => Verdict::Failed(out_of_time()),
        }
    }

    fn split(&mut self, range: Range<usize>) {
        let middle = range.start + range.len() / 2;
        self.todo.push_front(middle..range.end);
        self.todo.push_front(range.start..middle);
    }

    fn bytes(&self, range: &Range<usize>) -> usize {
        let events = self.batch.events_json().skip(range.start);
        events.take(range.len()).map(<[u8]>::len).sum()
    }

    fn finish(mut self) -> Handed {
        let pending = self.fates.contains(&Fate::Pending);
        let takes_others = self.fates.contains(&Fate::Taken);
        let mut named = std::mem::take(&mut self.named);
        named.retain(|id| takes_others || self.times_named(id) > 0);
        // Named by the receiver, or the one that nothing passes.
        let suspected = self.suspects.into_iter().next();
        let failure = self.failure.or_else(|| {
            let reason = match suspected {
                Some((at, suspect)) => suspect.said(self.batch.event_ids[at]),
                None => {
                    let pending = self.fates.iter().filter(|fate| **fate == Fate::Pending);
                    format!("it does not take {} event(s) yet", pending.count())
                }
            };
            pending.then(|| DeliveryFailure::new(FailureKind::Rejected, reason))
        });
        Handed {
            fates: self.fates,
            failure,
            limit: self.limit,
            resent: self.resent,
            sent: self.sent,
            repeats: self.repeats,
            named,
            rejected: self.rejected,
            searched: self.isolating,
        }
    }
}

/// Whether a failure may be the fault of what was sent.
fn blames_content(kind: FailureKind) -> bool {
    matches!(
        kind,
        FailureKind::Rejected | FailureKind::Broken | FailureKind::TooLarge
    )
}

/// In pieces that the sink takes and a batch may have; an event that is larger goes alone.
fn pieces(batch: &Batch, largest: Option<u64>, limits: BatchLimits) -> Vec<Range<usize>> {
    let most = limits.max_rows.get();
    let most_bytes = limits.max_bytes.get() as u64;
    let largest = largest.map_or(most_bytes, |largest| largest.min(most_bytes));
    let mut pieces: Vec<Range<usize>> = Vec::new();
    let mut bytes = 0;
    for (at, event) in batch.events_json().enumerate() {
        bytes += event.len() as u64;
        match pieces.last_mut() {
            Some(piece) if bytes <= largest && piece.len() < most => piece.end = at + 1,
            _ => {
                bytes = event.len() as u64;
                pieces.push(at..at + 1);
            }
        }
    }
    pieces
}

fn out_of_time() -> DeliveryFailure {
    DeliveryFailure::new(
        FailureKind::Passing,
        "no answer before the time budget of the invocation was spent",
    )
}
