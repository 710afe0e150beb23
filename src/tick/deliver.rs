//! One batch to every sink. The only maker of receipts.

use futures_util::future::join_all;
use tokio::time::timeout_at;

use super::Poller;
use super::budget::Budget;
use super::keeper::Receipt;
use crate::model::envelope::Batch;
use crate::sink::{DeliveryFailure, FailureKind, Outlet, Verdict};

/// The sink that stood in the way, and why.
#[derive(Debug)]
pub(super) struct NotDelivered {
    pub(super) sink: String,
    pub(super) failure: DeliveryFailure,
}

/// All sinks at once, from the same bytes; every one of them must acknowledge.
pub(super) async fn deliver(
    poller: &Poller,
    batch: &Batch,
    budget: &Budget,
) -> Result<Receipt, NotDelivered> {
    let attempts = poller.sinks.iter().map(|Outlet { sink, .. }| async move {
        let verdict = match timeout_at(budget.abandon_at(), sink.deliver(batch)).await {
            Ok(verdict) => verdict,
            Err(_) => Verdict::Failed(DeliveryFailure::new(
                FailureKind::Passing,
                "no answer before the time budget of the invocation was spent",
            )),
        };
        match verdict {
            Verdict::Acknowledged => Ok(()),
            Verdict::Partly(unaccepted) => Err(NotDelivered {
                sink: sink.name().to_owned(),
                failure: DeliveryFailure::new(
                    FailureKind::Rejected,
                    format!("{} events were not accepted", unaccepted.len()),
                ),
            }),
            Verdict::Failed(failure) => Err(NotDelivered {
                sink: sink.name().to_owned(),
                failure,
            }),
        }
    });
    let verdicts = join_all(attempts).await;
    if verdicts.is_empty() {
        return Err(NotDelivered {
            sink: "(none)".to_owned(),
            failure: DeliveryFailure::new(FailureKind::Refused, "there is no sink to deliver to"),
        });
    }
    for verdict in verdicts {
        verdict?;
    }
    let rows = batch.event_ids.len() as u64;
    Ok(Receipt::new(batch.id.to_string(), rows))
}
