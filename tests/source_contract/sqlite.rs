//! What only SQLite is asked to keep: columns whose values have types of their own, and files.

#[path = "sqlite/check.rs"]
mod check;
#[path = "sqlite/late.rs"]
mod late;
#[path = "sqlite/property.rs"]
mod property;

use dbtick::config::Connection;

use crate::fixture::{Engine, MANY_BYTES, failure, find, open, read, read_all};

/// Each case: what was delivered, what happens then, and rows that would be passed over in silence.
#[tokio::test]
async fn a_cursor_or_key_of_two_types_stops_the_read() {
    const RETYPED: &str = "DROP TABLE t; CREATE TABLE t (c TEXT NOT NULL, n INTEGER PRIMARY KEY);
         INSERT INTO t VALUES ('7',1),('9',2),('10',3);";
    const KEY_RETYPED: &str =
        "DROP TABLE t; CREATE TABLE t (c INTEGER NOT NULL, n INTEGER PRIMARY KEY);
         INSERT INTO t VALUES (1,5);";
    const INTEGERS: &str = "CREATE TABLE t (c INTEGER NOT NULL, n INTEGER PRIMARY KEY);
         INSERT INTO t VALUES (7,1),(9,2);";
    for (name, before, then) in [
        (
            "text among integers",
            INTEGERS,
            "INSERT INTO t VALUES ('n/a',3)",
        ),
        ("a column made text", INTEGERS, RETYPED),
        (
            "integers after text",
            "CREATE TABLE t (c DATETIME NOT NULL, n INTEGER PRIMARY KEY);
             INSERT INTO t VALUES ('2026-01-01 00:00:00',1);",
            "INSERT INTO t VALUES (1790000000,2)",
        ),
        (
            "text after blobs",
            "CREATE TABLE t (c NOT NULL, n INTEGER PRIMARY KEY); INSERT INTO t VALUES (x'00',1);",
            "INSERT INTO t VALUES ('a',2)",
        ),
        (
            "a key made integer",
            "CREATE TABLE t (c INTEGER NOT NULL, n TEXT PRIMARY KEY); INSERT INTO t VALUES (1,'k');",
            KEY_RETYPED,
        ),
        (
            "a view of two affinities",
            "CREATE TABLE a (c INTEGER NOT NULL, n INTEGER PRIMARY KEY);
             CREATE TABLE b (c TEXT NOT NULL, n INTEGER PRIMARY KEY);
             CREATE VIEW t AS SELECT c, n FROM a UNION ALL SELECT c, n FROM b;
             INSERT INTO a VALUES (20,1);",
            "INSERT INTO b VALUES ('10',11)",
        ),
    ] {
        let mut fixture = Engine::Sqlite.fixture(before).await;
        let source = open(&fixture.table("t", &["c"], &["n"]));
        let all = read_all(source.as_ref(), 10, MANY_BYTES).await;
        let last = all.last().map(|(position, _)| position.clone());
        fixture.run(then).await;
        let read = read(source.as_ref(), last.as_ref(), 10, MANY_BYTES).await;
        let error = read.expect_err(name).to_string();
        assert!(error.contains("values of another type"), "{name}: {error}");
    }
}

/// SQLite would find the one by the other: the column turns integers that it is compared with to text.
#[tokio::test]
async fn a_number_is_not_found_where_it_has_become_text() {
    let mut fixture = Engine::Sqlite
        .fixture("CREATE TABLE t (c, n INTEGER PRIMARY KEY); INSERT INTO t VALUES (7,1);")
        .await;
    let source = open(&fixture.table("t", &["c"], &["n"]));
    let all = read_all(source.as_ref(), 10, MANY_BYTES).await;
    fixture
        .run(
            "DROP TABLE t; CREATE TABLE t (c TEXT NOT NULL, n INTEGER PRIMARY KEY);
             INSERT INTO t VALUES ('7',1);",
        )
        .await;
    let found = find(source.as_ref(), &all[0].0).await.unwrap();
    assert!(found.end && found.page.is_empty(), "{found:?}");
}

#[tokio::test]
async fn two_types_on_one_page_stop_the_read() {
    let fixture = Engine::Sqlite
        .fixture("CREATE TABLE t (c, n INTEGER PRIMARY KEY); INSERT INTO t VALUES (1,1),('1',2);")
        .await;
    let error = failure(&fixture.table("t", &["c"], &["n"])).await;
    assert!(error.contains("values of another type"), "{error}");
}

#[tokio::test]
async fn values_without_an_exact_place_in_the_order_stop_the_read() {
    let fixture = Engine::Sqlite
        .fixture("CREATE TABLE t (id INTEGER PRIMARY KEY, r REAL); INSERT INTO t VALUES (1, 1.5)")
        .await;
    let found = failure(&fixture.table("t", &["r"], &["id"])).await;
    let expect = "column \"r\" holds 1.5 in the row with key {\"id\":1}";
    assert!(found.contains(expect), "{found}");
}

/// S12: a file has no users; what keeps it whole is the connection alone.
#[tokio::test]
async fn nothing_that_a_query_or_filter_can_say_writes() {
    let mut fixture = Engine::Sqlite
        .fixture("CREATE TABLE canary (id INTEGER PRIMARY KEY); INSERT INTO canary VALUES (1)")
        .await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("written");
    let file_name = file.display();
    for query in [
        "SELECT id FROM canary; DELETE FROM canary".to_owned(),
        "DELETE FROM canary RETURNING id".to_owned(),
        "INSERT INTO canary VALUES (2) RETURNING id".to_owned(),
        "WITH w AS (SELECT 1) DELETE FROM canary RETURNING id".to_owned(),
        "PRAGMA query_only = OFF".to_owned(),
        "PRAGMA user_version = 7".to_owned(),
        format!("ATTACH '{file_name}' AS other"),
        format!("VACUUM INTO '{file_name}'"),
        "SELECT query_only AS id FROM pragma_query_only('OFF')".to_owned(),
        "SELECT 1 AS id FROM pragma_query_only(0), pragma_user_version(7)".to_owned(),
        "SELECT 1 AS id FROM pragma_user_version(7)".to_owned(),
        "SELECT 1 AS id FROM pragma_journal_mode('OFF')".to_owned(),
        "SELECT 1 AS id FROM pragma_wal_checkpoint".to_owned(),
        "SELECT load_extension('/nowhere') AS id".to_owned(),
        format!("SELECT writefile('{file_name}', 'x') AS id"),
        "SELECT id FROM canary) AS q; DELETE FROM canary; SELECT * FROM (SELECT id FROM canary"
            .to_owned(),
        "SELECT id FROM canary\0; DELETE FROM canary".to_owned(),
    ] {
        let config = fixture.query(&query, &["id"], &["id"]);
        let found = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
        assert!(found.is_err(), "{query}: {found:?}");
    }
    for filter in [
        "id = 1; DELETE FROM canary",
        "1) AND (1",
        "id IN (DELETE FROM canary RETURNING id)",
    ] {
        let mut config = fixture.table("canary", &["id"], &["id"]);
        config.filter = Some(filter.to_owned());
        let found = read(open(&config).as_ref(), None, 10, MANY_BYTES).await;
        assert!(found.is_err(), "{filter}");
    }
    assert_eq!(fixture.count("canary").await, 1);
    assert_eq!(
        fixture
            .count("pragma_user_version WHERE user_version <> 0")
            .await,
        0
    );
    assert!(!file.exists());
}

#[tokio::test]
async fn a_missing_file_and_a_file_of_another_kind_are_told_apart() {
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(
        other.path(),
        "not a database, but long enough to be looked at".repeat(40),
    )
    .unwrap();
    let fixture = Engine::Sqlite.fixture("CREATE TABLE t (id INT)").await;
    for (file, expect) in [
        (
            other.path().to_owned(),
            "the file in app setting ORDERS_DB is not an SQLite database",
        ),
        (
            other.path().join("missing"),
            "the database file in app setting ORDERS_DB cannot be opened",
        ),
    ] {
        let mut config = fixture.table("t", &["id"], &["id"]);
        config.connection = Connection::Sqlite { file };
        let found = failure(&config).await;
        assert!(found.contains(expect), "{found}");
    }
}

#[tokio::test]
async fn a_locked_database_is_unreachable_for_now() {
    let mut fixture = Engine::Sqlite.fixture("CREATE TABLE t (id INT)").await;
    fixture.run("BEGIN EXCLUSIVE").await;
    let found = failure(&fixture.table("t", &["id"], &["id"])).await;
    assert_eq!(
        found,
        "database unreachable: ORDERS_DB is locked by a writer"
    );
}
