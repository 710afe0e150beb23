//! SQLite: a file that is only ever read.
//!
//! The schema is verified in the snapshot that is read, whenever its version is not the one that
//! was verified last: between the two nothing can change.

mod catalogue;
mod check;
mod fault;
mod late;
mod lookup;
mod page;
mod shape;
mod snapshot;
pub(super) mod survey;
mod value;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::ConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool, SqlitePoolOptions};

use super::{Description, Located, ReadPage, Source, SourceError, clean_up};
use crate::config::{CleanUp, Connection, LateMode, SourceConfig};
use crate::model::late::{Bound, Sight, Witness};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use fault::Faults;
use late::Newest;
use page::Reading;
use shape::SqliteShape;
use snapshot::Snapshot;

/// Of everything that one read asks; as long as a server lets a statement run.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);
/// One read, and one `check` or status beside it.
const MAX_CONNECTIONS: u32 = 2;
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// A file that was replaced under an open connection is noticed after this.
const MAX_LIFETIME: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct SqliteSource {
    config: SourceConfig,
    pool: OnceLock<SqlitePool>,
    shape: Arc<Mutex<Option<Arc<SqliteShape>>>>,
    cleaner: OnceLock<SqlitePool>,
    newest: Newest,
}

impl SqliteSource {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(config: SourceConfig) -> Self {
        Self {
            config,
            pool: OnceLock::new(),
            shape: Arc::default(),
            cleaner: OnceLock::new(),
            newest: Newest::default(),
        }
    }

    fn faults(&self) -> Faults<'_> {
        Faults {
            setting: &self.config.connection_name,
        }
    }

    fn pool(&self) -> &SqlitePool {
        self.pool.get_or_init(|| {
            let Connection::Sqlite { file } = &self.config.connection else {
                unreachable!("source::open chooses by the connection");
            };
            let options = SqliteConnectOptions::new()
                .filename(file)
                .create_if_missing(false)
                .busy_timeout(BUSY_TIMEOUT)
                .pragma("query_only", "ON")
                .disable_statement_logging();
            // A new connection may have opened another file under the same name, whose schema has
            // the same version by chance.
            let shape = Arc::clone(&self.shape);
            SqlitePoolOptions::new()
                .after_connect(move |_, _| {
                    *shape.lock().unwrap_or_else(PoisonError::into_inner) = None;
                    Box::pin(std::future::ready(Ok(())))
                })
                .max_connections(MAX_CONNECTIONS)
                .acquire_timeout(ACQUIRE_TIMEOUT)
                .idle_timeout(IDLE_TIMEOUT)
                .max_lifetime(MAX_LIFETIME)
                .test_before_acquire(true)
                .connect_lazy_with(options)
        })
    }

    /// Another file is no outbox of this source; the configuration has seen to that.
    fn cleaner(&self, config: &CleanUp) -> &SqlitePool {
        self.cleaner.get_or_init(|| {
            let Connection::Sqlite { file } = &config.connection else {
                unreachable!("config::parse wants both connections of one kind");
            };
            let options = SqliteConnectOptions::new()
                .filename(file)
                .create_if_missing(false)
                .busy_timeout(BUSY_TIMEOUT)
                .disable_statement_logging();
            SqlitePoolOptions::new()
                .max_connections(1)
                .acquire_timeout(ACQUIRE_TIMEOUT)
                .idle_timeout(IDLE_TIMEOUT)
                .max_lifetime(MAX_LIFETIME)
                .connect_lazy_with(options)
        })
    }

    /// A snapshot, and the shape that is true in it.
    async fn begin(&self) -> Result<(Snapshot, Arc<SqliteShape>), SourceError> {
        let opened = |error| self.faults().of("opening", error);
        let snapshot = Snapshot::begin(self.pool(), STATEMENT_TIMEOUT).await;
        let mut snapshot = snapshot.map_err(opened)?;
        let version: i64 = sqlx::query_scalar("PRAGMA schema_version")
            .fetch_one(&mut *snapshot)
            .await
            .map_err(opened)?;
        let known = self.known().clone();
        if let Some(shape) = known.filter(|shape| shape.schema_version == version) {
            return Ok((snapshot, shape));
        }
        let shape = Arc::new(SqliteShape::load(&self.config, &mut snapshot, version).await?);
        *self.known() = Some(Arc::clone(&shape));
        Ok((snapshot, shape))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Arc<SqliteShape>>> {
        self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for SqliteSource {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut snapshot,
            shape: &shape,
            faults: self.faults(),
        };
        let page = reading.page(after, writer, max_wait).await?;
        if let Some(last) = page.page.reached() {
            self.newest.saw(last.cursor());
        }
        Ok(page)
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut snapshot,
            shape: &shape,
            faults: self.faults(),
        };
        reading.find(at, writer).await
    }

    async fn look(&self, _: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        shape.plan.allowed(&self.config.late)?;
        let now = late::now(&mut snapshot)
            .await
            .map_err(|error| self.faults().of("reading the clock", error))?;
        let sight = Sight {
            now: Some(now),
            ..Sight::default()
        };
        if self.config.late.mode == LateMode::Off {
            return Ok(sight);
        }
        let bound = if shape.cursor_is_unique {
            Bound::default()
        } else {
            let mut reading = Reading {
                connection: &mut snapshot,
                shape: &shape,
                faults: self.faults(),
            };
            if let Some(last) = reading.last(None).await? {
                self.newest.saw(last.cursor());
            }
            self.newest.bound()
        };
        Ok(Sight {
            bound,
            window: shape.plan.window,
            ..sight
        })
    }

    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut snapshot,
            shape: &shape,
            faults: self.faults(),
        };
        reading.last(below).await
    }

    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut snapshot,
            shape: &shape,
            faults: self.faults(),
        };
        reading.count(after, up_to, most).await
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut snapshot,
            shape: &shape,
            faults: self.faults(),
        };
        reading.ahead(after, rows).await
    }

    async fn locate(
        &self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut snapshot,
            shape: &shape,
            faults: self.faults(),
        };
        reading.locate(key, writer).await
    }

    fn cleans_up(&self) -> bool {
        clean_up::of(&self.config).is_some()
    }

    async fn clean_up(&self, delivered: &[Position]) -> Result<(), SourceError> {
        let Some(config) = clean_up::of(&self.config) else {
            return Ok(());
        };
        let faults = Faults {
            setting: &config.connection_name,
        };
        let (snapshot, shape) = self.begin().await?;
        drop(snapshot);
        for (statement, values) in clean_up::statements(&shape.shape, &config.how, delivered)? {
            page::query(&statement, &values, 0)?
                .execute(self.cleaner(config))
                .await
                .map_err(|error| faults.of("cleaning up", error))?;
        }
        Ok(())
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        let (mut snapshot, shape) = self.begin().await?;
        check::describe(&self.config, &mut snapshot, &shape).await
    }
}

#[cfg(test)]
mod tests;
