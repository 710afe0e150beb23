//! What `dbtick check` says about a table or query in MySQL and MariaDB.

mod server;

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Row};

use super::fault::Faults;
use super::kind::{Kind, Order};
use super::page::Reading;
use super::shape::{MySqlShape, Typed};
use crate::config::SourceConfig;
use crate::model::position::{CursorKind, ScalarType};
use crate::source::findings::{self, finding};
use crate::source::names::shown;
use crate::source::{Description, Finding, Grade, SourceError};

pub(super) async fn describe(
    config: &SourceConfig,
    connection: &mut MySqlConnection,
    shape: &MySqlShape,
) -> Result<Description, SourceError> {
    let faults = Faults::of_source(config);
    let failed = |error| faults.of("describing the source", error);
    // Who may read a view may still not be shown how it is made.
    let plan = plan(connection, shape).await.ok();
    let mut found = server::findings(connection, shape).await.map_err(failed)?;
    let last = Reading {
        connection: &mut *connection,
        shape,
        faults,
    }
    .last(None)
    .await;
    let kind = match &last {
        Ok(Some(position)) => CursorKind::of(position.cursor()),
        _ => declared_kind(shape),
    };
    let nullable = order(shape)
        .filter(|column| column.described.nullable)
        .map(|column| column.described.name.as_str());
    found.extend([
        findings::columns(shape.shape.delivered),
        findings::nulls(config.nulls, nullable),
        unique(shape),
        findings::late_commits_unjudged(),
        index(shape, plan.as_deref()),
    ]);
    found.extend(cursor(shape, kind));
    found.extend(findings::query_words(config));
    found.extend(
        last.err()
            .map(|error| finding(Grade::Fail, "last row", error.to_string())),
    );
    Ok(Description {
        server: server::name(&shape.server),
        columns: shape.shape.types.to_vec(),
        cursor_kind: kind,
        findings: found,
        protection: None,
    })
}

/// One step of the server's plan for a page in the middle.
#[derive(Debug)]
struct Step {
    access: String,
    key: Option<String>,
    sorts: bool,
}

/// For one row: with few rows in the table the server would rather sort them all.
async fn plan(
    connection: &mut MySqlConnection,
    shape: &MySqlShape,
) -> Result<Vec<Step>, sqlx::Error> {
    let keyset = &shape.shape.keyset;
    let statement = if keyset.has_edge() {
        keyset.edge(false)
    } else {
        keyset.page(false)
    };
    let limit = i64::from(!keyset.has_edge());
    let sql = format!("EXPLAIN {}", statement.sql);
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for _ in &statement.parameters {
        query = query.bind(limit);
    }
    let rows = query.fetch_all(connection).await?;
    let text = |row: &sqlx::mysql::MySqlRow, name: &str| {
        let at = row
            .columns()
            .iter()
            .position(|column| sqlx::Column::name(column).eq_ignore_ascii_case(name))?;
        super::catalogue::text(row, at)
    };
    Ok(rows
        .iter()
        .map(|row| Step {
            access: text(row, "type").unwrap_or_default(),
            key: text(row, "key"),
            sorts: text(row, "Extra")
                .is_some_and(|extra| extra.contains("filesort") || extra.contains("temporary")),
        })
        .collect())
}

/// NULLs are not equal to each other, so a nullable column proves nothing.
fn unique(shape: &MySqlShape) -> Finding {
    let names: Vec<_> = order(shape)
        .filter(|column| !column.described.nullable)
        .map(|column| column.described.name.as_str())
        .collect();
    let indexes = shape.table.iter().flat_map(|(_, indexes)| indexes);
    let proven = indexes.filter(|index| index.unique).any(|index| {
        let mut columns = index.columns.iter();
        columns.all(|column| names.contains(&column.as_str()))
    });
    findings::unique(proven)
}

fn index(shape: &MySqlShape, plan: Option<&[Step]>) -> Finding {
    let keyset = &shape.shape.keyset;
    let leading = keyset.leading();
    if leading == 0 {
        let column = shape.typed(keyset.order[0]);
        let collation = match shape.server.is_mariadb {
            true => "utf8mb4_nopad_bin",
            false => "utf8mb4_0900_bin",
        };
        return finding(
            Grade::Warn,
            "index",
            format!(
                "every page sorts the whole table: {} is ordered by byte, which no index of it is; \
                 a cursor of text needs CHARACTER SET utf8mb4 COLLATE {collation}",
                shown(&column.described.name)
            ),
        );
    }
    let names: Vec<_> = keyset.order[..leading]
        .iter()
        .map(|column| shape.shape.name(*column))
        .collect();
    let indexes = shape.table.iter().flat_map(|(_, indexes)| indexes);
    let fitting = indexes
        .filter(|index| index.columns.len() >= leading)
        .find(|index| {
            index
                .columns
                .iter()
                .zip(&names)
                .all(|(one, other)| one == other)
        })
        .map(|index| index.name.clone());
    let planned = plan.and_then(|plan| {
        let by_index = |step: &Step| step.access != "ALL" && !step.sorts;
        let all = plan.iter().all(by_index);
        plan.first().filter(|_| all)?.key.clone()
    });
    if let Some(name) = fitting.or(planned) {
        let ties = match leading < keyset.order.len() {
            true => "; rows that share a cursor are sorted, because text is in no index by byte",
            false => "",
        };
        let text = format!("a page is a range of the index {}{ties}", shown(&name));
        return finding(Grade::Pass, "index", text);
    }
    if plan.is_none() {
        let text = "whether an index serves a page cannot be told: the user may not EXPLAIN it (SHOW VIEW is needed)";
        return finding(Grade::Warn, "index", text);
    }
    let is_view = shape.table.as_ref().is_none_or(|(table, _)| table.is_view);
    let remedy = match keyset.index(|_| false) {
        Some(index) if !is_view => index,
        _ => "an index on the cursor and key columns of the tables behind it is needed".into(),
    };
    finding(
        Grade::Warn,
        "index",
        format!("every page reads the whole table: {remedy}"),
    )
}

/// What comes with the type of the cursor.
fn cursor(shape: &MySqlShape, kind: CursorKind) -> Vec<Finding> {
    let [cursor] = shape.shape.cursor.as_slice() else {
        return Vec::new();
    };
    let Typed {
        described,
        kind: stored,
        order,
    } = shape.typed(*cursor);
    let name = shown(&described.name);
    let column_type = &described.column_type;
    let mut found = vec![finding(
        Grade::Pass,
        "cursor",
        format!("{name} is {column_type}"),
    )];
    if let Kind::DateTime { digits, instant } = *stored {
        if !instant {
            let text = format!(
                "{column_type} has no time zone: {name} is taken as it is, and goes back by an hour \
                 once a year where writers use local time"
            );
            found.push(finding(Grade::Warn, "time zone", text));
        }
        let precision = match digits {
            0 => "; it has whole seconds only, so that is every row of the current second",
            _ => "",
        };
        let text = format!(
            "rows that share the newest moment and are committed later with a smaller key are not \
             seen, nor rows of a transaction that took its time{precision}"
        );
        found.push(finding(Grade::Warn, "late rows", text));
    }
    if described.data_type == "date" {
        let text =
            "a date is one tie per day: rows committed later with a smaller key are not seen";
        found.push(finding(Grade::Warn, "late rows", text));
    }
    if kind == CursorKind::Text || *order == Order::ByByte {
        found.push(finding(Grade::Warn, "late rows", findings::TEXT_ORDER));
    }
    if stored.scalar_type() == ScalarType::Integer {
        let text = "numbers are given out before they are committed: a row of a slow transaction that becomes visible behind the checkpoint is not seen";
        found.push(finding(Grade::Warn, "late rows", text));
    }
    found.extend(findings::creation(&described.name));
    found
}

fn declared_kind(shape: &MySqlShape) -> CursorKind {
    let [cursor] = shape.shape.cursor.as_slice() else {
        return CursorKind::Composite;
    };
    match shape.typed(*cursor).kind {
        Kind::DateTime { instant: true, .. } => CursorKind::Timestamp,
        Kind::DateTime { instant: false, .. } | Kind::Date => CursorKind::LocalTimestamp,
        Kind::Decimal | Kind::Float | Kind::Double => CursorKind::Version,
        Kind::Text | Kind::Json | Kind::Bytes | Kind::Time { .. } => CursorKind::Text,
        Kind::Integer { .. } | Kind::Wide { .. } | Kind::Flag | Kind::Bits | Kind::WideBits => {
            CursorKind::Integer
        }
    }
}

fn order(shape: &MySqlShape) -> impl Iterator<Item = &Typed> {
    let order = shape.shape.keyset.order.iter();
    order.map(|column| shape.typed(*column))
}
