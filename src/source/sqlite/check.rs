//! What `dbtick check` says about a table or query in SQLite.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use super::fault::Faults;
use super::page::Reading;
use super::shape::SqliteShape;
use crate::config::SourceConfig;
use crate::model::position::{CursorKind, Scalar};
use crate::source::findings::{self, finding};
use crate::source::late;
use crate::source::{Description, Finding, Grade, SourceError};

pub(super) async fn describe(
    config: &SourceConfig,
    connection: &mut SqliteConnection,
    shape: &SqliteShape,
) -> Result<Description, SourceError> {
    let faults = Faults {
        setting: &config.connection_name,
    };
    let failed = |error| faults.of("describing the source", error);
    let version: String = sqlx::query_scalar("SELECT sqlite_version()")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
    let plan = plan(connection, shape).await.map_err(failed)?;
    let last = Reading {
        connection: &mut *connection,
        shape,
        faults,
    }
    .last(None)
    .await;
    let sample = last.as_ref().ok().and_then(Option::as_ref);
    let kind = cursor_kind(shape, sample.and_then(|position| position.cursor().first()));
    let server = format!("SQLite {version}");
    let mut findings = vec![
        finding(Grade::Pass, "server", server.clone()),
        findings::columns(shape.shape.delivered),
        nulls(config, shape),
        unique(shape),
        index(shape, &plan),
        late::finding(&shape.plan, &config.late),
    ];
    findings.extend(cursor(shape, kind));
    findings.extend(findings::query_words(config));
    findings.extend(
        last.err()
            .map(|error| finding(Grade::Fail, "last row", error.to_string())),
    );
    Ok(Description {
        server,
        columns: shape.shape.types.to_vec(),
        cursor_kind: kind,
        findings,
        protection: Some(shape.plan.protection.clone()),
    })
}

/// The steps that SQLite would take for a page in the middle.
pub(super) async fn plan(
    connection: &mut SqliteConnection,
    shape: &SqliteShape,
) -> Result<Vec<String>, sqlx::Error> {
    let statement = shape.shape.keyset.page(true);
    let sql = format!("EXPLAIN QUERY PLAN {}", statement.sql);
    let mut query = sqlx::query_as::<_, (i64, i64, i64, String)>(AssertSqlSafe(sql));
    for _ in &statement.parameters {
        query = query.bind(1_i64);
    }
    let steps = query.fetch_all(connection).await?;
    Ok(steps.into_iter().map(|(_, _, _, detail)| detail).collect())
}

pub(super) fn is_served(plan: &[String]) -> bool {
    !plan
        .iter()
        .any(|step| step.starts_with("SCAN") || step.contains("TEMP B-TREE"))
}

fn nulls(config: &SourceConfig, shape: &SqliteShape) -> Finding {
    let order = shape.shape.keyset.order.iter();
    let nullable = order.filter(|column| shape.declared(**column).nullable);
    findings::nulls(
        config.nulls,
        nullable.map(|column| shape.shape.name(*column)),
    )
}

fn unique(shape: &SqliteShape) -> Finding {
    let names: Vec<_> = shape
        .shape
        .keyset
        .order
        .iter()
        .map(|at| shape.shape.name(*at))
        .collect();
    let proven = shape
        .table
        .iter()
        .flat_map(|table| &table.unique)
        .any(|unique| unique.iter().all(|column| names.contains(&column.as_str())));
    findings::unique(proven)
}

fn index(shape: &SqliteShape, plan: &[String]) -> Finding {
    if is_served(plan) {
        let searches = plan.iter().filter(|step| step.starts_with("SEARCH"));
        let searches: Vec<_> = searches.map(String::as_str).collect();
        let text = format!("a page is an index range: {}", searches.join(", "));
        return finding(Grade::Pass, "index", text);
    }
    let is_view = shape.table.as_ref().is_none_or(|table| table.is_view);
    let remedy = match shape.shape.keyset.index(|at| shape.declared(at).is_rowid) {
        Some(index) if !is_view => index,
        _ => "an index on the cursor and key columns of the tables behind it is needed".into(),
    };
    finding(
        Grade::Warn,
        "index",
        format!(
            "every page reads the whole table ({}): {remedy}",
            plan.join("; ")
        ),
    )
}

/// What comes with the type of the cursor.
fn cursor(shape: &SqliteShape, kind: CursorKind) -> Option<Finding> {
    let [cursor] = shape.shape.cursor.as_slice() else {
        return None;
    };
    let (subject, text) = match kind {
        CursorKind::LocalTimestamp => (
            "time zone",
            "the text has no time zone and is taken as it is; where writers use local time, it goes \
             back by an hour once a year",
        ),
        CursorKind::Text => ("late rows", findings::TEXT_ORDER),
        _ if shape.declared(*cursor).is_rowid
            && shape
                .table
                .as_ref()
                .is_some_and(|table| !table.autoincrement) =>
        {
            (
                "late rows",
                "without AUTOINCREMENT the id of a deleted last row is given again, and the new row is not seen",
            )
        }
        _ => return None,
    };
    Some(finding(Grade::Warn, subject, text))
}

fn cursor_kind(shape: &SqliteShape, sample: Option<&Scalar>) -> CursorKind {
    let [cursor] = shape.shape.cursor.as_slice() else {
        return CursorKind::Composite;
    };
    match sample {
        Some(sample) => CursorKind::of(std::slice::from_ref(sample)),
        None => {
            let declared = shape.declared(*cursor).declared.to_ascii_uppercase();
            match declared {
                name if name.contains("INT") => CursorKind::Integer,
                name if name.contains("DATE") || name.contains("TIME") => {
                    CursorKind::LocalTimestamp
                }
                _ => CursorKind::Text,
            }
        }
    }
}
