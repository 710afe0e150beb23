//! A table, for `dbtick init`.

use std::path::Path;

use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::catalogue::{self, Declared};
use super::fault::Faults;
use crate::source::survey::{Class, Database, Survey, Surveyed};
use crate::source::{SourceError, names};

pub(in crate::source) async fn survey(
    file: &Path,
    setting: &str,
    schema: Option<&str>,
    table: &str,
) -> Result<Survey, SourceError> {
    let faults = Faults { setting };
    let failed = |error| faults.of("reading the catalogue", error);
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(false)
        .pragma("query_only", "ON");
    let mut connection = SqliteConnection::connect_with(&options)
        .await
        .map_err(failed)?;
    let schema = schema.unwrap_or("main");
    let found = catalogue::table(&mut connection, schema, table).await;
    let Some(found) = found.map_err(failed)? else {
        let others = catalogue::tables(&mut connection, schema).await;
        let others = others.map_err(failed)?;
        return Err(names::missing("table", table, "the database", &others));
    };
    let indexes = catalogue::indexes(&mut connection, schema, table).await;
    let mut indexes = indexes.map_err(failed)?;
    let rowid = found.columns.iter().find(|column| column.is_rowid);
    // Every index of SQLite ends with the rowid, and the table itself is one over it.
    if let Some(rowid) = rowid {
        for index in &mut indexes {
            index.push(rowid.name.clone());
        }
        indexes.push(vec![rowid.name.clone()]);
    }
    Ok(Survey {
        database: Database::Sqlite,
        schema: schema.to_owned(),
        table: table.to_owned(),
        is_view: found.is_view,
        primary_key: found.primary_key,
        unique: found.unique,
        indexes,
        columns: found.columns.into_iter().map(surveyed).collect(),
    })
}

/// SQLite believes the declared type loosely, and so do we.
fn surveyed(column: Declared) -> Surveyed {
    let declared = column.declared.to_ascii_uppercase();
    let class = if declared.contains("INT") {
        Class::Integer
    } else if declared.contains("TIMESTAMP") || declared.contains("DATETIME") {
        Class::Local
    } else {
        Class::Other
    };
    Surveyed {
        name: column.name,
        type_name: column.declared,
        nullable: column.nullable,
        class,
    }
}
