//! What a page costs: the plans that SQLite makes of our statements, and the steps they take.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;

use super::*;
use crate::config::{Deletes, NullPolicy, Rows, Start};

fn config(file: &Path, cursor: &[&str], key: &[&str]) -> SourceConfig {
    let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    SourceConfig {
        connection_name: "DB".into(),
        connection_identity: "sqlite:test.db".to_owned(),
        connection: Connection::Sqlite {
            file: file.to_owned(),
        },
        rows: Rows::Table {
            schema: None,
            table: "t".into(),
        },
        cursor: owned(cursor),
        key: owned(key),
        columns: None,
        filter: None,
        start: Start::Beginning,
        nulls: NullPolicy::Fail,
        deletes: Deletes::Unseen,
        outbox: None,
        late: Default::default(),
        shard: None,
    }
}

async fn create(file: &Path, sql: &'static str) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true);
    let mut writer = SqliteConnection::connect_with(&options).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut writer).await.unwrap();
    writer
}

async fn check_plan(schema: &'static str, cursor: &[&str], key: &[&str], expect: &[&str]) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let writer = create(&file, schema).await;
    let source = SqliteSource::new(config(&file, cursor, key));
    let (mut snapshot, shape) = source.begin().await.unwrap();
    let plan = check::plan(&mut snapshot, &shape).await.unwrap();
    let searches: Vec<_> = plan
        .iter()
        .filter(|step| step.starts_with("SEARCH"))
        .map(|step| step.split_once('(').unwrap().1.trim_end_matches(')'))
        .collect();
    assert_eq!(searches, expect, "{plan:?}");
    assert!(check::is_served(&plan), "{plan:?}");
    drop(writer);
}

#[tokio::test]
async fn every_page_is_a_search_in_an_index() {
    check_plan(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, c TEXT NOT NULL, d); CREATE INDEX i ON t (c)",
        &["c"],
        &["id"],
        &["c=? AND rowid>?", "c>?"],
    )
    .await;
    check_plan(
        "CREATE TABLE t (k TEXT PRIMARY KEY, c TEXT, d); CREATE INDEX i ON t (c, k)",
        &["c"],
        &["k"],
        &["c=? AND k>?", "c>?"],
    )
    .await;
    check_plan(
        "CREATE TABLE t (a INT, b TEXT, k, l, d); CREATE UNIQUE INDEX i ON t (a, b, k, l)",
        &["a", "b"],
        &["k", "l"],
        &[
            "a=? AND b=? AND k=? AND l>?",
            "a=? AND b=? AND k>?",
            "a=? AND b>?",
            "a>?",
        ],
    )
    .await;
    check_plan(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, d)",
        &["id"],
        &["id"],
        &["rowid>?"],
    )
    .await;
}

/// Rows 100,001 to 200,000 share one cursor value.
const DEEP: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, c INT NOT NULL, d TEXT);
    CREATE INDEX i ON t (c);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
    INSERT INTO t SELECT i, min(i, 100001), 'x' FROM n;";

type Query = sqlx::query::Query<'static, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

/// How many rows come, and how many steps SQLite takes for them.
async fn counted(connection: &mut SqliteConnection, query: Query) -> (usize, u64) {
    let count = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&count);
    let mut handle = connection.lock_handle().await.unwrap();
    handle.set_progress_handler(1, move || {
        counter.fetch_add(1, Ordering::Relaxed);
        true
    });
    drop(handle);
    let rows = query.fetch_all(connection).await.unwrap();
    (rows.len(), count.load(Ordering::Relaxed))
}

#[tokio::test]
async fn a_page_costs_the_same_at_any_depth_and_inside_a_tie() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let writer = create(&file, DEEP).await;
    let source = SqliteSource::new(config(&file, &["c"], &["id"]));
    let (mut snapshot, shape) = source.begin().await.unwrap();
    let page = shape.shape.keyset.page(true);
    let mut steps = Vec::new();
    for id in [10_i128, 90_000, 150_000, 199_000] {
        let position = [id.min(100_001), id].map(Scalar::Integer);
        let query = page::query(&page, &position, 500).unwrap();
        let (rows, taken) = counted(&mut snapshot, query).await;
        assert_eq!(rows, 500);
        steps.push(taken);
    }
    let (least, most) = (steps.iter().min().unwrap(), steps.iter().max().unwrap());
    assert!(*most < 2 * least && *least > 500, "{steps:?}");
    drop(writer);
}

#[tokio::test]
async fn one_position_is_found_in_the_same_few_steps_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let writer = create(&file, DEEP).await;
    let source = SqliteSource::new(config(&file, &["c"], &["id"]));
    let (mut snapshot, shape) = source.begin().await.unwrap();
    let statement = shape.shape.keyset.find(|_| false);
    for id in [10_i128, 90_000, 150_000, 199_000] {
        let position = [id.min(100_001), id].map(Scalar::Integer);
        let query = page::query(&statement, &position, 3).unwrap();
        let (found, steps) = counted(&mut snapshot, query).await;
        assert_eq!(found, 1);
        assert!(steps < 50, "{steps} steps to row {id}");
    }
    drop(writer);
}

#[tokio::test]
async fn counting_and_looking_ahead_take_the_same_steps_anywhere() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let writer = create(&file, DEEP).await;
    let source = SqliteSource::new(config(&file, &["c"], &["id"]));
    let (mut snapshot, shape) = source.begin().await.unwrap();
    let keyset = &shape.shape.keyset;
    let anywhere = &[10_i128, 90_000, 150_000, 199_000][..];
    for (statement, ids) in [
        (keyset.count(true, false), anywhere),
        // Up to a place inside a tie, the rest of the tie is looked at too.
        (keyset.count(true, true), &anywhere[..2]),
        (keyset.ahead(true), anywhere),
    ] {
        let mut steps = Vec::new();
        for &id in ids {
            let place = |id: i128| [id.min(100_001), id].map(Scalar::Integer);
            let both = [place(id), place(id + 500)].concat();
            let query = page::query(&statement, &both, 1000).unwrap();
            let (rows, taken) = counted(&mut snapshot, query).await;
            assert_eq!(rows, 1);
            steps.push(taken);
        }
        let most = steps.iter().max().unwrap();
        assert!(*most < 40_000, "{steps:?} for {}", statement.sql);
    }
    let key = keyset.with_key(&shape.shape.key, |_| true);
    let query = page::query(&key, &[Scalar::Integer(150_000)], 3).unwrap();
    let (found, steps) = counted(&mut snapshot, query).await;
    assert!(found == 1 && steps < 50, "{steps}");
    drop(writer);
}

#[tokio::test]
async fn a_session_cannot_write() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let writer = create(&file, "CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let source = SqliteSource::new(config(&file, &["id"], &["id"]));
    let (mut snapshot, _) = source.begin().await.unwrap();
    let refused = sqlx::query("INSERT INTO t VALUES (1)")
        .execute(&mut *snapshot)
        .await
        .unwrap_err();
    let error = source.faults().of("a statement", refused).to_string();
    assert!(error.contains("only ever read"), "{error}");
    drop(writer);
}

const ENDLESS: &str =
    "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n";

/// S8.
#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let writer = create(&file, "CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let source = SqliteSource::new(config(&file, &["id"], &["id"]));
    let mut snapshot = Snapshot::begin(source.pool(), Duration::from_millis(50))
        .await
        .unwrap();
    let endless = sqlx::query(ENDLESS).execute(&mut *snapshot);
    let ended = tokio::time::timeout(Duration::from_secs(10), endless).await;
    let error = source.faults().of("a query", ended.unwrap().unwrap_err());
    assert!(error.to_string().contains("took too long"), "{error}");
    drop((snapshot, writer));
}

/// S8: nobody waits for it any more, so it ends.
#[tokio::test]
async fn a_read_that_is_given_up_ends_and_frees_its_connection() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("db");
    let writer = create(&file, "CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let source = SqliteSource::new(config(&file, &["id"], &["id"]));
    for _ in 0..2 * MAX_CONNECTIONS {
        let read = async {
            let (mut snapshot, _) = source.begin().await.unwrap();
            sqlx::query(ENDLESS).execute(&mut *snapshot).await.unwrap();
        };
        let given_up = tokio::time::timeout(Duration::from_millis(100), read).await;
        assert!(given_up.is_err(), "it has no end");
    }
    let begun = tokio::time::timeout(ACQUIRE_TIMEOUT / 2, source.begin()).await;
    assert!(begun.expect("a connection is free").is_ok());
    drop(writer);
}
