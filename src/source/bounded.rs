//! A part of a source, up to and with a place: what a backfill reads. Rows that commit late need no look,
//! because nothing is read that a live poller has not passed; what comes all the same is found when the
//! backfill is reconciled.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{Instant, sleep_until};

use super::{Description, Located, ReadPage, Source, SourceError};
use crate::clock::Clock;
use crate::model::late::{Sight, Survey, Witness};
use crate::model::page::{EventId, PageWriter};
use crate::model::position::{Position, Scalar};
use crate::model::shard::Shard;

/// Says of an event that it need not be sent.
pub type Skip = Arc<dyn Fn(&EventId) -> bool + Send + Sync>;

pub struct Bounded {
    pub inner: Arc<dyn Source>,
    pub up_to: Position,
    pub pace: Arc<Pace>,
    pub skip: Option<Skip>,
}

impl fmt::Debug for Bounded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bounded")
            .field("inner", &self.inner)
            .field("up_to", &self.up_to)
            .finish_non_exhaustive()
    }
}

/// So many rows a second, over all who share it.
#[derive(Debug)]
pub struct Pace {
    rows_per_second: Option<f64>,
    next: Mutex<Option<Instant>>,
    clock: Arc<dyn Clock>,
}

impl Pace {
    #[must_use]
    pub fn new(rows_per_second: Option<f64>, clock: Arc<dyn Clock>) -> Self {
        Self {
            rows_per_second,
            next: Mutex::default(),
            clock,
        }
    }

    async fn wait(&self) {
        let next = *self.next.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = next {
            sleep_until(next).await;
        }
    }

    fn spend(&self, rows: usize) {
        let Some(rate) = self.rows_per_second else {
            return;
        };
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let from = next.unwrap_or_else(|| self.clock.monotonic());
        let from = from.max(self.clock.monotonic());
        *next = Some(from + Duration::from_secs_f64(rows as f64 / rate));
    }
}

#[async_trait]
impl Source for Bounded {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let mut after = after.cloned();
        loop {
            // Before the rows are read, so that they are fresh when they are sent.
            self.pace.wait().await;
            let mut read = self
                .inner
                .read(after.as_ref(), writer.another(), max_wait)
                .await?;
            let cut = read.page.cut(|place| *place <= self.up_to);
            read.end |= !cut.is_empty();
            read.survey = Survey::default();
            let last = read.page.reached().cloned();
            if let Some(skip) = &self.skip {
                read.page = read.page.without(|id| skip(id));
            }
            self.pace.spend(read.page.len());
            // A page without rows would be the end.
            match last {
                Some(last) if read.page.is_empty() && !read.end => after = Some(last),
                _ => return Ok(read),
            }
        }
    }

    fn shard(&self) -> Option<Shard> {
        self.inner.shard()
    }

    async fn look(&self, _known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        Ok(Sight::default())
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
        let up_to = up_to.map_or(&self.up_to, |up_to| up_to.min(&self.up_to));
        self.inner.count(after, Some(up_to), most).await
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        let ahead = self.inner.ahead(after, rows).await?;
        Ok(ahead.filter(|ahead| *ahead <= self.up_to))
    }

    async fn locate(
        &self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        self.inner.locate(key, writer).await
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        self.inner.describe().await
    }
}
