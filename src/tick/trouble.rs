//! A tick that fails before it comes to a delivery says so in the document, and the next one that finds
//! its source in order takes it back: whoever looks from elsewhere knows since when and why.
//!
//! Best effort: what cannot be written is said by the log alone, and no row depends on it.

use std::time::Duration;

use tokio::time::timeout;

use super::Poller;
use super::keeper::Standing;
use super::reading::{answered, load_document};
use super::report::TickError;
use crate::model::transitions::{Action, Applied, apply};
use crate::model::trouble::Trouble;

/// Whether a failure is worth a write: nobody else writes it down, and it lasts until somebody acts.
fn is_lasting(error: &TickError) -> bool {
    match error {
        TickError::Source(_)
        | TickError::SchemaChanged { .. }
        | TickError::OtherServer { .. }
        | TickError::Restored { .. }
        | TickError::Fingerprint { .. }
        | TickError::SinksChanged { .. }
        | TickError::Bug { .. } => true,
        // With its sink, in the document already.
        TickError::Delivery { .. }
        // Somebody else is at work, or a person has said so.
        | TickError::LeaseLost { .. }
        | TickError::Contended { .. }
        | TickError::Refused(_)
        | TickError::MarkedFailed
        | TickError::Crowded
        | TickError::Layout(_)
        // There is nothing that could be written to.
        | TickError::DocumentGone { .. }
        | TickError::Document { .. }
        | TickError::Store(_) => false,
    }
}

/// Writes down why ticks fail, unless the document says so already.
pub(super) async fn remember(poller: &Poller, error: &TickError) -> u64 {
    if !is_lasting(error) {
        return 0;
    }
    let trouble = Trouble::new(error.name(), &error.story(), poller.clock.now());
    write(poller, Some(trouble)).await
}

/// The trouble is over.
pub(super) async fn forget(poller: &Poller) -> u64 {
    write(poller, None).await
}

/// A tick that has spent its time must not be killed over this.
const PATIENCE: Duration = Duration::from_secs(2);

/// One try; how many writes it took.
async fn write(poller: &Poller, trouble: Option<Trouble>) -> u64 {
    timeout(PATIENCE, swap(poller, trouble)).await.unwrap_or(0)
}

async fn swap(poller: &Poller, trouble: Option<Trouble>) -> u64 {
    let Ok(Some(Standing { document, tag, .. })) = load_document(poller).await else {
        return 0;
    };
    let action = Action::Report(trouble);
    let (Some(tag), Ok(Applied::Changed(next))) =
        (tag, apply(&document, &action, poller.clock.now()))
    else {
        return 0;
    };
    let body = next.to_bytes().into();
    let request = poller.store.replace(&poller.state_key, &tag, body);
    // Lost, or nobody knows: the next tick meets the same trouble, or none.
    drop(answered(poller, &poller.state_key, request).await);
    1
}
