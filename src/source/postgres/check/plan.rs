//! Whether an index serves the pages, by the server's own plan.

use serde_json::Value;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor, Row};

use crate::model::position::Position;
use crate::source::findings::finding;
use crate::source::names::shown;
use crate::source::postgres::catalogue::Class;
use crate::source::postgres::page::prepared;
use crate::source::postgres::shape::PostgresShape;
use crate::source::{Finding, Grade};

/// What a plan is made of, as far as it matters here.
#[derive(Debug, Default)]
struct Steps {
    /// Indexes that are entered in the middle.
    entered: Vec<String>,
    /// Indexes that are read from their beginning.
    read: Vec<String>,
    scans: bool,
    sorts: bool,
    sorts_ties: bool,
}

pub(super) async fn index(
    connection: &mut PgConnection,
    shape: &PostgresShape,
    sample: Option<&Position>,
) -> Result<Finding, sqlx::Error> {
    let steps = steps(connection, shape, sample).await?;
    let is_table = shape
        .relation
        .as_ref()
        .is_some_and(|relation| matches!(relation.class, Class::Table | Class::Partitioned));
    let remedy = match shape.shape.keyset.index(|_| false) {
        Some(index) if is_table => index,
        _ => "an index on the cursor and key columns of the tables behind it is needed".into(),
    };
    let names = |indexes: &[String]| {
        let names: Vec<_> = indexes.iter().take(3).map(|name| shown(name)).collect();
        names.join(", ")
    };
    let indexed = match sample {
        Some(_) => &steps.entered,
        // Without a row there is no position to enter at.
        None => &steps.read,
    };
    Ok(if steps.scans || steps.sorts || indexed.is_empty() {
        let text = format!("every page reads the whole table: {remedy}");
        finding(Grade::Warn, "index", text)
    } else if steps.sorts_ties {
        let text = format!(
            "a page is a range of the index {}, but rows that share a cursor are read and sorted \
             again for every page: {remedy}",
            names(indexed)
        );
        finding(Grade::Warn, "index", text)
    } else {
        let text = format!("a page is a range of the index {}", names(indexed));
        finding(Grade::Pass, "index", text)
    })
}

/// A small table is read whole and sorted whatever indexes it has, so the planner is kept from that:
/// what it then cannot do without, it will do when the table is large.
async fn steps(
    connection: &mut PgConnection,
    shape: &PostgresShape,
    sample: Option<&Position>,
) -> Result<Steps, sqlx::Error> {
    let bound = sample
        .and_then(|sample| shape.shape.bound(sample).ok())
        .unwrap_or_default();
    // The source by itself: merging it with its tombstones sorts two pages and no more.
    let mut keyset = shape.shape.keyset.clone();
    keyset.tombstones = None;
    let mut statement = keyset.page(!bound.is_empty());
    statement.sql = format!("EXPLAIN (FORMAT JSON) {}", statement.sql);
    let mut transaction = connection.begin().await?;
    (&mut *transaction)
        .execute(
            "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off; \
             SET LOCAL enable_sort = off",
        )
        .await?;
    let row = prepared(&statement, &bound, 1_i64)
        .fetch_one(&mut *transaction)
        .await?;
    transaction.rollback().await?;
    let bytes = row.try_get_raw(0)?;
    let plan: Value = serde_json::from_slice(bytes.as_bytes().map_err(sqlx::Error::Decode)?)
        .map_err(|error| sqlx::Error::Decode(error.into()))?;
    let mut steps = Steps::default();
    collect(&plan[0]["Plan"], &mut steps);
    Ok(steps)
}

fn collect(node: &Value, steps: &mut Steps) {
    let index = || node["Index Name"].as_str().unwrap_or_default().to_owned();
    match node["Node Type"].as_str().unwrap_or_default() {
        "Seq Scan" => steps.scans = true,
        "Sort" => steps.sorts = true,
        "Incremental Sort" => steps.sorts_ties = true,
        "Index Scan" | "Index Only Scan" => {
            steps.read.push(index());
            if node.get("Index Cond").is_some() {
                steps.entered.push(index());
            }
        }
        _ => {}
    }
    for inner in node["Plans"].as_array().into_iter().flatten() {
        collect(inner, steps);
    }
}
