//! Running a backfill: a task for each range, ticks until nothing is left, then the reconciliation.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::plan::{Plan, PlanError, Report, Status};
use super::reconcile::{accounts, audit};
use crate::model::late::Ordering as RowOrder;
use crate::model::ledger::LedgerMode;
use crate::model::state::{AuditEntry, CursorMark, StateDocument, Status as PollerStatus};
use crate::model::transitions::{Operator, Order};
use crate::source::Source;
use crate::source::bounded::{Bounded, Pace, Skip};
use crate::stop::{Stop, StopSwitch, channel};
use crate::store::StoreKey;
use crate::store::key::KeyError;
use crate::tick::audit::{Accounts, Audit};
use crate::tick::budget::Budget;
use crate::tick::operate::{Found, OperateError, Otherwise};
use crate::tick::report::{Outcome, TickError};
use crate::tick::{Beside, Poller, tick};

/// After each the live poller's token is looked at again, and progress is told.
const STEP: Duration = Duration::from_secs(2);
const BREATH: Duration = Duration::from_secs(1);
const LONGEST_BREATH: Duration = Duration::from_secs(5);
/// Times that rows which are missing are sent, in one run.
const MOST_ROUNDS: u32 = 3;
/// A batch of a backfill, unless told; the limit in bytes is the poller's.
const LARGE_BATCH: usize = 5000;
/// Beyond every number that a live poller comes to under one token.
const FIRST_SEQUENCE: u64 = 1 << 32;

/// How a person wants it.
#[derive(Debug, Clone, Copy)]
pub struct Wishes {
    /// Rows a second, over all ranges.
    pub rate: Option<f64>,
    pub batch_rows: Option<NonZeroUsize>,
    /// Without any progress.
    pub give_up_after: Duration,
}

/// How it ended, if not by trouble.
#[derive(Debug)]
pub enum Ended {
    Complete(Plan),
    /// Somebody wished to stop; the same command goes on.
    Stopped(Plan),
    /// Everything was tried, and rows are missing.
    Incomplete(Plan),
}

#[derive(Debug, thiserror::Error)]
pub enum Stuck {
    #[error("{}", .0.story())]
    Tick(#[from] TickError),
    #[error(transparent)]
    Operate(#[from] OperateError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("no progress for {}: {why}", humane(*after))]
    GaveUp { after: Duration, why: String },
    #[error(
        "the segment {segment} of its ledger is gone, so that nobody can say what was delivered: begin another backfill by --name"
    )]
    LedgerGone { segment: String },
    #[error("range {0} has stopped by a fault in this program")]
    Broken(String),
}

impl From<KeyError> for Stuck {
    fn from(error: KeyError) -> Self {
        Self::Plan(error.into())
    }
}

/// What others may look at while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    done: AtomicU64,
    before: AtomicU64,
    notes: Mutex<BTreeMap<usize, String>>,
    reconciling: AtomicU64,
}

impl Progress {
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Rows that were committed.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed).min(self.total())
    }

    /// Rows that were committed when this process began.
    #[must_use]
    pub fn before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }

    #[must_use]
    pub fn is_reconciling(&self) -> bool {
        self.reconciling.load(Ordering::Relaxed) > 0
    }

    /// Why ranges wait.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        let (range, note) = notes.first_key_value()?;
        Some(format!("range {range}: {note}"))
    }

    fn says(&self, range: usize, note: Option<String>) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        match note {
            Some(note) => notes.insert(range, note),
            None => notes.remove(&range),
        };
    }
}

#[derive(Debug)]
pub struct Backfill {
    shared: Arc<Shared>,
    plan: Plan,
    ranges: Vec<Range>,
    switch: Arc<StopSwitch>,
}

/// What all ranges have in common.
#[derive(Debug)]
struct Shared {
    live: Poller,
    sequence: Arc<AtomicU64>,
    pace: Arc<Pace>,
    give_up_after: Duration,
    stop: Stop,
    progress: Arc<Progress>,
}

#[derive(Debug)]
struct Range {
    number: usize,
    poller: Poller,
    inner: Arc<dyn Source>,
    planned: super::Range,
}

#[derive(Debug, PartialEq, Eq)]
enum Pass {
    Done,
    Stopped,
}

impl Backfill {
    /// `pollers`: the live one once more for each range, to be made into that range.
    pub fn new(
        live: Poller,
        pollers: Vec<Poller>,
        plan: Plan,
        wishes: Wishes,
    ) -> Result<Self, Stuck> {
        let (switch, stop) = channel();
        let clock = Arc::clone(&live.clock);
        let shared = Shared {
            live,
            sequence: Arc::new(AtomicU64::new(FIRST_SEQUENCE)),
            pace: Arc::new(Pace::new(wishes.rate, clock)),
            give_up_after: wishes.give_up_after,
            stop,
            progress: Arc::default(),
        };
        shared.progress.total.store(plan.rows(), Ordering::Relaxed);
        let mut ranges = Vec::new();
        for (at, (poller, planned)) in pollers.into_iter().zip(&plan.ranges).enumerate() {
            ranges.push(Range::new(at + 1, poller, &plan, planned, &shared, wishes)?);
        }
        Ok(Self {
            shared: Arc::new(shared),
            plan,
            ranges,
            switch: Arc::new(switch),
        })
    }

    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.shared.progress)
    }

    /// Batches in flight are finished first.
    #[must_use]
    pub fn stop_switch(&self) -> Arc<StopSwitch> {
        Arc::clone(&self.switch)
    }

    pub async fn run(mut self, by: &Operator) -> Result<Ended, Stuck> {
        for range in &self.ranges {
            let done = range.begin(by).await?.min(range.planned.rows);
            self.shared.progress.done.fetch_add(done, Ordering::Relaxed);
            self.shared
                .progress
                .before
                .fetch_add(done, Ordering::Relaxed);
        }
        if self.plan.round > 0 {
            for range in &mut self.ranges {
                let known = accounts(&range.poller).await?;
                range.leave_out(&self.shared, Some(Arc::new(known)))?;
            }
        }
        for round in 0.. {
            if self.pass().await? == Pass::Stopped {
                return Ok(Ended::Stopped(self.plan));
            }
            let last = round == MOST_ROUNDS;
            let lacking = self.reconcile(last).await?;
            if self.plan.status == Status::Complete {
                return Ok(Ended::Complete(self.plan));
            }
            if last {
                return Ok(Ended::Incomplete(self.plan));
            }
            for (at, known) in lacking {
                let range = &mut self.ranges[at];
                range.leave_out(&self.shared, Some(known))?;
                range.go_back(by).await?;
            }
        }
        Ok(Ended::Incomplete(self.plan))
    }

    /// Every range to its end.
    async fn pass(&mut self) -> Result<Pass, Stuck> {
        let mut tasks = JoinSet::new();
        for mut range in std::mem::take(&mut self.ranges) {
            let shared = Arc::clone(&self.shared);
            tasks.spawn(async move {
                let result = range.run(&shared).await;
                (range, result)
            });
        }
        let mut pass = Ok(Pass::Done);
        while let Some(joined) = tasks.join_next().await {
            let (range, result) = joined.map_err(|error| Stuck::Broken(error.to_string()))?;
            self.ranges.push(range);
            if result.is_err() {
                self.switch.raise();
            }
            match (&pass, result) {
                (Ok(_), Err(error)) => pass = Err(error),
                (Ok(_), Ok(Pass::Stopped)) => pass = Ok(Pass::Stopped),
                _ => {}
            }
        }
        self.ranges.sort_by_key(|range| range.number);
        pass
    }

    /// Writes the report into the plan. Returns the ranges that lack rows, with what they have.
    async fn reconcile(&mut self, last: bool) -> Result<Vec<(usize, Arc<Accounts>)>, Stuck> {
        let progress = &self.shared.progress;
        progress.reconciling.store(1, Ordering::Relaxed);
        let live = &self.shared.live;
        let mut total = Audit::default();
        let mut lacking = Vec::new();
        for (at, range) in self.ranges.iter().enumerate() {
            let (found, known) = audit(live, &range.poller, &range.planned).await?;
            if found.missing > 0 {
                lacking.push((at, known));
            }
            total.add(found);
        }
        let report = Report {
            total: total.total,
            delivered: total.delivered,
            quarantined: total.quarantined,
            missing: total.missing,
            rounds: self.plan.round + 1,
            started_at: self.plan.started_at,
            reconciled_at: live.clock.now(),
        };
        let before = self.plan.clone();
        self.plan = Plan::update(live, &before.name, |plan| {
            // Another process may have gone on meanwhile; what it says is newer.
            if !plan.is_at(&before) {
                return false;
            }
            plan.report = Some(report);
            match report.missing {
                0 => plan.status = Status::Complete,
                _ if last => {}
                _ => plan.round += 1,
            }
            true
        })
        .await?;
        progress.reconciling.store(0, Ordering::Relaxed);
        Ok(lacking)
    }
}

impl Range {
    fn new(
        number: usize,
        mut poller: Poller,
        plan: &Plan,
        planned: &super::Range,
        shared: &Shared,
        wishes: Wishes,
    ) -> Result<Self, Stuck> {
        let prefix = poller.state_key.backfills();
        let place = format!("{prefix}{}/range-{number:02}", plan.name);
        poller.name = format!("{}/{}/{number:02}", poller.name, plan.name);
        poller.state_key = StoreKey::new(format!("{place}.json"))?;
        poller.birth_marker = StoreKey::new(format!("{place}.born"))?;
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
        };
        range.leave_out(shared, None)?;
        Ok(range)
    }

    /// What is known to every receiver is not sent again.
    fn leave_out(&mut self, shared: &Shared, known: Option<Arc<Accounts>>) -> Result<(), Stuck> {
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
    async fn begin(&self, by: &Operator) -> Result<u64, Stuck> {
        let poller = &self.poller;
        if let Found::Document(document) = poller.found().await? {
            // It has paused by itself; whoever gives the command again wants it to go on.
            if document.status == PollerStatus::Paused {
                let order = |_| Order::Resume;
                poller
                    .operate(&self.order(by, "resume"), Otherwise::Refuse, order)
                    .await?;
            }
            return Ok(document.counters.rows);
        }
        let mut document = StateDocument::first(&poller.name, &poller.fingerprint, self.start()?);
        document.source = Some(poller.definition.clone());
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
    async fn go_back(&self, by: &Operator) -> Result<(), Stuck> {
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

    async fn run(&mut self, shared: &Shared) -> Result<Pass, Stuck> {
        let clock = Arc::clone(&self.poller.clock);
        let mut moved = clock.monotonic();
        let mut quiet = false;
        loop {
            if shared.stop.is_raised() {
                return Ok(Pass::Stopped);
            }
            self.poller.beside = Some(shared.beside().await?);
            let budget = Budget::step(clock.monotonic(), STEP).or_until(shared.stop.clone());
            let report = tick(&self.poller, budget).await;
            let rows = report.tally.rows;
            shared.progress.done.fetch_add(rows, Ordering::Relaxed);
            if rows > 0 {
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
                    let breath = if rows == 0 { BREATH } else { Duration::ZERO };
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

impl Shared {
    /// Less than what the live poller sends next, and more than what it has sent before: rows are read
    /// after this.
    async fn beside(&self) -> Result<Beside, Stuck> {
        let token = match self.live.found().await? {
            Found::Document(document) => match &document.lease.held {
                // It may be sending under this token.
                Some(_) => document.lease.token.before(),
                None => document.lease.token,
            },
            Found::Nothing { .. } | Found::Refused { .. } => Default::default(),
        };
        Ok(Beside {
            token,
            sequence: Arc::clone(&self.sequence),
        })
    }

    fn refuse_to_wait(&self, moved: Instant, note: Option<String>) -> Result<(), Stuck> {
        let waited = self.live.clock.monotonic() - moved;
        match waited >= self.give_up_after {
            true => Err(Stuck::GaveUp {
                after: self.give_up_after,
                why: note.unwrap_or_else(|| "nothing was committed".to_owned()),
            }),
            false => Ok(()),
        }
    }

    async fn wait(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.stop.clone().raised() => {}
            () = sleep(pause) => {}
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

fn humane(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}
