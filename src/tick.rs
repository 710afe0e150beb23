//! One tick of one poller: load → anything new? → claim → deliver → commit, until nothing is left.
//!
//! Every await in here is a place to die. Rows are safe at each of them, because the checkpoint
//! moves only by a commit, a commit needs a receipt, and a receipt needs every sink's answer.

mod birth;
pub mod budget;
mod catch_up;
mod clean_up;
mod deliver;
mod hand_over;
mod keeper;
mod memory;
pub mod operate;
mod preview;
pub mod quarantine;
mod reading;
pub mod report;
mod settling;
mod sweeping;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use tokio::time::Instant;

use crate::clock::{Clock, Timestamp};
use crate::config::{Batch as BatchLimits, LeaseTimes, Start};
use crate::model::definition::{SourceDefinition, SourceIdentity};
use crate::model::envelope::Batch;
use crate::model::late::{Ordering, Sweep};
use crate::model::lease::AgeEvidence;
use crate::model::page::Page;
use crate::model::policy::{CommitPolicy, PoisonPolicy};
use crate::model::position::Position;
use crate::model::schema::SchemaChange;
use crate::model::sinks::{self, SinksDiffer};
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::Then;
use crate::sink::Outlet;
use crate::source::Source;
use crate::store::{ObjectStore, StateStore, StoreKey};

pub use preview::Whereabouts;

use birth::{first_standing, leave_birth_marker};
use budget::Budget;
use clean_up::clean_up;
use deliver::{Delivered, NotDelivered, deliver};
use hand_over::Dispatch;
use keeper::{Claimed, Keeper, Lease, Standing, claim};
use memory::Memory;
use reading::load_document;
use report::{Behind, ClockSkew, LateReport, Outcome, Tally, TickError, TickReport};
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
    /// In the order of the configuration.
    #[must_use]
    pub fn sink_names(&self) -> Vec<String> {
        let names = self.sinks.iter().map(|outlet| outlet.sink.name());
        names.map(str::to_owned).collect()
    }

    /// The source as it is configured.
    #[must_use]
    pub fn identity(&self) -> SourceIdentity {
        SourceIdentity {
            fingerprint: self.fingerprint.clone(),
            definition: self.definition.clone(),
        }
    }
}

/// What the caller of a tick knows.
#[derive(Debug, Clone)]
pub struct Call {
    pub budget: Budget,
    /// A `traceparent` of W3C, for receivers that follow traces.
    pub trace: Option<Arc<str>>,
    /// The host repeats a tick that has failed, by a policy of its own (D10).
    pub repeated: bool,
}

impl From<Budget> for Call {
    fn from(budget: Budget) -> Self {
        Self {
            budget,
            trace: None,
            repeated: false,
        }
    }
}

pub async fn tick(poller: &Poller, call: impl Into<Call>) -> TickReport {
    let started = poller.clock.monotonic();
    let mut progress = Progress::default();
    let result = run(poller, &call.into(), &mut progress).await;
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
        behind: progress.behind,
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
    behind: Vec<Behind>,
}

impl Progress {
    fn stands(&mut self, document: &StateDocument, sweep: &Sweep) {
        self.checkpoint = document.position().cloned();
        self.late = LateReport::of(document, sweep.sight());
        self.behind = Behind::all(document);
    }

    fn committed(&mut self, document: &StateDocument, sweep: &Sweep, batch: &Batch, rows: usize) {
        self.tally.batches += 1;
        self.tally.rows += rows as u64;
        self.tally.bytes += batch.body.len() as u64;
        self.stands(document, sweep);
    }
}

async fn run(poller: &Poller, call: &Call, progress: &mut Progress) -> Result<Outcome, TickError> {
    let budget = &call.budget;
    let standing = match load_document(poller).await? {
        Some(standing) => standing,
        None => match first_standing(poller, budget, &mut progress.tally.writes).await? {
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
        sweeping::begin(poller, standing, budget, &mut progress.rewound).await?;
    let document = &standing.document;
    progress.stands(document, &sweep);
    if catch_up::comes_first(poller, document) {
        return only_catch_up(poller, standing, call, progress).await;
    }
    let memory = Memory::load(poller, document, sweep.start()).await?;
    let first = read_behind(poller, document, &sweep, &memory, sweep.start(), budget).await?;
    let first = match first {
        Next::Rows(first) => *first,
        Next::End { held, .. } if catch_up::is_due(poller, document) => {
            progress.late.held(held);
            return only_catch_up(poller, standing, call, progress).await;
        }
        Next::End { seen, held } => {
            progress.late.held(held);
            return settle_idle(poller, standing, sweep, &seen, held, budget, progress).await;
        }
    };
    let keeper = match claimed(poller, standing).await? {
        Ok(keeper) => keeper,
        Err(outcome) => return Ok(outcome),
    };
    let work = Work {
        looked: poller.clock.monotonic(),
        sweep,
        memory,
        unsent: first,
    };
    drain(poller, keeper, work, call, progress).await
}

/// The lease, or why there is nothing to do.
async fn claimed(
    poller: &Poller,
    standing: Standing,
) -> Result<Result<Box<Keeper<'_>>, Outcome>, TickError> {
    Ok(match claim(poller, standing).await? {
        Claimed::Mine(keeper) => Ok(keeper),
        Claimed::Elsewhere(owner) => Err(Outcome::HeldElsewhere { owner }),
        Claimed::Paused => Err(Outcome::Paused),
    })
}

/// Nothing is new, or nothing new may go out before a sink has come to where the others are.
async fn only_catch_up(
    poller: &Poller,
    standing: Standing,
    call: &Call,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let keeper = match claimed(poller, standing).await? {
        Ok(keeper) => keeper,
        Err(outcome) => return Ok(outcome),
    };
    let document = keeper.document().clone();
    let mut writes = 0;
    let body = async |lease: Lease| {
        let document = catch_up::all(poller, call, &lease, document, progress).await;
        lease.release().await;
        progress.behind = Behind::all(&document);
        catch_up::outcome(poller, &document)
    };
    let result = keeper.hold(&mut writes, body).await;
    progress.tally.writes += writes;
    result?
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
    call: &Call,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let budget = &call.budget;
    let mut document = keeper.document().clone();
    let mut marker_writes = 0;
    let mut writes = 0;
    let body = async |lease: Lease| {
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
            let dispatch = Dispatch::of(poller, call, &lease, &document);
            let batch = encode(dispatch, &document, unsent, call);
            let read_ahead = async {
                let next = read_after(poller, &document, sweep, memory, unsent, budget);
                Ok(next.await)
            };
            let delivery = deliver(dispatch, &document, &unsent.page, &batch);
            let (delivered, next) = match try_join(delivery, read_ahead).await {
                Ok(both) => both,
                Err(part) => {
                    let blocked = Blocked { batch, part };
                    return Err(
                        stop_at(poller, call, &document, &lease, work, blocked, progress).await,
                    );
                }
            };
            pass(sweep, unsent, &next);
            memory.add(&unsent.page);
            let events = unsent.page.events().iter();
            let remembering = what_to_remember(poller, &document, sweep, events).await;
            let Remembering { moved, is_full } = or_release(&lease, remembering).await?;
            let outcome = match what_next(poller, &document, &next, budget) {
                None if is_full => Some(Outcome::Full),
                outcome => outcome,
            };
            let also_behind = catch_up::is_due(poller, &document);
            let then = match outcome {
                Some(_) if !also_behind => Then::Release,
                _ => Then::Renew {
                    ttl: poller.lease.ttl,
                },
            };
            let changes = changed_columns(&document, unsent);
            let seen = (Arc::clone(&unsent.schema), unsent.server.clone());
            let Delivered {
                receipt,
                news,
                aside,
                ..
            } = delivered;
            let Some(receipt) = receipt else {
                unreachable!("a delivery that is not blocked has a receipt");
            };
            document = lease.commit(receipt, moved, seen, news, then).await;
            progress.schema_changes.extend(changes);
            progress.tally.quarantined += aside.len() as u64;
            progress.committed(&document, sweep, &batch, batch.len());
            if poller.source.cleans_up() && !document.is_anybody_behind() {
                let cleaned = all_but(&unsent.page, &aside);
                progress.tally.left_behind += clean_up(poller, cleaned, budget).await;
            }
            work.unsent = match (outcome, next?) {
                (None, Next::Rows(next)) if document.status == Status::Active => *next,
                (None, _) => {
                    lease.release().await;
                    return Ok(Outcome::Paused);
                }
                (Some(outcome), next) => {
                    progress.late.held(next.held());
                    if also_behind {
                        document = catch_up::all(poller, call, &lease, document, progress).await;
                        lease.release().await;
                        progress.behind = Behind::all(&document);
                    }
                    return Ok(outcome);
                }
            };
            if !is_worth_a_look(poller, &document, &work) {
                continue;
            }
            let again = look_again(poller, &document, budget).await;
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

/// A batch that did not go out whole.
struct Blocked {
    batch: Batch,
    part: Delivered,
}

/// Writes down what was delivered of a batch and what stands in the way, and gives the lease back. The
/// checkpoint stops before the first event that comes again; those behind it that were taken are
/// remembered (A5).
async fn stop_at(
    poller: &Poller,
    call: &Call,
    document: &StateDocument,
    lease: &Lease,
    work: Work,
    Blocked { batch, part }: Blocked,
    progress: &mut Progress,
) -> TickError {
    let Work {
        mut sweep, unsent, ..
    } = work;
    let Delivered {
        receipt,
        done,
        aside,
        news,
        blocked,
    } = part;
    let paused = news.gone.is_some();
    let events = || unsent.page.events().iter().zip(&done);
    let taken = || events().filter(|(_, done)| **done).map(|(event, _)| event);
    if let Some(receipt) = receipt {
        pass_part(
            &mut sweep,
            &unsent,
            events().take_while(|(_, done)| **done).count(),
        );
        let remembering = what_to_remember(poller, document, &sweep, taken()).await;
        let Remembering { moved, .. } = match or_release(lease, remembering).await {
            Ok(remembering) => remembering,
            Err(error) => return error,
        };
        let seen = (Arc::clone(&unsent.schema), unsent.server.clone());
        let document = lease
            .commit(receipt, moved, seen, news, Then::Release)
            .await;
        progress.tally.quarantined += aside.len() as u64;
        progress.committed(&document, &sweep, &batch, taken().count());
        if poller.source.cleans_up() && !document.is_anybody_behind() {
            let pending = done.iter().enumerate().filter(|(_, done)| !**done);
            let stay = pending.map(|(at, _)| at).chain(aside).collect();
            let clean = all_but(&unsent.page, &stay);
            progress.tally.left_behind += clean_up(poller, clean, &call.budget).await;
        }
    } else {
        lease.record_failure(news).await;
    }
    let Some(NotDelivered {
        sink,
        attempts,
        failure,
    }) = blocked
    else {
        unreachable!("what is blocked says by whom");
    };
    TickError::Delivery {
        poller: poller.name.clone(),
        sink,
        attempts,
        paused,
        failure,
    }
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

/// Of the page, only the first events count.
fn pass_part(sweep: &mut Sweep, unsent: &Unsent, first: usize) {
    let Some((page, before)) = unsent.seen.split_last() else {
        return;
    };
    before.iter().for_each(|seen| sweep.pass(seen));
    if first > 0 {
        let events = unsent.page.events()[..first].iter();
        let part = sweep.see_again(page, events.map(|event| &event.position));
        sweep.pass(&part);
    }
}

/// The places of a page, without those of some of its events.
fn all_but(page: &Page, aside: &BTreeSet<usize>) -> Vec<Position> {
    let events = page.events().iter().enumerate();
    events
        .filter(|(at, _)| !aside.contains(at))
        .map(|(_, event)| event.position.clone())
        .collect()
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
    sinks::compare(&document.sinks, &poller.sink_names())
        .map_err(|differ| sinks_changed(poller, differ))?;
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
    Ok(waits_until(poller, document, now).map(|until| Outcome::NotBefore { until }))
}

/// When enough sinks may be asked again; `None`: now.
fn waits_until(poller: &Poller, document: &StateDocument, now: Timestamp) -> Option<Timestamp> {
    let waits: Vec<(bool, Option<Timestamp>)> = poller
        .sinks
        .iter()
        .map(|outlet| {
            let state = document.sink(outlet.sink.name());
            (
                outlet.required,
                state.not_before().filter(|until| *until > now),
            )
        })
        .collect();
    let enough_at = |moment: Timestamp| {
        let votes = waits.iter();
        let votes =
            votes.map(|(required, until)| (*required, until.is_none_or(|until| until <= moment)));
        poller.commit.is_met(votes)
    };
    let mut moments: Vec<Timestamp> = waits.iter().filter_map(|(_, until)| *until).collect();
    moments.sort();
    match enough_at(now) {
        true => None,
        false => moments.into_iter().find(|moment| enough_at(*moment)),
    }
}

fn sinks_changed(poller: &Poller, differ: SinksDiffer) -> TickError {
    TickError::SinksChanged {
        poller: poller.name.clone(),
        differ,
    }
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

fn encode(dispatch: Dispatch<'_>, document: &StateDocument, unsent: &Unsent, call: &Call) -> Batch {
    let ids = unsent.page.events().iter().map(|event| event.id).collect();
    let failures = document.sinks.values().filter(|sink| sink.lag.is_none());
    let failed_before = failures
        .filter_map(|sink| sink.failure.as_ref())
        .filter(|failure| failure.concerns(&ids))
        .map(|failure| failure.attempts)
        .max();
    Batch::assemble(
        &dispatch.poller.name,
        &unsent.types,
        &unsent.page,
        dispatch.fences.next(),
        failed_before.unwrap_or(0) + 1,
        call.trace.clone(),
    )
}
