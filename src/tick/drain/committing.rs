//! What was delivered goes into the document, one write after the other.

use std::sync::Arc;
use std::task::Poll;

use futures_util::future::BoxFuture;
use futures_util::poll;
use tokio::task::yield_now;

use super::uncommitted::Uncommitted;
use super::{COMMIT_PACE, Pipeline};
use crate::model::state::StateDocument;
use crate::model::transitions::Then;
use crate::tick::Progress;
use crate::tick::clean_up::clean_up;
use crate::tick::ledger::record;
use crate::tick::report::TickError;
use crate::tick::settling::{Remembering, what_to_remember};

impl<'a> Pipeline<'a> {
    /// Everything that was delivered until now is in the document when this returns.
    pub(super) async fn commit(
        &mut self,
        then: Then,
        progress: &mut Progress,
    ) -> Result<(), TickError> {
        self.await_commit(progress).await;
        if !self.uncommitted.is_empty() {
            self.begin_commit(then, progress).await?;
            self.await_commit(progress).await;
        }
        Ok(())
    }

    pub(super) async fn await_commit(&mut self, progress: &mut Progress) {
        if let Some((written, _)) = &mut self.committing {
            let document = written.await;
            self.committed(document, progress).await;
        }
    }

    pub(super) async fn begin_commit(
        &mut self,
        then: Then,
        progress: &mut Progress,
    ) -> Result<(), TickError> {
        let Uncommitted {
            receipt,
            events,
            seen,
            news,
            recording,
            told,
            ..
        } = std::mem::take(&mut self.uncommitted);
        let (Some(receipt), Some(seen)) = (receipt, seen) else {
            return Ok(());
        };
        let (poller, document) = (self.poller, &self.document);
        let events = events.iter().map(|(id, place)| (*id, place));
        let remembering = what_to_remember(poller, document, &self.sweep, events).await;
        let Remembering { moved, is_full } = self.or_give_up(remembering).await?;
        self.is_full |= is_full;
        let (id, document) = (receipt.batch_id().to_owned(), &self.document);
        let written = record(poller, document, Some(id), recording, progress).await;
        let ledger = self.or_give_up(written).await?;
        self.next_commit = poller.clock.monotonic() + COMMIT_PACE;
        let lease = self.lease;
        let commit = lease.commit(receipt, moved, seen, news, ledger, then);
        let mut commit: BoxFuture<'a, _> = Box::pin(commit);
        // Under way before anything else is done.
        let written = poll!(&mut commit);
        self.committing = Some((commit, told));
        match written {
            Poll::Ready(document) => self.committed(document, progress).await,
            Poll::Pending => yield_now().await,
        }
        Ok(())
    }

    pub(super) async fn committed(&mut self, document: StateDocument, progress: &mut Progress) {
        let Some((_, told)) = self.committing.take() else {
            return;
        };
        self.document = Arc::new(document);
        progress.schema_changes.extend(told.changes);
        progress.tally.quarantined += told.quarantined;
        let (batches, rows, bytes) = (told.batches, told.rows, told.bytes);
        progress.committed(&self.document, &self.sweep, batches, rows, bytes);
        if !self.document.is_anybody_behind() {
            let budget = &self.call.budget;
            progress.tally.left_behind += clean_up(self.poller, told.done_with, budget).await;
        }
    }
}
