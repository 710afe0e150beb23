//! One range of a backfill: the live poller with a state, a lease and an upper end of its own, and ticks
//! until nothing is left.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::plan::{Plan, PlanError};
use super::run::{Shared, Stuck, Wishes};
use crate::model::envelope::Sequences;
use crate::model::late::Ordering as RowOrder;
use crate::model::ledger::LedgerMode;
use crate::model::state::{AuditEntry, CursorMark, StateDocument, Status};
use crate::model::transitions::{Operator, Order};
use crate::source::Source;
use crate::source::bounded::{Bounded, Skip};
use crate::store::StoreKey;
use crate::store::key::KeyError;
use crate::tick::audit::Accounts;
use crate::tick::budget::Budget;
use crate::tick::operate::{Found, OperateError, Otherwise};
use crate::tick::report::{Outcome, TickError};
use crate::tick::{Poller, tick};

/// After each the live poller's token is looked at again, and progress is told.
const STEP: Duration = Duration::from_secs(2);
const BREATH: Duration = Duration::from_secs(1);
const LONGEST_BREATH: Duration = Duration::from_secs(5);
/// A batch of a backfill, unless told; the limit in bytes is the poller's.
const LARGE_BATCH: usize = 5000;

#[derive(Debug)]
pub(super) struct Range {
    pub(super) number: usize,
    pub(super) poller: Poller,
    inner: Arc<dyn Source>,
    pub(super) planned: super::Range,
    sequences: Sequences,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Done,
    Stopped,
}

/// The poller whose document is that of a range, to be looked at.
pub fn range_of(mut poller: Poller, backfill: &str, number: usize) -> Result<Poller, KeyError> {
    let prefix = poller.state_key.backfills();
    let place = format!("{prefix}{backfill}/range-{number:02}");
    poller.name = format!("{}/{backfill}/{number:02}", poller.name);
    poller.state_key = StoreKey::new(format!("{place}.json"))?;
    poller.birth_marker = StoreKey::new(format!("{place}.born"))?;
    Ok(poller)
}

impl Range {
    pub(super) fn new(
        number: usize,
        mut poller: Poller,
        plan: &Plan,
        planned: &super::Range,
        shared: &Shared,
        wishes: Wishes,
    ) -> Result<Self, Stuck> {
        poller = range_of(poller, &plan.name, number)?;
        poller.ordering = RowOrder::Visible;
        poller.ledger = LedgerMode::Full;
        let large = NonZeroUsize::new(LARGE_BATCH).unwrap_or(NonZeroUsize::MIN);
        let rows = wishes
            .batch_rows
            .unwrap_or_else(|| large.max(poller.batch.max_rows));
        // So that a batch does not wait for longer than a second.
        let most = wishes
            .rate
            .map_or(usize::MAX, |rate| rate.max(1.0) as usize);
        poller.batch.max_rows = rows.min(NonZeroUsize::new(most).unwrap_or(NonZeroUsize::MIN));
        let mut range = Self {
            number,
            inner: Arc::clone(&poller.source),
            poller,
            planned: planned.clone(),
            sequences: Sequences::of_range(number, plan.ranges.len(), plan.started_at),
        };
        range.leave_out(shared, None)?;
        Ok(range)
    }

    /// What is known to every receiver is not sent again.
    pub(super) fn leave_out(
        &mut self,
        shared: &Shared,
        known: Option<Arc<Accounts>>,
    ) -> Result<(), Stuck> {
        let sinks = self.poller.sink_names();
        let skip = known.map(|known| -> Skip {
            Arc::new(move |id| sinks.iter().all(|sink| known.of(sink, id).is_some()))
        });
        self.poller.source = Arc::new(Bounded {
            inner: Arc::clone(&self.inner),
            up_to: self.planned.up_to().map_err(PlanError::from)?,
            pace: Arc::clone(&shared.pace),
            skip,
        });
        Ok(())
    }

    fn start(&self) -> Result<Option<CursorMark>, Stuck> {
        let after = self.planned.after().map_err(PlanError::from)?;
        Ok(after.map(|after| CursorMark::new(after, &self.poller.key_columns)))
    }

    /// Makes its document, or goes on with it; how many rows it has committed.
    /// `live`: the document of the poller, whose server is the one that is meant (B9).
    pub(super) async fn begin(&self, by: &Operator, live: &StateDocument) -> Result<u64, Stuck> {
        let poller = &self.poller;
        if let Found::Document(document) = poller.found().await? {
            // It has paused by itself; whoever gives the command again wants it to go on.
            if document.status == Status::Paused {
                let order = |_| Order::Resume;
                poller
                    .operate(&self.order(by, "resume"), Otherwise::Refuse, order)
                    .await?;
            }
            return Ok(document.counters.rows);
        }
        let mut document = StateDocument::first(&poller.name, &poller.fingerprint, self.start()?);
        document.source = Some(poller.definition.clone());
        document.server.clone_from(&live.server);
        document.schema.clone_from(&live.schema);
        document.audit.push(AuditEntry {
            at: poller.clock.now(),
            who: by.who.clone(),
            what: "backfill".to_owned(),
            why: by.why.clone(),
            id: Some(self.order(by, "begin").id),
        });
        // Another process may have been faster.
        poller.begin_with(&document).await?;
        Ok(0)
    }

    fn order(&self, by: &Operator, what: &str) -> Operator {
        Operator {
            id: format!(
                "{}-{what}-{}-{:x}",
                by.id,
                self.number,
                self.poller.clock.random()
            ),
            ..by.clone()
        }
    }

    /// To its beginning, for the rows that it lacks.
    pub(super) async fn go_back(&self, by: &Operator) -> Result<(), Stuck> {
        let to = self.start()?;
        let order = |evidence| Order::Reset {
            to: to.clone(),
            source: self.poller.identity(),
            evidence,
        };
        let by = self.order(by, "back");
        match self.poller.operate(&by, Otherwise::Refuse, order).await {
            // Another process is at it.
            Ok(_) | Err(OperateError::Held { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn run(&mut self, shared: &Shared) -> Result<Pass, Stuck> {
        let clock = Arc::clone(&self.poller.clock);
        let mut moved = clock.monotonic();
        let mut quiet = false;
        loop {
            if shared.stop.is_raised() {
                return Ok(Pass::Stopped);
            }
            self.poller.beside = Some(shared.beside(self.sequences).await?);
            let budget = Budget::step(clock.monotonic(), STEP).or_until(shared.stop.clone());
            let report = tick(&self.poller, budget).await;
            let rows = report.tally.rows;
            shared.progress.done.fetch_add(rows, Ordering::Relaxed);
            let is_moving = rows > 0 || report.caught_up;
            if is_moving {
                moved = clock.monotonic();
            }
            let (note, pause) = match report.result {
                // The first idle tick might have looked at a document that another process has just changed.
                Ok(Outcome::Idle | Outcome::Settled) if report.behind.is_empty() => {
                    shared.progress.says(self.number, None);
                    if quiet {
                        return Ok(Pass::Done);
                    }
                    quiet = true;
                    continue;
                }
                Ok(Outcome::Idle | Outcome::Settled | Outcome::CaughtUp) => {
                    let behind = report.behind.first().map(|it| it.sink.clone());
                    let waits = behind.map(|sink| format!("{sink} is behind"));
                    let breath = if is_moving { Duration::ZERO } else { BREATH };
                    (waits, breath)
                }
                Ok(Outcome::HeldElsewhere { owner }) => {
                    // Either it makes progress, or its lease runs out.
                    moved = clock.monotonic();
                    (Some(format!("{owner} holds its lease")), BREATH)
                }
                Ok(Outcome::NotBefore { until }) => {
                    let wait = (until - clock.now()).to_std().unwrap_or_default();
                    let note = format!(
                        "its receiver is left alone until {}",
                        until.format("%H:%M:%S")
                    );
                    (Some(note), wait.clamp(BREATH, LONGEST_BREATH))
                }
                Ok(Outcome::Paused) => {
                    return Err(Stuck::GaveUp {
                        after: shared.give_up_after,
                        why: "its receiver is gone".to_owned(),
                    });
                }
                Ok(_) => (None, Duration::ZERO),
                Err(error) if is_final(&error) => return Err(error.into()),
                Err(error) => (Some(error.story()), BREATH),
            };
            quiet = false;
            shared.progress.says(self.number, note.clone());
            shared.refuse_to_wait(moved, note)?;
            shared.wait(pause).await;
        }
    }
}

/// Nothing that passes by itself.
fn is_final(error: &TickError) -> bool {
    match error {
        TickError::Delivery { paused, .. } => *paused,
        TickError::LeaseLost { .. }
        | TickError::Source(_)
        | TickError::Store(_)
        | TickError::Contended { .. } => false,
        _ => true,
    }
}
