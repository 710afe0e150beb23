//! MySQL and MariaDB.
//!
//! The servers have no snapshot that spans catalogue and rows, so the catalogue is looked at before
//! every read, the statement names every column, and the types of what arrives are compared with
//! what was announced: a table that is altered in between fails the read and loses nothing.

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
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::MySql;

use super::{Description, Located, ReadPage, Source, SourceError, WaitedFor, clean_up};
use crate::config::connection::Server;
use crate::config::{Connection, SourceConfig};
use crate::database::{Access, Databases, Lent, Pool, Session};
use crate::model::late::{Sight, Witness};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use fault::Faults;
use late::Judged;
use page::Reading;
use shape::MySqlShape;

/// Within the budget of a tick; a page that an index serves takes milliseconds.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct MySqlSource {
    config: SourceConfig,
    database: String,
    pool: Pool<MySql>,
    shape: Mutex<Option<Arc<MySqlShape>>>,
    cleaner: Option<Pool<MySql>>,
    /// As of the last look; pages of its sweep are read by it.
    judged: Mutex<Option<Arc<Judged>>>,
}

impl MySqlSource {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(config: SourceConfig, server: &Server, databases: &Databases) -> Self {
        let session = Session {
            application: "dbtick".to_owned(),
            access: Access::Read,
            statement_timeout: STATEMENT_TIMEOUT,
        };
        let cleaner = clean_up::of(&config).map(|clean_up| {
            let Connection::MySql(server) = &clean_up.connection else {
                unreachable!("config::parse wants both connections of one kind");
            };
            let session = Session {
                access: Access::Write,
                ..session.clone()
            };
            databases.pool(&clean_up.connection_name, server, session)
        });
        Self {
            database: server.database.clone(),
            pool: databases.pool(&config.connection_name, server, session),
            config,
            shape: Mutex::default(),
            cleaner,
            judged: Mutex::default(),
        }
    }

    /// A connection, and the shape that was true a moment ago.
    async fn begin(&self) -> Result<(Lent<MySql>, Arc<MySqlShape>), SourceError> {
        let mut connection = self.pool.take().await?;
        let known = self.known().take();
        if let Some(shape) = known {
            let looked = shape.is_true(&mut connection).await;
            // A query whose tables are gone is looked at again, for its error.
            if looked.is_ok_and(|is_true| is_true) {
                *self.known() = Some(Arc::clone(&shape));
                return Ok((connection, shape));
            }
        }
        let loaded = MySqlShape::load(&self.config, &self.database, &mut connection).await;
        let shape = Arc::new(loaded?);
        *self.known() = Some(Arc::clone(&shape));
        Ok((connection, shape))
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Option<Arc<MySqlShape>>> {
        self.shape.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judged(&self) -> std::sync::MutexGuard<'_, Option<Arc<Judged>>> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> Faults<'_> {
        Faults::of_source(&self.config)
    }
}

#[async_trait]
impl Source for MySqlSource {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let server = catalogue::identity(&mut connection).await;
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: self.faults(),
        };
        let surveys = self.judged().as_ref().is_some_and(|is| is.surveys());
        let mut page = reading.page(after, writer, max_wait, surveys).await?;
        page.server = server;
        connection.give_back();
        Ok(page)
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let server = catalogue::identity(&mut connection).await;
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: self.faults(),
        };
        let mut found = reading.find(at, writer).await?;
        found.server = server;
        connection.give_back();
        Ok(found)
    }

    async fn look(&self, known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let judged = Judged::of(&self.config, &mut connection, &shape).await?;
        let judged = Arc::new(judged);
        *self.judged() = Some(Arc::clone(&judged));
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: self.faults(),
        };
        let sight = reading.look(&self.config, &judged, known).await?;
        connection.give_back();
        Ok(sight)
    }

    async fn who_is(&self, witness: &Witness) -> Result<Option<WaitedFor>, SourceError> {
        let (mut connection, _) = self.begin().await?;
        let session = late::who_is(&mut connection, witness).await;
        let session =
            session.map_err(|error| self.faults().of("asking who is waited for", error))?;
        connection.give_back();
        Ok(session)
    }

    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: self.faults(),
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
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: self.faults(),
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
        let mut reading = Reading {
            connection: &mut connection,
            shape: &shape,
            faults: self.faults(),
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
            faults: self.faults(),
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
        let faults = Faults::named(&config.connection_name, &self.database);
        for (statement, values) in clean_up::statements(&shape.shape, &config.how, delivered)? {
            page::bound(&shape, &statement, &values, 0)
                .execute(&mut *connection)
                .await
                .map_err(|error| match faults.is_forbidden(&error) {
                    true => clean_up::no_right(&config.connection_name, &config.how, &error),
                    false => faults.of("cleaning up", error),
                })?;
        }
        connection.give_back();
        Ok(())
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        let (mut connection, shape) = self.begin().await?;
        let description = check::describe(&self.config, &mut connection, &shape).await?;
        connection.give_back();
        Ok(description)
    }
}
