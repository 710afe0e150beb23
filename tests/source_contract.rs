//! What every source promises, as functions over a database engine: each of them runs on every
//! database that is a source.

#![allow(clippy::unwrap_used)] // the lint exempts test functions, not what they call

#[path = "source_contract/deletes.rs"]
mod deletes;
#[path = "source_contract/find.rs"]
mod find;
#[path = "source_contract/fixture.rs"]
mod fixture;
#[path = "source_contract/lookup.rs"]
mod lookup;
#[path = "source_contract/mariadb.rs"]
mod mariadb_only;
#[path = "source_contract/names.rs"]
mod names;
#[path = "source_contract/postgres.rs"]
mod postgres_only;
#[path = "source_contract/refusals.rs"]
mod refusals;
#[path = "source_contract/shards.rs"]
mod shards;
#[path = "source_contract/sqlite.rs"]
mod sqlite_only;
mod support;

use dbtick::config::NullPolicy;
use dbtick::source::SourceError;
use deletes::{
    a_given_start_is_the_first_row_with_that_cursor, a_soft_deleted_row_comes_as_a_delete,
    an_outbox_delivers_its_payload_as_it_is,
    an_outbox_is_cleaned_up_to_what_was_delivered_and_no_further,
    soft_deleted_rows_that_share_a_position_stop_the_read,
    tombstones_are_merged_in_order_and_none_is_lost_at_a_page_edge,
};
use find::{
    a_position_of_two_rows_or_of_another_source_is_an_error,
    a_row_that_has_changed_is_not_found_as_it_was, a_tombstone_is_found_at_its_own_position,
    every_row_is_found_where_it_was_read, what_is_soft_deleted_or_left_out_is_found_so,
};
use fixture::{Engine, Fixture, MANY_BYTES, column, open, read, read_all};
use lookup::{
    a_key_has_its_row_its_tombstone_or_both, a_key_that_cannot_be_is_refused_by_name,
    events_between_two_places_are_counted_as_they_are_read,
    every_row_is_located_by_its_key_as_events_show_it, rows_without_a_place_are_not_counted,
    ties_are_counted_and_cut_in_the_order_of_their_keys, tombstones_are_counted_with_the_rows,
    what_no_tick_would_read_is_located_and_says_so,
};
use names::any_name_is_refused_or_named_exactly;
use refusals::{
    a_changed_schema_is_verified_again, a_write_in_a_query_or_filter_fails,
    names_that_do_not_exist_are_named_exactly,
};
use serde_json::Value;
use shards::shards_part_all_rows_in_any_order_and_none_finds_one_of_another;

macro_rules! every_source_keeps {
    ($($promise:ident),+ $(,)?) => {
        mod sqlite {
            $(#[tokio::test]
            async fn $promise() {
                super::$promise(&super::Engine::Sqlite).await;
            })+
        }

        mod mariadb {
            // One server for all of them: it takes longer to start than they take to run.
            #[tokio::test]
            async fn every_promise_is_kept() {
                let server = super::support::mariadb::MariaDb::start().await;
                let engine = super::Engine::MariaDb(server);
                $(
                    eprintln!("{}", stringify!($promise));
                    super::$promise(&engine).await;
                )+
            }
        }

        mod postgres {
            #[tokio::test]
            async fn every_promise_is_kept() {
                let engine = super::Engine::postgres().await;
                $(
                    eprintln!("{}", stringify!($promise));
                    super::$promise(&engine).await;
                )+
            }
        }
    };
}

every_source_keeps!(
    ties_across_page_edges_are_neither_lost_nor_repeated,
    exactly_a_full_page_says_whether_more_follows,
    composite_cursors_and_keys_are_read_in_tuple_order,
    text_is_ordered_by_byte_whatever_its_collation,
    integers_are_exact_to_their_ends,
    hostile_names_that_exist_are_read_exactly,
    views_queries_and_filters_are_read_like_tables,
    an_empty_table_is_at_its_end_and_has_no_last_row,
    the_last_position_is_where_reading_ends,
    null_cursors_stop_the_read_or_are_left_out_by_policy,
    null_keys_stop_the_read,
    a_row_that_does_not_fit_comes_first_in_the_next_page,
    rows_deleted_and_updated_between_pages_do_not_disturb_the_rest,
    rows_that_share_cursor_and_key_are_never_parted,
    names_that_do_not_exist_are_named_exactly,
    any_name_is_refused_or_named_exactly,
    a_write_in_a_query_or_filter_fails,
    a_changed_schema_is_verified_again,
    a_soft_deleted_row_comes_as_a_delete,
    soft_deleted_rows_that_share_a_position_stop_the_read,
    tombstones_are_merged_in_order_and_none_is_lost_at_a_page_edge,
    an_outbox_delivers_its_payload_as_it_is,
    an_outbox_is_cleaned_up_to_what_was_delivered_and_no_further,
    a_given_start_is_the_first_row_with_that_cursor,
    shards_part_all_rows_in_any_order_and_none_finds_one_of_another,
    every_row_is_found_where_it_was_read,
    a_row_that_has_changed_is_not_found_as_it_was,
    a_tombstone_is_found_at_its_own_position,
    what_is_soft_deleted_or_left_out_is_found_so,
    a_position_of_two_rows_or_of_another_source_is_an_error,
    events_between_two_places_are_counted_as_they_are_read,
    ties_are_counted_and_cut_in_the_order_of_their_keys,
    rows_without_a_place_are_not_counted,
    tombstones_are_counted_with_the_rows,
    every_row_is_located_by_its_key_as_events_show_it,
    what_no_tick_would_read_is_located_and_says_so,
    a_key_has_its_row_its_tombstone_or_both,
    a_key_that_cannot_be_is_refused_by_name,
);

/// A thousand rows at one moment.
async fn tied(engine: &Engine) -> Fixture {
    let rows: Vec<_> = (1..=1000)
        .map(|id| format!("({id}, '2026-01-01', 'x')"))
        .collect();
    let schema = format!(
        "CREATE TABLE t (id INTEGER PRIMARY KEY, c VARCHAR(30) NOT NULL, d VARCHAR(30));
         CREATE INDEX i ON t (c);
         INSERT INTO t VALUES {};",
        rows.join(",")
    );
    engine.fixture(&schema).await
}

fn numbers(range: std::ops::RangeInclusive<i64>) -> Vec<Value> {
    range.map(Value::from).collect()
}

async fn ties_across_page_edges_are_neither_lost_nor_repeated(engine: &Engine) {
    let fixture = tied(engine).await;
    let ids = column(&fixture.table("t", &["c"], &["id"]), 70, "id").await;
    assert_eq!(ids, numbers(1..=1000));
}

async fn exactly_a_full_page_says_whether_more_follows(engine: &Engine) {
    let fixture = tied(engine).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    for (rows, end) in [(999, false), (1000, true)] {
        let page = read(source.as_ref(), None, rows, MANY_BYTES).await.unwrap();
        assert_eq!(page.end, end, "{rows}");
    }
}

async fn composite_cursors_and_keys_are_read_in_tuple_order(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE t (a INT NOT NULL, b VARCHAR(9) NOT NULL, k INT NOT NULL, l VARCHAR(9) NOT NULL, n INT, PRIMARY KEY (a, b, k, l));
             INSERT INTO t VALUES (1,'b',1,'a',4),(1,'a',2,'a',3),(0,'z',9,'z',1),(1,'a',1,'b',2),(1,'b',1,'b',5);",
        )
        .await;
    for page in 1..=6 {
        let read = column(&fixture.table("t", &["a", "b"], &["k", "l"]), page, "n").await;
        assert_eq!(read, numbers(1..=5), "pages of {page}");
    }
}

async fn text_is_ordered_by_byte_whatever_its_collation(engine: &Engine) {
    let text = engine.collated_text();
    let fixture = engine
        .fixture(&format!(
            "CREATE TABLE t (c {text} NOT NULL, k {text} PRIMARY KEY NOT NULL);
             INSERT INTO t VALUES ('b','1'),('A','2'),('a','3'),('B','4'),('é','5'),('','6');"
        ))
        .await;
    let read = column(&fixture.table("t", &["c"], &["k"]), 1, "c").await;
    assert_eq!(read, ["", "A", "B", "a", "b", "é"].map(Value::from));
}

async fn integers_are_exact_to_their_ends(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE t (c BIGINT NOT NULL, n INT PRIMARY KEY NOT NULL);
             INSERT INTO t VALUES (12,3),(9223372036854775807,4),(-9223372036854775808,5);",
        )
        .await;
    let source = open(&fixture.table("t", &["c"], &["n"]));
    let all = read_all(source.as_ref(), 1, MANY_BYTES).await;
    let cursors: Vec<_> = all.iter().map(|(_, json)| json["cursor"].clone()).collect();
    let expected = [i64::MIN, 12, i64::MAX].map(|value| Value::from(value.to_string()));
    assert_eq!(cursors, expected);
}

async fn hostile_names_that_exist_are_read_exactly(engine: &Engine) {
    const NAME: &str = "T\"`; DROP TABLE canary; --";
    let mut fixture = engine
        .fixture("CREATE TABLE canary (id INT); INSERT INTO canary VALUES (1);")
        .await;
    let [table, id, value] = [NAME, "Mixed Case", "a'b\"c.d`"].map(|name| fixture.quoted(name));
    fixture
        .run(&format!(
            "CREATE TABLE {table} ({id} INTEGER PRIMARY KEY, {value} VARCHAR(9));
             INSERT INTO {table} VALUES (1, 'x'), (2, 'y');"
        ))
        .await;
    let config = fixture.table(NAME, &["Mixed Case"], &["Mixed Case"]);
    assert_eq!(
        column(&config, 1, "a'b\"c.d`").await,
        ["x", "y"].map(Value::from)
    );
    assert_eq!(fixture.count("canary").await, 1);
}

async fn views_queries_and_filters_are_read_like_tables(engine: &Engine) {
    let fixture = engine
        .fixture(
            "CREATE TABLE o (id INTEGER PRIMARY KEY, p INT); CREATE TABLE p (id INTEGER PRIMARY KEY, name VARCHAR(9));
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

async fn an_empty_table_is_at_its_end_and_has_no_last_row(engine: &Engine) {
    let fixture = engine
        .fixture("CREATE TABLE t (id INTEGER PRIMARY KEY)")
        .await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let first = read(source.as_ref(), None, 10, MANY_BYTES).await.unwrap();
    assert!(first.end && first.page.is_empty());
    assert_eq!(source.last(None).await.unwrap(), None);
}

async fn the_last_position_is_where_reading_ends(engine: &Engine) {
    let fixture = tied(engine).await;
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

async fn null_cursors_stop_the_read_or_are_left_out_by_policy(engine: &Engine) {
    let mut fixture = engine
        .fixture(
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

async fn null_keys_stop_the_read(engine: &Engine) {
    let mut fixture = engine
        .fixture("CREATE TABLE t (c INT NOT NULL, k INT); INSERT INTO t VALUES (1, 1), (2, 1);")
        .await;
    let source = open(&fixture.table("t", &["c"], &["k"]));
    let last = source.last(None).await.unwrap();
    fixture.run("INSERT INTO t VALUES (2, NULL)").await;
    for after in [None, last.as_ref()] {
        let error = read(source.as_ref(), after, 10, MANY_BYTES)
            .await
            .unwrap_err();
        assert!(
            matches!(&error, SourceError::NullCursor { column, .. } if column == "k"),
            "{error}"
        );
    }
}

async fn a_row_that_does_not_fit_comes_first_in_the_next_page(engine: &Engine) {
    let fixture = tied(engine).await;
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let whole = read_all(source.as_ref(), 1000, MANY_BYTES).await;
    for bytes in [500, 1333] {
        assert_eq!(read_all(source.as_ref(), 1000, bytes).await, whole);
    }
    let first = read(source.as_ref(), None, 1000, 1).await.unwrap();
    assert_eq!(first.page.len(), 1);
}

async fn rows_deleted_and_updated_between_pages_do_not_disturb_the_rest(engine: &Engine) {
    let mut fixture = tied(engine).await;
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

async fn rows_that_share_cursor_and_key_are_never_parted(engine: &Engine) {
    let fixture = engine
        .fixture("CREATE TABLE t (c INT NOT NULL, k INT NOT NULL); INSERT INTO t VALUES (1,1),(2,1),(2,1)")
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
