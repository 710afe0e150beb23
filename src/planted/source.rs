//! Around a database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::Plan;
use super::names::Bug;
use crate::model::late::{Sight, Survey, Witness};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::model::shard::Shard;
use crate::source::{Description, Located, ReadPage, Source, SourceError, WaitedFor};

#[derive(Debug)]
pub(super) struct Planted {
    pub(super) inner: Arc<dyn Source>,
    pub(super) plan: Arc<Plan>,
}

#[async_trait]
impl Source for Planted {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let read = self.inner.read(after, writer, max_wait);
        let mut read = self.plan.step("read", read).await?;
        if self.plan.has(Bug::LateCommits) {
            read.survey = Survey::default();
        }
        Ok(read)
    }

    async fn look(&self, known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        let sight = self.plan.step("look", self.inner.look(known)).await?;
        Ok(match self.plan.has(Bug::LateCommits) {
            // A restart is noticed all the same: its rewind is not what is tested.
            true => Sight {
                epoch: sight.epoch,
                ..Sight::default()
            },
            false => sight,
        })
    }

    fn shard(&self) -> Option<Shard> {
        self.inner.shard()
    }

    async fn who_is(&self, witness: &Witness) -> Result<Option<WaitedFor>, SourceError> {
        self.inner.who_is(witness).await
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        self.inner.find(at, writer).await
    }

    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        self.inner.last(below).await
    }

    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        self.inner.count(after, up_to, most).await
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        self.inner.ahead(after, rows).await
    }

    async fn locate(
        &self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        self.inner.locate(key, writer).await
    }

    fn cleans_up(&self) -> bool {
        self.inner.cleans_up()
    }

    async fn clean_up(&self, delivered: &[Position]) -> Result<(), SourceError> {
        self.inner.clean_up(delivered).await
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        self.inner.describe().await
    }
}
