//! What a table looks like to somebody who has not configured a poller yet: for `dbtick init`.

mod sqlite;

use crate::config::Connection;

use super::SourceError;

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
) -> Result<Survey, SourceError> {
    match connection {
        Connection::Sqlite { file } => sqlite::survey(file, setting, schema, table).await,
        Connection::Postgres(_) | Connection::MySql(_) => Err(SourceError::Mismatch {
            what: "this database cannot be surveyed yet".into(),
            remedy: "write function.json by hand".into(),
        }),
    }
}
