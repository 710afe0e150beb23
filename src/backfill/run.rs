//! Running a backfill: a task for each range, ticks until nothing is left, then the reconciliation.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::plan::{Plan, PlanError, Report, Status};
use super::progress::Progress;
use super::range::{Pass, Range};
use super::reconcile::{accounts, audit};
use crate::model::envelope::Sequences;
use crate::model::transitions::Operator;
use crate::source::bounded::Pace;
use crate::stop::{Stop, StopSwitch, channel};
use crate::store::key::KeyError;
use crate::tick::audit::{Accounts, Audit};
use crate::tick::operate::{Found, OperateError};
use crate::tick::report::TickError;
use crate::tick::{Beside, Poller};

/// Times that rows which are missing are sent, in one run.
const MOST_ROUNDS: u32 = 3;

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
    #[error("it was given up by somebody; say --name for another one")]
    Abandoned,
    #[error("the state of {0} is gone or cannot be read; see `dbtick status {0}`")]
    NoPoller(String),
    #[error("range {0} has stopped by a fault in this program")]
    Broken(String),
}

impl From<KeyError> for Stuck {
    fn from(error: KeyError) -> Self {
        Self::Plan(error.into())
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
pub(super) struct Shared {
    live: Poller,
    /// Of the backfill.
    name: String,
    pub(super) pace: Arc<Pace>,
    pub(super) give_up_after: Duration,
    pub(super) stop: Stop,
    pub(super) progress: Arc<Progress>,
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
            name: plan.name.clone(),
            live,
            pace: Arc::new(Pace::new(wishes.rate, Arc::clone(&clock))),
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
        let Found::Document(live) = self.shared.live.found().await? else {
            return Err(Stuck::NoPoller(self.shared.live.name.clone()));
        };
        for range in &self.ranges {
            let done = range.begin(by, &live).await?.min(range.planned.rows);
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
            // It only reads until its last write.
            let stopped = self.shared.stop.clone().raised();
            let lacking = tokio::select! {
                biased;
                lacking = self.reconcile(last) => lacking?,
                () = stopped => return Ok(Ended::Stopped(self.plan)),
            };
            match self.plan.status {
                Status::Complete => return Ok(Ended::Complete(self.plan)),
                Status::Abandoned => return Err(Stuck::Abandoned),
                Status::Running => {}
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
            // Another process may have gone on meanwhile, or somebody has given it up.
            if !plan.is_at(&before) || plan.status != Status::Running {
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

impl Shared {
    /// Less than what the live poller sends next, and more than what it has sent before: rows are read
    /// after this.
    pub(super) async fn beside(&self, sequences: Sequences) -> Result<Beside, Stuck> {
        let plan = Plan::load(&self.live, &self.name).await?;
        if plan.is_none_or(|plan| plan.status == Status::Abandoned) {
            return Err(Stuck::Abandoned);
        }
        let token = match self.live.found().await? {
            Found::Document(document) => match &document.lease.held {
                // It may be sending under this token.
                Some(_) => document.lease.token.before(),
                None => document.lease.token,
            },
            // Without its token nobody could tell which of two versions is newer.
            Found::Nothing { .. } | Found::Refused { .. } => {
                return Err(Stuck::NoPoller(self.live.name.clone()));
            }
        };
        Ok(Beside { token, sequences })
    }

    pub(super) fn refuse_to_wait(&self, moved: Instant, note: Option<String>) -> Result<(), Stuck> {
        let waited = self.live.clock.monotonic() - moved;
        match waited >= self.give_up_after {
            true => Err(Stuck::GaveUp {
                after: self.give_up_after,
                why: note.unwrap_or_else(|| "nothing was committed".to_owned()),
            }),
            false => Ok(()),
        }
    }

    pub(super) async fn wait(&self, pause: Duration) {
        tokio::select! {
            biased;
            () = self.stop.clone().raised() => {}
            () = sleep(pause) => {}
        }
    }
}

fn humane(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 120 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    }
}
