//! What a held lease lets the body of a tick ask for. The keeper answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tracing::Instrument;

use crate::model::counters::Cost;
use crate::model::envelope::Fence;
use crate::model::late::Late;
use crate::model::lease::FencingToken;
use crate::model::ledger::Ledger;
use crate::model::page::EventId;
use crate::model::position::Position;
use crate::model::schema::Schema;
use crate::model::shard::Shard;
use crate::model::sinks::News;
use crate::model::state::{CursorMark, StateDocument};
use crate::model::transitions::{Advance, CatchUp, Step, Then};
use crate::telemetry::spans;
use crate::tick::Beside;

/// A held lease. Whoever has it may ask for commits; nobody else can.
#[derive(Debug)]
pub(in crate::tick) struct Lease {
    requests: mpsc::Sender<Request>,
    fences: Fences,
}

/// Identify attempts to receivers, under one token.
#[derive(Debug)]
pub(in crate::tick) struct Fences {
    token: FencingToken,
    sequence: AtomicU64,
    step: u64,
    shard: Option<Shard>,
}

impl Fences {
    /// Greater than every one before.
    pub(in crate::tick) fn next(&self) -> Fence {
        Fence {
            token: self.token,
            sequence: self.sequence.fetch_add(self.step, Ordering::Relaxed) + self.step,
            shard: self.shard,
        }
    }
}

/// Proof that as many sinks as it takes have acknowledged a batch, or that what they never take is kept
/// aside; only `deliver` makes one.
#[derive(Debug)]
pub(in crate::tick) struct Receipt {
    batch_id: String,
    batches: u64,
    rows: u64,
    cost: Cost,
}

/// How far the checkpoint goes with a batch, and what is remembered above it.
#[derive(Debug)]
pub(in crate::tick) struct Moved {
    pub(in crate::tick) to: Option<CursorMark>,
    pub(in crate::tick) delivered: BTreeMap<EventId, Position>,
    pub(in crate::tick) late: Late,
    /// `delivered` and what was remembered before are in the segments of `late`.
    pub(in crate::tick) shelved: bool,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) step: Step,
    /// Gets the document as it was written; an operator may have paused it meanwhile.
    pub(super) done: oneshot::Sender<StateDocument>,
}

impl Receipt {
    pub(in crate::tick) fn new(batch_id: String, rows: u64, cost: Cost) -> Self {
        Self {
            batch_id,
            batches: 1,
            rows,
            cost,
        }
    }

    /// With that of a later batch.
    pub(in crate::tick) fn and(self, later: Self) -> Self {
        Self {
            batch_id: later.batch_id,
            batches: self.batches + later.batches,
            rows: self.rows + later.rows,
            cost: self.cost.and(later.cost),
        }
    }

    /// What it cost to read the batch, which its delivery does not know.
    pub(in crate::tick) fn was_read_in(self, read: Duration) -> Self {
        let cost = Cost { read, ..self.cost };
        Self { cost, ..self }
    }

    pub(in crate::tick) fn batch_id(&self) -> &str {
        &self.batch_id
    }

    pub(in crate::tick) fn batches(&self) -> u64 {
        self.batches
    }

    pub(in crate::tick) fn rows(&self) -> u64 {
        self.rows
    }

    pub(in crate::tick) fn bytes(&self) -> u64 {
        self.cost.bytes
    }
}

impl Lease {
    pub(super) fn new(
        requests: mpsc::Sender<Request>,
        token: FencingToken,
        beside: Option<&Beside>,
        shard: Option<Shard>,
    ) -> Self {
        let fences = match beside {
            Some(Beside {
                token: live,
                sequences,
            }) => Fences {
                token: *live,
                sequence: sequences.before(token).into(),
                step: sequences.step(),
                shard,
            },
            None => Fences {
                token,
                sequence: AtomicU64::new(0),
                step: 1,
                shard,
            },
        };
        Self { requests, fences }
    }

    pub(in crate::tick) fn fences(&self) -> &Fences {
        &self.fences
    }

    /// The acknowledgement itself (A2): the checkpoint moves as far as is proven, the rest of the
    /// batch is remembered, and the lease is renewed or given back in the same write.
    pub(in crate::tick) async fn commit(
        &self,
        receipt: Receipt,
        moved: Moved,
        (schema, server): (Arc<Schema>, Option<Arc<str>>),
        news: News,
        ledger: Option<Ledger>,
        then: Then,
    ) -> StateDocument {
        let Moved {
            to,
            delivered,
            late,
            shelved,
        } = moved;
        let advance = Advance {
            to,
            delivered,
            batch_id: receipt.batch_id,
            batches: receipt.batches,
            rows: receipt.rows,
            cost: receipt.cost,
            schema: Some(schema),
            server,
            late: Some(late),
            shelved,
            news,
            ledger,
        };
        let span = spans::commit(advance.rows);
        let advance = Box::new(advance);
        let request = self.request(Step::Commit { advance, then });
        let document = request.instrument(span.clone()).await;
        span.record("outcome", "done");
        document
    }

    /// Nothing was delivered, but more is proven; gives the lease back.
    pub(in crate::tick) async fn settle(
        &self,
        to: Option<CursorMark>,
        late: Late,
    ) -> StateDocument {
        self.request(Step::Settle { to, late }).await
    }

    pub(in crate::tick) async fn record_failure(
        &self,
        news: News,
        late: Option<Late>,
        then: Then,
    ) -> StateDocument {
        self.request(Step::RecordFailure { news, late, then }).await
    }

    /// A sink that is behind has come closer; the lease is kept.
    pub(in crate::tick) async fn catch_up(&self, step: CatchUp) -> StateDocument {
        self.request(Step::CatchUp(step)).await
    }

    /// Rows that the checkpoint had passed were sent again; the lease is kept.
    pub(in crate::tick) async fn record(&self, ledger: Ledger, ttl: Duration) -> StateDocument {
        self.request(Step::Record { ledger, ttl }).await
    }

    pub(in crate::tick) async fn release(&self) {
        self.request(Step::Release).await;
    }

    /// When the lease is lost the keeper ends and drops this future's owner; until then it waits.
    async fn request(&self, step: Step) -> StateDocument {
        let (done, answer) = oneshot::channel();
        if self.requests.send(Request { step, done }).await.is_ok()
            && let Ok(document) = answer.await
        {
            return document;
        }
        std::future::pending().await
    }
}
