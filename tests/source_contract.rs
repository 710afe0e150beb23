//! What every source promises, as functions over a fixture.

#![allow(clippy::unwrap_used)] // the lint exempts test functions, not what they call

#[path = "source_contract/check.rs"]
mod check;
#[path = "source_contract/fixture.rs"]
mod fixture;
#[path = "source_contract/property.rs"]
mod property;
#[path = "source_contract/refusals.rs"]
mod refusals;

use dbtick::config::NullPolicy;
use dbtick::source::{SourceError, open};
use fixture::{Fixture, MANY_BYTES, column, read, read_all};
use serde_json::{Value, json};

const TIED: &str = "CREATE TABLE t (id INTEGER PRIMARY KEY, c TEXT NOT NULL, d TEXT);
    CREATE INDEX i ON t (c);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
    INSERT INTO t SELECT i, '2026-01-01', 'x' FROM n;";

fn numbers(range: std::ops::RangeInclusive<i64>) -> Vec<Value> {
    range.map(Value::from).collect()
}

#[tokio::test]
async fn ties_across_page_edges_are_neither_lost_nor_repeated() {
    let fixture = Fixture::sqlite(TIED).await;
    let ids = column(&fixture.table("t", &["c"], &["id"]), 70, "id").await;
    assert_eq!(ids, numbers(1..=1000));
}

#[tokio::test]
async fn exactly_a_full_page_says_whether_more_follows() {
    let fixture = Fixture::sqlite(TIED).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    assert!(
        !read(source.as_ref(), None, 999, MANY_BYTES)
            .await
            .unwrap()
            .end
    );
    assert!(
        read(source.as_ref(), None, 1000, MANY_BYTES)
            .await
            .unwrap()
            .end
    );
}

#[tokio::test]
async fn composite_cursors_and_keys_are_read_in_tuple_order() {
    let fixture = Fixture::sqlite(
        "CREATE TABLE t (a INT NOT NULL, b TEXT NOT NULL, k INT NOT NULL, l TEXT NOT NULL, n INT, PRIMARY KEY (a, b, k, l));
         INSERT INTO t VALUES (1,'b',1,'a',4),(1,'a',2,'a',3),(0,'z',9,'z',1),(1,'a',1,'b',2),(1,'b',1,'b',5);",
    )
    .await;
    for page in 1..=6 {
        let read = column(&fixture.table("t", &["a", "b"], &["k", "l"]), page, "n").await;
        assert_eq!(read, numbers(1..=5), "pages of {page}");
    }
}

#[tokio::test]
async fn text_is_ordered_by_byte_whatever_its_collation() {
    let fixture = Fixture::sqlite(
        "CREATE TABLE t (c TEXT COLLATE NOCASE NOT NULL, k TEXT COLLATE RTRIM PRIMARY KEY NOT NULL);
         INSERT INTO t VALUES ('b','1'),('A','2'),('a','3'),('B','4'),('é','5'),('','6');",
    )
    .await;
    let read = column(&fixture.table("t", &["c"], &["k"]), 1, "c").await;
    assert_eq!(read, ["", "A", "B", "a", "b", "é"].map(Value::from));
}

#[tokio::test]
async fn integers_are_exact_to_their_ends() {
    let fixture = Fixture::sqlite(
        "CREATE TABLE t (c, n INT PRIMARY KEY NOT NULL);
         INSERT INTO t VALUES (12,3),(9223372036854775807,4),(-9223372036854775808,5);",
    )
    .await;
    let source = open(&fixture.table("t", &["c"], &["n"]));
    let all = read_all(source.as_ref(), 1, MANY_BYTES).await;
    let cursors: Vec<_> = all.iter().map(|(_, json)| json["cursor"].clone()).collect();
    assert_eq!(cursors, [json!(i64::MIN), json!(12), json!(i64::MAX)]);
}

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
        let mut fixture = Fixture::sqlite(before).await;
        let source = open(&fixture.table("t", &["c"], &["n"]));
        let all = read_all(source.as_ref(), 10, MANY_BYTES).await;
        let last = all.last().map(|(position, _)| position.clone());
        fixture.run(then).await;
        let read = read(source.as_ref(), last.as_ref(), 10, MANY_BYTES).await;
        let error = read.expect_err(name).to_string();
        assert!(error.contains("values of another type"), "{name}: {error}");
    }
}

#[tokio::test]
async fn two_types_on_one_page_stop_the_read() {
    let fixture = Fixture::sqlite(
        "CREATE TABLE t (c, n INTEGER PRIMARY KEY); INSERT INTO t VALUES (1,1),('1',2);",
    )
    .await;
    let error = fixture::failure(&fixture.table("t", &["c"], &["n"])).await;
    assert!(error.contains("values of another type"), "{error}");
}

#[tokio::test]
async fn hostile_names_that_exist_are_read_exactly() {
    let fixture = Fixture::sqlite(
        "CREATE TABLE canary (id); INSERT INTO canary VALUES (1);
         CREATE TABLE \"T\"\"; DROP TABLE canary; --\" (\"Mixed Case\" INTEGER PRIMARY KEY, \"a'b\"\"c.d\" TEXT);
         INSERT INTO \"T\"\"; DROP TABLE canary; --\" VALUES (1, 'x'), (2, 'y');",
    )
    .await;
    let mut fixture = fixture;
    let config = fixture.table(
        "T\"; DROP TABLE canary; --",
        &["Mixed Case"],
        &["Mixed Case"],
    );
    assert_eq!(
        column(&config, 1, "a'b\"c.d").await,
        ["x", "y"].map(Value::from)
    );
    assert_eq!(fixture.count("canary").await, 1);
}

#[tokio::test]
async fn views_queries_and_filters_are_read_like_tables() {
    let fixture = Fixture::sqlite(
        "CREATE TABLE o (id INTEGER PRIMARY KEY, p INT); CREATE TABLE p (id INTEGER PRIMARY KEY, name TEXT);
         INSERT INTO p VALUES (1,'a'),(2,'b'); INSERT INTO o VALUES (1,1),(2,2),(3,1),(4,2),(5,3);
         CREATE VIEW v AS SELECT o.id AS id, name FROM o JOIN p ON p.id = o.p;",
    )
    .await;
    let view = fixture.table("v", &["id"], &["id"]);
    assert_eq!(column(&view, 1, "id").await, numbers(1..=4));
    for query in [
        "SELECT o.id, name FROM o JOIN p ON p.id = o.p WHERE o.id < 4 OR name = 'x';",
        "WITH w AS (SELECT * FROM o) SELECT id FROM w WHERE id < 4 -- small",
        "SELECT id FROM o ORDER BY id DESC LIMIT 3 OFFSET 2;;",
    ] {
        let read = column(&fixture.query(query, &["id"], &["id"]), 2, "id").await;
        assert_eq!(read, numbers(1..=3), "{query}");
    }
    let mut filtered = fixture.table("o", &["id"], &["id"]);
    filtered.filter = Some("p = 2 OR o.id = 1 -- or".into());
    assert_eq!(column(&filtered, 1, "id").await, [1, 2, 4].map(Value::from));
}

#[tokio::test]
async fn an_empty_table_is_at_its_end_and_has_no_last_row() {
    let fixture = Fixture::sqlite("CREATE TABLE t (id INTEGER PRIMARY KEY)").await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let first = read(source.as_ref(), None, 10, MANY_BYTES).await.unwrap();
    assert!(first.end && first.page.is_empty());
    assert_eq!(source.last(None).await.unwrap(), None);
}

#[tokio::test]
async fn the_last_position_is_where_reading_ends() {
    let fixture = Fixture::sqlite(TIED).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let last = source.last(None).await.unwrap().unwrap();
    assert_eq!(last.to_string(), "2026-01-01 (1000)");
    assert!(
        read(source.as_ref(), Some(&last), 10, MANY_BYTES)
            .await
            .unwrap()
            .page
            .is_empty()
    );
}

#[tokio::test]
async fn null_cursors_stop_the_read_or_are_left_out_by_policy() {
    let mut fixture = Fixture::sqlite(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, c INT); CREATE INDEX i ON t (c); INSERT INTO t VALUES (1, 1), (2, 2);",
    )
    .await;
    let mut config = fixture.table("t", &["c"], &["id"]);
    let source = open(&config);
    let last = source.last(None).await.unwrap();
    fixture.run("INSERT INTO t VALUES (3, NULL)").await;
    for after in [None, last.as_ref()] {
        let error = read(source.as_ref(), after, 10, MANY_BYTES)
            .await
            .unwrap_err();
        assert!(
            matches!(&error, SourceError::NullCursor { column, count } if column == "c" && count == "1"),
            "{error}"
        );
    }
    config.nulls = NullPolicy::Ignore;
    assert_eq!(column(&config, 1, "id").await, numbers(1..=2));
}

#[tokio::test]
async fn a_row_that_does_not_fit_comes_first_in_the_next_page() {
    let fixture = Fixture::sqlite(TIED).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let whole = read_all(source.as_ref(), 1000, MANY_BYTES).await;
    for bytes in [1, 500, 1333] {
        assert_eq!(read_all(source.as_ref(), 1000, bytes).await, whole);
    }
}

#[tokio::test]
async fn rows_deleted_and_updated_between_pages_do_not_disturb_the_rest() {
    let mut fixture = Fixture::sqlite(TIED).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let first = read(source.as_ref(), None, 10, MANY_BYTES).await.unwrap();
    fixture
        .run("DELETE FROM t WHERE id = 10 OR id > 13; UPDATE t SET c = '2026-01-02' WHERE id = 2")
        .await;
    let next = read(source.as_ref(), first.page.last_position(), 10, MANY_BYTES)
        .await
        .unwrap();
    let keys: Vec<_> = next
        .page
        .events()
        .iter()
        .map(|event| event.position.to_string())
        .collect();
    assert_eq!(
        keys,
        [
            "2026-01-01 (11)",
            "2026-01-01 (12)",
            "2026-01-01 (13)",
            "2026-01-02 (2)"
        ]
    );
}

#[tokio::test]
async fn rows_that_share_cursor_and_key_are_never_parted() {
    let fixture = Fixture::sqlite(
        "CREATE TABLE t (c INT NOT NULL, k INT NOT NULL); INSERT INTO t VALUES (1,1),(2,1),(2,1)",
    )
    .await;
    let source = open(&fixture.table("t", &["c"], &["k"]));
    let error = read(source.as_ref(), None, 2, MANY_BYTES)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("more than one row is at 2 (1)"),
        "{error}"
    );
}
