//! Rows that the ledger does not have are sent again, under the lease of their poller and as they are now, and
//! written down. The checkpoint does not move.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::timeout;

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
use crate::sink::{Outlet, Verdict};
use crate::source::Types;
use crate::tick::operate::{OperateError, Otherwise};

const LONGEST_DELIVERY: Duration = Duration::from_secs(300);

/// What became of rows that were missing; a row counts once for each sink that lacked it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Redelivered {
    pub delivered: u64,
    /// They are not at their place any more: a newer version comes, or has come, by itself.
    pub gone: u64,
    pub failed: u64,
    /// What the first sink that failed has said.
    pub reason: Option<String>,
}

impl Poller {
    pub async fn redeliver(
        &self,
        rows: &[Missing],
        by: &Operator,
    ) -> Result<Redelivered, RedriveError> {
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
        let mut outcome = Redelivered::default();
        let body = async |lease: Lease| {
            let result = self
                .send_missing(rows, &lease, &mut document, &mut outcome)
                .await;
            lease.release().await;
            result
        };
        let held = keeper.hold(&mut 0, body).await;
        let what = format!(
            "redeliver {} row(s) that the ledger lacked",
            outcome.delivered
        );
        let order = |_| Order::Note { what: what.clone() };
        self.operate(by, Otherwise::Refuse, order).await?;
        held??;
        Ok(outcome)
    }

    async fn send_missing(
        &self,
        rows: &[Missing],
        lease: &Lease,
        document: &mut StateDocument,
        outcome: &mut Redelivered,
    ) -> Result<(), TickError> {
        for outlet in &self.sinks {
            let name = outlet.sink.name();
            let lacked = rows
                .iter()
                .filter(|row| row.sinks.iter().any(|sink| sink == name));
            let lacked: Vec<&Missing> = lacked.collect();
            for chunk in lacked.chunks(self.batch.max_rows.get()) {
                let Some((page, types)) = self.read_now(chunk, document, outcome).await? else {
                    continue;
                };
                let recording = self.send_page(outlet, &page, &types, lease, outcome).await;
                if !recording.is_empty() {
                    let ledger = ledger::put(self, document, None, recording).await?;
                    *document = lease.record(ledger, self.lease.ttl).await;
                }
            }
        }
        Ok(())
    }

    /// What is at their places just now.
    async fn read_now(
        &self,
        rows: &[&Missing],
        document: &StateDocument,
        outcome: &mut Redelivered,
    ) -> Result<Option<(Page, Types)>, TickError> {
        let mut found: Option<(Page, Types)> = None;
        for row in rows {
            let writer = PageWriter::new(&self.events_as, 2, usize::MAX);
            let read = self.source.find(&row.position, writer).await?;
            refuse_another_source(self, document, &read)?;
            if read.page.is_empty() {
                outcome.gone += 1;
                continue;
            }
            match &mut found {
                Some((page, _)) => page.join(read.page),
                None => found = Some((read.page, read.types)),
            }
        }
        Ok(found)
    }

    async fn send_page(
        &self,
        outlet: &Outlet,
        page: &Page,
        types: &Types,
        lease: &Lease,
        outcome: &mut Redelivered,
    ) -> Recording {
        let fence = lease.fences().next();
        let batch = Batch::assemble(&self.events_as, types, page, fence, 1, None);
        let sent = timeout(LONGEST_DELIVERY, outlet.sink.deliver(&batch)).await;
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
        let mut recording = Recording::of(self);
        for id in &batch.event_ids {
            match refused.get(id) {
                None => {
                    outcome.delivered += 1;
                    recording.mark(outlet.sink.name(), *id, Mark::Taken);
                }
                Some(reason) => {
                    outcome.failed += 1;
                    outcome.reason.get_or_insert_with(|| reason.clone());
                }
            }
        }
        recording
    }
}
