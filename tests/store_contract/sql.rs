//! What only a table can get wrong: rights, races for the table itself, collations, lost answers.

use std::sync::Arc;

use chrono::TimeDelta;
use dbtick::clock::{Clock, SystemClock};
use dbtick::store::{Loaded, ObjectStore, StateStore, StoreError, Swap};
use sqlx::{Executor, Row};

use super::support::mariadb::MariaDb;
use super::support::postgres::Postgres;
use super::support::server::End;
use super::support::within;
use super::{Store, body, count, document, increment, key, sql_store, won};

async fn several_processes_share_a_table(value: &str) {
    let stores: Vec<Arc<dyn Store>> = (0..4)
        .map(|_| Arc::new(sql_store(value, "shared")) as Arc<dyn Store>)
        .collect();
    // All of them meet a missing table at the same time.
    let creating = stores.iter().map(|store| {
        let store = Arc::clone(store);
        tokio::spawn(async move { store.create(&document(), body("0")).await.unwrap() })
    });
    let mut wins = 0;
    for created in creating.collect::<Vec<_>>() {
        wins += usize::from(matches!(created.await.unwrap(), Swap::Won(_)));
    }
    assert_eq!(wins, 1);
    let writers = stores.iter().map(|store| {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            for _ in 0..25 {
                increment(&*store).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    assert_eq!(count(&*stores[0]).await, 100);
}

async fn keys_compare_byte_by_byte(store: Arc<dyn Store>) {
    for path in [
        "state/a/Orders",
        "state/a/orders",
        "state/a/orders_",
        "state/a/ordersx",
    ] {
        won(store.create(&key(path), body(path)).await);
    }
    let listed = store.list("state/a/orders").await.unwrap();
    assert_eq!(
        listed,
        ["state/a/orders", "state/a/orders_", "state/a/ordersx"].map(key)
    );
    // `_` is no wildcard.
    assert_eq!(
        store.list("state/a/orders_").await.unwrap(),
        [key("state/a/orders_")]
    );
    let longest = key(&"k".repeat(1024));
    won(store.create(&longest, body("x")).await);
    assert!(store.load(&longest).await.unwrap().is_some());
    let longer = store.create(&key(&"k".repeat(1025)), body("x")).await;
    assert!(
        matches!(longer, Err(StoreError::Refused { .. })),
        "{longer:?}"
    );
}

/// `now` and `last_write` are from one clock, and age.
async fn the_database_tells_the_time(store: Arc<dyn Store>) {
    let load = async || -> Loaded { store.load(&document()).await.unwrap().unwrap() };
    let tag = won(store.create(&document(), body("one")).await);
    let first = load().await.clock.unwrap();
    let off = (first.now - SystemClock.now()).abs();
    assert!(off < TimeDelta::seconds(30), "{off}: in UTC");
    assert!(first.now >= first.last_write);
    let later = load().await.clock.unwrap();
    assert_eq!(later.last_write, first.last_write);
    assert!(later.now > first.now);
    won(store.replace(&document(), &tag, body("two")).await);
    assert!(load().await.clock.unwrap().last_write > first.last_write);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_holds_state_beside_the_rows_of_a_source() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("orders.db");
    let value = format!("sqlite:{}", file.display());
    // As the owner of the rows made it: with a journal of its own choice.
    let mut rows = sqlx::ConnectOptions::connect(
        &sqlx::sqlite::SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true),
    )
    .await
    .unwrap();
    rows.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        .await
        .unwrap();
    several_processes_share_a_table(&value).await;
    keys_compare_byte_by_byte(Arc::new(sql_store(&value, "keys"))).await;
    rows.execute("INSERT INTO orders VALUES (1)").await.unwrap();
    let journal: String = sqlx::query_scalar("PRAGMA journal_mode")
        .fetch_one(&mut rows)
        .await
        .unwrap();
    assert_eq!(journal, "delete");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn postgres_holds_state_for_several_processes() {
    let postgres = Postgres::start().await;
    let url = postgres.url();
    several_processes_share_a_table(&url).await;
    keys_compare_byte_by_byte(Arc::new(sql_store(&url, "keys"))).await;
    the_database_tells_the_time(Arc::new(sql_store(&url, "times"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn mariadb_holds_state_for_several_processes() {
    let mariadb = MariaDb::with()
        .setting("default-time-zone", "+09:00")
        .start()
        .await;
    let url = mariadb.url();
    several_processes_share_a_table(&url).await;
    keys_compare_byte_by_byte(Arc::new(sql_store(&url, "keys"))).await;
    the_database_tells_the_time(Arc::new(sql_store(&url, "times"))).await;
}

#[tokio::test]
async fn who_may_not_create_the_table_is_told_the_statements() {
    let postgres = Postgres::start().await;
    postgres.role("app", "x").await;
    let url = format!("postgres://app:x@127.0.0.1:{}/postgres", postgres.port);
    let store = sql_store(&url, "dbtick_state");
    let ddl = refusal(store.create(&document(), body("x")).await);
    postgres.sql(&ddl).await;
    won(store.create(&document(), body("x")).await);
    postgres.sql("REVOKE UPDATE ON dbtick_state FROM app").await;
    let tag = store.load(&document()).await.unwrap().unwrap().tag;
    let refused = store.replace(&document(), &tag, body("y")).await;
    assert!(
        matches!(refused, Err(StoreError::Refused { .. })),
        "{refused:?}"
    );

    let mariadb = MariaDb::start().await;
    mariadb
        .sql("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'x'; GRANT SELECT ON main.* TO app@'127.0.0.1'")
        .await;
    let url = format!("mysql://app:x@127.0.0.1:{}/main", mariadb.port);
    let store = sql_store(&url, "dbtick_state");
    let ddl = refusal(store.create(&document(), body("x")).await);
    mariadb
        .sql(&ddl.replace("TO app", "TO app@'127.0.0.1'"))
        .await;
    won(store.create(&document(), body("x")).await);
}

/// The statements in the error, for the user `app`.
#[track_caller]
fn refusal(created: Result<Swap, StoreError>) -> String {
    match created {
        Err(error @ StoreError::Refused { .. }) => {
            let text = error.to_string();
            let statements = text.split_once("run: ").unwrap().1.to_owned();
            assert!(
                statements.contains("GRANT SELECT, INSERT, UPDATE, DELETE"),
                "{text}"
            );
            statements.replace("the_user", "app")
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_whose_answer_was_lost_has_an_unknown_outcome() {
    let mut postgres = Postgres::start().await;
    let store = Arc::new(sql_store(&postgres.url(), "dbtick_state"));
    let tag = won(store.create(&document(), body("one")).await);
    let mut other = postgres.connect("postgres").await;
    other
        .execute("BEGIN; SELECT * FROM dbtick_state FOR UPDATE")
        .await
        .unwrap();
    let writer = Arc::clone(&store);
    let writing = tokio::spawn(async move { writer.replace(&document(), &tag, body("two")).await });
    let mut watcher = postgres.connect("postgres").await;
    within("a waiting write", async {
        loop {
            let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
            let row = sqlx::query(waiting).fetch_one(&mut watcher).await.unwrap();
            if row.get::<i64, _>(0) > 0 {
                break;
            }
        }
    })
    .await;
    postgres.stop(End::Crash).await;
    let outcome = writing.await.unwrap();
    assert!(
        matches!(outcome, Err(StoreError::Unknown { .. })),
        "{outcome:?}"
    );
    // Nobody was asked: this surely did not happen.
    let refused = store.create(&key("state/x"), body("x")).await;
    assert!(
        matches!(refused, Err(StoreError::Unreachable { .. })),
        "{refused:?}"
    );
    postgres.start_again().await;
    let loaded = store.load(&document()).await.unwrap().unwrap();
    assert_eq!(loaded.body, body("one"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_waits_for_a_lock_too_long_surely_did_not_happen() {
    let postgres = Postgres::start().await;
    let mariadb = MariaDb::start().await;
    let (on_postgres, on_mariadb) = (
        sql_store(&postgres.url(), "dbtick_state"),
        sql_store(&mariadb.url(), "dbtick_state"),
    );
    let first = won(on_postgres.create(&document(), body("one")).await);
    let second = won(on_mariadb.create(&document(), body("one")).await);
    let mut locker = postgres.connect("postgres").await;
    locker
        .execute("BEGIN; SELECT * FROM dbtick_state FOR UPDATE")
        .await
        .unwrap();
    let mut other = mariadb.connect("main").await;
    other
        .execute("BEGIN; SELECT * FROM dbtick_state FOR UPDATE")
        .await
        .unwrap();
    let document = document();
    let (left, right) = tokio::join!(
        on_postgres.replace(&document, &first, body("two")),
        on_mariadb.replace(&document, &second, body("two"))
    );
    for outcome in [left, right] {
        assert!(
            matches!(outcome, Err(StoreError::Unreachable { .. })),
            "{outcome:?}"
        );
    }
    on_postgres.put(&key("an/object"), body("x")).await.unwrap();
}
