//! One batch to the sinks of a poller. The only maker of receipts.
//!
//! What a sink never takes is kept aside before the receipt is made (I13). A receipt counts the events
//! for which the commit policy is met (E1); the others come again.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::join_all;

use super::Poller;
use super::hand_over::{Dispatch, Fate, Handed, hand_over};
use super::keeper::Receipt;
use super::ledger::Recording;
use super::quarantine::keep;
use crate::model::counters::Cost;
use crate::model::envelope::Batch;
use crate::model::page::Page;
use crate::model::policy::CommitPolicy;
use crate::model::position::Scalar;
use crate::model::quarantine::Case;
use crate::model::sinks::{Again, Failure, Lag, News, SinkNews};
use crate::model::state::{CursorMark, StateDocument};
use crate::sink::{DeliveryFailure, FailureKind, Outlet};

/// The sink that stood in the way, and why.
#[derive(Debug)]
pub(super) struct NotDelivered {
    pub(super) sink: String,
    pub(super) attempts: u32,
    pub(super) failure: DeliveryFailure,
}

/// What became of a batch.
#[derive(Debug)]
pub(super) struct Delivered {
    /// `None`: of no event.
    pub(super) receipt: Option<Receipt>,
    /// Of each event, whether the policy is met.
    pub(super) done: Vec<bool>,
    /// Done, because it was set aside: it stays where it is in an outbox.
    pub(super) aside: BTreeSet<usize>,
    pub(super) news: News,
    /// For the ledger.
    pub(super) recording: Recording,
    /// Why some events are not done.
    pub(super) blocked: Option<NotDelivered>,
}

impl Delivered {
    /// Everybody who was asked has taken all of it.
    pub(super) fn is_quiet(&self) -> bool {
        self.blocked.is_none() && self.aside.is_empty() && self.news.is_quiet()
    }
}

/// What the sinks have answered to a batch. What follows from it depends on the document as it stands then.
#[derive(Debug)]
pub(super) struct Answered {
    asked: Vec<(Outlet, Settled)>,
    took: Duration,
}

/// Asks every sink that is not behind, and keeps aside what one never takes.
pub(super) async fn deliver(
    dispatch: Dispatch<'_>,
    document: &StateDocument,
    page: &Page,
    batch: &Batch,
) -> Answered {
    let clock = &dispatch.poller.clock;
    let began = clock.monotonic();
    let mut asked = Vec::new();
    for (outlet, handed) in ask_all(dispatch, document, batch).await {
        let name = outlet.sink.name();
        let settled = settle(dispatch, name, document, (batch, page), handed).await;
        asked.push((outlet.clone(), settled));
    }
    let took = clock.monotonic() - began;
    Answered { asked, took }
}

/// `Err`: not all of it is done, so nothing newer may go out.
pub(super) fn conclude(
    poller: &Poller,
    document: &StateDocument,
    page: &Page,
    batch: &Batch,
    answered: &Answered,
) -> Result<Delivered, Box<Delivered>> {
    // Who has fallen behind since it was asked gets all of it again.
    let asked = answered.asked.iter();
    let asked = asked.filter(|(outlet, _)| document.sink(outlet.sink.name()).lag.is_none());
    let round = Round {
        poller,
        document,
        page,
        batch,
        asked: asked.map(|(outlet, settled)| (outlet, settled)).collect(),
    };
    let done = round.done();
    let news = round.news(&done);
    let blocked = round.blocked(&done, &news);
    let rows = done.iter().filter(|done| **done).count() as u64;
    let aside = round.asked.iter();
    let aside = aside.flat_map(|(_, settled)| settled.aside.iter().copied());
    let cost = Cost {
        bytes: bytes(batch, &done),
        deliver: answered.took,
        ..Cost::default()
    };
    let delivered = Delivered {
        receipt: (rows > 0).then(|| Receipt::new(batch.id.to_string(), rows, cost)),
        aside: aside.collect(),
        done,
        news,
        recording: round.recording(),
        blocked,
    };
    match delivered.blocked {
        None => Ok(delivered),
        Some(_) => Err(Box::new(delivered)),
    }
}

/// Of a batch that is not done as a whole, those of the events that are.
fn bytes(batch: &Batch, done: &[bool]) -> u64 {
    let bytes = match done.contains(&false) {
        false => batch.body.len(),
        true => {
            let events = batch.events_json().zip(done);
            let done = events.filter(|(_, done)| **done);
            done.map(|(event, _)| event.len()).sum()
        }
    };
    bytes as u64
}

/// What each live sink has done; those that are behind are not asked.
type Asked<'a> = Vec<(&'a Outlet, Handed)>;

/// Who has failed before is asked first, and what it does not take is not sent to the others again and
/// again; all that are asked together are asked at once, from the same bytes.
async fn ask_all<'a>(dispatch: Dispatch<'a>, document: &StateDocument, batch: &Batch) -> Asked<'a> {
    let poller = dispatch.poller;
    let live = poller
        .sinks
        .iter()
        .filter(|outlet| document.sink(outlet.sink.name()).lag.is_none());
    let (first, rest): (Vec<_>, Vec<_>) = live.partition(|outlet| {
        let needed = match poller.commit {
            CommitPolicy::All => true,
            CommitPolicy::Required => outlet.required,
            // Any of the others may be enough.
            CommitPolicy::Quorum(_) => false,
        };
        needed && document.sink(outlet.sink.name()).failure.is_some()
    });
    let everything: Vec<usize> = (0..batch.len()).collect();
    let mut asked = ask(dispatch, document, batch, first, &everything).await;
    let agreed: Vec<usize> = everything
        .into_iter()
        .filter(|at| asked.iter().all(|(_, handed)| !handed.is_pending(*at)))
        .collect();
    asked.extend(ask(dispatch, document, batch, rest, &agreed).await);
    asked
}

async fn ask<'a>(
    dispatch: Dispatch<'a>,
    document: &StateDocument,
    batch: &Batch,
    outlets: Vec<&'a Outlet>,
    events: &[usize],
) -> Asked<'a> {
    if events.is_empty() {
        return Vec::new();
    }
    let part;
    let some = if events.len() == batch.len() {
        batch
    } else {
        part = batch.part(events.iter().copied(), dispatch.fences.next());
        &part
    };
    let asked = outlets.into_iter().map(async |outlet| {
        let state = document.sink(outlet.sink.name());
        let before = state.sent_before(&batch.event_ids);
        let of_these = events.iter().map(|at| before[*at]).collect();
        let handed = hand_over(dispatch, outlet.sink.as_ref(), &state, some, of_these).await;
        (outlet, handed.spread(events, before))
    });
    join_all(asked).await
}

/// What a sink has done, once what it never takes is kept aside.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) handed: Handed,
    pub(super) news: SinkNews,
    aside: Vec<usize>,
}

impl Settled {
    /// The events that stay in an outbox: not taken yet, or never.
    pub(super) fn stay(&self) -> BTreeSet<usize> {
        let pending = (0..self.handed.fates.len()).filter(|at| self.handed.is_pending(*at));
        pending.chain(self.aside.iter().copied()).collect()
    }
}

/// Keeps what the sink will never take; what cannot be kept is pending again, with the reason.
pub(super) async fn settle(
    dispatch: Dispatch<'_>,
    sink: &str,
    document: &StateDocument,
    (batch, page): (&Batch, &Page),
    mut handed: Handed,
) -> Settled {
    let before = document.sink(sink).failure;
    let now = dispatch.poller.clock.now();
    let mut aside = Vec::new();
    for (at, fate) in handed.fates.iter_mut().enumerate() {
        let Fate::Bad { reason } = fate else {
            continue;
        };
        let case = Case::new(batch, at, &page.events()[at].position, now);
        let case = case.refused(sink, reason, before.as_ref());
        match keep(dispatch.poller, &case).await {
            Ok(()) => aside.push(at),
            Err(error) => {
                let reason = format!("a row could not be set aside: {}", error.story());
                handed.failure = Some(DeliveryFailure::new(FailureKind::Passing, reason));
                *fate = Fate::Pending;
            }
        }
    }
    keep_order(page, &mut handed);
    let news = SinkNews {
        failure: handed.counted(batch, before.as_ref(), dispatch),
        falls_behind: None,
        limit: handed.limit,
        rows: handed
            .fates
            .iter()
            .filter(|fate| **fate != Fate::Pending)
            .count() as u64,
        set_aside: u32::try_from(aside.len()).unwrap_or(u32::MAX),
        resent: handed.repeats,
        again: Again::of(&batch.event_ids, |at| {
            handed.sent[at] && handed.is_pending(at)
        }),
    };
    Settled {
        handed,
        news,
        aside,
    }
}

/// An event that comes again, or was sent again, takes the later ones of its key with it: they would be
/// overtaken.
fn keep_order(page: &Page, handed: &mut Handed) {
    if handed.is_settled() && handed.resent.is_empty() {
        return;
    }
    let mut behind: BTreeSet<&[Scalar]> = BTreeSet::new();
    for (at, (event, fate)) in page.events().iter().zip(&mut handed.fates).enumerate() {
        let key = event.position.key();
        match fate {
            Fate::Pending => {
                behind.insert(key);
            }
            Fate::Taken if handed.resent.contains(&at) => {
                behind.insert(key);
            }
            Fate::Taken if behind.contains(key) => *fate = Fate::Pending,
            Fate::Taken | Fate::Bad { .. } => {}
        }
    }
}

struct Round<'a> {
    poller: &'a Poller,
    document: &'a StateDocument,
    page: &'a Page,
    batch: &'a Batch,
    asked: Vec<(&'a Outlet, &'a Settled)>,
}

impl Round<'_> {
    fn done(&self) -> Vec<bool> {
        let sinks = &self.poller.sinks;
        let done = |at: usize| {
            let votes = sinks.iter().map(|outlet| {
                let name = outlet.sink.name();
                let asked = self
                    .asked
                    .iter()
                    .find(|(asked, _)| asked.sink.name() == name);
                let has = asked.is_some_and(|(_, settled)| !settled.handed.is_pending(at));
                (outlet.required, has)
            });
            self.poller.commit.is_met(votes)
        };
        (0..self.batch.len()).map(done).collect()
    }

    /// Also of events that come again: a sink that falls behind now does not get them then.
    fn recording(&self) -> Recording {
        let mut recording = Recording::of(self.poller);
        for (outlet, settled) in &self.asked {
            recording.add(outlet.sink.name(), self.page, &settled.handed);
        }
        recording
    }

    fn news(&self, done: &[bool]) -> News {
        let mut news = News {
            gone: self.gone(),
            ..News::default()
        };
        for (outlet, settled) in &self.asked {
            let handed = &settled.handed;
            let left_out = (0..done.len()).any(|at| done[at] && handed.is_pending(at));
            // The others come again, and are counted then; to a sink that falls behind they do not.
            let passed = settled.aside.iter();
            let passed = passed.filter(|at| left_out || done[**at]).count();
            let failure = settled.news.failure.clone();
            // What a sink that falls behind has taken does not come to it again.
            let comes_again = |at: usize| match left_out {
                true => handed.is_pending(at),
                false => !done[at],
            };
            let again = Again::of(&self.batch.event_ids, |at| {
                handed.sent[at] && comes_again(at)
            });
            let sink = SinkNews {
                again,
                failure: failure.or_else(|| self.not_over(outlet, done)),
                falls_behind: left_out.then(|| self.lag(handed)),
                set_aside: u32::try_from(passed).unwrap_or(u32::MAX),
                ..settled.news.clone()
            };
            news.sinks.insert(outlet.sink.name().to_owned(), sink);
        }
        news
    }

    /// A sink has done its part with an event that another one still keeps back: the event comes again, and
    /// what is known of it must not be counted anew, or two sinks with a bad row each would take turns
    /// for ever.
    fn not_over(&self, outlet: &Outlet, done: &[bool]) -> Option<Failure> {
        let left = (0..done.len()).filter(|at| !done[*at]);
        let left = left.map(|at| self.batch.event_ids[at]).collect();
        let before = self.document.sink(outlet.sink.name()).failure;
        let before = before.filter(|before| before.concerns(&left))?;
        Some(Failure {
            not_before: None,
            ..before
        })
    }

    /// Why nobody is there any more, if the policy cannot be met without those that are gone.
    fn gone(&self) -> Option<String> {
        let gone: BTreeMap<&str, &str> = self
            .asked
            .iter()
            .filter_map(|(outlet, settled)| {
                let failure = settled.handed.failure.as_ref();
                let failure = failure.filter(|failure| failure.kind == FailureKind::Gone)?;
                Some((outlet.sink.name(), failure.reason.as_str()))
            })
            .collect();
        let others = self.poller.sinks.iter();
        let others = others.map(|outlet| (outlet.required, !gone.contains_key(outlet.sink.name())));
        let reason = gone.values().next()?;
        (!self.poller.commit.is_met(others)).then(|| (*reason).to_owned())
    }

    /// It has all that is below the checkpoint, and what was delivered above it until now.
    fn lag(&self, handed: &Handed) -> Lag {
        let taken = (0..handed.fates.len()).filter(|at| !handed.is_pending(*at));
        let events = self.page.events();
        let taken = taken.map(|at| (events[at].id, events[at].position.clone()));
        let delivered = self.document.delivered.clone().into_iter().chain(taken);
        let now = self.poller.clock.now();
        Lag::new(self.checkpoint(), delivered.collect(), now)
    }

    /// A document of another writer does not say of which type its place is.
    fn checkpoint(&self) -> Option<CursorMark> {
        let mark = self.document.checkpoint.cursor.as_ref()?;
        let first = self.page.events().first()?;
        let typed = mark.position.typed_like(&first.position);
        let place = typed.unwrap_or_else(|| mark.position.clone());
        Some(CursorMark::new(place, &mark.key_columns))
    }

    fn blocked(&self, done: &[bool], news: &News) -> Option<NotDelivered> {
        let at = done.iter().position(|done| !done)?;
        let in_the_way = self.asked.iter().find_map(|(outlet, settled)| {
            let handed = &settled.handed;
            let failure = handed.failure.as_ref().filter(|_| handed.is_pending(at))?;
            let name = outlet.sink.name();
            let counted = news.sinks.get(name).and_then(|news| news.failure.as_ref());
            Some(NotDelivered {
                sink: name.to_owned(),
                attempts: counted.map_or(1, |counted| counted.attempts),
                failure: failure.clone(),
            })
        });
        let nobody = || NotDelivered {
            sink: "(none)".to_owned(),
            attempts: 1,
            failure: DeliveryFailure::new(
                FailureKind::Refused,
                "there are not enough receivers that could acknowledge",
            ),
        };
        Some(in_the_way.unwrap_or_else(nobody))
    }
}
