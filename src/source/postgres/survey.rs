//! A table, for `dbtick init`.

use sqlx::Postgres;
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Row, postgres::types::Oid};

use super::catalogue::{self, Class as Relkind, Declared};
use super::fault::Faults;
use super::kind::Kind;
use super::shape::relation;
use crate::config::Rows;
use crate::database::{Pool, Target};
use crate::source::SourceError;
use crate::source::survey::{Class, Database, Survey, Surveyed};

/// Valid indexes over all rows and plain columns.
const INDEXES: &str = "SELECT i.indisprimary, i.indisunique AND i.indimmediate, \
     (SELECT array_agg(a.attname::text ORDER BY k.place) \
      FROM unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, place) \
      JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number \
      WHERE k.place <= i.indnkeyatts) \
     FROM pg_index i \
     WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL";

pub(in crate::source) async fn survey(
    target: Target,
    setting: &str,
    schema: Option<&str>,
    table: &str,
) -> Result<Survey, SourceError> {
    let rows = Rows::Table {
        schema: schema.map(str::to_owned),
        table: table.to_owned(),
    };
    let faults = Faults::named(setting, &rows);
    let failed = |error| faults.explain("reading the catalogue", error);
    let mut connection = Pool::<Postgres>::new(target).take().await?;
    let found = relation(&faults, &mut connection, schema, table).await?;
    let columns = catalogue::columns(&mut connection, &found)
        .await
        .map_err(failed)?;
    let indexes = indexes(&mut connection, found.oid).await.map_err(failed)?;
    let of = |wanted: fn(&Index) -> bool| -> Vec<Vec<String>> {
        let wanted = indexes.iter().filter(|index| wanted(index));
        wanted.map(|index| index.columns.clone()).collect()
    };
    Ok(Survey {
        database: Database::Postgres,
        is_view: matches!(found.class, Relkind::View | Relkind::Foreign),
        schema: found.schema,
        table: found.name,
        columns: columns.iter().map(surveyed).collect(),
        primary_key: of(|index| index.is_primary).pop().unwrap_or_default(),
        unique: of(|index| index.is_unique),
        indexes: of(|_| true),
    })
}

struct Index {
    is_primary: bool,
    is_unique: bool,
    columns: Vec<String>,
}

async fn indexes(connection: &mut PgConnection, table: u32) -> Result<Vec<Index>, sqlx::Error> {
    let rows = sqlx::query(INDEXES)
        .bind(Oid(table))
        .fetch_all(connection)
        .await?;
    let index = |row: &PgRow| {
        Ok(Index {
            is_primary: row.try_get(0)?,
            is_unique: row.try_get(1)?,
            columns: row.try_get(2)?,
        })
    };
    rows.iter().map(index).collect()
}

fn surveyed(column: &Declared) -> Surveyed {
    Surveyed {
        name: column.name.clone(),
        type_name: column.typed.shown.clone(),
        nullable: column.nullable,
        class: match column.typed.form().kind {
            Kind::Int2 | Kind::Int4 | Kind::Int8 => Class::Integer,
            Kind::Timestamptz => Class::Instant,
            Kind::Timestamp => Class::Local,
            _ => Class::Other,
        },
    }
}
