//! Rows that the ledger does not have are sent again, under the lease of their poller and as they are now, and
//! written down. The checkpoint does not move.
//!
//! There may be many of them, and their poller has work of its own: the lease is given back every few seconds,
//! for as long as it was held.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::audit::Missing;
use super::keeper::{Claimed, Lease, claim};
use super::ledger::{self, Recording};
use super::quarantine::RedriveError;
use super::reading::{load_document, refuse_another_source};
use super::report::{Outcome, TickError};
use super::{Poller, reason_to_stop};
use crate::model::envelope::Batch;
use crate::model::ledger::Mark;
use crate::model::page::{Page, PageWriter};
use crate::model::state::StateDocument;
use crate::model::transitions::{Operator, Order};
use crate::sink::{FailureKind, Outlet, Verdict};
use crate::source::Types;
use crate::tick::operate::{OperateError, Otherwise};

const LONGEST_DELIVERY: Duration = Duration::from_secs(300);
/// No batch is begun after the lease was held for so long.
const TURN: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// For a lease that somebody else holds, once something was sent.
const PATIENCE: Duration = Duration::from_secs(120);
const BREATH: Duration = Duration::from_secs(1);
/// In a row, and by no fault of a row: the sink gets no more.
const MOST_FAILURES: u32 = 3;

/// What became of rows that were missing; a row counts once for each sink that lacked it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redelivered {
    pub delivered: u64,
    /// They are not at their place any more: a newer version comes, or has come, by itself.
    pub gone: u64,
    pub failed: u64,
    /// Not tried: who asks again goes on with them.
    pub left: u64,
    /// What the first sink that failed has said, or why some were not tried.
    pub reason: Option<String>,
}

/// What one sink lacks.
struct Errand<'a> {
    outlet: &'a Outlet,
    rows: Vec<&'a Missing>,
    /// The first that was not tried.
    next: usize,
    failures: u32,
}

/// What is at the first of some places just now.
struct Found {
    /// So many of the places were looked at.
    looked: usize,
    gone: u64,
    rows: Option<(Page, Types)>,
}

struct Sent {
    delivered: u64,
    refused: Vec<String>,
    /// Other rows would not have been taken either.
    is_in_vain: bool,
    recording: Recording,
}

impl Errand<'_> {
    fn rest(&self) -> &[&Missing] {
        self.rows.get(self.next..).unwrap_or_default()
    }

    fn is_over(&self) -> bool {
        self.rest().is_empty() || self.failures >= MOST_FAILURES
    }
}

impl Poller {
    /// An error leaves what was sent before it in the ledger: who asks again goes on behind that.
    pub async fn redeliver(
        &self,
        rows: &[Missing],
        by: &Operator,
    ) -> Result<Redelivered, RedriveError> {
        let errand = |outlet| Errand {
            outlet,
            rows: lacked(outlet, rows),
            next: 0,
            failures: 0,
        };
        let mut errands: Vec<Errand<'_>> = self.sinks.iter().map(errand).collect();
        let mut outcome = Redelivered::default();
        let mut had_a_turn = false;
        let mut waiting_since = None;
        let ended = loop {
            let began = self.clock.monotonic();
            match self.have_a_turn(&mut errands, &mut outcome).await {
                Ok(()) if errands.iter().all(Errand::is_over) => break Ok(()),
                Ok(()) => {
                    (had_a_turn, waiting_since) = (true, None);
                    sleep((self.clock.monotonic() - began).min(LONGEST_PAUSE)).await;
                }
                Err(RedriveError::Held { .. })
                    if had_a_turn && began - *waiting_since.get_or_insert(began) < PATIENCE =>
                {
                    sleep(BREATH).await;
                }
                Err(error @ (RedriveError::Held { .. } | RedriveError::Paused { .. })) => {
                    if !had_a_turn {
                        return Err(error);
                    }
                    outcome.reason.get_or_insert_with(|| error.to_string());
                    break Ok(());
                }
                Err(error) => break Err(error),
            }
        };
        let left = errands.iter().map(|errand| errand.rest().len() as u64);
        outcome.left = left.sum();
        if outcome.delivered + outcome.failed + outcome.gone == 0 {
            return ended.map(|()| outcome);
        }
        let what = format!(
            "redeliver {} row(s) that the ledger lacked",
            outcome.delivered
        );
        let order = |_| Order::Note { what: what.clone() };
        let noted = self.operate(by, Otherwise::Refuse, order).await;
        ended?;
        noted?;
        Ok(outcome)
    }

    /// Under the lease, for a while.
    async fn have_a_turn(
        &self,
        errands: &mut [Errand<'_>],
        outcome: &mut Redelivered,
    ) -> Result<(), RedriveError> {
        let poller = self.name.clone();
        let Some(standing) = load_document(self).await? else {
            return Err(OperateError::NotBegun { poller }.into());
        };
        match reason_to_stop(self, &standing)? {
            Some(Outcome::HeldElsewhere { owner }) => return Err(RedriveError::Held { owner }),
            Some(Outcome::Paused) => return Err(RedriveError::Paused { poller }),
            _ => {}
        }
        let keeper = match claim(self, standing).await? {
            Claimed::Mine(keeper) => keeper,
            Claimed::Elsewhere(owner) => return Err(RedriveError::Held { owner }),
            Claimed::Paused => return Err(RedriveError::Paused { poller }),
        };
        let mut document = keeper.document().clone();
        let body = async |lease: Lease| {
            let result = self
                .send_missing(errands, &lease, &mut document, outcome)
                .await;
            lease.release().await;
            result
        };
        keeper.hold(&mut 0, body).await??;
        Ok(())
    }

    async fn send_missing(
        &self,
        errands: &mut [Errand<'_>],
        lease: &Lease,
        document: &mut StateDocument,
        outcome: &mut Redelivered,
    ) -> Result<(), TickError> {
        let until = self.clock.monotonic() + TURN;
        for errand in errands {
            while !errand.is_over() {
                if self.clock.monotonic() >= until {
                    return Ok(());
                }
                let found = self.read_now(errand.rest(), document).await?;
                if let Some((page, types)) = &found.rows {
                    let sent = self.send_page(errand.outlet, page, types, lease).await;
                    if !sent.recording.is_empty() {
                        let ledger = ledger::put(self, document, None, sent.recording).await?;
                        *document = lease.record(ledger, self.lease.ttl).await;
                    }
                    errand.failures = match sent.is_in_vain {
                        true => errand.failures + 1,
                        false => 0,
                    };
                    outcome.delivered += sent.delivered;
                    outcome.failed += sent.refused.len() as u64;
                    let reason = sent.refused.into_iter().next();
                    outcome.reason = outcome.reason.take().or(reason);
                }
                outcome.gone += found.gone;
                errand.next += found.looked;
            }
        }
        Ok(())
    }

    /// As many as are a batch.
    async fn read_now(
        &self,
        rows: &[&Missing],
        document: &StateDocument,
    ) -> Result<Found, TickError> {
        let (max_rows, max_bytes) = (self.batch.max_rows.get(), self.batch.max_bytes.get());
        let mut found = Found {
            looked: 0,
            gone: 0,
            rows: None,
        };
        for row in rows.iter().take(max_rows) {
            let writer = PageWriter::new(&self.events_as, 2, usize::MAX);
            let read = self.source.find(&row.position, writer).await?;
            refuse_another_source(self, document, &read)?;
            if read.page.is_empty() {
                found.gone += 1;
            } else {
                match &mut found.rows {
                    Some((page, _)) => {
                        if page.append(read.page, usize::MAX, max_bytes).is_err() {
                            break;
                        }
                    }
                    None => found.rows = Some((read.page, read.types)),
                }
            }
            found.looked += 1;
        }
        Ok(found)
    }

    async fn send_page(&self, outlet: &Outlet, page: &Page, types: &Types, lease: &Lease) -> Sent {
        let fence = lease.fences().next();
        let batch = Batch::assemble(&self.events_as, types, page, fence, 1, None);
        let sent = timeout(LONGEST_DELIVERY, outlet.sink.deliver(&batch)).await;
        let is_in_vain = match &sent {
            Ok(Verdict::Acknowledged | Verdict::Partly(_)) => false,
            Ok(Verdict::Failed(failure)) => matches!(
                failure.kind,
                FailureKind::Passing | FailureKind::Gone | FailureKind::Refused
            ),
            Err(_) => true,
        };
        let refused: BTreeMap<_, _> = match sent {
            Ok(Verdict::Acknowledged) => BTreeMap::new(),
            Ok(Verdict::Partly(named)) => named.into_iter().map(|it| (it.id, it.reason)).collect(),
            Ok(Verdict::Failed(failure)) => {
                let all = batch.event_ids.iter();
                all.map(|id| (*id, failure.to_string())).collect()
            }
            Err(_) => {
                let all = batch.event_ids.iter();
                all.map(|id| (*id, "no answer in time".to_owned()))
                    .collect()
            }
        };
        let mut sent = Sent {
            delivered: 0,
            refused: Vec::new(),
            is_in_vain,
            recording: Recording::of(self),
        };
        for id in &batch.event_ids {
            match refused.get(id) {
                None => {
                    sent.delivered += 1;
                    sent.recording.mark(outlet.sink.name(), *id, Mark::Taken);
                }
                Some(reason) => sent.refused.push(reason.clone()),
            }
        }
        sent
    }
}

fn lacked<'a>(outlet: &Outlet, rows: &'a [Missing]) -> Vec<&'a Missing> {
    let name = outlet.sink.name();
    let lacks = |row: &&Missing| row.sinks.iter().any(|sink| sink == name);
    rows.iter().filter(lacks).collect()
}
