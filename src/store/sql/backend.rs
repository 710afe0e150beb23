//! Running a statement on one of the three databases.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use chrono::DateTime;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor, MySql, Postgres, Row as _};

use crate::clock::Timestamp;
use crate::database::{DatabaseError, Pool};

const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub(super) enum Backend {
    Sqlite(SqliteFile),
    Postgres(Pool<Postgres>),
    MySql(Pool<MySql>),
}

pub(super) struct SqliteFile {
    file: PathBuf,
    pool: OnceLock<SqlitePool>,
}

/// What is bound to a statement.
#[derive(Clone)]
pub(super) enum Value {
    Text(String),
    Bytes(Vec<u8>),
    Number(i32),
}

/// Body or name, and what stands beside it.
pub(super) struct Row {
    pub(super) bytes: Vec<u8>,
    pub(super) etag: String,
    pub(super) now: Timestamp,
    pub(super) written_at: Timestamp,
}

#[derive(Debug)]
pub(super) enum Failure {
    /// The statement was not sent.
    Opening(DatabaseError),
    Statement(sqlx::Error),
}

/// The same text for three types that share no useful trait.
macro_rules! bound {
    ($statement:expr, $values:expr) => {{
        let mut query = sqlx::query(AssertSqlSafe($statement.to_owned()));
        for value in $values {
            query = match value {
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes),
                Value::Number(number) => query.bind(number),
            };
        }
        query
    }};
}

macro_rules! rows {
    ($rows:expr) => {
        $rows
            .into_iter()
            .map(|row| {
                Ok(Row {
                    bytes: row.try_get(0)?,
                    etag: row.try_get(1)?,
                    now: timestamp(row.try_get(2)?),
                    written_at: timestamp(row.try_get(3)?),
                })
            })
            .collect::<Result<Vec<Row>, sqlx::Error>>()
            .map_err(Failure::Statement)
    };
}

impl Backend {
    pub(super) fn sqlite(file: &Path) -> Self {
        Self::Sqlite(SqliteFile::new(file))
    }

    /// How many rows changed.
    pub(super) async fn execute(
        &self,
        statement: &str,
        values: Vec<Value>,
    ) -> Result<u64, Failure> {
        match self {
            Self::Sqlite(file) => {
                let result = bound!(statement, values).execute(file.pool()).await;
                Ok(result.map_err(Failure::Statement)?.rows_affected())
            }
            Self::Postgres(pool) => {
                let mut connection = pool.take().await.map_err(Failure::Opening)?;
                let result = bound!(statement, values).execute(&mut *connection).await;
                let result = result.map_err(Failure::Statement)?;
                connection.give_back();
                Ok(result.rows_affected())
            }
            Self::MySql(pool) => {
                let mut connection = pool.take().await.map_err(Failure::Opening)?;
                let result = bound!(statement, values).execute(&mut *connection).await;
                let changed = match result {
                    Ok(result) => result.rows_affected(),
                    Err(sqlx::Error::Database(error)) if error.is_unique_violation() => 0,
                    Err(error) => return Err(Failure::Statement(error)),
                };
                connection.give_back();
                Ok(changed)
            }
        }
    }

    pub(super) async fn fetch(
        &self,
        statement: &str,
        values: Vec<Value>,
    ) -> Result<Vec<Row>, Failure> {
        match self {
            Self::Sqlite(file) => {
                let rows = bound!(statement, values).fetch_all(file.pool()).await;
                rows!(rows.map_err(Failure::Statement)?)
            }
            Self::Postgres(pool) => {
                let mut connection = pool.take().await.map_err(Failure::Opening)?;
                let rows = bound!(statement, values).fetch_all(&mut *connection).await;
                let rows = rows.map_err(Failure::Statement)?;
                connection.give_back();
                rows!(rows)
            }
            Self::MySql(pool) => {
                let mut connection = pool.take().await.map_err(Failure::Opening)?;
                let rows = bound!(statement, values).fetch_all(&mut *connection).await;
                let rows = rows.map_err(Failure::Statement)?;
                connection.give_back();
                rows!(rows)
            }
        }
    }

    /// A statement without values, such as CREATE TABLE.
    pub(super) async fn run(&self, statement: &str) -> Result<(), Failure> {
        let statement = AssertSqlSafe(statement.to_owned());
        match self {
            Self::Sqlite(file) => {
                let done = file.pool().execute(statement).await;
                done.map(drop).map_err(Failure::Statement)
            }
            Self::Postgres(pool) => {
                let mut connection = pool.take().await.map_err(Failure::Opening)?;
                let done = connection.execute(statement).await;
                done.map(drop).map_err(Failure::Statement)?;
                connection.give_back();
                Ok(())
            }
            Self::MySql(pool) => {
                let mut connection = pool.take().await.map_err(Failure::Opening)?;
                let done = connection.execute(statement).await;
                done.map(drop).map_err(Failure::Statement)?;
                connection.give_back();
                Ok(())
            }
        }
    }
}

impl SqliteFile {
    pub(super) fn new(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            pool: OnceLock::new(),
        }
    }

    fn pool(&self) -> &SqlitePool {
        self.pool.get_or_init(|| {
            let mut options = SqliteConnectOptions::new()
                .filename(&self.file)
                .create_if_missing(true)
                .busy_timeout(BUSY_TIMEOUT)
                // A commit that was answered must survive a power failure.
                .synchronous(SqliteSynchronous::Full)
                .disable_statement_logging();
            // The journal of a file that somebody else made is theirs to choose.
            if !self.file.exists() {
                options = options.journal_mode(SqliteJournalMode::Wal);
            }
            SqlitePoolOptions::new()
                .max_connections(1)
                .acquire_timeout(ACQUIRE_TIMEOUT)
                .idle_timeout(IDLE_TIMEOUT)
                .connect_lazy_with(options)
        })
    }
}

impl fmt::Debug for SqliteFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteFile").field(&self.file).finish()
    }
}

fn timestamp(microseconds: i64) -> Timestamp {
    DateTime::from_timestamp_micros(microseconds).unwrap_or_default()
}
