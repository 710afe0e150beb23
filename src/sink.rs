//! Where batches go.

pub mod queue;
pub mod relay;
pub mod retry_after;
mod signature;
pub mod webhook;

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;

use crate::clock::Timestamp;
use crate::model::envelope::Batch;
use crate::model::page::EventId;

pub use queue::QueueSink;
pub use relay::RelaySink;
pub use webhook::WebhookSink;

/// A receiver of batches.
///
/// The contract: an event counts as taken only where the receiver has taken responsibility for it.
/// Anything doubtful is a failure; the event then comes again (A2). Dropping the future abandons the
/// attempt, and the receiver may still have got it.
#[async_trait]
pub trait Sink: Debug + Send + Sync {
    fn name(&self) -> &str;

    async fn deliver(&self, batch: &Batch) -> Verdict;
}

/// A sink of a poller, and whether rows wait for it (E1).
#[derive(Debug, Clone)]
pub struct Outlet {
    pub sink: Arc<dyn Sink>,
    pub required: bool,
}

impl Outlet {
    #[must_use]
    pub fn required(sink: Arc<dyn Sink>) -> Self {
        Self {
            sink,
            required: true,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every event.
    Acknowledged,
    /// Every event but these, of which there is at least one.
    Partly(Vec<Unaccepted>),
    /// No event.
    Failed(DeliveryFailure),
}

/// One event that a receiver has named as not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unaccepted {
    pub id: EventId,
    /// The receiver's own words, cut to a line.
    pub reason: String,
    pub stance: Stance,
}

/// What that says about the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stance {
    /// The receiver will never take it.
    Never,
    /// Not this time; who says so again and again is taken at its word.
    NotNow,
    /// Nothing: it did not get there.
    NotTried,
}

/// Why a batch was not acknowledged; holds neither row data nor secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DeliveryFailure {
    pub reason: String,
    pub kind: FailureKind,
    /// The receiver asked to be left alone until then.
    pub not_before: Option<Timestamp>,
}

/// By what is done about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// No answer, or "not now": it passes by itself, and is never a row's fault.
    Passing,
    /// The receiver failed at it (5xx); perhaps because of a row.
    Broken,
    /// The receiver does not take what the batch holds (400, 415, 422).
    Rejected,
    /// The batch is too large for the receiver (413).
    TooLarge,
    /// The receiver is gone for good (410).
    Gone,
    /// A person must act: wrong key, wrong address, wrong certificate. Never a row's fault.
    Refused,
}

impl DeliveryFailure {
    #[must_use]
    pub fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            kind,
            not_before: None,
        }
    }
}
