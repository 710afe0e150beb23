//! What the server says about itself and its tables. Names are parameters here, never SQL.
//!
//! Every question names one table, which the server answers from its dictionary without a walk
//! through all of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use sqlx::mysql::{MySql, MySqlConnection, MySqlRow};
use sqlx::{
    AssertSqlSafe, Column as _, Connection as _, Decode, Executor, Row, SqlSafeStr, Statement,
};

use super::kind;

/// Which server it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Server {
    pub(super) version: String,
    pub(super) is_mariadb: bool,
    /// Names of tables are compared without regard to case.
    pub(super) folds_names: bool,
}

/// A table or view, by the names that the catalogue has for it.
#[derive(Debug, Clone)]
pub(super) struct Table {
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) is_view: bool,
    pub(super) engine: Option<String>,
}

/// A column, as the catalogue describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) name: String,
    /// `bigint(20) unsigned`: what receivers are told.
    pub(super) column_type: String,
    /// `bigint`.
    pub(super) data_type: String,
    pub(super) nullable: bool,
    pub(super) collation: Option<String>,
    /// Of the fraction of a second.
    pub(super) digits: Option<u8>,
    pub(super) precision: Option<u32>,
    pub(super) scale: Option<u32>,
    /// MariaDB's JSON: text of which a constraint says that it is.
    pub(super) is_json: bool,
    pub(super) default: Option<String>,
    /// `auto_increment`, `on update current_timestamp()`.
    pub(super) extra: String,
}

#[derive(Debug, Clone)]
pub(super) struct Trigger {
    /// `BEFORE`.
    pub(super) timing: String,
    /// `INSERT`.
    pub(super) event: String,
    pub(super) body: String,
}

/// Settings of the server that exist.
#[derive(Debug, Default)]
pub(super) struct Variables(BTreeMap<String, String>);

/// An index over whole columns. Those over expressions or the beginning of a column are left out.
#[derive(Debug, Clone)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) columns: Vec<String>,
}

/// Made with the data directory. MariaDB has none: its `server_uid` changes with the network card.
pub(super) async fn identity(connection: &mut MySqlConnection) -> Option<Arc<str>> {
    let sql = "SHOW GLOBAL VARIABLES LIKE 'server\\_uuid'";
    let row = sqlx::query(sql).fetch_optional(connection).await.ok()??;
    Some(text(&row, 1)?.into())
}

pub(super) async fn server(connection: &mut MySqlConnection) -> Result<Server, sqlx::Error> {
    let row = sqlx::query("SELECT VERSION(), CAST(@@lower_case_table_names AS CHAR)")
        .fetch_one(connection)
        .await?;
    let version = text(&row, 0).unwrap_or_default();
    Ok(Server {
        is_mariadb: version.contains("MariaDB"),
        folds_names: text(&row, 1).is_some_and(|mode| mode != "0"),
        version,
    })
}

pub(super) async fn table(
    connection: &mut MySqlConnection,
    server: &Server,
    schema: &str,
    name: &str,
) -> Result<Option<Table>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT table_schema, table_name, table_type, engine FROM information_schema.tables \
         WHERE table_schema = ? AND table_name = ?",
    )
    .bind(schema)
    .bind(name)
    .fetch_all(connection)
    .await?;
    // The catalogue's own collation may be wider than the server's rule.
    let same = |one: &str, other: &str| {
        one == other || (server.folds_names && one.to_lowercase() == other.to_lowercase())
    };
    let tables = rows.iter().filter_map(|row| {
        Some(Table {
            schema: text(row, 0)?,
            name: text(row, 1)?,
            is_view: text(row, 2)?.contains("VIEW"),
            engine: text(row, 3),
        })
    });
    Ok(tables
        .filter(|table| same(&table.schema, schema) && same(&table.name, name))
        .min_by_key(|table| table.name != name))
}

/// Tables and views that a person may have meant.
pub(super) async fn tables(
    connection: &mut MySqlConnection,
    schema: &str,
) -> Result<Vec<String>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = ? ORDER BY table_name",
    )
    .bind(schema)
    .fetch_all(connection)
    .await?;
    Ok(rows.iter().filter_map(|row| text(row, 0)).collect())
}

/// Without what only a constraint says; see [`mark_json`].
pub(super) async fn columns(
    connection: &mut MySqlConnection,
    table: &Table,
) -> Result<Vec<Described>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT column_name, column_type, data_type, is_nullable, collation_name, \
         CAST(datetime_precision AS CHAR), CAST(numeric_precision AS CHAR), CAST(numeric_scale AS CHAR), \
         column_default, extra \
         FROM information_schema.columns WHERE table_schema = ? AND table_name = ? \
         ORDER BY ordinal_position",
    )
    .bind(&table.schema)
    .bind(&table.name)
    .fetch_all(connection)
    .await?;
    let described = rows.iter().filter_map(|row| {
        Some(Described {
            name: text(row, 0)?,
            column_type: text(row, 1)?,
            data_type: text(row, 2)?.to_ascii_lowercase(),
            nullable: text(row, 3)? != "NO",
            collation: text(row, 4),
            digits: number(row, 5),
            precision: number(row, 6),
            scale: number(row, 7),
            is_json: false,
            default: text(row, 8),
            extra: text(row, 9).unwrap_or_default(),
        })
    });
    Ok(described.collect())
}

/// MariaDB's JSON columns are text with a constraint, and nothing else tells them.
pub(super) async fn mark_json(
    connection: &mut MySqlConnection,
    server: &Server,
    table: &Table,
    columns: &mut [Described],
) -> Result<(), sqlx::Error> {
    if !server.is_mariadb || table.is_view {
        return Ok(());
    }
    let rows = sqlx::query(
        "SELECT check_clause FROM information_schema.check_constraints \
         WHERE constraint_schema = ? AND table_name = ?",
    )
    .bind(&table.schema)
    .bind(&table.name)
    .fetch_all(connection)
    .await?;
    let clauses: Vec<_> = rows.iter().filter_map(|row| text(row, 0)).collect();
    for column in columns
        .iter_mut()
        .filter(|column| column.data_type == "longtext")
    {
        let clause = format!("json_valid(`{}`)", column.name.replace('`', "``"));
        column.is_json = clauses.contains(&clause);
    }
    Ok(())
}

pub(super) async fn indexes(
    connection: &mut MySqlConnection,
    table: &Table,
) -> Result<Vec<Index>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT index_name, CAST(non_unique AS CHAR), column_name, CAST(sub_part AS CHAR), index_type \
         FROM information_schema.statistics WHERE table_schema = ? AND table_name = ? \
         ORDER BY index_name, seq_in_index",
    )
    .bind(&table.schema)
    .bind(&table.name)
    .fetch_all(connection)
    .await?;
    let mut indexes: Vec<Index> = Vec::new();
    let mut partial = Vec::new();
    for row in &rows {
        let Some(name) = text(row, 0) else { continue };
        let column = text(row, 2).filter(|_| text(row, 3).is_none());
        let is_tree = text(row, 4).is_some_and(|kind| kind == "BTREE");
        let Some(column) = column.filter(|_| is_tree) else {
            partial.push(name);
            continue;
        };
        match indexes.last_mut().filter(|index| index.name == name) {
            Some(index) => index.columns.push(column),
            None => indexes.push(Index {
                unique: text(row, 1).is_some_and(|flag| flag == "0"),
                columns: vec![column],
                name,
            }),
        }
    }
    indexes.retain(|index| !partial.contains(&index.name));
    Ok(indexes)
}

/// Only a user with the right to make some sees any.
pub(super) async fn triggers(
    connection: &mut MySqlConnection,
    table: &Table,
) -> Result<Vec<Trigger>, sqlx::Error> {
    let rows = sqlx::query(
        "SELECT action_timing, event_manipulation, action_statement \
         FROM information_schema.triggers \
         WHERE event_object_schema = ? AND event_object_table = ?",
    )
    .bind(&table.schema)
    .bind(&table.name)
    .fetch_all(connection)
    .await?;
    let triggers = rows.iter().filter_map(|row| {
        Some(Trigger {
            timing: text(row, 0)?,
            event: text(row, 1)?,
            body: text(row, 2)?,
        })
    });
    Ok(triggers.collect())
}

pub(super) async fn variables(
    connection: &mut MySqlConnection,
    names: &[&'static str],
) -> Result<Variables, sqlx::Error> {
    let names = names.join("', '");
    let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ('{names}')");
    let rows = sqlx::query(AssertSqlSafe(sql))
        .fetch_all(connection)
        .await?;
    let named = |row| Some((text(row, 0)?.to_ascii_lowercase(), text(row, 1)?));
    Ok(Variables(rows.iter().filter_map(named).collect()))
}

/// What the server counts under this name.
pub(super) async fn status(
    connection: &mut MySqlConnection,
    name: &'static str,
) -> Result<Option<String>, sqlx::Error> {
    let sql = format!("SHOW GLOBAL STATUS LIKE '{}'", name.replace('_', "\\_"));
    let row = sqlx::query(AssertSqlSafe(sql)).fetch_optional(connection);
    Ok(row.await?.and_then(|row| text(&row, 1)))
}

impl Variables {
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| !matches!(value, "0" | "OFF" | ""))
    }
}

/// The columns of a query, as they will arrive. Nothing says that one of them is never NULL.
pub(super) async fn query_columns(
    connection: &mut MySqlConnection,
    server: &Server,
    query: &str,
) -> Result<Vec<Described>, sqlx::Error> {
    // A statement that is prepared already would say what the tables were like then.
    connection.clear_cached_statements().await?;
    let wrapped = prepared(connection, format!("SELECT * FROM (\n{query}\n) AS `q`")).await?;
    let inner = prepared(connection, query.to_owned()).await?;
    let mut columns = Vec::with_capacity(wrapped.columns().len());
    let mut tables: Vec<(String, Vec<Described>)> = Vec::new();
    for (at, column) in wrapped.columns().iter().enumerate() {
        let arriving = kind::of_wire(column.name(), column.type_info());
        let origin = inner.columns().get(at).map(sqlx::Column::origin);
        let origin = origin.as_ref().and_then(sqlx::ColumnOrigin::table_column);
        let Some(origin) = origin else {
            columns.push(arriving);
            continue;
        };
        let known = match tables.iter().position(|(name, _)| *name == *origin.table) {
            Some(known) => known,
            None => {
                let columns = origin_columns(connection, server, &origin.table).await?;
                tables.push((origin.table.to_string(), columns));
                tables.len() - 1
            }
        };
        let found = tables[known]
            .1
            .iter()
            .find(|found| found.name == *origin.name);
        columns.push(match found {
            Some(found) if kind::describes(found, column.type_info()) => Described {
                name: arriving.name,
                nullable: true,
                // What the query makes of it may compare differently.
                collation: None,
                ..found.clone()
            },
            _ => arriving,
        });
    }
    Ok(columns)
}

/// `schema.table`, where either may hold a dot; a wrong guess finds nothing.
async fn origin_columns(
    connection: &mut MySqlConnection,
    server: &Server,
    origin: &str,
) -> Result<Vec<Described>, sqlx::Error> {
    for (dot, _) in origin.match_indices('.') {
        let (schema, name) = (&origin[..dot], &origin[dot + 1..]);
        if let Some(table) = table(connection, server, schema, name).await? {
            let mut columns = columns(connection, &table).await?;
            mark_json(connection, server, &table, &mut columns).await?;
            return Ok(columns);
        }
    }
    Ok(Vec::new())
}

async fn prepared(
    connection: &mut MySqlConnection,
    sql: String,
) -> Result<sqlx::mysql::MySqlStatement, sqlx::Error> {
    connection.prepare(AssertSqlSafe(sql).into_sql_str()).await
}

/// The bytes of a value; `None` is NULL. (sqlx calls a zero date NULL as well.)
pub(super) fn bytes(row: &MySqlRow, column: usize) -> Option<&[u8]> {
    let value = row.try_get_raw(column).ok()?;
    <&[u8] as Decode<MySql>>::decode(value).ok()
}

/// Of the catalogue, whose types differ between servers.
pub(super) fn text(row: &MySqlRow, column: usize) -> Option<String> {
    let bytes = bytes(row, column)?;
    Some(String::from_utf8_lossy(bytes).into_owned())
}

fn number<T: std::str::FromStr>(row: &MySqlRow, column: usize) -> Option<T> {
    text(row, column)?.parse().ok()
}
