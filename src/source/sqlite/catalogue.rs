//! What the database says about itself. Names are parameters here; where they cannot be, quoted.

use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Column as _, Executor, SqlSafeStr, Statement, TypeInfo};

use crate::source::keyset::Dialect;

/// A table or view, as the catalogue describes it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) is_view: bool,
    pub(super) columns: Vec<Declared>,
    /// In its order; empty where there is none.
    pub(super) primary_key: Vec<String>,
    /// Sets of columns of which no two rows are equal.
    pub(super) unique: Vec<Vec<String>>,
    pub(super) autoincrement: bool,
    /// The statements that made them.
    pub(super) triggers: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) declared: String,
    pub(super) nullable: bool,
    /// As SQL.
    pub(super) default: Option<String>,
    pub(super) is_rowid: bool,
}

/// Hidden columns of virtual tables; generated columns are visible and have other numbers.
const HIDDEN: i64 = 1;

pub(super) async fn table(
    connection: &mut SqliteConnection,
    schema: &str,
    name: &str,
) -> Result<Option<Table>, sqlx::Error> {
    let found: Option<(String, bool)> =
        sqlx::query_as("SELECT type, wr FROM pragma_table_list WHERE schema = ?1 AND name = ?2")
            .bind(schema)
            .bind(name)
            .fetch_optional(&mut *connection)
            .await?;
    let Some((kind, without_rowid)) = found else {
        return Ok(None);
    };
    let rows: Vec<(String, String, bool, i64, i64, Option<String>)> = sqlx::query_as(
        "SELECT name, type, \"notnull\", pk, hidden, dflt_value FROM pragma_table_xinfo(?1, ?2)",
    )
    .bind(name)
    .bind(schema)
    .fetch_all(&mut *connection)
    .await?;
    let indexes = unique_indexes(connection, schema, name).await?;

    let mut primary: Vec<_> = rows.iter().filter(|row| row.3 > 0).collect();
    primary.sort_by_key(|row| row.3);
    let rowid = match primary.as_slice() {
        [single] if !without_rowid && !indexes.iter().any(|index| index.is_primary) => {
            Some(single.0.clone())
        }
        _ => None,
    };
    let mut unique: Vec<_> = indexes.into_iter().map(|index| index.columns).collect();
    unique.extend(rowid.iter().map(|rowid| vec![rowid.clone()]));
    let columns = rows
        .iter()
        .filter(|row| row.4 != HIDDEN)
        .map(|(name, declared, not_null, _, _, default)| {
            let is_rowid = rowid.as_ref() == Some(name);
            Declared {
                name: name.clone(),
                declared: declared.clone(),
                nullable: !not_null && !is_rowid,
                default: default.clone(),
                is_rowid,
            }
        })
        .collect();
    Ok(Some(Table {
        name: name.to_owned(),
        is_view: kind == "view",
        columns,
        primary_key: primary.iter().map(|row| row.0.clone()).collect(),
        unique,
        autoincrement: autoincrement(connection, name).await?,
        triggers: triggers(connection, schema, name).await?,
    }))
}

/// Tables and views that a person may have meant.
pub(super) async fn tables(
    connection: &mut SqliteConnection,
    schema: &str,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT name FROM pragma_table_list WHERE schema = ?1 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .bind(schema)
    .fetch_all(connection)
    .await
}

/// The columns of a query. Nothing says that one of them is never NULL.
pub(super) async fn query_columns(
    connection: &mut SqliteConnection,
    query: &str,
) -> Result<Vec<Declared>, sqlx::Error> {
    let sql = format!("SELECT * FROM (\n{query}\n) AS \"q\"");
    let statement = (&mut *connection)
        .prepare(AssertSqlSafe(sql).into_sql_str())
        .await?;
    let mut columns = Vec::new();
    for column in statement.columns() {
        let declared = match column.origin().table_column() {
            Some(origin) => declared_type(connection, &origin.table, &origin.name).await?,
            None => None,
        };
        let declared = declared.unwrap_or_else(|| match column.type_info().name() {
            "NULL" => String::new(),
            known => known.to_owned(),
        });
        columns.push(Declared {
            name: column.name().to_owned(),
            declared,
            nullable: true,
            default: None,
            is_rowid: false,
        });
    }
    Ok(columns)
}

async fn declared_type(
    connection: &mut SqliteConnection,
    table: &str,
    column: &str,
) -> Result<Option<String>, sqlx::Error> {
    sqlx::query_scalar("SELECT type FROM pragma_table_xinfo(?1) WHERE name = ?2")
        .bind(table)
        .bind(column)
        .fetch_optional(connection)
        .await
}

/// The columns of every index over all rows, in order; one over an expression ends before it.
pub(super) async fn indexes(
    connection: &mut SqliteConnection,
    schema: &str,
    table: &str,
) -> Result<Vec<Vec<String>>, sqlx::Error> {
    let names: Vec<String> =
        sqlx::query_scalar("SELECT name FROM pragma_index_list(?1, ?2) WHERE NOT partial")
            .bind(table)
            .bind(schema)
            .fetch_all(&mut *connection)
            .await?;
    let mut indexes = Vec::with_capacity(names.len());
    for name in names {
        let columns: Vec<Option<String>> =
            sqlx::query_scalar("SELECT name FROM pragma_index_info(?1, ?2)")
                .bind(name)
                .bind(schema)
                .fetch_all(&mut *connection)
                .await?;
        indexes.push(columns.into_iter().map_while(|name| name).collect());
    }
    Ok(indexes)
}

struct UniqueIndex {
    is_primary: bool,
    columns: Vec<String>,
}

/// A partial index, or one over expressions, says nothing about all rows.
async fn unique_indexes(
    connection: &mut SqliteConnection,
    schema: &str,
    table: &str,
) -> Result<Vec<UniqueIndex>, sqlx::Error> {
    let listed: Vec<(String, String)> = sqlx::query_as(
        "SELECT name, origin FROM pragma_index_list(?1, ?2) WHERE \"unique\" AND NOT partial",
    )
    .bind(table)
    .bind(schema)
    .fetch_all(&mut *connection)
    .await?;
    let mut indexes = Vec::with_capacity(listed.len());
    for (name, origin) in listed {
        let columns: Vec<Option<String>> =
            sqlx::query_scalar("SELECT name FROM pragma_index_info(?1, ?2)")
                .bind(name)
                .bind(schema)
                .fetch_all(&mut *connection)
                .await?;
        if let Some(columns) = columns.into_iter().collect() {
            let is_primary = origin == "pk";
            indexes.push(UniqueIndex {
                is_primary,
                columns,
            });
        }
    }
    Ok(indexes)
}

async fn triggers(
    connection: &mut SqliteConnection,
    schema: &str,
    table: &str,
) -> Result<Vec<String>, sqlx::Error> {
    let schema = Dialect::Sqlite.quote(schema);
    let sql = format!(
        "SELECT sql FROM {schema}.sqlite_schema WHERE type = 'trigger' AND tbl_name = ?1 COLLATE NOCASE"
    );
    sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(table)
        .fetch_all(connection)
        .await
}

/// The catalogue has no flag for it; the word in the table's own text is the best evidence.
async fn autoincrement(
    connection: &mut SqliteConnection,
    table: &str,
) -> Result<bool, sqlx::Error> {
    let sql: Option<Option<String>> =
        sqlx::query_scalar("SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ?1")
            .bind(table)
            .fetch_optional(connection)
            .await?;
    Ok(sql
        .flatten()
        .is_some_and(|sql| sql.to_ascii_uppercase().contains("AUTOINCREMENT")))
}
