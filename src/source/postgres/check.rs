//! What `dbtick check` says about a table or query in PostgreSQL.

mod plan;
mod server;

use sqlx::postgres::PgConnection;
use sqlx::postgres::types::Oid;

use super::catalogue::Class;
use super::fault::Faults;
use super::late::{Looking, Memory};
use super::page::Reading;
use super::shape::PostgresShape;
use crate::config::{FutureRows, Rows, SourceConfig};
use crate::model::position::{CursorKind, MomentKind, Position, ScalarType};
use crate::source::findings::{self, finding};
use crate::source::names::shown;
use crate::source::{Description, Finding, Grade, SourceError};

pub(super) async fn describe(
    config: &SourceConfig,
    connection: &mut PgConnection,
    shape: &PostgresShape,
    memory: &Memory,
) -> Result<Description, SourceError> {
    let faults = Faults::of(config);
    let failed = |error| faults.explain("describing the source", error);
    let server = server::Server::load(connection).await.map_err(failed)?;
    let mut found = server.findings();
    found.push(
        server::rights(connection, shape.relation.as_ref())
            .await
            .map_err(failed)?,
    );
    let last = Reading {
        connection: &mut *connection,
        shape,
        faults,
    }
    .last(None)
    .await;
    let sample = last.as_ref().ok().and_then(Option::as_ref);
    found.extend([
        findings::columns(shape.shape.delivered),
        nulls(config, shape),
        findings::unique(is_unique(connection, shape).await.map_err(failed)?),
    ]);
    let outlook = Looking {
        config,
        connection: &mut *connection,
        shape,
        memory,
    }
    .outlook()
    .await;
    let protection = match outlook {
        Ok(outlook) => {
            let protection = outlook.plan.protection.clone();
            found.push(findings::late_commits(&protection, config.late.mode));
            if config.late.future == FutureRows::Hold {
                found.extend(outlook.ahead(sample));
            }
            Some(protection)
        }
        Err(error) => {
            memory.forget();
            found.push(finding(Grade::Fail, "late commits", error.to_string()));
            None
        }
    };
    // Without the right to read there is no plan either, and the last row says so.
    if last.is_ok() {
        found.push(
            plan::index(connection, shape, sample)
                .await
                .map_err(failed)?,
        );
    }
    found.extend(cursor(shape));
    found.extend(relation(connection, shape).await.map_err(failed)?);
    found.extend(findings::query_words(config));
    found.extend(volatile(connection, config, shape).await.map_err(failed)?);
    found.extend(
        last.as_ref()
            .err()
            .map(|error| finding(Grade::Fail, "last row", error.to_string())),
    );
    Ok(Description {
        server: server.shown(),
        columns: shape.shape.types.to_vec(),
        cursor_kind: cursor_kind(shape, sample),
        findings: found,
        protection,
    })
}

fn nulls(config: &SourceConfig, shape: &PostgresShape) -> Finding {
    let order = shape.shape.keyset.order.iter();
    let nullable = order.filter(|column| shape.declared(**column).nullable);
    findings::nulls(
        config.nulls,
        nullable.map(|column| shape.shape.name(*column)),
    )
}

/// Indexes over a part of the rows, over expressions or over columns that may be NULL prove
/// nothing; nor does one of a table whose children have rows of their own.
async fn is_unique(
    connection: &mut PgConnection,
    shape: &PostgresShape,
) -> Result<bool, sqlx::Error> {
    let Some(relation) = &shape.relation else {
        return Ok(false);
    };
    let order = shape.shape.keyset.order.iter();
    let names: Vec<_> = order.map(|column| shape.shape.name(*column)).collect();
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM pg_catalog.pg_index i \
             JOIN pg_catalog.pg_class c ON c.oid = i.indrelid \
             WHERE i.indrelid = $1 AND i.indisunique AND i.indisvalid \
             AND i.indpred IS NULL AND i.indexprs IS NULL \
             AND NOT (c.relkind = 'r' AND c.relhassubclass) \
             AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a \
                 WHERE a.attrelid = i.indrelid \
                 AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) \
                 AND NOT (a.attnotnull AND a.attname::text = ANY ($2))))",
    )
    .bind(Oid(relation.oid))
    .bind(names)
    .fetch_one(connection)
    .await
}

/// What comes with the type and the name of the cursor.
fn cursor(shape: &PostgresShape) -> Vec<Finding> {
    let [cursor] = shape.shape.cursor.as_slice() else {
        return Vec::new();
    };
    let declared = shape.declared(*cursor);
    let (name, sql_type) = (shown(&declared.name), &declared.typed.shown);
    let mut found = vec![finding(
        Grade::Pass,
        "cursor",
        format!("{name} is {sql_type}"),
    )];
    let mut warn = |subject, text: String| found.push(finding(Grade::Warn, subject, text));
    match shape.ordered(*cursor) {
        Some(ScalarType::Moment(MomentKind::Local)) => warn(
            "time zone",
            format!(
                "{sql_type} has no time zone: {name} is taken as it is, in the zone of \
                 source.time_zone or else UTC, and goes back by an hour once a year where writers \
                 use local time; timestamptz does not"
            ),
        ),
        Some(ScalarType::Text | ScalarType::Bytes) => {
            warn("late rows", findings::TEXT_ORDER.into());
        }
        Some(_) | None => {}
    }
    found.extend(findings::creation(&declared.name));
    found
}

async fn relation(
    connection: &mut PgConnection,
    shape: &PostgresShape,
) -> Result<Vec<Finding>, sqlx::Error> {
    let Some(relation) = &shape.relation else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    match relation.class {
        Class::MaterializedView => found.push(finding(
            Grade::Warn,
            "relation",
            "a materialized view shows rows as of its last REFRESH",
        )),
        Class::Foreign => found.push(finding(
            Grade::Warn,
            "relation",
            "the rows of a foreign table are on another server, which must have the index and its own order of text must be by byte",
        )),
        Class::Table | Class::Partitioned | Class::View => {}
    }
    let hides: bool =
        sqlx::query_scalar("SELECT relrowsecurity FROM pg_catalog.pg_class WHERE oid = $1")
            .bind(Oid(relation.oid))
            .fetch_one(connection)
            .await?;
    if hides {
        found.push(finding(
            Grade::Warn,
            "rights",
            "row level security is on: rows that its policies hide from this user are not seen",
        ));
    }
    Ok(found)
}

/// Functions whose results differ from one call to the next, by the words of the query or view.
async fn volatile(
    connection: &mut PgConnection,
    config: &SourceConfig,
    shape: &PostgresShape,
) -> Result<Option<Finding>, sqlx::Error> {
    let text: Option<String> = match (&config.rows, &shape.relation) {
        (Rows::Query(query), _) => Some(query.clone()),
        (Rows::Table { .. }, Some(relation)) if relation.class == Class::View => {
            sqlx::query_scalar("SELECT pg_catalog.pg_get_viewdef($1)")
                .bind(Oid(relation.oid))
                .fetch_one(&mut *connection)
                .await?
        }
        _ => None,
    };
    let mut words = findings::words(&text.unwrap_or_default());
    words.extend(findings::words(
        config.filter.as_deref().unwrap_or_default(),
    ));
    let names: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT proname::text FROM pg_catalog.pg_proc \
         WHERE provolatile = 'v' AND prokind = 'f' AND proname::text = ANY ($1) ORDER BY 1",
    )
    .bind(words)
    .fetch_all(connection)
    .await?;
    Ok((!names.is_empty()).then(|| {
        let text = format!(
            "{} can give another result each time: rows may move or vanish between two pages",
            names.join(", ")
        );
        finding(Grade::Warn, "query", text)
    }))
}

fn cursor_kind(shape: &PostgresShape, sample: Option<&Position>) -> CursorKind {
    let [cursor] = shape.shape.cursor.as_slice() else {
        return CursorKind::Composite;
    };
    match (sample, shape.ordered(*cursor)) {
        (Some(sample), _) => CursorKind::of(sample.cursor()),
        (None, Some(ScalarType::Integer)) => CursorKind::Integer,
        (None, Some(ScalarType::Decimal | ScalarType::Float)) => CursorKind::Version,
        (None, Some(ScalarType::Moment(MomentKind::Instant))) => CursorKind::Timestamp,
        (None, Some(ScalarType::Moment(_))) => CursorKind::LocalTimestamp,
        (None, _) => CursorKind::Text,
    }
}
