//! Where rows are kept that a sink never takes: `quarantine/{app}/{poller}/{sink}/{event id}`, beside
//! the state, durable before the checkpoint passes them (I13). And how they are sent again.
//!
//! A row is sent again under the lease of its poller, so that it cannot overtake a newer version of
//! itself, and only if it is still what it was. The checkpoint does not move.

use std::collections::HashSet;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use tokio::time::timeout;

use super::clean_up::clean_up;
use super::keeper::{Claimed, Lease, claim};
use super::ledger::{self, Recording};
use super::memory::tried;
use super::report::{Outcome, TickError};
use super::{Poller, reason_to_stop};
use crate::clock::Timestamp;
use crate::model::ledger::{LedgerMode, Mark};
use crate::model::page::{EventId, PageWriter};
use crate::model::position::Position;
use crate::model::quarantine::Case;
use crate::model::state::StateDocument;
use crate::model::transitions::{Operator, Order};
use crate::sink::{DeliveryFailure, FailureKind, QueueSink, Verdict};
use crate::store::StoreKey;
use crate::tick::budget::Budget;
use crate::tick::operate::{OperateError, Otherwise};
use crate::tick::reading::{load_document, refuse_another_source};

/// Beside a case: the row has a newer version, so this one is not sent any more.
const SUPERSEDED: &str = ".superseded";
const LONGEST_DELIVERY: Duration = Duration::from_secs(300);
/// To tell how old the oldest is.
const MOST_LOOKED_AT: usize = 64;
const READ_AT_ONCE: usize = 16;

/// A row in quarantine.
#[derive(Debug, Clone)]
pub struct Kept {
    pub case: Case,
    /// A newer version of the row was found when it was to be sent again.
    pub superseded: bool,
    key: StoreKey,
}

/// What is in quarantine.
#[derive(Debug, Default)]
pub struct Kepts {
    /// The oldest first.
    pub rows: Vec<Kept>,
    /// Objects that are no quarantined rows, and why; they are left as they are.
    pub unreadable: Vec<(StoreKey, String)>,
}

/// What lies there, unread.
struct Names {
    /// In the order of their names.
    cases: Vec<StoreKey>,
    /// The markers beside them.
    superseded: HashSet<StoreKey>,
}

/// How much is in quarantine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SetAside {
    pub rows: u64,
    /// When the oldest came, of those that were looked at.
    pub oldest: Option<Timestamp>,
    /// Of those that were looked at, the ones that are no quarantined rows.
    pub unreadable: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Redrive {
    /// Send the version that was kept, whatever the row is now.
    pub as_is: bool,
    /// With ids that the receiver has not seen.
    pub new_ids: bool,
}

/// What became of a row that was to be sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redriven {
    /// It is no longer in quarantine.
    Delivered,
    /// The row has changed since, or is gone: its newer version comes, or has come, by itself.
    Superseded,
    /// It stays.
    Failed(String),
}

#[derive(Debug, thiserror::Error)]
pub enum RedriveError {
    #[error("{owner} is at work on this poller; try again in a moment")]
    Held { owner: String },
    #[error("{poller} is paused, and so are its quarantined rows: `dbtick resume {poller}` first")]
    Paused { poller: String },
    #[error(transparent)]
    Tick(#[from] TickError),
    #[error(transparent)]
    Operate(#[from] OperateError),
}

/// Why a row is not set aside yet.
#[derive(Debug)]
pub(super) enum NotKept {
    Store(TickError),
    /// The quarantine has it, but nobody was told.
    Untold(DeliveryFailure),
}

impl NotKept {
    pub(super) fn story(&self) -> String {
        match self {
            Self::Store(error) => error.story(),
            Self::Untold(failure) => {
                format!("the poison queue does not take the notice: {failure}")
            }
        }
    }
}

impl<E: Into<TickError>> From<E> for NotKept {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

/// An equal case that is there already is as good: a crash may have come before the commit.
pub(super) async fn keep(poller: &Poller, case: &Case) -> Result<(), NotKept> {
    let key = key(poller, &case.sink, &case.event_id)?;
    let body = Bytes::from(case.to_bytes());
    tried(poller, &key, || poller.objects.put(&key, body.clone())).await?;
    if let Some(queue) = &poller.poison_queue {
        tell(queue, case).await?;
    }
    tracing::warn!(
        poller = %poller.name,
        sink = %case.sink,
        event_id = %case.event_id,
        "a row is set aside, because {} does not take it: `dbtick quarantine show {} {}`",
        case.sink,
        poller.configured_name(),
        case.event_id,
    );
    Ok(())
}

/// Whether a sink's quarantine has this very event.
pub(super) async fn is_kept(poller: &Poller, sink: &str, id: EventId) -> Result<bool, TickError> {
    let key = key(poller, sink, &id.to_string())?;
    let found = tried(poller, &key, || poller.objects.get(&key)).await?;
    Ok(found.is_some_and(|body| Case::from_bytes(&body).is_ok()))
}

/// Whoever listens is told before the checkpoint passes the row; perhaps twice, never not at all.
async fn tell(queue: &QueueSink, case: &Case) -> Result<(), NotKept> {
    let mut told = queue.post(case.notice(true)).await;
    if matches!(&told, Err(failure) if failure.kind == FailureKind::TooLarge) {
        told = queue.post(case.notice(false)).await;
    }
    told.map_err(NotKept::Untold)
}

impl Poller {
    pub async fn quarantined(&self) -> Result<Kepts, TickError> {
        let there = self.in_quarantine().await?;
        self.kepts(&there.cases, &there.superseded).await
    }

    /// The first of them by name, and how many there are.
    pub async fn some_quarantined(&self, most: usize) -> Result<(Kepts, usize), TickError> {
        let there = self.in_quarantine().await?;
        let some = &there.cases[..most.min(there.cases.len())];
        let kepts = self.kepts(some, &there.superseded).await?;
        Ok((kepts, there.cases.len()))
    }

    /// Of one event; the others are not read.
    pub async fn quarantined_event(&self, event_id: &str) -> Result<Kepts, TickError> {
        let mut there = self.in_quarantine().await?;
        there.cases.retain(|key| is_of(key, event_id));
        self.kepts(&there.cases, &there.superseded).await
    }

    async fn in_quarantine(&self) -> Result<Names, TickError> {
        let names = self.objects.names(&self.state_key.quarantine()).await?;
        let is_marker = |key: &StoreKey| key.as_str().ends_with(SUPERSEDED);
        let (superseded, cases): (Vec<_>, Vec<_>) = names.into_iter().partition(is_marker);
        Ok(Names {
            cases,
            superseded: superseded.into_iter().collect(),
        })
    }

    async fn kepts(
        &self,
        keys: &[StoreKey],
        superseded: &HashSet<StoreKey>,
    ) -> Result<Kepts, TickError> {
        // Gathered first: a stream of closures over references cannot be sent to another thread.
        let read: Vec<_> = keys
            .iter()
            .map(|key| tried(self, key, || self.objects.get(key)))
            .collect();
        let bodies: Vec<Option<Bytes>> = stream::iter(read)
            .buffered(READ_AT_ONCE)
            .try_collect()
            .await?;
        let mut kepts = Kepts::default();
        for (key, body) in keys.iter().zip(bodies) {
            // It may have been sent again or discarded meanwhile.
            let Some(body) = body else { continue };
            match Case::from_bytes(&body) {
                Ok(case) => kepts.rows.push(Kept {
                    superseded: superseded.contains(&marker(key)?),
                    key: key.clone(),
                    case,
                }),
                Err(error) => kepts.unreadable.push((key.clone(), error.to_string())),
            }
        }
        kepts.rows.sort_by_key(|kept| kept.case.quarantined_at);
        Ok(kepts)
    }

    /// How much there is, without reading more than some of it.
    pub async fn set_aside(&self) -> Result<SetAside, TickError> {
        let there = self.in_quarantine().await?;
        // What has a newer version waits for nobody.
        let mut cases = Vec::new();
        for key in &there.cases {
            if !there.superseded.contains(&marker(key)?) {
                cases.push(key);
            }
        }
        let some = cases.iter().take(MOST_LOOKED_AT);
        // Gathered first: a stream of closures over references cannot be sent to another thread.
        let read: Vec<_> = some
            .copied()
            .map(|key| tried(self, key, || self.objects.get(key)))
            .collect();
        let bodies: Vec<Option<Bytes>> = stream::iter(read)
            .buffer_unordered(READ_AT_ONCE)
            .try_collect()
            .await?;
        let read = bodies.iter().flatten().map(|body| Case::from_bytes(body));
        let (good, bad): (Vec<_>, Vec<_>) = read.partition(Result::is_ok);
        let times = good.iter().flatten().map(|case| case.quarantined_at);
        Ok(SetAside {
            rows: cases.len() as u64,
            oldest: times.min(),
            unreadable: bad.len() as u64,
        })
    }

    /// Removes rows for good; who did it and why is in the audit trail before they are gone (F3).
    pub async fn discard(&self, rows: &[Kept], by: &Operator) -> Result<(), RedriveError> {
        self.note(by, format!("discard {}", named(rows.iter())))
            .await?;
        for kept in rows {
            self.remove(kept).await?;
        }
        Ok(())
    }

    /// Sends rows again, each to the sink that did not take it; in the order of the source, so that of
    /// two versions of one row the newer comes last.
    pub async fn redrive(
        &self,
        rows: &[Kept],
        how: Redrive,
        by: &Operator,
        budget: &Budget,
    ) -> Result<Vec<Redriven>, RedriveError> {
        let Some(standing) = load_document(self).await? else {
            let poller = self.name.clone();
            return Err(OperateError::NotBegun { poller }.into());
        };
        let paused = || RedriveError::Paused {
            poller: self.name.clone(),
        };
        // What a sink asked to wait for is no reason here: a person wants to know now.
        match reason_to_stop(self, &standing)? {
            Some(Outcome::HeldElsewhere { owner }) => {
                return Err(RedriveError::Held { owner });
            }
            Some(Outcome::Paused) => return Err(paused()),
            _ => {}
        }
        let keeper = match claim(self, standing).await? {
            Claimed::Mine(keeper) => keeper,
            Claimed::Elsewhere(owner) => return Err(RedriveError::Held { owner }),
            Claimed::Paused => return Err(paused()),
        };
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|at| rows[*at].case.position().ok());
        let mut results = vec![Redriven::Failed("it was not tried".to_owned()); rows.len()];
        let document = keeper.document().clone();
        let body = async |lease: Lease| {
            for at in order {
                let sent = self.send_again(&rows[at], how, (&lease, &document), budget);
                match sent.await {
                    Ok(result) => results[at] = result,
                    Err(error) => {
                        results[at] = Redriven::Failed(error.story());
                        break;
                    }
                }
            }
            self.write_down(rows.iter().zip(&results), &document, &lease)
                .await;
            lease.release().await;
        };
        let held = keeper.hold(&mut 0, body).await;
        let done = rows.iter().zip(&results);
        let delivered = done.filter(|(_, result)| **result == Redriven::Delivered);
        let delivered: Vec<&Kept> = delivered.map(|(kept, _)| kept).collect();
        if !delivered.is_empty() {
            let what = format!("redrive {}", named(delivered.into_iter()));
            self.note(by, what).await?;
        }
        held?;
        Ok(results)
    }

    /// For the ledger; a row that cannot be written down stays recorded as set aside.
    async fn write_down(
        &self,
        results: impl Iterator<Item = (&Kept, &Redriven)>,
        document: &StateDocument,
        lease: &Lease,
    ) {
        let mut recording = Recording::of(self);
        for (kept, _) in results.filter(|(_, result)| **result == Redriven::Delivered) {
            if let Some(id) = kept.case.id() {
                recording.mark(&kept.case.sink, id, Mark::Taken);
            }
        }
        if self.ledger == LedgerMode::Off || recording.is_empty() {
            return;
        }
        match ledger::put(self, document, None, recording).await {
            Ok(ledger) => drop(lease.record(ledger, self.lease.ttl).await),
            Err(error) => tracing::warn!(
                poller = %self.name,
                "what was sent again is not in the ledger: {}",
                error.story()
            ),
        }
    }

    async fn send_again(
        &self,
        kept: &Kept,
        how: Redrive,
        (lease, document): (&Lease, &StateDocument),
        budget: &Budget,
    ) -> Result<Redriven, TickError> {
        let case = &kept.case;
        let failed = |reason: String| Ok(Redriven::Failed(reason));
        let sink = self
            .sinks
            .iter()
            .find(|outlet| outlet.sink.name() == case.sink);
        let Some(outlet) = sink else {
            let sink = &case.sink;
            return failed(format!("the poller has no receiver {sink:?} any more"));
        };
        let Ok(position) = case.position() else {
            return failed("its place in the source cannot be read".to_owned());
        };
        if !how.as_is {
            let writer = PageWriter::new(&self.events_as, 2, usize::MAX);
            let found = self.source.find(&position, writer).await?;
            refuse_another_source(self, document, &found)?;
            let same = found
                .page
                .events()
                .iter()
                .any(|event| Some(event.id) == case.id());
            // Messages of an outbox do not change; one that is gone was cleaned up.
            let cleaned_up = found.page.is_empty() && self.source.cleans_up();
            if !same && !cleaned_up {
                let key = marker(&kept.key)?;
                let body = Bytes::from_static(b"{}");
                tried(self, &key, || self.objects.put(&key, body.clone())).await?;
                return Ok(Redriven::Superseded);
            }
        }
        let salt = how.new_ids.then(|| self.clock.random());
        let Some(batch) = case.batch(lease.fences().next(), salt) else {
            return failed("its event cannot be read".to_owned());
        };
        let sent = timeout(LONGEST_DELIVERY, outlet.sink.deliver(&batch)).await;
        match sent {
            Ok(Verdict::Acknowledged) => {
                self.remove(kept).await?;
                if self.source.cleans_up() && self.is_done_with(&position, case).await? {
                    clean_up(self, vec![position], budget).await;
                }
                Ok(Redriven::Delivered)
            }
            Ok(Verdict::Partly(named)) => {
                failed(named.into_iter().map(|event| event.reason).collect())
            }
            Ok(Verdict::Failed(failure)) if failure.kind == FailureKind::TooLarge => {
                failed(format!("{failure}; it cannot be halved"))
            }
            Ok(Verdict::Failed(failure)) => failed(failure.reason),
            Err(_) => failed("no answer in time".to_owned()),
        }
    }

    /// Nobody else needs the row: the checkpoint has passed it, no sink is behind, and no other sink has
    /// it in quarantine.
    async fn is_done_with(&self, position: &Position, case: &Case) -> Result<bool, TickError> {
        let Some(standing) = load_document(self).await? else {
            return Ok(false);
        };
        let document = standing.document;
        if document.is_anybody_behind() || Some(position) > document.position() {
            return Ok(false);
        }
        let others = self.in_quarantine().await?.cases;
        Ok(!others.iter().any(|key| is_of(key, &case.event_id)))
    }

    /// The marker goes last: without its case it means nothing.
    async fn remove(&self, kept: &Kept) -> Result<(), TickError> {
        tried(self, &kept.key, || self.objects.remove(&kept.key)).await?;
        let marker = marker(&kept.key)?;
        if kept.superseded {
            tried(self, &marker, || self.objects.remove(&marker)).await?;
        }
        Ok(())
    }

    async fn note(&self, by: &Operator, what: String) -> Result<(), OperateError> {
        let order = |_| Order::Note { what: what.clone() };
        self.operate(by, Otherwise::Refuse, order).await.map(|_| ())
    }
}

/// For the audit trail.
fn named<'a>(rows: impl ExactSizeIterator<Item = &'a Kept>) -> String {
    const MOST: usize = 5;
    let count = rows.len();
    let ids: Vec<&str> = rows
        .take(MOST)
        .map(|kept| kept.case.event_id.as_str())
        .collect();
    let more = if count > MOST { ", …" } else { "" };
    format!("{count} quarantined row(s): {}{more}", ids.join(", "))
}

fn is_of(key: &StoreKey, event_id: &str) -> bool {
    let name = key.as_str().rsplit('/').next();
    name == Some(event_id)
}

fn marker(key: &StoreKey) -> Result<StoreKey, TickError> {
    legal(format!("{key}{SUPERSEDED}"))
}

fn key(poller: &Poller, sink: &str, event_id: &str) -> Result<StoreKey, TickError> {
    let prefix = poller.state_key.quarantine();
    legal(format!("{prefix}{sink}/{event_id}"))
}

fn legal(path: String) -> Result<StoreKey, TickError> {
    StoreKey::new(path).map_err(|error| TickError::Bug {
        what: error.to_string(),
    })
}
