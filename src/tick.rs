//! One tick of one poller: load → anything new? → claim → deliver → commit, until nothing is left.
//!
//! Every await in here is a place to die. Rows are safe at each of them, because the checkpoint
//! moves only by a commit, a commit needs a receipt, and a receipt needs every sink's answer.

mod birth;
pub mod budget;
mod clean_up;
mod deliver;
mod keeper;
mod memory;
pub mod operate;
mod preview;
mod reading;
pub mod report;
mod settling;
mod sweeping;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::config::{Batch as BatchLimits, LeaseTimes, Start};
use crate::model::definition::{SourceDefinition, SourceIdentity};
use crate::model::envelope::Batch;
use crate::model::late::{Ordering, Sweep};
use crate::model::lease::AgeEvidence;
use crate::model::policy::{CommitPolicy, PoisonPolicy};
use crate::model::position::Position;
use crate::model::schema::SchemaChange;
use crate::model::state::{Failure, StateDocument, Status};
use crate::model::transitions::Then;
use crate::sink::Outlet;
use crate::source::Source;
use crate::store::{ObjectStore, StateStore, StoreKey};

pub use preview::Whereabouts;

use birth::{first_standing, leave_birth_marker};
use budget::Budget;
use clean_up::clean_up;
use deliver::{NotDelivered, deliver};
use keeper::{Claimed, Keeper, Lease, Standing, claim};
use memory::Memory;
use reading::load_document;
use report::{ClockSkew, LateReport, Outcome, Tally, TickError, TickReport};
use settling::{Again, Remembering, look_again, proven, settle_idle, what_to_remember};
use sweeping::{Next, Unsent, read_after, read_behind};

/// At the least, between two looks at the writers in one tick.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// For each row that another look makes the tick read once more.
const READ_AGAIN: Duration = Duration::from_micros(20);

/// A poller with everything it needs to run.
#[derive(Debug)]
pub struct Poller {
    pub name: String,
    pub fingerprint: String,
    /// What the fingerprint is made of.
    pub definition: SourceDefinition,
    pub owner: String,
    pub key_columns: Vec<String>,
    pub start: Start,
    pub ordering: Ordering,
    /// How much a replica may lack when it takes over.
    pub recovery_point: Duration,
    pub batch: BatchLimits,
    pub lease: LeaseTimes,
    pub source: Arc<dyn Source>,
    /// At least one.
    pub sinks: Vec<Outlet>,
    pub commit: CommitPolicy,
    pub poison: PoisonPolicy,
    pub store: Arc<dyn StateStore>,
    /// Beside the documents, on the same back end.
    pub objects: Arc<dyn ObjectStore>,
    pub state_key: StoreKey,
    pub birth_marker: StoreKey,
    pub clock: Arc<dyn Clock>,
}

impl Poller {
    /// The source as it is configured.
    #[must_use]
    pub fn identity(&self) -> SourceIdentity {
        SourceIdentity {
            fingerprint: self.fingerprint.clone(),
            definition: self.definition.clone(),
        }
    }
}

pub async fn tick(poller: &Poller, budget: Budget) -> TickReport {
    let started = poller.clock.monotonic();
    let mut progress = Progress::default();
    let result = run(poller, budget, &mut progress).await;
    let took = poller.clock.monotonic() - started;
    TickReport {
        poller: poller.name.clone(),
        result,
        tally: progress.tally,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        checkpoint: progress.checkpoint.map(|position| position.to_string()),
        clock_skew: progress.clock_skew,
        schema_changes: progress.schema_changes,
        late: progress.late,
        rewound: progress.rewound,
    }
}

/// What has been achieved so far; it stands however the tick ends.
#[derive(Debug, Default)]
struct Progress {
    tally: Tally,
    checkpoint: Option<Position>,
    clock_skew: Option<ClockSkew>,
    schema_changes: Vec<SchemaChange>,
    late: LateReport,
    rewound: Option<String>,
}

impl Progress {
    fn stands(&mut self, document: &StateDocument, sweep: &Sweep) {
        self.checkpoint = document.position().cloned();
        self.late = LateReport::of(document, sweep.sight());
    }

    fn committed(&mut self, document: &StateDocument, sweep: &Sweep, batch: &Batch) {
        self.tally.batches += 1;
        self.tally.rows += batch.event_ids.len() as u64;
        self.tally.bytes += batch.body.len() as u64;
        self.stands(document, sweep);
    }
}

async fn run(
    poller: &Poller,
    budget: Budget,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let standing = match load_document(poller).await? {
        Some(standing) => standing,
        None => match first_standing(poller, &budget, &mut progress.tally.writes).await? {
            Some(standing) => standing,
            None => return Ok(Outcome::Started),
        },
    };
    progress.clock_skew = ClockSkew::beyond(poller.lease.margin, standing.skew);
    progress.checkpoint = standing.document.position().cloned();
    if let Some(outcome) = reason_to_stop(poller, &standing)? {
        return Ok(outcome);
    }
    let (standing, sweep) =
        sweeping::begin(poller, standing, &budget, &mut progress.rewound).await?;
    let document = &standing.document;
    progress.stands(document, &sweep);
    let memory = Memory::load(poller, document, sweep.start()).await?;
    let first = read_behind(poller, document, &sweep, &memory, sweep.start(), &budget).await?;
    let first = match first {
        Next::Rows(first) => *first,
        Next::End { seen, held } => {
            progress.late.held(held);
            return settle_idle(poller, standing, sweep, &seen, held, &budget, progress).await;
        }
    };
    let keeper = match claim(poller, standing).await? {
        Claimed::Mine(keeper) => keeper,
        Claimed::Elsewhere(owner) => return Ok(Outcome::HeldElsewhere { owner }),
        Claimed::Paused => return Ok(Outcome::Paused),
    };
    let work = Work {
        looked: poller.clock.monotonic(),
        sweep,
        memory,
        unsent: first,
    };
    drain(poller, keeper, work, budget, progress).await
}

/// What a tick has found to do.
#[derive(Debug)]
struct Work {
    looked: Instant,
    sweep: Sweep,
    memory: Memory,
    unsent: Unsent,
}

/// Delivers and commits batch after batch, reading the next one while this one is delivered.
async fn drain(
    poller: &Poller,
    keeper: Box<Keeper<'_>>,
    mut work: Work,
    budget: Budget,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let mut document = keeper.document().clone();
    let mut marker_writes = 0;
    let mut writes = 0;
    let body = async |mut lease: Lease| {
        if document.is_newborn() {
            let marked = leave_birth_marker(poller, &mut marker_writes).await;
            or_release(&lease, marked).await?;
        }
        memory::remove_retired(poller, &mut document.late).await;
        loop {
            let Work {
                sweep,
                memory,
                unsent,
                ..
            } = &mut work;
            let batch = encode(poller, &document, unsent, &mut lease);
            let read_ahead = async {
                let next = read_after(poller, &document, sweep, memory, unsent, &budget);
                Ok(next.await)
            };
            let delivery = deliver(poller, &batch, &budget);
            let (receipt, next) = match try_join(delivery, read_ahead).await {
                Ok(both) => both,
                Err(not) => return Err(record(poller, &document, &lease, &batch, not).await),
            };
            pass(sweep, unsent, &next);
            memory.add(&unsent.page);
            let remembering = what_to_remember(poller, &document, sweep, &unsent.page).await;
            let Remembering { moved, is_full } = or_release(&lease, remembering).await?;
            let outcome = match what_next(poller, &document, &next, &budget) {
                None if is_full => Some(Outcome::Full),
                outcome => outcome,
            };
            let then = match outcome {
                None => Then::Renew {
                    ttl: poller.lease.ttl,
                },
                Some(_) => Then::Release,
            };
            let changes = changed_columns(&document, unsent);
            let seen = (Arc::clone(&unsent.schema), unsent.server.clone());
            document = lease.commit(receipt, moved, seen, then).await;
            progress.schema_changes.extend(changes);
            progress.committed(&document, sweep, &batch);
            progress.tally.left_behind += clean_up(poller, &unsent.page, &budget).await;
            work.unsent = match (outcome, next?) {
                (None, Next::Rows(next)) if document.status == Status::Active => *next,
                (None, _) => {
                    lease.release().await;
                    return Ok(Outcome::Paused);
                }
                (Some(outcome), next) => {
                    progress.late.held(next.held());
                    return Ok(outcome);
                }
            };
            if !is_worth_a_look(poller, &document, &work) {
                continue;
            }
            let again = look_again(poller, &document, &budget).await;
            match or_release(&lease, again).await? {
                Again::Work(again) => work = *again,
                Again::Nothing { sweep, held } => {
                    let (to, known) = proven(poller, &document, &sweep);
                    document = lease.settle(to, known).await;
                    progress.stands(&document, &sweep);
                    progress.late.held(held);
                    return Ok(Outcome::Drained);
                }
            }
        }
    };
    let result = keeper.hold(&mut writes, body).await;
    progress.tally.writes += writes + marker_writes;
    result?
}

/// Whoever ends a tick by an error gives the lease back first.
async fn or_release<T>(lease: &Lease, result: Result<T, TickError>) -> Result<T, TickError> {
    if result.is_err() {
        lease.release().await;
    }
    result
}

/// Whether another look at the writers may prove what this sweep cannot, about the rows that come next.
/// A tick that goes on delivering looks again in any case after a while: the more is remembered, the
/// longer, because that is read once more.
fn is_worth_a_look(poller: &Poller, document: &StateDocument, work: &Work) -> bool {
    let next = &work.unsent.seen[0];
    let remembered = u32::try_from(memory::remembered(document)).unwrap_or(u32::MAX);
    let patience = LOOK_AGAIN + READ_AGAIN * remembered;
    let waited = poller.clock.monotonic() - work.looked >= patience;
    waited && work.sweep.is_helpless(next) || work.sweep.is_exhausted(next)
}

/// A batch is delivered: it and, where nothing is left behind it, the pages up to the end are passed.
fn pass(sweep: &mut Sweep, unsent: &Unsent, next: &Result<Next, TickError>) {
    unsent.seen.iter().for_each(|seen| sweep.pass(seen));
    if let Ok(Next::End { seen, .. }) = next {
        seen.iter().for_each(|seen| sweep.pass(seen));
    }
}

/// `None`: go on with the next batch.
fn what_next(
    poller: &Poller,
    document: &StateDocument,
    next: &Result<Next, TickError>,
    budget: &Budget,
) -> Option<Outcome> {
    match next {
        Ok(Next::Rows(_)) if document.status != Status::Active => Some(Outcome::Paused),
        Ok(Next::Rows(_)) if budget.is_spent(poller.clock.monotonic()) => {
            Some(Outcome::BudgetSpent)
        }
        Ok(Next::Rows(_)) => None,
        Ok(Next::End { .. }) | Err(_) => Some(Outcome::Drained),
    }
}

/// What the document itself says about working now.
fn reason_to_stop(poller: &Poller, standing: &Standing) -> Result<Option<Outcome>, TickError> {
    let document = &standing.document;
    match document.status {
        Status::Active => {}
        Status::Paused => return Ok(Some(Outcome::Paused)),
        Status::Failed => return Err(TickError::MarkedFailed),
    }
    if document.source_fingerprint != poller.fingerprint {
        return Err(fingerprint_changed(poller, document));
    }
    let now = poller.clock.now();
    if let Some(held) = &document.lease.held
        && !held.may_be_taken(AgeEvidence {
            local_now: now,
            store: standing.clock,
            margin: poller.lease.margin,
        })
    {
        let owner = held.owner_id.clone();
        return Ok(Some(Outcome::HeldElsewhere { owner }));
    }
    let not_before = document.failure.as_ref().and_then(|f| f.not_before);
    Ok(match not_before {
        Some(until) if until > now => Some(Outcome::NotBefore { until }),
        _ => None,
    })
}

fn fingerprint_changed(poller: &Poller, document: &StateDocument) -> TickError {
    let was = document.source.as_ref();
    TickError::Fingerprint {
        poller: poller.name.clone(),
        changes: was.map_or_else(Vec::new, |was| was.differences(&poller.definition)),
    }
}

fn changed_columns(document: &StateDocument, unsent: &Unsent) -> Vec<SchemaChange> {
    match &document.schema {
        Some(known) if known.hash() != unsent.schema.hash() => known.changes_to(&unsent.schema),
        _ => Vec::new(),
    }
}

fn encode(poller: &Poller, document: &StateDocument, unsent: &Unsent, lease: &mut Lease) -> Batch {
    let first = unsent
        .page
        .events()
        .first()
        .map(|event| event.id.to_string());
    let failed_before = document
        .failure
        .as_ref()
        .filter(|failure| Some(&failure.event_id) == first.as_ref())
        .map_or(0, |failure| failure.attempts);
    Batch::assemble(
        &poller.name,
        &unsent.types,
        &unsent.page,
        lease.next_fence(),
        failed_before + 1,
    )
}

/// Writes the failure down, counted on the first event that was not acknowledged, and gives the
/// lease back.
async fn record(
    poller: &Poller,
    document: &StateDocument,
    lease: &Lease,
    batch: &Batch,
    NotDelivered { sink, failure }: NotDelivered,
) -> TickError {
    let now = poller.clock.now();
    let event_id = batch.event_ids[0].to_string();
    let before = document
        .failure
        .as_ref()
        .filter(|before| before.sink == sink && before.event_id == event_id);
    let attempts = before.map_or(0, |before| before.attempts).saturating_add(1);
    lease
        .record_failure(Failure {
            sink: sink.clone(),
            event_id,
            attempts,
            first_at: before.map_or(now, |before| before.first_at),
            last_at: now,
            not_before: failure.not_before,
            error: failure.reason.clone(),
        })
        .await;
    TickError::Delivery {
        sink,
        attempts,
        failure,
    }
}
