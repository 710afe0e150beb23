//! What the database says about itself. Names are parameters here, never SQL.

use std::sync::Arc;

use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgColumn, PgConnection, PgRow};
use sqlx::{AssertSqlSafe, Column as _, Executor, Row, SqlSafeStr, Statement};

use super::kind::Type;

/// A table, view or whatever else has rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relation {
    pub(super) oid: u32,
    pub(super) schema: String,
    pub(super) name: String,
    pub(super) class: Class,
}

/// `pg_class.relkind`, as far as there are rows in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Table,
    Partitioned,
    View,
    MaterializedView,
    Foreign,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Declared {
    pub(super) name: String,
    pub(super) typed: Type,
    pub(super) nullable: bool,
    /// The column's own collation orders text by byte, or it has none.
    pub(super) by_byte: bool,
    /// `None` where a query makes it up.
    pub(super) origin: Option<Origin>,
}

/// A column of a table or view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) relation: u32,
    pub(super) number: i16,
}

/// A column before its type is looked up.
struct Bare {
    name: String,
    type_oid: Oid,
    modifier: i32,
    nullable: bool,
    by_byte: bool,
    origin: Option<Origin>,
}

/// Views of views are followed so far.
const MOST_VIEWS: usize = 8;

/// Constraints that were never checked against the rows that are there (PostgreSQL 18) do not count.
const NOT_NULL: &str = "a.attnotnull AND NOT EXISTS (SELECT FROM pg_catalog.pg_constraint n \
    WHERE n.conrelid = a.attrelid AND n.contype = 'n' AND NOT n.convalidated \
    AND a.attnum = ANY (n.conkey))";

/// Collations that compare bytes: an index in them is an index in our order.
const BY_BYTE: &str = "coalesce((SELECT CASE \
    WHEN k.collname IN ('C', 'POSIX', 'ucs_basic') THEN true \
    WHEN k.collname <> 'default' THEN false \
    ELSE (SELECT CASE coalesce(to_jsonb(d)->>'datlocprovider', 'c') \
            WHEN 'c' THEN d.datcollate IN ('C', 'POSIX') \
            WHEN 'b' THEN true ELSE false END \
          FROM pg_catalog.pg_database d WHERE d.datname = current_database()) END \
    FROM pg_catalog.pg_collation k WHERE k.oid = a.attcollation \
    AND k.collnamespace = 'pg_catalog'::regnamespace), a.attcollation = 0)";

/// By exact name; without a schema, the first in the search path that has it.
pub(super) async fn relation(
    connection: &mut PgConnection,
    schema: Option<&str>,
    name: &str,
) -> Result<Option<Relation>, sqlx::Error> {
    let found: Option<(Oid, String, String)> = sqlx::query_as(
        "SELECT c.oid, n.nspname, c.relkind::text \
         FROM unnest(CASE WHEN $1::text IS NULL THEN current_schemas(false)::text[] ELSE ARRAY[$1::text] END) \
              WITH ORDINALITY AS s(name, place) \
         JOIN pg_catalog.pg_namespace n ON n.nspname = s.name \
         JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid \
         WHERE c.relname = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f') \
         ORDER BY s.place LIMIT 1",
    )
    .bind(schema)
    .bind(name)
    .fetch_optional(connection)
    .await?;
    Ok(found.map(|(oid, schema, kind)| Relation {
        oid: oid.0,
        schema,
        name: name.to_owned(),
        class: match kind.as_str() {
            "p" => Class::Partitioned,
            "v" => Class::View,
            "m" => Class::MaterializedView,
            "f" => Class::Foreign,
            _ => Class::Table,
        },
    }))
}

/// What a person may have meant. Those outside of the search path carry their schema.
pub(super) async fn relations(
    connection: &mut PgConnection,
    schema: Option<&str>,
) -> Result<Vec<String>, sqlx::Error> {
    sqlx::query_scalar(
        "SELECT CASE WHEN $1::text IS NOT NULL OR n.nspname = ANY (current_schemas(false)) \
                THEN c.relname::text ELSE n.nspname || '.' || c.relname END \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition \
         AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') \
         AND ($1::text IS NULL OR n.nspname = $1) ORDER BY 1 LIMIT 1000",
    )
    .bind(schema)
    .fetch_all(connection)
    .await
}

/// Given to a cluster when it is made, and shared by its replicas; `None` where it is not told.
pub(super) async fn identity(connection: &mut PgConnection) -> Option<Arc<str>> {
    let sql = "SELECT 'system ' || system_identifier FROM pg_catalog.pg_control_system()";
    let identity: String = sqlx::query_scalar(sql).fetch_one(connection).await.ok()?;
    Some(identity.into())
}

/// Changes whenever something changes that a shape is made from; `None` without the relation.
pub(super) async fn version(
    connection: &mut PgConnection,
    relation: &Relation,
) -> Result<Option<String>, sqlx::Error> {
    let sql = format!(
        "SELECT concat_ws(' ', c.oid, c.relkind, (SELECT md5(string_agg(concat_ws(' ', a.attnum, \
            a.attname, a.atttypid, a.atttypmod, a.attcollation, {NOT_NULL}), ',' ORDER BY a.attnum)) \
            FROM pg_catalog.pg_attribute a \
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped)) \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE n.nspname = $1 AND c.relname = $2"
    );
    sqlx::query_scalar(AssertSqlSafe(sql))
        .bind(&relation.schema)
        .bind(&relation.name)
        .fetch_optional(connection)
        .await
}

pub(super) async fn columns(
    connection: &mut PgConnection,
    relation: &Relation,
) -> Result<Vec<Declared>, sqlx::Error> {
    let sql = format!(
        "SELECT a.attname, a.atttypid, a.atttypmod, {NOT_NULL}, {BY_BYTE}, a.attnum \
         FROM pg_catalog.pg_attribute a \
         WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"
    );
    let rows = sqlx::query(AssertSqlSafe(sql))
        .bind(Oid(relation.oid))
        .fetch_all(&mut *connection)
        .await?;
    // Nothing makes a foreign server keep what is declared here.
    let is_kept = relation.class != Class::Foreign;
    let bare = |row: PgRow| -> Result<Bare, sqlx::Error> {
        let not_null: bool = row.try_get(3)?;
        Ok(Bare {
            name: row.try_get(0)?,
            type_oid: row.try_get(1)?,
            modifier: row.try_get(2)?,
            nullable: !(is_kept && not_null),
            by_byte: row.try_get(4)?,
            origin: Some(Origin {
                relation: relation.oid,
                number: row.try_get(5)?,
            }),
        })
    };
    let bare = rows.into_iter().map(bare).collect::<Result<Vec<_>, _>>()?;
    declared(connection, bare).await
}

/// The statement that a query is described with. It reads no row; the server refuses to run it
/// again once it would have other columns.
pub(super) fn description(query: &str) -> String {
    format!("SELECT * FROM (\n{query}\n) AS \"q\" LIMIT 0")
}

/// Names and types of a query's columns, as this connection remembers them.
pub(super) async fn query_version(
    connection: &mut PgConnection,
    query: &str,
) -> Result<String, sqlx::Error> {
    let statement = connection
        .prepare(AssertSqlSafe(description(query)).into_sql_str())
        .await?;
    let columns = statement.columns().iter();
    let parts: Vec<_> = columns
        .map(|column| format!("{:?} {:?}", column.name(), column.type_info().oid()))
        .collect();
    Ok(parts.join(","))
}

/// The columns of a query. Nothing says that one of them is never NULL.
pub(super) async fn query_columns(
    connection: &mut PgConnection,
    query: &str,
) -> Result<Vec<Declared>, sqlx::Error> {
    let statement = (&mut *connection)
        .prepare(AssertSqlSafe(description(query)).into_sql_str())
        .await?;
    let described = statement.columns();
    let from: Vec<_> = described.iter().map(origin_of).collect();
    let number = |origin: &Option<Origin>| origin.map_or(0, |origin| origin.number);
    let relation = |origin: &Option<Origin>| Oid(origin.map_or(0, |origin| origin.relation));
    let numbers: Vec<_> = from.iter().map(number).collect();
    let relations: Vec<_> = from.iter().map(relation).collect();
    // A column that is passed on as it is keeps its modifier and its collation.
    let sql = format!(
        "SELECT coalesce(a.atttypmod, -1), coalesce({BY_BYTE}, false) \
         FROM unnest($1::oid[], $2::int2[]) WITH ORDINALITY AS o(relation, number, place) \
         LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = o.relation AND a.attnum = o.number \
         ORDER BY o.place"
    );
    let origins: Vec<(i32, bool)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(relations)
        .bind(numbers)
        .fetch_all(&mut *connection)
        .await?;
    let bare = described
        .iter()
        .zip(from)
        .zip(origins)
        .map(|((column, origin), (modifier, by_byte))| Bare {
            name: column.name().to_owned(),
            type_oid: column.type_info().oid().unwrap_or(Oid(0)),
            modifier,
            nullable: true,
            by_byte,
            origin,
        })
        .collect();
    declared(connection, bare).await
}

fn origin_of(column: &PgColumn) -> Option<Origin> {
    Some(Origin {
        relation: column.relation_id().filter(|oid| oid.0 != 0)?.0,
        number: column.relation_attribute_no()?,
    })
}

/// The column of a table that a view passes on as it is, through views of views.
pub(super) async fn base(
    connection: &mut PgConnection,
    origin: Option<Origin>,
) -> Result<Option<Origin>, sqlx::Error> {
    let mut found = origin;
    for _ in 0..MOST_VIEWS {
        let Some(Origin { relation, number }) = found else {
            return Ok(None);
        };
        let definition: Option<String> = sqlx::query_scalar(
            "SELECT rtrim(pg_catalog.pg_get_viewdef(c.oid), '; ') \
             FROM pg_catalog.pg_class c WHERE c.oid = $1 AND c.relkind = 'v'",
        )
        .bind(Oid(relation))
        .fetch_optional(&mut *connection)
        .await?;
        let Some(definition) = definition else {
            return Ok(found);
        };
        let statement = (&mut *connection)
            .prepare(AssertSqlSafe(description(&definition)).into_sql_str())
            .await?;
        let place = usize::try_from(number - 1).ok();
        found = place.and_then(|place| origin_of(statement.columns().get(place)?));
    }
    Ok(None)
}

/// Looks the types up: domains down to what they are made of, arrays down to their elements.
async fn declared(
    connection: &mut PgConnection,
    bare: Vec<Bare>,
) -> Result<Vec<Declared>, sqlx::Error> {
    let oids: Vec<_> = bare.iter().map(|column| column.type_oid).collect();
    let modifiers: Vec<_> = bare.iter().map(|column| column.modifier).collect();
    let rows: Vec<(i64, bool, Oid, String, i32, String, bool)> = sqlx::query_as(
        "WITH RECURSIVE chain(place, oid, modifier, is_element) AS ( \
             SELECT u.place, u.oid, u.modifier, false \
             FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS u(oid, modifier, place) \
             UNION ALL \
             SELECT c.place, \
                    CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.typelem END, \
                    CASE WHEN t.typtype = 'd' THEN t.typtypmod ELSE -1 END, \
                    c.is_element OR t.typtype <> 'd' \
             FROM chain c JOIN pg_catalog.pg_type t ON t.oid = c.oid \
             WHERE t.typtype = 'd' OR (NOT c.is_element AND t.typoutput = 'pg_catalog.array_out'::regproc)) \
         SELECT c.place, c.is_element, t.oid, t.typname::text, c.modifier, \
                format_type(t.oid, c.modifier), t.typtype = 'e' \
         FROM chain c JOIN pg_catalog.pg_type t ON t.oid = c.oid \
         WHERE t.typtype <> 'd' ORDER BY c.place, c.is_element",
    )
    .bind(oids)
    .bind(modifiers)
    .fetch_all(connection)
    .await?;
    let mut rows = rows.into_iter().peekable();
    let mut declared = Vec::with_capacity(bare.len());
    for (place, column) in (1..).zip(bare) {
        let Some((_, _, oid, name, modifier, shown, is_enum)) =
            rows.next_if(|row| row.0 == place && !row.1)
        else {
            // Dropped between two of these statements.
            return Err(sqlx::Error::TypeNotFound {
                type_name: column.name,
            });
        };
        let element = rows.next_if(|row| row.0 == place).map(|row| row.2.0);
        declared.push(Declared {
            name: column.name,
            typed: Type {
                oid: oid.0,
                name,
                modifier,
                shown,
                is_enum,
                element,
            },
            nullable: column.nullable,
            by_byte: column.by_byte,
            origin: column.origin,
        });
    }
    Ok(declared)
}
