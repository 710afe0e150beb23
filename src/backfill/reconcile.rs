//! Is everything there? Every row of a range that is in the source now, against the ledger of the range.

use std::sync::Arc;

use super::plan::{Plan, PlanError, Range};
use super::run::Stuck;
use crate::model::state::StateDocument;
use crate::tick::Poller;
use crate::tick::audit::{Accounts, Audit, Demand};
use crate::tick::ledger::LedgerOf;
use crate::tick::operate::Found;

/// What the ledger of a range says; nothing where it has none yet.
pub(super) async fn accounts(range: &Poller) -> Result<Accounts, Stuck> {
    read(range, document(range).await?.as_ref()).await
}

async fn document(poller: &Poller) -> Result<Option<StateDocument>, Stuck> {
    Ok(match poller.found().await? {
        Found::Document(document) => Some(*document),
        Found::Nothing { .. } | Found::Refused { .. } => None,
    })
}

async fn read(range: &Poller, document: Option<&StateDocument>) -> Result<Accounts, Stuck> {
    let mut accounts = Accounts::default();
    if let Some(ledger) = document.and_then(|document| document.ledger.clone()) {
        let ledger = LedgerOf {
            document: range.state_key.clone(),
            ledger,
            backfill: None,
        };
        let reach = accounts.read(range, &ledger).await?;
        if let Some(segment) = reach.gone {
            return Err(Stuck::LedgerGone { segment });
        }
    }
    Ok(accounts)
}

/// `source` reads all rows; `range` has the ledger.
pub(super) async fn audit(
    source: &Poller,
    range: &Poller,
    planned: &Range,
) -> Result<(Audit, Arc<Accounts>), Stuck> {
    // A range that found nothing knows no server; the live poller does.
    let known = [document(source).await?, document(range).await?];
    let accounts = read(range, known[1].as_ref()).await?;
    let known: Vec<&StateDocument> = known.iter().flatten().collect();
    let (after, up_to) = (
        planned.after().map_err(PlanError::from)?,
        planned.up_to().map_err(PlanError::from)?,
    );
    let demand = Demand::everything(source);
    let audit = source
        .audit(&known, (after.as_ref(), &up_to), &demand, &accounts, 0)
        .await?;
    Ok((audit, Arc::new(accounts)))
}

impl Plan {
    /// Whether it stands where `self` stood: another process may have gone on.
    pub(super) fn is_at(&self, other: &Self) -> bool {
        self.round == other.round && self.status == other.status
    }
}
