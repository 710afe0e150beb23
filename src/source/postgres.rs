//! PostgreSQL: tables, views and queries of a server, read in a session that cannot write.
//!
//! The catalogue is looked at before each read. What changes between that look and the read shows
//! in the types of the answer, and the read is begun again by the caller.

mod catalogue;
mod check;
mod fault;
#[doc(hidden)]
pub mod fuzzing;
mod kind;
mod late;
mod lookup;
mod page;
mod shape;
pub(super) mod survey;
mod value;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::Connection as _;
use sqlx::Postgres;
use sqlx::postgres::PgConnection;

use super::{Description, Located, ReadPage, Source, SourceError, WaitedFor, clean_up};
use crate::config::connection::Server;
use crate::config::{Connection, SourceConfig};
use crate::database::{Access, Databases, Lent, Pool, Session};
use crate::model::late::{Sight, Witness};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use fault::Faults;
use late::{Looking, Memory};
use page::Reading;
use shape::PostgresShape;

/// A page with an index takes milliseconds; without one, a tick must still end in its time.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct PostgresSource {
    config: SourceConfig,
    pool: Pool<Postgres>,
    shape: Mutex<Option<Arc<PostgresShape>>>,
    judged: Memory,
    cleaner: Option<Pool<Postgres>>,
}

impl PostgresSource {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(config: SourceConfig, server: &Server, databases: &Databases) -> Self {
        let session = Session {
            application: "dbtick".to_owned(),
            access: Access::Read,
            statement_timeout: STATEMENT_TIMEOUT,
        };
        let cleaner = clean_up::of(&config).map(|clean_up| {
            let Connection::Postgres(server) = &clean_up.connection else {
                unreachable!("config::parse wants both connections of one kind");
            };
            let session = Session {
                access: Access::Write,
                ..session.clone()
            };
            databases.pool(&clean_up.connection_name, server, session)
        });
        Self {
            pool: databases.pool(&config.connection_name, server, session),
            config,
            shape: Mutex::default(),
            judged: Memory::default(),
            cleaner,
        }
    }

    /// A connection, and the shape that was true a moment ago.
    async fn begin(&self) -> Result<(Lent<Postgres>, Arc<PostgresShape>), SourceError> {
        let mut connection = self.pool.take().await?;
        let shape = self.shape(&mut connection).await?;
        if shape.is_ascii {
            let faults = Faults::of(&self.config);
            sqlx::query("SET client_encoding TO 'SQL_ASCII'")
                .execute(&mut *connection)
                .await
                .map_err(|error| faults.explain("setting the encoding", error))?;
        }
        Ok((connection, shape))
    }

    async fn shape(
        &self,
        connection: &mut PgConnection,
    ) -> Result<Arc<PostgresShape>, SourceError> {
        let faults = Faults::of(&self.config);
        let failed = |error| faults.explain("reading the catalogue", error);
        let known = self.known().clone();
        if let Some(shape) = known {
            if shape.is_current(connection).await.map_err(failed)? {
                return Ok(shape);
            }
            *self.known() = None;
            self.judged.forget();
        }
        // Descriptions of queries among them.
        connection.clear_cached_statements().await.map_err(failed)?;
        let shape = Arc::new(PostgresShape::load(&self.config, connection).await?);
        *self.known() = Some(Arc::clone(&shape));
        Ok(shape)
    }

    fn known(&self) -> MutexGuard<'_, Option<Arc<PostgresShape>>> {
        self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for PostgresSource {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let server = catalogue::identity(&mut connection).await;
        let index = shape.shape.keyset.index(|_| false);
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: Faults::of(&self.config).wanting(index.as_deref()),
        };
        let mut page = reading.page(after, writer, max_wait).await?;
        page.server = server;
        // Rows that did not fit are still on their way; whoever takes the connection next passes
        // them over before it is used.
        connection.give_back();
        Ok(page)
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let server = catalogue::identity(&mut connection).await;
        let index = shape.shape.keyset.index(|_| false);
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: Faults::of(&self.config).wanting(index.as_deref()),
        };
        let mut found = reading.find(at, writer).await?;
        found.server = server;
        connection.give_back();
        Ok(found)
    }

    async fn look(&self, known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let looking = Looking {
            config: &self.config,
            connection: &mut connection,
            shape: &shape,
            memory: &self.judged,
        };
        let sight = looking
            .sight(known)
            .await
            .inspect_err(|_| self.judged.forget())?;
        connection.give_back();
        Ok(sight)
    }

    async fn who_is(&self, witness: &Witness) -> Result<Option<WaitedFor>, SourceError> {
        let (mut connection, _) = self.begin().await?;
        let faults = Faults::of(&self.config);
        let session = late::who_is(&mut connection, witness).await;
        let session = session.map_err(|error| faults.explain("asking who is waited for", error))?;
        connection.give_back();
        Ok(session)
    }

    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: Faults::of(&self.config),
        };
        let last = reading.last(below).await?;
        connection.give_back();
        Ok(last)
    }

    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let index = shape.shape.keyset.index(|_| false);
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: Faults::of(&self.config).wanting(index.as_deref()),
        };
        let count = reading.count(after, up_to, most).await?;
        connection.give_back();
        Ok(count)
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let index = shape.shape.keyset.index(|_| false);
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: Faults::of(&self.config).wanting(index.as_deref()),
        };
        let ahead = reading.ahead(after, rows).await?;
        connection.give_back();
        Ok(ahead)
    }

    async fn locate(
        &self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: Faults::of(&self.config),
        };
        let located = reading.locate(key, writer).await?;
        connection.give_back();
        Ok(located)
    }

    fn cleans_up(&self) -> bool {
        self.cleaner.is_some()
    }

    async fn clean_up(&self, delivered: &[Position]) -> Result<(), SourceError> {
        let (Some(config), Some(pool)) = (clean_up::of(&self.config), &self.cleaner) else {
            return Ok(());
        };
        let (reader, shape) = self.begin().await?;
        reader.give_back();
        let mut connection = pool.take().await?;
        let faults = Faults::named(&config.connection_name, &self.config.rows);
        for (statement, values) in clean_up::statements(&shape.shape, &config.how, delivered)? {
            page::prepared(&statement, &values, 0)
                .execute(&mut *connection)
                .await
                .map_err(|error| faults.cleaning_up(&config.how, error))?;
        }
        connection.give_back();
        Ok(())
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let described =
            check::describe(&self.config, &mut connection, &shape, &self.judged).await?;
        connection.give_back();
        Ok(described)
    }
}
