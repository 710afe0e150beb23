//! One tick of one poller: load → anything new? → claim → deliver → commit, until nothing is left.
//!
//! Every await in here is a place to die. Rows are safe at each of them, because the checkpoint
//! moves only by a commit, a commit needs a receipt, and a receipt needs every sink's answer.

pub mod budget;
mod deliver;
mod keeper;
pub mod report;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join;
use tokio::time::sleep;

use crate::clock::Clock;
use crate::config::{Batch as BatchLimits, LeaseTimes, Start};
use crate::model::envelope::Batch;
use crate::model::page::{Page, PageWriter};
use crate::model::position::Position;
use crate::model::state::{CursorMark, Failure, StateDocument, Status};
use crate::model::transitions::Then;
use crate::sink::Sink;
use crate::source::{ReadPage, Shape, Source, SourceError};
use crate::store::{StateStore, StoreError, StoreKey, Swap};

use budget::Budget;
use deliver::{NotDelivered, deliver};
use keeper::{Claimed, Keeper, Lease, Standing, claim};
use report::{Outcome, Tally, TickError, TickReport};

/// Tries against a database or a store that cannot be reached, before the tick fails (D9).
const MOST_TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// A poller with everything it needs to run.
#[derive(Debug)]
pub struct Poller {
    pub name: String,
    pub fingerprint: String,
    pub owner: String,
    pub key_columns: Vec<String>,
    pub start: Start,
    pub batch: BatchLimits,
    pub lease: LeaseTimes,
    pub source: Arc<dyn Source>,
    pub sinks: Vec<Arc<dyn Sink>>,
    pub store: Arc<dyn StateStore>,
    pub state_key: StoreKey,
    pub birth_marker: StoreKey,
    pub clock: Arc<dyn Clock>,
}

/// Rows to deliver next, and the position that is safe to commit once they are.
#[derive(Debug)]
struct Unsent {
    page: Page,
    up_to: Position,
    end: bool,
    shape: Arc<Shape>,
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
    }
}

/// What has been achieved so far; it stands however the tick ends.
#[derive(Debug, Default)]
struct Progress {
    tally: Tally,
    checkpoint: Option<Position>,
}

async fn run(
    poller: &Poller,
    budget: Budget,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let standing = match load_document(poller).await? {
        Some(standing) => standing,
        None => match first_run(poller, &mut progress.tally.writes).await? {
            FirstRun::Begin(standing) => standing,
            FirstRun::Started => return Ok(Outcome::Started),
        },
    };
    progress.checkpoint = standing.document.position().cloned();
    if let Some(outcome) = reason_to_stop(poller, &standing)? {
        return Ok(outcome);
    }
    let Some(first) = read_unsent(poller, &standing.document, standing.document.position()).await?
    else {
        return Ok(Outcome::Idle);
    };
    let keeper = match claim(poller, standing).await? {
        Claimed::Mine(keeper) => keeper,
        Claimed::Elsewhere(owner) => return Ok(Outcome::HeldElsewhere { owner }),
        Claimed::Paused => return Ok(Outcome::Paused),
    };
    drain(poller, keeper, first, budget, progress).await
}

/// Delivers and commits batch after batch, reading the next one while this one is delivered.
async fn drain(
    poller: &Poller,
    keeper: Box<Keeper<'_>>,
    first: Unsent,
    budget: Budget,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let mut document = keeper.document().clone();
    let mut writes = 0;
    let Progress { tally, checkpoint } = progress;
    let body = async |mut lease: Lease| {
        if document.is_newborn()
            && let Err(error) = leave_birth_marker(poller).await
        {
            lease.release().await;
            return Err(error);
        }
        let mut unsent = first;
        loop {
            let batch = encode(poller, &document, &unsent, &mut lease);
            let (delivered, next) = join(
                deliver(poller, &batch, &budget),
                read_after(poller, &document, &unsent),
            )
            .await;
            let receipt = match delivered {
                Ok(receipt) => receipt,
                Err(not) => return Err(record(poller, &document, &lease, &batch, not).await),
            };
            let outcome = what_next(poller, &document, &next, &budget);
            let then = match outcome {
                None => Then::Renew {
                    ttl: poller.lease.ttl,
                },
                Some(_) => Then::Release,
            };
            document = lease.commit(receipt, mark(poller, &unsent), then).await;
            tally.batches += 1;
            tally.rows += batch.event_ids.len() as u64;
            tally.bytes += batch.body.len() as u64;
            *checkpoint = document.position().cloned();
            match (outcome, next?) {
                (None, Some(next)) if document.status == Status::Active => unsent = next,
                (None, _) => {
                    lease.release().await;
                    return Ok(Outcome::Paused);
                }
                (Some(outcome), _) => return Ok(outcome),
            }
        }
    };
    let result = keeper.hold(&mut writes, body).await;
    progress.tally.writes += writes;
    result?
}

/// `None`: go on with the next batch.
fn what_next(
    poller: &Poller,
    document: &StateDocument,
    next: &Result<Option<Unsent>, TickError>,
    budget: &Budget,
) -> Option<Outcome> {
    match next {
        Ok(Some(_)) if document.status != Status::Active => Some(Outcome::Paused),
        Ok(Some(_)) if budget.is_spent(poller.clock.monotonic()) => Some(Outcome::BudgetSpent),
        Ok(Some(_)) => None,
        Ok(None) | Err(_) => Some(Outcome::Drained),
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
        let (stored, configured) = (&document.source_fingerprint, &poller.fingerprint);
        return Err(TickError::Fingerprint(
            crate::model::transitions::Refusal::Fingerprint {
                stored: stored.clone(),
                configured: configured.clone(),
            },
        ));
    }
    let now = poller.clock.now();
    if let Some(held) = &document.lease.held
        && !held.may_be_taken(crate::model::lease::AgeEvidence {
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
        &unsent.shape.columns,
        &unsent.page,
        lease.next_fence(),
        failed_before + 1,
    )
}

fn mark(poller: &Poller, unsent: &Unsent) -> CursorMark {
    CursorMark {
        kind: unsent.shape.cursor_kind,
        position: unsent.up_to.clone(),
        key_columns: poller.key_columns.clone(),
    }
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

async fn read_after(
    poller: &Poller,
    document: &StateDocument,
    unsent: &Unsent,
) -> Result<Option<Unsent>, TickError> {
    if unsent.end {
        return Ok(None);
    }
    read_unsent(poller, document, Some(&unsent.up_to)).await
}

/// The next rows that were not delivered already; `None` at the end of what is visible.
async fn read_unsent(
    poller: &Poller,
    document: &StateDocument,
    after: Option<&Position>,
) -> Result<Option<Unsent>, TickError> {
    let mut after = after.cloned();
    loop {
        let ReadPage { page, end, shape } = read(poller, after.as_ref()).await?;
        let Some(up_to) = page.last_position().cloned() else {
            return Ok(None);
        };
        let page = page.without(|id| document.delivered.contains_key(id));
        if !page.is_empty() {
            return Ok(Some(Unsent {
                page,
                up_to,
                end,
                shape,
            }));
        }
        if end {
            return Ok(None);
        }
        after = Some(up_to);
    }
}

async fn read(poller: &Poller, after: Option<&Position>) -> Result<ReadPage, SourceError> {
    let BatchLimits {
        max_rows,
        max_bytes,
        max_wait,
    } = poller.batch;
    let mut tries = 0;
    loop {
        let writer = PageWriter::new(&poller.name, max_rows.get(), max_bytes.get());
        match poller.source.read(after, writer, max_wait).await {
            Err(SourceError::Unreachable { .. }) if tries + 1 < MOST_TRIES => {
                sleep(pause(poller, tries)).await;
                tries += 1;
            }
            result => return result,
        }
    }
}

/// The document as it stands, or `None` where there is none.
async fn load_document(poller: &Poller) -> Result<Option<Standing>, TickError> {
    let Some(loaded) = load(poller, &poller.state_key).await? else {
        return Ok(None);
    };
    let document = StateDocument::from_bytes(&loaded.body, &poller.name, &poller.key_columns)
        .map_err(|source| TickError::Document {
            key: poller.state_key.to_string(),
            source,
        })?;
    Ok(Some(Standing {
        document,
        tag: Some(loaded.tag),
        clock: loaded.clock,
    }))
}

async fn load(poller: &Poller, key: &StoreKey) -> Result<Option<crate::store::Loaded>, StoreError> {
    let mut tries = 0;
    loop {
        match poller.store.load(key).await {
            Err(StoreError::Unreachable { .. } | StoreError::Unknown { .. })
                if tries + 1 < MOST_TRIES =>
            {
                sleep(pause(poller, tries)).await;
                tries += 1;
            }
            result => return result,
        }
    }
}

enum FirstRun {
    Begin(Standing),
    Started,
}

/// A missing document is a first run only if nothing was ever committed here.
async fn first_run(poller: &Poller, writes: &mut u64) -> Result<FirstRun, TickError> {
    if load(poller, &poller.birth_marker).await?.is_some() {
        return Err(TickError::DocumentGone {
            key: poller.state_key.to_string(),
        });
    }
    let first = |start| StateDocument::first(&poller.name, &poller.fingerprint, start);
    match poller.start {
        Start::Beginning => Ok(FirstRun::Begin(Standing {
            document: first(None),
            tag: None,
            clock: None,
        })),
        Start::Now => {
            // Written down before anything else: "now" must not move with every tick.
            let start = poller
                .source
                .last()
                .await?
                .map(|(position, shape)| CursorMark {
                    kind: shape.cursor_kind,
                    position,
                    key_columns: poller.key_columns.clone(),
                });
            *writes += 2;
            let body = first(start).to_bytes().into();
            // Whoever else was faster has written down a "now" of its own, which is as good.
            match poller.store.create(&poller.state_key, body).await? {
                Swap::Won(_) | Swap::Lost => {}
            }
            leave_birth_marker(poller).await?;
            Ok(FirstRun::Started)
        }
    }
}

/// Left before the first delivery, so that a document deleted later is not taken for a first run.
/// The document comes first: a crash between the two leaves a poller that simply begins.
async fn leave_birth_marker(poller: &Poller) -> Result<(), TickError> {
    let mut tries = 0;
    loop {
        let created = poller.store.create(&poller.birth_marker, "{}".into()).await;
        match created {
            Ok(Swap::Won(_) | Swap::Lost) => return Ok(()),
            Err(StoreError::Unreachable { .. } | StoreError::Unknown { .. })
                if tries + 1 < MOST_TRIES =>
            {
                sleep(pause(poller, tries)).await;
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Doubles, with up to half of it taken off at random.
fn pause(poller: &Poller, tries: u32) -> Duration {
    let jitter = u32::try_from(poller.clock.random() % 500).unwrap_or(0);
    FIRST_PAUSE * (1 << tries) * (1000 - jitter) / 1000
}
