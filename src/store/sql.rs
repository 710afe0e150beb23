//! State in a table of SQLite, PostgreSQL, MySQL or MariaDB.
//!
//! A write is one statement that commits by itself: `UPDATE … WHERE etag = ?` either changes the
//! row or does not. Nothing is repeated, with one exception: a statement that failed because the
//! table does not exist has surely done nothing, and is sent again once the table is there.

mod backend;
mod fault;
mod statements;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::clock::Clock;
use crate::config::{Connection, TableName};
use crate::database::{Access, Databases, Session};
use crate::model::lease::StoreClock;
use crate::store::{
    Deleted, Loaded, ObjectStore, Put, StateStore, StoreError, StoreKey, Swap, Tag,
};
use backend::{Backend, Row, Value};
use fault::Faults;
use statements::{Dialect, Statements};

/// One row is read or written; what takes longer is stuck.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);
/// What an index of MySQL holds, and more than any key of ours has.
const LONGEST_KEY: usize = 1024;

const DOCUMENT: &str = "document";
const OBJECT: &str = "object";

#[derive(Debug)]
pub struct SqlStore {
    backend: Backend,
    statements: Statements,
    /// The app setting, for errors.
    setting: String,
    clock: Arc<dyn Clock>,
}

impl SqlStore {
    /// Opens nothing yet.
    #[must_use]
    pub fn new(
        setting: &str,
        connection: &Connection,
        table: &TableName,
        databases: &Databases,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let session = Session {
            application: "dbtick/state".to_owned(),
            access: Access::Write,
            statement_timeout: STATEMENT_TIMEOUT,
        };
        let (backend, dialect) = match connection {
            Connection::Sqlite { file } => (Backend::sqlite(file), Dialect::Sqlite),
            Connection::Postgres(server) => (
                Backend::Postgres(databases.pool(setting, server, session)),
                Dialect::Postgres,
            ),
            Connection::MySql(server) => (
                Backend::MySql(databases.pool(setting, server, session)),
                Dialect::MySql,
            ),
        };
        Self {
            backend,
            statements: Statements::new(dialect, table),
            setting: setting.to_owned(),
            clock,
        }
    }

    fn faults(&self) -> Faults<'_> {
        Faults {
            setting: &self.setting,
            statements: &self.statements,
        }
    }

    fn fresh_tag(&self) -> String {
        format!("{:032x}", self.clock.random())
    }

    async fn rows(&self, statement: &str, values: Vec<Value>) -> Result<Vec<Row>, StoreError> {
        match self.backend.fetch(statement, values).await {
            Ok(rows) => Ok(rows),
            // Nothing was ever kept; whoever writes creates it.
            Err(failure) if fault::is_missing_table(&failure) => Ok(Vec::new()),
            Err(failure) => Err(self.faults().reading(failure)),
        }
    }

    /// How many rows changed: none in a table that is not there.
    async fn change(&self, statement: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        match self.backend.execute(statement, values).await {
            Err(failure) if fault::is_missing_table(&failure) => Ok(0),
            outcome => outcome.map_err(|failure| self.faults().writing(failure)),
        }
    }

    /// How many rows were put in: only what is new may create the table.
    async fn put_in(&self, statement: &str, values: Vec<Value>) -> Result<u64, StoreError> {
        match self.backend.execute(statement, values.clone()).await {
            Err(failure) if fault::is_missing_table(&failure) => self.create_table().await?,
            outcome => return outcome.map_err(|failure| self.faults().writing(failure)),
        }
        let outcome = self.backend.execute(statement, values).await;
        outcome.map_err(|failure| self.faults().writing(failure))
    }

    async fn create_table(&self) -> Result<(), StoreError> {
        tracing::warn!(
            "the table of the state does not exist and is created: right for a first run; if state was kept there before, it is gone, and pollers begin anew"
        );
        let created = self.backend.run(&self.statements.create_table).await;
        match created {
            Ok(()) => Ok(()),
            // Another process was faster.
            Err(failure) if fault::is_existing_table(&failure) => Ok(()),
            Err(failure) => Err(self.faults().creating(failure)),
        }
    }

    /// Whether it was there already.
    async fn insert(&self, kind: &str, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        let tag = self.fresh_tag();
        let mut values = self.name(kind, key)?;
        values.push(Value::Text(tag.clone()));
        values.push(Value::Bytes(body.to_vec()));
        Ok(match self.put_in(&self.statements.insert, values).await? {
            0 => Swap::Lost,
            _ => Swap::Won(Tag::new(tag)),
        })
    }

    async fn read(&self, kind: &str, key: &StoreKey) -> Result<Option<Row>, StoreError> {
        let rows = self.rows(&self.statements.read, self.name(kind, key)?);
        Ok(rows.await?.pop())
    }

    async fn keys(&self, kind: &str, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        let length = i32::try_from(prefix.len()).unwrap_or(i32::MAX);
        let values = vec![
            Value::Text(kind.to_owned()),
            Value::Text(prefix.to_owned()),
            Value::Number(length),
            Value::Text(prefix.to_owned()),
        ];
        let rows = self.rows(&self.statements.keys, values).await?;
        let name = |row: Row| String::from_utf8(row.bytes).ok();
        // A row that somebody else put there is none of ours.
        Ok(rows
            .into_iter()
            .filter_map(|row| StoreKey::new(name(row)?).ok())
            .collect())
    }

    /// A key that does not fit must not be cut off: it would be another key.
    fn name(&self, kind: &str, key: &StoreKey) -> Result<Vec<Value>, StoreError> {
        if key.as_str().len() > LONGEST_KEY {
            return Err(StoreError::Refused {
                context: format!("a key may have {LONGEST_KEY} characters"),
                cause: format!("this one has {}", key.as_str().len()).into(),
            });
        }
        Ok(vec![
            Value::Text(kind.to_owned()),
            Value::Text(key.as_str().to_owned()),
        ])
    }
}

#[async_trait]
impl StateStore for SqlStore {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        let row = self.read(DOCUMENT, key).await?;
        Ok(row.map(|row| Loaded {
            clock: self.statements.tells_time.then(|| StoreClock {
                now: row.now,
                last_write: row.written_at,
            }),
            tag: Tag::new(row.etag),
            body: row.bytes.into(),
        }))
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        self.insert(DOCUMENT, key, body).await
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        let fresh = self.fresh_tag();
        let mut values = vec![Value::Text(fresh.clone()), Value::Bytes(body.to_vec())];
        values.extend(self.name(DOCUMENT, key)?);
        values.push(Value::Text(tag.as_str().to_owned()));
        Ok(match self.change(&self.statements.replace, values).await? {
            0 => Swap::Lost,
            _ => Swap::Won(Tag::new(fresh)),
        })
    }

    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError> {
        let mut values = self.name(DOCUMENT, key)?;
        values.push(Value::Text(tag.as_str().to_owned()));
        Ok(match self.change(&self.statements.delete, values).await? {
            0 => Deleted::Lost,
            _ => Deleted::Gone,
        })
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.keys(DOCUMENT, prefix).await
    }
}

#[async_trait]
impl ObjectStore for SqlStore {
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError> {
        Ok(match self.insert(OBJECT, key, body).await? {
            Swap::Won(_) => Put::Created,
            Swap::Lost => Put::Exists,
        })
    }

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        let row = self.read(OBJECT, key).await?;
        Ok(row.map(|row| row.bytes.into()))
    }

    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        let values = self.name(OBJECT, key)?;
        self.change(&self.statements.remove, values).await.map(drop)
    }

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.keys(OBJECT, prefix).await
    }
}
