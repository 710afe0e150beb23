//! A part of the rows of a source: one shard.
//!
//! By a column, the database gives this part only. By key, everything is read, and rows of other shards
//! are passed: their places are on the page, so that whoever reads comes past them, and nothing of them
//! is encoded.

mod open;

pub(super) use open::open;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::names::shown;
use super::{Description, Finding, Grade, Located, ReadPage, Source, SourceError, WaitedFor};
use crate::model::late::{Sight, Witness};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::model::shard::{Shard, ShardBy};

/// Of a page that is read to be counted.
const COUNTED_ROWS: usize = 1000;
const COUNTED_BYTES: usize = 1 << 20;
const MOST_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Sharded {
    inner: Arc<dyn Source>,
    shard: Shard,
    column: Option<Column>,
    /// Its key is that of messages, not of what they are about.
    is_outbox: bool,
}

/// That says which shard a row belongs to.
#[derive(Debug)]
struct Column {
    name: String,
    /// The rows that no shard has.
    strays: Arc<dyn Source>,
    /// In the order of the index that serves a shard: the column, then cursor and key.
    indexed: Arc<dyn Source>,
}

impl Sharded {
    #[must_use]
    pub fn by_key(inner: Arc<dyn Source>, shard: Shard) -> Self {
        Self {
            inner,
            shard,
            column: None,
            is_outbox: false,
        }
    }

    async fn refuse_strays(&self, column: &Column) -> Result<(), SourceError> {
        if column.strays.count(None, None, 1).await? == 0 {
            return Ok(());
        }
        Err(SourceError::Mismatch {
            what: format!(
                "there are rows in which {} is none of the {} shards, and nobody would read them",
                shown(&column.name),
                self.shard.count()
            ),
            remedy: format!(
                "let it be a whole number from 0 to {} in every row, never NULL; a row that is mended needs a new \
                 cursor value, because its shard may be past its place",
                self.shard.count() - 1
            ),
        })
    }

    /// Own rows only, to be counted.
    async fn page(&self, after: Option<&Position>) -> Result<ReadPage, SourceError> {
        let writer = PageWriter::new("", COUNTED_ROWS, COUNTED_BYTES);
        self.read(after, writer, MOST_WAIT).await
    }
}

#[async_trait]
impl Source for Sharded {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let writer = writer.only(self.shard);
        self.inner.read(after, writer, max_wait).await
    }

    async fn look(&self, known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        if let Some(column) = &self.column {
            self.refuse_strays(column).await?;
        }
        self.inner.look(known).await
    }

    async fn who_is(&self, witness: &Witness) -> Result<Option<WaitedFor>, SourceError> {
        self.inner.who_is(witness).await
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        // What stands there may be another shard's: whoever has only passed it must not send it, under a
        // fence that is compared with others.
        self.inner.find(at, writer.only(self.shard)).await
    }

    /// Of all rows: where a shard begins, it passes those of others too.
    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        self.inner.last(below).await
    }

    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        if self.shard.by() == ShardBy::Column {
            return self.inner.count(after, up_to, most).await;
        }
        let mut after = after.cloned();
        let mut counted = 0;
        loop {
            let mut read = self.page(after.as_ref()).await?;
            let beyond = read
                .page
                .cut(|place| up_to.is_none_or(|up_to| place <= up_to));
            counted += read.page.len() as u64;
            let next = read.page.reached().filter(|_| beyond.is_empty());
            match next.filter(|_| !read.end && counted < most) {
                Some(next) => after = Some(next.clone()),
                None => return Ok(counted.min(most)),
            }
        }
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        if self.shard.by() == ShardBy::Column {
            return self.inner.ahead(after, rows).await;
        }
        let mut after = after.cloned();
        let mut left = usize::try_from(rows).unwrap_or(usize::MAX);
        loop {
            let read = self.page(after.as_ref()).await?;
            let own = read.page.events();
            if let Some(event) = left.checked_sub(1).and_then(|at| own.get(at)) {
                return Ok(Some(event.position.clone()));
            }
            left -= own.len();
            match read.page.reached().filter(|_| !read.end) {
                Some(next) => after = Some(next.clone()),
                None => return Ok(None),
            }
        }
    }

    /// Who looks for a row of another shard is told where it is.
    async fn locate(
        &self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        let located = self.inner.locate(key, writer).await?;
        let mut places = located.iter().filter_map(|row| row.position.as_ref());
        let Some(foreign) = places.find(|place| !self.shard.holds(place.key())) else {
            return Ok(located);
        };
        let mut all = Shard::all(self.shard.count(), self.shard.by());
        let owner = all.find(|shard| shard.holds(foreign.key()));
        Err(SourceError::Mismatch {
            what: format!("the row at {foreign} is none of shard {}", self.shard),
            remedy: match owner {
                Some(owner) => format!("ask for it in shard {owner}"),
                None => "ask for it in another shard".to_owned(),
            },
        })
    }

    fn shard(&self) -> Option<Shard> {
        Some(self.shard)
    }

    fn cleans_up(&self) -> bool {
        self.inner.cleans_up()
    }

    async fn clean_up(&self, delivered: &[Position]) -> Result<(), SourceError> {
        self.inner.clean_up(delivered).await
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        let mut description = self.inner.describe().await?;
        let (grade, text) = match &self.column {
            Some(column) => {
                self.refuse_strays(column).await?;
                let name = shown(&column.name);
                let mut found = column.indexed.describe().await?.findings.into_iter();
                let index = found.find(|finding| finding.subject == "index");
                // One on cursor and key alone serves the order, and every shard would read the rows of all by it.
                description
                    .findings
                    .retain(|finding| finding.subject != "index");
                match index {
                    Some(index) if index.grade != Grade::Pass => {
                        let text = format!(
                            "by column {name}: each shard may read the rows of all others, because no index begins with \
                             {name}, then cursor and key: {}",
                            index.text
                        );
                        (Grade::Warn, text)
                    }
                    _ => {
                        let text = format!(
                            "by column {name}: each shard reads its own rows, by an index on {name}, then cursor and key"
                        );
                        (Grade::Pass, text)
                    }
                }
            }
            None => {
                let count = self.shard.count();
                let order = match self.is_outbox {
                    true => {
                        "; and messages of one aggregate are in several shards, so that their order is lost: let a column \
                         part them that is made of the aggregate's id"
                    }
                    false => "",
                };
                let text = format!(
                    "by key: each of the {count} shards reads every row and sends its own, so that the table is read \
                     {count} times; a column with the number of the shard avoids that (docs/scale.md){order}"
                );
                (Grade::Warn, text)
            }
        };
        description.findings.push(Finding {
            grade,
            subject: "shards",
            text,
        });
        Ok(description)
    }
}
