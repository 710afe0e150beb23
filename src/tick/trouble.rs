//! A tick that fails before it comes to a delivery says so in the document, and the next one that finds
//! its source in order takes it back: whoever looks from elsewhere knows since when and why.
//!
//! Best effort: what cannot be written is said by the log alone, and no row depends on it.

use std::time::Duration;

use tokio::time::timeout;

use super::Poller;
use super::keeper::Standing;
use super::layout::LayoutError;
use super::reading::{answered, load_document};
use super::report::TickError;
use crate::model::transitions::{Action, Applied, apply};
use crate::model::trouble::Trouble;
use crate::store::Swap;

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

/// What has come of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Told {
    pub(super) writes: u64,
    /// The document says why, from now on or since before.
    pub(super) is_told: bool,
}

/// Somebody who looks at the state finds it there, or finds who is at work.
fn is_there_anyway(error: &TickError) -> bool {
    matches!(
        error,
        TickError::Delivery { .. }
            | TickError::LeaseLost { .. }
            | TickError::Contended { .. }
            | TickError::MarkedFailed
            | TickError::Layout(LayoutError::Retired { .. })
    )
}

/// Writes down why ticks fail, unless the document says so already.
pub(super) async fn remember(poller: &Poller, error: &TickError) -> Told {
    if !is_lasting(error) {
        return Told {
            writes: 0,
            is_told: is_there_anyway(error),
        };
    }
    let trouble = Trouble::new(error.name(), &error.story(), poller.clock.now());
    write(poller, Some(trouble)).await
}

/// The trouble is over.
pub(super) async fn forget(poller: &Poller) -> Told {
    write(poller, None).await
}

/// A tick that has spent its time must not be killed over this.
const PATIENCE: Duration = Duration::from_secs(2);

/// One try.
async fn write(poller: &Poller, trouble: Option<Trouble>) -> Told {
    let swapped = timeout(PATIENCE, swap(poller, trouble)).await;
    swapped.unwrap_or_default()
}

async fn swap(poller: &Poller, trouble: Option<Trouble>) -> Told {
    let Ok(Some(Standing { document, tag, .. })) = load_document(poller).await else {
        return Told::default();
    };
    let action = Action::Report(trouble);
    let (Some(tag), Ok(applied)) = (tag, apply(&document, &action, poller.clock.now())) else {
        return Told::default();
    };
    let Applied::Changed(next) = applied else {
        return Told {
            writes: 0,
            is_told: true,
        };
    };
    let body = next.to_bytes().into();
    let request = poller.store.replace(&poller.state_key, &tag, body);
    // Lost, or nobody knows: the next tick meets the same trouble, or none.
    let swapped = answered(poller, &poller.state_key, request).await;
    Told {
        writes: 1,
        is_told: matches!(swapped, Ok(Swap::Won(_))),
    }
}
