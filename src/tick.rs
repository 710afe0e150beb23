//! One tick of one poller: load → anything new? → claim → deliver → commit, until nothing is left.
//!
//! Every await in here is a place to die. Rows are safe at each of them, because the checkpoint
//! moves only by a commit, a commit needs a receipt, and a receipt needs every sink's answer.

pub mod audit;
mod birth;
pub mod budget;
mod catch_up;
mod clean_up;
mod deliver;
mod drain;
mod foreign;
mod hand_over;
mod keeper;
pub mod layout;
pub mod ledger;
pub mod line;
mod memory;
pub mod operate;
mod preview;
pub mod quarantine;
mod reading;
mod redeliver;
pub mod report;
mod settling;
pub mod stray;
mod sweeping;
mod trail;
mod trouble;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::error::Elapsed;
use tokio::time::timeout_at;
use tracing::Instrument;

use crate::clock::{Clock, Timestamp};
use crate::config::{Batch as BatchLimits, LeaseTimes, Start};
use crate::model::definition::{SourceDefinition, SourceIdentity};
use crate::model::envelope::Sequences;
use crate::model::late::{Ordering, Sweep};
use crate::model::lease::{AgeEvidence, FencingToken};
use crate::model::ledger::LedgerMode;
use crate::model::policy::{CommitPolicy, PoisonPolicy};
use crate::model::position::Position;
use crate::model::schema::SchemaChange;
use crate::model::sinks::SinksDiffer;
use crate::model::state::{StateDocument, Status};
use crate::sink::{Outlet, QueueSink};
use crate::source::Source;
use crate::store::{ObjectStore, StateStore, StoreError, StoreKey};
use crate::telemetry::spans;

pub use drain::MOST_UNCOMMITTED;
pub use memory::{MOST_REMEMBERED, remembered};
pub use preview::{Forecast, Stood, Whereabouts};
pub use redeliver::Redelivered;

use birth::first_standing;
use budget::Budget;
use drain::{Work, drain};
use keeper::{Claimed, Keeper, Lease, Standing, claim};
use memory::Memory;
use reading::load_document;
use report::{Behind, ClockSkew, LateReport, Outcome, Tally, TickError, TickReport};
use settling::{Passed, proven, settle_idle};
use sweeping::{Next, read_first};
use trouble::Told;

/// A poller with everything it needs to run.
#[derive(Debug)]
pub struct Poller {
    /// Of the state.
    pub name: String,
    /// The name in events: what their ids are made for, and what receivers are told.
    pub events_as: String,
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
    /// Where rows that are set aside are told of, besides the quarantine.
    pub poison_queue: Option<Arc<QueueSink>>,
    /// Whether what was delivered is written down, before it is committed.
    pub ledger: LedgerMode,
    pub store: Arc<dyn StateStore>,
    /// Beside the documents, on the same back end.
    pub objects: Arc<dyn ObjectStore>,
    pub state_key: StoreKey,
    pub birth_marker: StoreKey,
    /// It works beside a live poller, under whose name its events go out.
    pub beside: Option<Beside>,
    pub clock: Arc<dyn Clock>,
}

/// What a backfill has of the live poller. A page is read only when it is to be sent: there is nothing
/// to read ahead that might have changed by then (H3).
#[derive(Debug, Clone)]
pub struct Beside {
    /// Less than those that the live poller will use.
    pub token: FencingToken,
    pub sequences: Sequences,
}

impl Poller {
    /// As it is in the configuration; a range of a backfill has a name of its own behind it.
    #[must_use]
    pub fn configured_name(&self) -> &str {
        self.name.split('/').next().unwrap_or(&self.name)
    }

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
    let call = call.into();
    let whole = run(poller, &call, &mut progress);
    let result = match timeout_at(call.budget.end_at(), whole).await {
        Ok(result) => result,
        Err(elapsed) => Err(out_of_time(elapsed)),
    };
    let told = match &result {
        Err(error) => trouble::remember(poller, error).await,
        Ok(Outcome::Idle) if progress.in_trouble => trouble::forget(poller).await,
        Ok(_) => Told::default(),
    };
    progress.tally.writes += told.writes;
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
        caught_up: progress.caught_up,
        is_told: told.is_told,
    }
}

/// The host would kill the process, and all others in it. The lease runs out by itself.
fn out_of_time(elapsed: Elapsed) -> TickError {
    let context = "there was no answer when the time of the invocation was nearly spent; what was not committed comes again";
    StoreError::Unknown {
        context: context.to_owned(),
        cause: Box::new(elapsed),
    }
    .into()
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
    caught_up: bool,
    /// The document says that ticks fail.
    in_trouble: bool,
}

impl Progress {
    fn stands(&mut self, document: &StateDocument, sweep: &Sweep) {
        self.checkpoint = document.position().cloned();
        self.late = LateReport::of(document, sweep.sight());
        self.behind = Behind::all(document);
    }

    fn committed(
        &mut self,
        document: &StateDocument,
        sweep: &Sweep,
        batches: u64,
        rows: u64,
        bytes: u64,
    ) {
        self.tally.batches += batches;
        self.tally.rows += rows;
        self.tally.bytes += bytes;
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
    progress.in_trouble = standing.document.trouble.is_some();
    if let Some(outcome) = reason_to_stop(poller, &standing)? {
        return Ok(outcome);
    }
    let (standing, sweep) =
        sweeping::begin(poller, standing, budget, &mut progress.rewound).await?;
    let document = &standing.document;
    progress.stands(document, &sweep);
    if catch_up::comes_first(poller, document) {
        return only_catch_up(poller, standing, None, call, progress).await;
    }
    let memory = Memory::load(poller, document, sweep.start()).await?;
    let first = read_first(poller, document, &sweep, &memory, budget).await?;
    let first = match first {
        Next::Rows(first) => *first,
        Next::End { seen, held, .. } if catch_up::is_due(poller, document) => {
            progress.late.held(held);
            let mut sweep = sweep;
            seen.iter().for_each(|seen| sweep.pass(seen));
            return only_catch_up(poller, standing, Some(sweep), call, progress).await;
        }
        Next::End {
            seen,
            held,
            foreign,
        } => {
            progress.late.held(held);
            let passed = Passed {
                seen: &seen,
                held,
                foreign,
            };
            let settled = settle_idle(poller, standing, sweep, passed, budget, progress).await?;
            let now = poller.clock.monotonic();
            return Ok(foreign.outcome(settled, budget, now));
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
    let span = spans::claim();
    let claimed = claim(poller, standing).instrument(span.clone()).await;
    let claimed = claimed.inspect_err(|error| {
        span.record("outcome", error.name());
    })?;
    let claimed = match claimed {
        Claimed::Mine(keeper) => Ok(keeper),
        Claimed::Elsewhere(owner) => Err(Outcome::HeldElsewhere { owner }),
        Claimed::Paused => Err(Outcome::Paused),
    };
    span.record(
        "outcome",
        claimed.as_ref().map_or_else(Outcome::name, |_| "mine"),
    );
    Ok(claimed)
}

/// Nothing is new, or nothing new may go out before a sink has come to where the others are. `passed`:
/// what is proven meanwhile is written down with the last write.
async fn only_catch_up(
    poller: &Poller,
    standing: Standing,
    passed: Option<Sweep>,
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
        let mut document = catch_up::all(poller, call, &lease, document, progress).await;
        match passed {
            Some(sweep) => {
                let (to, known) = proven(poller, &document, &sweep);
                document = lease.settle(to, known).await;
                progress.stands(&document, &sweep);
            }
            None => lease.release().await,
        }
        progress.behind = Behind::all(&document);
        catch_up::outcome(poller, &document)
    };
    let result = keeper.hold(&mut writes, body).await;
    progress.tally.writes += writes;
    result?
}

/// What the document itself says about working now.
fn reason_to_stop(poller: &Poller, standing: &Standing) -> Result<Option<Outcome>, TickError> {
    let document = &standing.document;
    match document.status {
        Status::Active => {}
        Status::Paused => return Ok(Some(Outcome::Paused)),
        Status::Failed => {
            layout::refuse_retired(document)?;
            return Err(TickError::MarkedFailed);
        }
    }
    if let Some(refusal) = poller.refuses(document) {
        return Err(refusal);
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
