//! The one writer of a held lease: it owns the tag, renews the lease, and commits.
//!
//! The body of a tick runs beside it and asks for writes; when the lease is lost the body is
//! dropped, which cancels what is being delivered, and nothing more is written (C4). A write that
//! lost its race or whose answer never came is settled by reading again: the document says whether
//! it holds our mark (C6).

mod lease;

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use lease::Request;
pub(super) use lease::{Fences, Lease, Moved, Receipt};

use super::reading::{answered, load_document};
use super::report::TickError;
use super::{Poller, fingerprint_changed, sinks_changed};
use crate::model::counters::Writes;
use crate::model::late::Late;
use crate::model::lease::answers::{Doubt, Found, Rival, Verdict, judge};
use crate::model::lease::{AgeEvidence, StoreClock, WriteMark, trusted_for};
use crate::model::state::{CursorMark, StateDocument, Status};
use crate::model::transitions::{Action, Applied, Claim, Refusal, Settlement, Step, apply};
use crate::store::{StoreError, Swap, Tag};

/// Lost races in a row before a writer gives up; each means that somebody else made progress.
const MOST_RACES: u32 = 8;
/// Times in a row that a contender, who holds nothing yet, finds the store out of reach.
const MOST_TROUBLES: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A document as it stands in the store, or the first one, which does not yet.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) document: StateDocument,
    pub(super) tag: Option<Tag>,
    pub(super) clock: Option<StoreClock>,
    /// Of the local clock against the store's.
    pub(super) skew: TimeDelta,
}

/// What the lease looked like when it was reached for.
pub(super) enum Claimed<'a> {
    Mine(Box<Keeper<'a>>),
    /// Losing the race is normal (C3).
    Elsewhere(String),
    Paused,
}

#[derive(Debug)]
pub(super) struct Keeper<'a> {
    poller: &'a Poller,
    standing: Standing,
    mark: WriteMark,
    /// Monotonic: the moment at which this holder stops trusting its lease.
    deadline: Instant,
    next_heartbeat: Instant,
    writes: u64,
    /// Not written down yet.
    untold: Writes,
}

pub(super) async fn claim(poller: &Poller, standing: Standing) -> Result<Claimed<'_>, TickError> {
    let now = poller.clock.monotonic();
    let nonce = format!("{:032x}", poller.clock.random());
    let mut keeper = Keeper {
        poller,
        standing,
        mark: WriteMark {
            token: Default::default(),
            nonce: nonce.clone(),
            sequence: 0,
        },
        deadline: now,
        next_heartbeat: now,
        writes: 0,
        untold: Writes::default(),
    };
    let action = |standing: &Standing, _| {
        Action::Claim(Claim {
            owner_id: poller.owner.clone(),
            nonce: nonce.clone(),
            source: poller.identity(),
            sinks: poller.sink_names(),
            ttl: poller.lease.ttl,
            evidence: AgeEvidence {
                local_now: poller.clock.now(),
                store: standing.clock,
                margin: poller.lease.margin,
            },
        })
    };
    match keeper.write(action, Rival::Yield).await {
        Ok(()) => {}
        Err(TickError::Refused(Refusal::Held { owner_id, .. })) => {
            return Ok(Claimed::Elsewhere(owner_id));
        }
        Err(TickError::Refused(Refusal::Paused)) => return Ok(Claimed::Paused),
        Err(TickError::Refused(Refusal::Failed)) => return Err(TickError::MarkedFailed),
        Err(TickError::Refused(Refusal::Fingerprint { .. })) => {
            return Err(fingerprint_changed(poller, &keeper.standing.document));
        }
        Err(TickError::Refused(Refusal::Sinks(differ))) => {
            return Err(sinks_changed(poller, differ));
        }
        Err(error) => return Err(error),
    }
    if let Some(mark) = &keeper.standing.document.holder {
        keeper.mark = mark.clone();
    }
    Ok(Claimed::Mine(Box::new(keeper)))
}

/// One conditional write without a lease. `None`: it did not happen, or nobody knows; the next tick
/// reads again.
pub(super) async fn settle(
    poller: &Poller,
    standing: Standing,
    to: Option<CursorMark>,
    late: Late,
) -> Result<Option<StateDocument>, TickError> {
    let action = Action::Settle(Settlement {
        nonce: format!("{:032x}", poller.clock.random()),
        to,
        late,
        source: poller.identity(),
        evidence: AgeEvidence {
            local_now: poller.clock.now(),
            store: standing.clock,
            margin: poller.lease.margin,
        },
    });
    let next = match apply(&standing.document, &action, poller.clock.now()) {
        Ok(Applied::Changed(next)) => *next,
        Ok(Applied::Already) | Err(Refusal::Held { .. } | Refusal::Paused) => return Ok(None),
        Err(refusal) => return Err(refusal.into()),
    };
    match swap(poller, standing.tag.as_ref(), &next).await {
        Ok(Swap::Won(_)) => Ok(Some(next)),
        Ok(Swap::Lost) | Err(StoreError::Unknown { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn swap(
    poller: &Poller,
    tag: Option<&Tag>,
    next: &StateDocument,
) -> Result<Swap, StoreError> {
    let (store, key) = (&poller.store, &poller.state_key);
    let body = next.to_bytes().into();
    let write = async {
        match tag {
            Some(tag) => store.replace(key, tag, body).await,
            None => store.create(key, body).await,
        }
    };
    answered(poller, key, write).await
}

impl<'a> Keeper<'a> {
    pub(super) fn document(&self) -> &StateDocument {
        &self.standing.document
    }

    /// Runs the body of a tick while the lease is kept for it. Returns the body's value, or why the
    /// lease was lost; `writes` is added to in both cases.
    pub(super) async fn hold<T, F>(
        mut self: Box<Self>,
        writes: &mut u64,
        body: impl FnOnce(Lease) -> F,
    ) -> Result<T, TickError>
    where
        F: Future<Output = T>,
    {
        let (requests, mut inbox) = mpsc::channel(1);
        let result = {
            let mut body = pin!(body(Lease::new(
                requests,
                self.mark.token,
                self.poller.beside.as_ref(),
                self.poller.source.shard(),
            )));
            let kept = {
                let mut keep = pin!(self.keep(&mut inbox));
                tokio::select! {
                    biased;
                    kept = &mut keep => kept.map(|()| None),
                    value = &mut body => Ok(Some(value)),
                }
            };
            match kept {
                Ok(Some(value)) => Ok(value),
                Ok(None) => Ok(body.await),
                Err(error) => Err(error),
            }
        };
        *writes += self.writes;
        result
    }

    /// Serves requests and renews the lease, until it is given back (`Ok`) or lost.
    async fn keep(&mut self, inbox: &mut mpsc::Receiver<Request>) -> Result<(), TickError> {
        loop {
            let request = tokio::select! {
                biased;
                request = inbox.recv() => request,
                () = sleep_until(self.next_heartbeat) => None,
            };
            let (step, done) = match request {
                Some(Request { step, done }) => (step, Some(done)),
                None if inbox.is_closed() => return Ok(()),
                None => (
                    Step::Heartbeat {
                        ttl: self.poller.lease.ttl,
                    },
                    None,
                ),
            };
            self.write_step(step).await?;
            if let Some(done) = done {
                // The body may have been cancelled meanwhile; then nobody listens.
                drop(done.send(self.standing.document.clone()));
            }
            if self.standing.document.lease.held.is_none() {
                return Ok(());
            }
        }
    }

    async fn write_step(&mut self, step: Step) -> Result<(), TickError> {
        let overdue = || TickError::LeaseLost {
            reason: "it could not be renewed in time".to_owned(),
        };
        if self.poller.clock.monotonic() >= self.deadline {
            return Err(overdue());
        }
        self.mark.sequence += 1;
        let mark = self.mark.clone();
        let action = move |_: &Standing, writes| Action::Hold {
            mark: mark.clone(),
            step: step.clone(),
            writes,
        };
        let deadline = self.deadline;
        match timeout_at(deadline, self.write(action, Rival::Outlast)).await {
            Err(_) => Err(overdue()),
            Ok(Err(TickError::Refused(refusal @ Refusal::LeaseLost { .. }))) => {
                Err(TickError::LeaseLost {
                    reason: refusal.to_string(),
                })
            }
            Ok(Err(TickError::Refused(Refusal::Failed))) => Err(TickError::MarkedFailed),
            Ok(result) => result,
        }
    }

    /// Applies and writes until the document shows it, it is refused, or it cannot be done.
    async fn write(
        &mut self,
        action: impl Fn(&Standing, Writes) -> Action,
        rival: Rival,
    ) -> Result<(), TickError> {
        let first_sent = self.poller.clock.monotonic();
        let mut told = Writes::default();
        let (mut races, mut troubles) = (0, 0);
        loop {
            let now = self.poller.clock.now();
            let change = action(&self.standing, self.untold);
            let next = match apply(&self.standing.document, &change, now)? {
                Applied::Changed(next) => *next,
                Applied::Already => {
                    self.written(first_sent, &told);
                    return Ok(());
                }
            };
            if matches!(change, Action::Hold { .. }) {
                told = self.untold;
            }
            let trouble = match self.swap(&next).await {
                Ok(Swap::Won(tag)) => {
                    self.standing.document = next;
                    self.standing.tag = Some(tag);
                    self.written(first_sent, &told);
                    return Ok(());
                }
                Ok(Swap::Lost) => {
                    races += 1;
                    if races == MOST_RACES {
                        return Err(TickError::Contended { tries: races });
                    }
                    self.look_for_it(None, rival).await?
                }
                Err(error @ StoreError::Unknown { .. }) => {
                    self.look_for_it(Some(error), rival).await?
                }
                Err(error) => Some(error),
            };
            match trouble {
                None => {}
                Some(error @ StoreError::Refused { .. }) => return Err(error.into()),
                // The next tick comes anyway.
                Some(error @ StoreError::Busy { .. }) if rival == Rival::Yield => {
                    return Err(error.into());
                }
                Some(StoreError::Busy { wait, .. }) => sleep(wait).await,
                Some(error) if rival == Rival::Yield && troubles == MOST_TROUBLES => {
                    return Err(error.into());
                }
                // A holder tries for as long as its lease is good: its caller keeps the deadline.
                Some(_) => {
                    sleep(LONGEST_PAUSE.min(FIRST_PAUSE * (1 << troubles.min(8)))).await;
                    troubles += 1;
                }
            }
        }
    }

    /// Finds out what became of a write. A store that cannot be read now, or that takes no writes, is a
    /// trouble, not an end.
    async fn look_for_it(
        &mut self,
        unanswered: Option<StoreError>,
        rival: Rival,
    ) -> Result<Option<StoreError>, TickError> {
        let read = match load_document(self.poller).await {
            Ok(read) => read,
            Err(TickError::Store(error)) => return Ok(Some(error)),
            Err(error) => return Err(error),
        };
        let doubt = match unanswered {
            Some(_) => Doubt::Unanswered,
            None => Doubt::Lost,
        };
        let before = self.standing.tag.as_ref();
        let found = match &read {
            None => Found::Nothing,
            Some(standing) if standing.tag.as_ref() == before => Found::Same,
            Some(standing) => Found::Other(&standing.document),
        };
        let verdict = judge(doubt, rival, &self.mark.nonce, before.is_some(), found);
        if let Some(standing) = read {
            self.standing = standing;
        }
        match verdict {
            Verdict::Derive => Ok(None),
            Verdict::Repeat => Ok(unanswered),
            Verdict::Overtaken => Err(self.overtaken()),
            Verdict::Gone => Err(TickError::DocumentGone {
                key: self.poller.state_key.to_string(),
                poller: self.poller.name.clone(),
            }),
        }
    }

    /// One conditional write.
    async fn swap(&mut self, next: &StateDocument) -> Result<Swap, StoreError> {
        self.writes += 1;
        let swapped = swap(self.poller, self.standing.tag.as_ref(), next).await;
        if !matches!(swapped, Ok(Swap::Won(_))) {
            self.untold.failed += 1;
        }
        swapped
    }

    fn overtaken(&self) -> TickError {
        match self.standing.document.status {
            Status::Active => {}
            Status::Paused => return Refusal::Paused.into(),
            Status::Failed => return Refusal::Failed.into(),
        }
        let lease = &self.standing.document.lease;
        let owner_id = match &lease.held {
            Some(held) => held.owner_id.clone(),
            None => "another instance".to_owned(),
        };
        Refusal::Held {
            owner_id,
            token: lease.token.get(),
        }
        .into()
    }

    /// `told` is in the document now; how long this write took will be with the next one.
    fn written(&mut self, sent: Instant, told: &Writes) {
        self.renewed_at(sent);
        self.untold.forget(told);
        self.untold.took.add(self.poller.clock.monotonic() - sent);
    }

    /// The lease counts from before the request was sent: the store may have applied it at once.
    fn renewed_at(&mut self, sent: Instant) {
        let lease = &self.poller.lease;
        self.deadline = sent + trusted_for(lease.ttl, lease.margin);
        self.next_heartbeat = sent + lease.heartbeat;
    }
}
