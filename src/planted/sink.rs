//! Around a receiver.

use std::sync::Arc;

use async_trait::async_trait;

use super::Plan;
use super::names::Bug;
use crate::model::envelope::Batch;
use crate::sink::{Sink, Verdict};

#[derive(Debug)]
pub(super) struct Planted {
    pub(super) inner: Arc<dyn Sink>,
    pub(super) plan: Arc<Plan>,
}

#[async_trait]
impl Sink for Planted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        if self.plan.has(Bug::CommitBeforeDeliver) {
            let (inner, batch) = (Arc::clone(&self.inner), batch.clone());
            tokio::spawn(async move { inner.deliver(&batch).await });
            return Verdict::Acknowledged;
        }
        let verdict = self.plan.step("deliver", self.inner.deliver(batch)).await;
        match verdict {
            Verdict::Failed(_) if self.plan.has(Bug::FailureCountedAsDone) => Verdict::Acknowledged,
            verdict => verdict,
        }
    }
}
