//! Where batches go.

pub mod retry_after;
mod signature;
pub mod webhook;

use std::fmt::Debug;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::model::envelope::Batch;

pub use webhook::WebhookSink;

/// A receiver of batches.
///
/// The contract: `Verdict::Acknowledged` means that the receiver has taken responsibility for every
/// event of the batch. Anything doubtful is a failure; the batch then comes again (A2). Dropping
/// the future abandons the attempt, and the receiver may still have got it.
#[async_trait]
pub trait Sink: Debug + Send + Sync {
    fn name(&self) -> &str;

    async fn deliver(&self, batch: &Batch) -> Verdict;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Acknowledged,
    Failed(DeliveryFailure),
}

/// Why a batch was not acknowledged; holds neither row data nor secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DeliveryFailure {
    pub reason: String,
    /// The receiver asked to be left alone until then.
    pub not_before: Option<Timestamp>,
}
