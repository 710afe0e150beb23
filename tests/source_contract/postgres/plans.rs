//! What a page costs: the rows that the server reads for it, by its own account.

use dbtick::model::position::{Moment, MomentKind, Position, Scalar};
use serde_json::Value;
use sqlx::{AssertSqlSafe, Row};

use crate::fixture::{Engine, Fixture, MANY_BYTES, find, open, read};

const PAGE: usize = 500;

/// Rows 100,001 to 200,000 share one moment.
const DEEP: &str = "CREATE TABLE t (id bigint PRIMARY KEY, at timestamptz NOT NULL, k text NOT NULL, u uuid NOT NULL, n numeric NOT NULL);
    INSERT INTO t SELECT i, '2026-01-01Z'::timestamptz + least(i, 100001) * interval '1 ms', lpad(i::text, 9, '0'),
        lpad(to_hex(i), 32, '0')::uuid, least(i, 100001) FROM generate_series(1, 200000) i;
    CREATE INDEX ON t (at, id); CREATE INDEX ON t (k COLLATE \"C\"); CREATE INDEX ON t (n, k COLLATE \"C\");
    CREATE UNIQUE INDEX ON t (u); VACUUM ANALYZE t;";

fn moment(id: i64) -> Scalar {
    let micros = id.min(100_001) as u64 * 1000;
    Scalar::Moment(Moment::from_days(MomentKind::Instant, 20_454, micros))
}

fn text(id: i64) -> Scalar {
    Scalar::Text(format!("{id:09}"))
}

#[tokio::test]
async fn a_page_reads_its_rows_and_no_more_at_any_depth_and_inside_a_tie() {
    let engine = Engine::postgres().await;
    // VACUUM stands alone.
    let (tables, vacuum) = DEEP.split_once("VACUUM").unwrap();
    let mut fixture = engine.fixture(tables).await;
    fixture.run(&format!("VACUUM{vacuum}")).await;
    let integer = |id: i64| Scalar::Integer(id.into());
    for id in [10, 90_000, 150_000, 199_000] {
        let least = Scalar::Decimal(
            dbtick::model::position::Decimal::parse(&id.min(100_001).to_string()).unwrap(),
        );
        let uuid = Scalar::Text(format!("00000000-0000-0000-0000-{id:012x}"));
        for (cursor, key, position) in [
            (
                "at",
                "id",
                Position::new(vec![moment(id)], vec![integer(id)]),
            ),
            (
                "id",
                "id",
                Position::new(vec![integer(id)], vec![integer(id)]),
            ),
            ("k", "k", Position::new(vec![text(id)], vec![text(id)])),
            ("n", "k", Position::new(vec![least], vec![text(id)])),
            ("u", "u", Position::new(vec![uuid.clone()], vec![uuid])),
        ] {
            for config in [
                fixture.table("t", &[cursor], &[key]),
                fixture.query("SELECT * FROM t WHERE n >= 0", &[cursor], &[key]),
            ] {
                let source = open(&config);
                let page = read(source.as_ref(), Some(&position), PAGE, MANY_BYTES);
                assert_eq!(page.await.unwrap().page.len(), PAGE);
                let rows = rows_read(&mut fixture, &position, PAGE + 1).await;
                assert!(rows <= 2 * PAGE as u64, "{cursor} at {id}: {rows} rows");
                let found = find(source.as_ref(), &position).await.unwrap();
                assert_eq!(found.page.len(), 1);
                let rows = rows_read(&mut fixture, &position, 3).await;
                assert_eq!(rows, 1, "to find {cursor} at {id}");
                let counted = source.count(Some(&position), None, PAGE as u64).await;
                assert_eq!(counted.unwrap(), PAGE as u64);
                let rows = rows_read(&mut fixture, &position, PAGE).await;
                assert!(rows <= PAGE as u64, "to count {cursor} at {id}: {rows}");
            }
        }
    }
}

/// How many rows the last statement touches: what it returns, and what it throws away.
async fn rows_read(fixture: &mut Fixture, position: &Position, limit: usize) -> u64 {
    let writer = fixture.postgres();
    let sql: String = sqlx::query_scalar(
        "SELECT query FROM pg_stat_activity WHERE application_name LIKE 'dbtick%' AND datname = current_database()
         AND query LIKE '%LIMIT $%' ORDER BY query_start DESC LIMIT 1",
    )
    .fetch_one(&mut *writer)
    .await
    .unwrap();
    let mut explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) {sql}");
    let mut values: Vec<_> = position.cursor().iter().chain(position.key()).collect();
    values.dedup();
    explain = explain.replace(&format!("${}", values.len() + 1), &limit.to_string());
    for (number, value) in (1..).zip(&values) {
        explain = explain.replace(&format!("${number}"), &format!("'{value}'::text"));
    }
    let row = sqlx::query(AssertSqlSafe(explain))
        .fetch_one(&mut *writer)
        .await
        .unwrap();
    let raw = row.try_get_raw(0).unwrap();
    let plan: Value = serde_json::from_slice(raw.as_bytes().unwrap()).unwrap();
    most(&plan[0]["Plan"])
}

fn most(node: &Value) -> u64 {
    let number = |name: &str| node[name].as_f64().unwrap_or_default() as u64;
    let here = number("Actual Rows")
        + number("Rows Removed by Filter")
        + number("Rows Removed by Index Recheck");
    let inner = node["Plans"].as_array().into_iter().flatten();
    inner.map(most).chain([here]).max().unwrap()
}
