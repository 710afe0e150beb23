//! Where rows come from.

pub mod bounded;
mod clean_up;
mod findings;
mod fragment;
mod json;
mod keyset;
mod late;
mod lookup;
pub mod mysql;
mod names;
mod pager;
pub mod postgres;
mod shape;
pub mod sharded;
pub mod sqlite;
pub mod survey;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::config::{Connection, SourceConfig};
use crate::database::{DatabaseError, Databases};
use crate::model::late::{Protection, Sight, Survey, Witness};
use crate::model::page::{EventId, Op, Page, PageWriter};
use crate::model::position::{Position, Scalar};
use crate::model::schema::Schema;
use crate::model::shard::Shard;

/// The source that a configuration asks for; nothing is opened before it is read.
#[must_use]
pub fn open(config: &SourceConfig, databases: &Databases) -> Arc<dyn Source> {
    match &config.shard {
        Some(shard) => sharded::open(config, shard, databases),
        None => whole(config.clone(), databases),
    }
}

/// Without regard to shards.
fn whole(config: SourceConfig, databases: &Databases) -> Arc<dyn Source> {
    match config.connection.clone() {
        Connection::Sqlite { .. } => Arc::new(sqlite::SqliteSource::new(config)),
        Connection::MySql(server) => Arc::new(mysql::MySqlSource::new(config, &server, databases)),
        Connection::Postgres(server) => {
            Arc::new(postgres::PostgresSource::new(config, &server, databases))
        }
    }
}

/// A table or query that is read in the order of [`Position`].
///
/// The contract, kept by every implementation and proven by the suite in `tests/source_contract`:
///
/// - Rows come out strictly after `after`, in ascending order of position, none skipped, none twice,
///   also when a thousand of them share one cursor value.
/// - One call reads from one snapshot of the database.
/// - Reading never writes: the session is read-only. An outbox is cleaned up over another connection.
/// - `Page` positions are exactly what was read; reading after them continues without loss.
/// - Connections are opened when first needed and reused; a broken one is replaced.
#[async_trait]
pub trait Source: Debug + Send + Sync {
    /// Rows after `after` (from the beginning when `None`), as many as the writer takes, closing
    /// early after `max_wait` once there is at least one.
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError>;

    /// What is seen of writers in flight, before the rows of a sweep are read (B5): the bound is
    /// sampled first, the writers after it, each by a statement of its own. `known` are witnesses of
    /// earlier sights that the document still waits for.
    ///
    /// By default commits are in the order of cursors, and nothing needs to be known.
    async fn look(&self, _known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        Ok(Sight::default())
    }

    /// Whose transaction a witness is, where the database tells it.
    async fn who_is(&self, _witness: &Witness) -> Result<Option<WaitedFor>, SourceError> {
        Ok(None)
    }

    /// The row, and the tombstone, if any, at exactly this position, as `read` would give them: nothing
    /// where the row has moved, changed its cursor, left the filter, or is gone. Always at the end, and
    /// no evidence of anything else.
    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError>;

    /// The position of the last row there is now, where `start: now` begins; or of the last one whose
    /// cursor is less than `below`.
    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError>;

    /// How many events lie behind `after`, up to and with those at `up_to` (or to the end), counted by
    /// the database in one statement and no further than `most`. Rows that have no place, because a
    /// cursor or key is NULL, do not count.
    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError>;

    /// The position of the event that is `rows` events behind `after`, 1 being the next one; `None`
    /// when there are fewer. Counts what `count` counts, so that between `after` and the answer there
    /// are `rows` of them, and one more where a row and its tombstone share that position.
    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError>;

    /// Every row and tombstone that has this key now, whatever its cursor, with the event ids that
    /// `read` gives with such a writer; of more than a hundred, some. A value is text as events and
    /// positions show it, one for each column of the key.
    async fn locate(&self, key: &[String], writer: PageWriter)
    -> Result<Vec<Located>, SourceError>;

    /// The part of the rows that it gives out. A page has the places of the others, where it met them:
    /// they may be passed, and are nobody's who reads this part.
    fn shard(&self) -> Option<Shard> {
        None
    }

    /// Whether delivered rows are cleaned up behind the commit.
    fn cleans_up(&self) -> bool {
        false
    }

    /// Deletes or marks rows that were delivered and committed, as far as they are what they were.
    async fn clean_up(&self, _delivered: &[Position]) -> Result<(), SourceError> {
        Ok(())
    }

    /// What the table looks like, verified against the configuration.
    async fn describe(&self) -> Result<Description, SourceError>;
}

/// A page, and whether it reached the end of what was visible.
#[derive(Debug)]
pub struct ReadPage {
    pub page: Page,
    pub end: bool,
    pub types: Types,
    /// All columns that were read, those that only give the order too.
    pub schema: Arc<Schema>,
    /// Who answered, where a server tells: another one has another history (B9).
    pub server: Option<Arc<str>>,
    /// What was seen of uncommitted rows before the page was read, where that is the evidence.
    pub survey: Survey,
}

/// A row, or a tombstone, that was looked for by its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// `None`: its cursor is NULL, and it is in no order.
    pub position: Option<Position>,
    pub op: Op,
    /// What the filter leaves out is never read. A query shows only what is in it.
    pub passes_filter: bool,
    /// What a tick that reads it as it is now would send it as.
    pub id: Option<EventId>,
}

/// Delivered columns and their source types, in order; shared by every page of one schema.
pub type Types = Arc<[(String, String)]>;

/// What `check` prints and what the envelope's `types` are made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    pub server: String,
    /// Delivered columns and their source types, in order.
    pub columns: Vec<(String, String)>,
    pub cursor_kind: crate::model::position::CursorKind,
    pub findings: Vec<Finding>,
    /// Against rows that commit late; `None` where nobody has judged it.
    pub protection: Option<Protection>,
}

/// Somebody whose transaction is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitedFor {
    /// Number, user, program and what it does, for people.
    pub is: String,
    /// The statement that ends it.
    pub remedy: String,
}

/// One line of `dbtick check`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub grade: Grade,
    pub subject: &'static str,
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    Pass,
    Warn,
    Fail,
}

/// What can go wrong while reading, by what the caller should do about it.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The database cannot be reached or is busy: try again.
    #[error("database unreachable: {context}")]
    Unreachable {
        context: String,
        #[source]
        cause: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
    /// The configuration does not fit the database: a person must act.
    #[error("{what}; {remedy}")]
    Mismatch { what: String, remedy: String },
    /// Rows exist whose cursor is NULL, and the policy says that this is a failure (B4).
    #[error(
        "{count} row(s) have a NULL {column}; they can never be read in order: fill them in, filter them out, or set source.nulls to \"ignore\""
    )]
    NullCursor { column: String, count: String },
    /// The database refused the statement.
    #[error("query failed: {context}")]
    Query {
        context: String,
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl From<DatabaseError> for SourceError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Unreachable { context, cause } => Self::Unreachable { context, cause },
            DatabaseError::Refused { what, remedy } => Self::Mismatch { what, remedy },
            DatabaseError::Query { context, cause } => Self::Query { context, cause },
        }
    }
}
