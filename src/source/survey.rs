//! What a table looks like to somebody who has not configured a poller yet: for `dbtick init`.

use std::time::Duration;

use super::SourceError;
use crate::azure::Azure;
use crate::config::Connection;
use crate::config::connection::Server;
use crate::database::{Access, Session, Target};

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A table or view, and what could order and identify its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    pub database: Database,
    pub schema: String,
    pub table: String,
    pub is_view: bool,
    pub columns: Vec<Surveyed>,
    /// Empty where there is none.
    pub primary_key: Vec<String>,
    /// Sets of columns of which no two rows are equal; the primary key among them.
    pub unique: Vec<Vec<String>>,
    /// The columns of every index that covers all rows, in its order.
    pub indexes: Vec<Vec<String>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
    MySql,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    pub name: String,
    /// As the database spells it.
    pub type_name: String,
    pub nullable: bool,
    pub class: Class,
}

/// What a column is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Integer,
    /// A point in time.
    Instant,
    /// Date and time without a zone.
    Local,
    Other,
}

/// Looks at one table. Reads the catalogue alone, no row.
pub async fn survey(
    connection: &Connection,
    setting: &str,
    schema: Option<&str>,
    table: &str,
    azure: &Azure,
) -> Result<Survey, SourceError> {
    let target = |server: &Server| {
        let session = Session {
            application: "dbtick/init".to_owned(),
            access: Access::Read,
            statement_timeout: STATEMENT_TIMEOUT,
        };
        Target::new(setting, server.clone(), session, azure)
    };
    match connection {
        Connection::Sqlite { file } => {
            super::sqlite::survey::survey(file, setting, schema, table).await
        }
        Connection::Postgres(server) => {
            super::postgres::survey::survey(target(server), setting, schema, table).await
        }
        Connection::MySql(server) => {
            let schema = schema.unwrap_or(&server.database);
            super::mysql::survey::survey(target(server), setting, schema, table).await
        }
    }
}
