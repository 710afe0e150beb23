//! What a page costs, in rows that the server reads for it.

use std::collections::BTreeSet;

use dbtick::config::SourceConfig;
use dbtick::model::page::PageWriter;
use dbtick::model::position::{Moment, MomentKind, Position, Scalar};
use sqlx::Row;
use sqlx::mysql::MySqlConnection;

use crate::fixture::{Engine, Fixture, MANY_BYTES, find, open, read};

const PAGE: usize = 500;
/// The look at the catalogue reads a few rows of its own.
const CATALOGUE: u64 = 120;

/// Rows 100,001 to 200,000 share one moment.
const DEEP: &str = "CREATE TABLE t (id INT PRIMARY KEY, c DATETIME(6) NOT NULL, k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL, d INT, INDEX (c, id));
    INSERT INTO t SELECT seq, date_add('2026-01-01', INTERVAL least(seq, 100001) SECOND), concat('k', seq), seq FROM seq_1_to_200000;
    ANALYZE TABLE t";

fn moment(id: i64) -> Scalar {
    moment_of(MomentKind::Local, id)
}

fn moment_of(kind: MomentKind, id: i64) -> Scalar {
    let seconds = u64::try_from(id.min(100_001)).unwrap();
    let day = u8::try_from(1 + seconds / 86_400).unwrap();
    let micros = seconds % 86_400 * 1_000_000;
    Scalar::Moment(Moment::new(kind, (2026, 1, day), micros))
}

async fn rows_read(writer: &mut MySqlConnection) -> u64 {
    let rows = sqlx::query("SHOW GLOBAL STATUS LIKE 'Handler_read%'")
        .fetch_all(writer)
        .await
        .unwrap();
    rows.iter()
        .map(|row| row.get::<String, _>(1).parse::<u64>().unwrap())
        .sum()
}

/// Of one page behind a position, the second time: the first one also loads the catalogue.
async fn cost(fixture: &mut Fixture, config: &SourceConfig, after: &Position) -> u64 {
    let source = open(config);
    let mut before = 0;
    for _ in 0..2 {
        before = rows_read(fixture.mysql()).await;
        let page = read(source.as_ref(), Some(after), PAGE, MANY_BYTES)
            .await
            .unwrap();
        assert_eq!(page.page.len(), PAGE, "after {after}");
    }
    rows_read(fixture.mysql()).await - before
}

/// The same, after a look has said that uncommitted rows are to be surveyed.
async fn surveyed_cost(fixture: &mut Fixture, config: &SourceConfig, after: &Position) -> u64 {
    let source = open(config);
    source.look(&BTreeSet::new()).await.unwrap();
    let before = rows_read(fixture.mysql()).await;
    let page = read(source.as_ref(), Some(after), PAGE, MANY_BYTES).await;
    assert_eq!(page.unwrap().page.len(), PAGE, "after {after}");
    rows_read(fixture.mysql()).await - before
}

async fn deep() -> (Engine, Fixture) {
    let engine = super::engine().await;
    let fixture = engine.fixture(DEEP).await;
    (engine, fixture)
}

#[tokio::test]
async fn a_page_reads_its_own_rows_at_any_depth_and_inside_a_tie() {
    let (_engine, mut fixture) = deep().await;
    let most = 2 * (PAGE as u64 + 1) + CATALOGUE;
    let config = fixture.table("t", &["c"], &["id"]);
    for id in [10, 90_000, 150_000, 199_000] {
        let after = Position::new(vec![moment(id)], vec![Scalar::Integer(id.into())]);
        let cost = cost(&mut fixture, &config, &after).await;
        assert!((500..most).contains(&cost), "{cost} rows behind row {id}");
    }
    let config = fixture.table("t", &["id"], &["id"]);
    for id in [10, 199_000] {
        let after = Position::new(vec![Scalar::Integer(id)], vec![Scalar::Integer(id)]);
        let cost = cost(&mut fixture, &config, &after).await;
        assert!((500..most).contains(&cost), "{cost} rows behind row {id}");
    }
}

/// No index has the keys in our order, so the ties at the ends of a page are read whole.
#[tokio::test]
async fn a_page_with_a_key_of_text_reads_its_own_rows_and_their_ties() {
    let (_engine, mut fixture) = deep().await;
    let config = fixture.table("t", &["c"], &["k"]);
    let page = 2 * (PAGE as u64 + 1) + CATALOGUE;
    for (id, most) in [(10, page), (90_000, page), (150_000, page + 2 * 100_000)] {
        let after = Position::new(vec![moment(id)], vec![Scalar::Text(format!("k{id}"))]);
        let cost = cost(&mut fixture, &config, &after).await;
        assert!((500..most).contains(&cost), "{cost} rows behind row {id}");
    }
    // The last row is found without sorting the table.
    let source = open(&config);
    source.last(None).await.unwrap();
    fixture
        .run("INSERT INTO t VALUES (300000, '2027-01-01', 'z', 1), (300001, '2027-01-01', 'Z', 1)")
        .await;
    let before = rows_read(fixture.mysql()).await;
    let last = source.last(None).await.unwrap().unwrap();
    assert_eq!(last.to_string(), "2027-01-01T00:00:00.000000 (z)");
    let cost = rows_read(fixture.mysql()).await - before;
    assert!(cost < CATALOGUE, "{cost} rows for the last one");
}

/// A position is found by whatever index has its columns, in whichever order.
#[tokio::test]
async fn one_position_is_found_without_reading_others() {
    let (_engine, mut fixture) = deep().await;
    fixture
        .run(
            "ALTER TABLE t ADD INDEX (k), ADD u UUID NOT NULL DEFAULT '00000000-0000-1000-8000-000000000000', ADD s TIMESTAMP(6) NOT NULL DEFAULT 0,
               ADD l VARCHAR(20) CHARACTER SET latin1 NOT NULL DEFAULT '';
             UPDATE t SET u = concat('00000000-0000-1000-8000-', lpad(id, 12, '0')), s = c, l = k;
             CREATE INDEX iu ON t (u); CREATE INDEX ism ON t (s, id); CREATE INDEX ick ON t (c, k); CREATE INDEX il ON t (l); ANALYZE TABLE t",
        )
        .await;
    for (cursor, key) in [
        ("c", "id"),
        ("id", "id"),
        ("s", "id"),
        ("c", "k"),
        ("k", "id"),
        ("k", "k"),
        ("u", "id"),
        ("l", "l"),
    ] {
        let source = open(&fixture.table("t", &[cursor], &[key]));
        for id in [10, 90_000, 150_000, 199_000] {
            let scalar = |name| match name {
                "id" => Scalar::Integer(id.into()),
                "c" => moment(id),
                "s" => moment_of(MomentKind::Instant, id),
                "u" => Scalar::Text(format!("00000000-0000-1000-8000-{id:012}")),
                _ => Scalar::Text(format!("k{id}")),
            };
            let at = Position::new(vec![scalar(cursor)], vec![scalar(key)]);
            let mut before = 0;
            for _ in 0..2 {
                before = rows_read(fixture.mysql()).await;
                let found = find(source.as_ref(), &at).await.unwrap();
                assert_eq!(found.page.len(), 1, "at {at}");
            }
            let cost = rows_read(fixture.mysql()).await - before;
            assert!(cost < CATALOGUE, "{cost} rows for the one at {at}");
        }
    }
}

/// A thousand rows further than the page, as an index has them.
#[tokio::test]
async fn a_survey_costs_no_more_at_any_depth_than_the_rows_it_looks_at() {
    let (_engine, mut fixture) = deep().await;
    let most = 2 * (PAGE as u64 + 1) + 2 * (PAGE as u64 + 1001) + CATALOGUE;
    for (key, ids) in [
        ("id", &[10, 90_000, 150_000, 199_000][..]),
        ("k", &[10, 90_000]),
    ] {
        let config = fixture.table("t", &["c"], &[key]);
        for &id in ids {
            let key = match key {
                "id" => Scalar::Integer(id.into()),
                _ => Scalar::Text(format!("k{id}")),
            };
            let after = Position::new(vec![moment(id)], vec![key]);
            let cost = surveyed_cost(&mut fixture, &config, &after).await;
            assert!((1500..most).contains(&cost), "{cost} rows behind row {id}");
        }
    }
}

#[tokio::test]
async fn counting_looking_ahead_and_a_key_read_no_other_rows() {
    let (_engine, mut fixture) = deep().await;
    fixture.run("CREATE INDEX ik ON t (k)").await;
    for (key, ids) in [
        ("id", &[10, 90_000, 150_000, 199_000][..]),
        ("k", &[10, 90_000]),
    ] {
        let source = open(&fixture.table("t", &["c"], &[key]));
        for &id in ids {
            let (scalar, shown) = match key {
                "id" => (Scalar::Integer(id.into()), id.to_string()),
                _ => (Scalar::Text(format!("k{id}")), format!("k{id}")),
            };
            let after = Position::new(vec![moment(id)], vec![scalar]);
            let mut costs = Vec::new();
            for _ in 0..2 {
                let before = rows_read(fixture.mysql()).await;
                let counted = source.count(Some(&after), None, 500).await.unwrap();
                let count = rows_read(fixture.mysql()).await;
                let ahead = source.ahead(Some(&after), 500).await.unwrap();
                let far = rows_read(fixture.mysql()).await;
                let located = source
                    .locate(std::slice::from_ref(&shown), PageWriter::new("p", 1, 1))
                    .await;
                let found = rows_read(fixture.mysql()).await;
                assert_eq!((counted, located.unwrap().len()), (500, 1));
                let between = source.count(Some(&after), ahead.as_ref(), 1000).await;
                assert_eq!(between.unwrap(), 500, "behind row {id}");
                costs = vec![count - before, far - count, found - far];
            }
            // Counting goes through what it counts a second time.
            let most = [2 * 500 + CATALOGUE, 2 * 501 + CATALOGUE, CATALOGUE];
            for (cost, most) in costs.iter().zip(most) {
                assert!(*cost < most, "{costs:?} rows behind row {id} by {key}");
            }
        }
    }
}
