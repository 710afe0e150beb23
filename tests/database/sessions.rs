//! Sessions are pinned; connections are kept, checked, replaced and closed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbtick::azure::Azure;
use dbtick::clock::{Clock, SystemClock};
use dbtick::database::{Access, DatabaseError, Databases, Engine, Pool, judge};
use futures_util::future::join_all;
use sqlx::{AssertSqlSafe, Connection, Executor, MySql, Postgres, Row};
use tokio::net::TcpListener;

use crate::support::mariadb::MariaDb;
use crate::support::postgres::{Postgres as Server, USER};
use crate::support::server::End;
use crate::support::within;
use crate::{pool, session, target};

async fn shown(connection: &mut sqlx::PgConnection) -> BTreeMap<String, String> {
    let rows = sqlx::query("SELECT lower(name), setting FROM pg_settings")
        .fetch_all(connection)
        .await
        .unwrap();
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn a_postgres_session_is_pinned_whatever_the_defaults_are() {
    let postgres = Server::start().await;
    postgres
        .sql(
            "ALTER ROLE postgres SET timezone = 'Asia/Tokyo';
             ALTER ROLE postgres SET datestyle = 'German';
             ALTER ROLE postgres SET intervalstyle = 'postgres_verbose';
             ALTER ROLE postgres SET default_transaction_isolation = 'serializable';
             ALTER ROLE postgres SET statement_timeout = '1h';
             ALTER ROLE postgres SET lock_timeout = '1h';
             ALTER ROLE postgres SET extra_float_digits = -5;
             ALTER ROLE postgres SET client_encoding = 'LATIN1';
             ALTER ROLE postgres SET synchronous_commit = off;
             ALTER ROLE postgres SET standard_conforming_strings = off;
             ALTER ROLE postgres SET bytea_output = 'escape';
             ALTER ROLE postgres SET search_path = 'mine'",
        )
        .await;
    for (access, read_only) in [(Access::Read, "on"), (Access::Write, "off")] {
        let pool = Pool::<Postgres>::new(target(&postgres.url(), access));
        let mut connection = pool.take().await.unwrap();
        let shown = shown(&mut connection).await;
        for (name, expected) in [
            ("timezone", "UTC"),
            ("datestyle", "ISO, MDY"),
            ("intervalstyle", "iso_8601"),
            ("default_transaction_isolation", "read committed"),
            ("default_transaction_read_only", read_only),
            ("statement_timeout", "12345"),
            ("lock_timeout", "5000"),
            ("idle_in_transaction_session_timeout", "60000"),
            ("extra_float_digits", "1"),
            ("client_encoding", "UTF8"),
            ("synchronous_commit", "on"),
            ("standard_conforming_strings", "on"),
            ("bytea_output", "hex"),
            ("application_name", "dbtick/orders"),
            ("search_path", "mine"),
        ] {
            assert_eq!(shown[name], expected, "{name}");
        }
    }
    let mut connection = pool::<Postgres>(&postgres.url()).take().await.unwrap();
    let error = connection
        .execute("CREATE TABLE public.x (y int)")
        .await
        .unwrap_err();
    let error = judge("ORDERS_DB", "reading", error);
    assert!(
        matches!(&error, DatabaseError::Refused { .. }),
        "{error}: {USER}"
    );
}

#[tokio::test]
async fn a_mariadb_session_is_pinned_whatever_the_defaults_are() {
    let mariadb = MariaDb::with()
        .setting("default-time-zone", "+09:00")
        .setting(
            "sql-mode",
            "ANSI_QUOTES,NO_ZERO_DATE,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES",
        )
        .setting("transaction-isolation", "SERIALIZABLE")
        .setting("character-set-server", "latin1")
        .setting("max-sort-length", "64")
        .start()
        .await;
    for (access, read_only) in [(Access::Read, "ON"), (Access::Write, "OFF")] {
        let pool = Pool::<MySql>::new(target(&mariadb.url(), access));
        let mut connection = pool.take().await.unwrap();
        for (name, expected) in [
            ("time_zone", "+00:00"),
            (
                "sql_mode",
                "STRICT_TRANS_TABLES,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION",
            ),
            ("max_sort_length", "4096"),
            ("tx_isolation", "READ-COMMITTED"),
            ("tx_read_only", read_only),
            ("max_statement_time", "12.345000"),
            ("innodb_lock_wait_timeout", "5"),
            ("lock_wait_timeout", "5"),
            ("wait_timeout", "600"),
            ("autocommit", "ON"),
            ("character_set_client", "utf8mb4"),
            ("character_set_results", "utf8mb4"),
            ("character_set_connection", "utf8mb4"),
        ] {
            let query = format!("SELECT CAST(@@session.{name} AS CHAR)");
            let value: String = sqlx::query_scalar(AssertSqlSafe(query))
                .fetch_one(&mut *connection)
                .await
                .unwrap();
            assert_eq!(value, expected, "{name}");
        }
    }
    let mut connection = pool::<MySql>(&mariadb.url()).take().await.unwrap();
    mariadb.sql("CREATE TABLE x (y int)").await;
    let error = connection
        .execute("INSERT INTO x VALUES (1)")
        .await
        .unwrap_err();
    let error = judge("ORDERS_DB", "reading", error);
    assert!(matches!(&error, DatabaseError::Refused { .. }), "{error}");
}

/// S12: SQL of somebody else runs in it, and a function can change any of these for whoever comes next.
#[tokio::test]
async fn a_session_that_was_changed_is_pinned_again_before_its_next_use() {
    let postgres = Server::start().await;
    postgres
        .sql("CREATE TABLE canary (id int); CREATE ROLE other; GRANT ALL ON canary TO other")
        .await;
    let pool = pool::<Postgres>(&postgres.url());
    let mut connection = pool.take().await.unwrap();
    let before = shown(&mut connection).await;
    let pid = process(&mut connection).await;
    connection
        .execute(
            "SELECT set_config('default_transaction_read_only', 'off', false), \
             set_config('statement_timeout', '0', false), set_config('lock_timeout', '0', false), \
             set_config('search_path', 'pg_catalog', false), set_config('TimeZone', 'Asia/Tokyo', false), \
             set_config('bytea_output', 'escape', false), set_config('role', 'other', false)",
        )
        .await
        .unwrap();
    assert_ne!(shown(&mut connection).await, before);
    connection.give_back();
    let mut connection = pool.take().await.unwrap();
    assert_eq!(process(&mut connection).await, pid, "the same session");
    assert_eq!(shown(&mut connection).await, before);
    let write = connection.execute("INSERT INTO canary VALUES (1)").await;
    let error = write.unwrap_err().to_string();
    assert!(error.contains("read-only"), "{error}");

    let mariadb = MariaDb::start().await;
    mariadb.sql("CREATE TABLE canary (id int)").await;
    let pool = crate::pool::<MySql>(&mariadb.url());
    let mut connection = pool.take().await.unwrap();
    connection
        .execute(
            "SET SESSION TRANSACTION READ WRITE; SET SESSION sql_mode = 'ANSI_QUOTES', \
             max_statement_time = 0, time_zone = '+09:00', autocommit = 0, lock_wait_timeout = 999",
        )
        .await
        .unwrap();
    connection.give_back();
    let mut connection = pool.take().await.unwrap();
    let changed: String = sqlx::query_scalar(
        "SELECT CONCAT_WS(' ', @@tx_read_only, @@sql_mode, @@max_statement_time, @@time_zone, \
         @@autocommit, @@lock_wait_timeout)",
    )
    .fetch_one(&mut *connection)
    .await
    .unwrap();
    let pinned =
        "ON STRICT_TRANS_TABLES,ALLOW_INVALID_DATES,NO_ENGINE_SUBSTITUTION 12.345000 +00:00 ON 5";
    assert_eq!(changed, pinned);
    let write = connection.execute("INSERT INTO canary VALUES (1)").await;
    let error = write.unwrap_err().to_string();
    assert!(error.contains("READ ONLY"), "{error}");
}

async fn process(connection: &mut sqlx::PgConnection) -> i32 {
    sqlx::query_scalar("SELECT pg_backend_pid()")
        .fetch_one(connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_statement_that_takes_too_long_is_ended_by_the_server() {
    let short = |value: &str| {
        let mut session = crate::session(Access::Read);
        session.statement_timeout = Duration::from_millis(50);
        crate::new_target(crate::server(value, &[]), session)
    };
    let postgres = Server::start().await;
    let mut connection = Pool::<Postgres>::new(short(&postgres.url()))
        .take()
        .await
        .unwrap();
    let slow = connection.execute("SELECT pg_sleep(20)");
    let error = within("the time-out", slow).await.unwrap_err();
    let error = judge("ORDERS_DB", "reading", error);
    assert!(matches!(error, DatabaseError::Query { .. }), "{error}");
    assert!(
        error.to_string().contains("took too long on ORDERS_DB"),
        "{error}"
    );

    let mariadb = MariaDb::start().await;
    let mut connection = Pool::<MySql>::new(short(&mariadb.url()))
        .take()
        .await
        .unwrap();
    let slow = connection.execute("SELECT SUM(seq % 7) FROM seq_1_to_10000000000");
    let error = within("the time-out", slow).await.unwrap_err();
    let error = judge("ORDERS_DB", "reading", error);
    assert!(matches!(error, DatabaseError::Query { .. }), "{error}");
    assert!(
        error.to_string().contains("took too long on ORDERS_DB"),
        "{error}"
    );
}

#[tokio::test]
async fn a_connection_that_was_given_back_is_used_again_and_a_broken_one_is_replaced() {
    let mut postgres = Server::start().await;
    let pool = pool::<Postgres>(&postgres.url());
    let first = backend(&pool).await;
    assert_eq!(backend(&pool).await, first, "kept");
    postgres.stop(End::Crash).await;
    postgres.start_again().await;
    let second = backend(&pool).await;
    assert_ne!(second, first, "replaced");
    assert_eq!(backend(&pool).await, second);
    postgres
        .sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dbtick/orders'")
        .await;
    assert_ne!(backend(&pool).await, second, "replaced after it was ended");
}

async fn backend(pool: &Pool<Postgres>) -> i32 {
    let mut connection = pool.take().await.unwrap();
    let pid = process(&mut connection).await;
    connection.give_back();
    pid
}

#[tokio::test]
async fn a_mariadb_connection_is_replaced_after_a_restart() {
    let mut mariadb = MariaDb::start().await;
    let pool = pool::<MySql>(&mariadb.url());
    pool.take().await.unwrap().give_back();
    mariadb.stop(End::Crash).await;
    mariadb.start_again().await;
    pool.take().await.unwrap().ping().await.unwrap();
}

#[tokio::test]
async fn a_connection_whose_user_was_cancelled_is_not_used_again() {
    let postgres = Server::start().await;
    let pool = pool::<Postgres>(&postgres.url());
    let first = backend(&pool).await;
    let mut connection = pool.take().await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    drop(connection);
    assert_ne!(backend(&pool).await, first);
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let postgres = Server::start().await;
    let (value, soon) = (postgres.url(), Duration::from_millis(100));
    let pool = Pool::<Postgres>::closing_after(target(&value, Access::Read), soon);
    let mut watcher = postgres.connect("postgres").await;
    let count = async |watcher: &mut sqlx::PgConnection| -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dbtick/orders'",
        )
        .fetch_one(watcher)
        .await
        .unwrap()
    };
    let (one, two) = (pool.take().await.unwrap(), pool.take().await.unwrap());
    assert_eq!(count(&mut watcher).await, 2);
    one.give_back();
    two.give_back();
    within("no connections", async {
        while count(&mut watcher).await > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    pool.take().await.unwrap();
}

#[tokio::test]
async fn a_third_user_of_a_pool_of_two_waits_for_a_while_and_is_told() {
    let postgres = Server::start().await;
    let pool = pool::<Postgres>(&format!("{}?max_pool_size=2", postgres.url()));
    let _held = (pool.take().await.unwrap(), pool.take().await.unwrap());
    tokio::time::pause();
    let error = pool.take().await.unwrap_err();
    assert!(
        matches!(error, DatabaseError::Unreachable { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("all 2 connections of ORDERS_DB"),
        "{error}"
    );
    tokio::time::resume();
}

/// A thousand pollers of one database are a thousand sources.
#[tokio::test]
async fn who_uses_a_server_in_the_same_way_shares_its_connections() {
    let postgres = Server::start().await;
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    let databases = Databases::new(azure);
    let (server, other) = (postgres.url(), postgres.database("other").await);
    let (server, other) = (super::server(&server, &[]), super::server(&other, &[]));
    let pool = |server, access| databases.pool::<Postgres>("ORDERS_DB", server, session(access));
    let first = backend(&pool(&server, Access::Read)).await;
    assert_eq!(backend(&pool(&server, Access::Read)).await, first);
    assert_ne!(backend(&pool(&server, Access::Write)).await, first);
    assert_ne!(backend(&pool(&other, Access::Read)).await, first);
    let named = databases.pool("ARCHIVE_DB", &server, session(Access::Read));
    assert_ne!(backend(&named).await, first, "errors name another setting");
}

#[tokio::test]
async fn those_who_wait_for_a_connection_get_one_in_turn() {
    let postgres = Server::start().await;
    let pool = pool::<Postgres>(&format!("{}?max_pool_size=1", postgres.url()));
    let held = pool.take().await.unwrap();
    let served = Mutex::new(Vec::new());
    let waits = async |place: usize| {
        let connection = pool.take().await.unwrap();
        served.lock().unwrap().push(place);
        connection.give_back();
    };
    // Polled, and so in line, from the first to the last.
    tokio::join!(biased; waits(0), waits(1), waits(2), async { held.give_back() });
    assert_eq!(*served.lock().unwrap(), [0, 1, 2]);
}

/// Every poller of that server would wait for as long, and keep others from their turn meanwhile.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_not_asked_again_at_once() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let pool = pool::<Postgres>(&format!("postgres://u:p@127.0.0.1:{port}/d"));
    let asked = || async { pool.take().await.unwrap_err().to_string() };
    let started = SystemClock.monotonic();
    let all = join_all((0..100).map(|_| asked())).await;
    assert!(
        all.iter()
            .all(|told| told.contains("not answer within 10s")),
        "{all:?}"
    );
    assert_eq!(asked().await, all[0], "the same, at once");
    let took = SystemClock.monotonic() - started;
    assert!(took < Duration::from_secs(11), "{took:?} for all of them");

    tokio::time::advance(Duration::from_secs(10)).await;
    drop(silent);
    tokio::time::resume();
    let refused = asked().await;
    assert!(!refused.contains("not answer"), "asked again: {refused}");
}

#[tokio::test]
async fn nothing_prints_the_password_of_a_pool() {
    let postgres = Server::start().await;
    let pool = pool::<Postgres>(&postgres.url());
    let connection = pool.take().await.unwrap();
    let printed = format!("{pool:?} {connection:?}");
    assert!(printed.contains("127.0.0.1"), "{printed}");
    assert!(!printed.contains("canary"), "{printed}");
}

#[expect(dead_code, reason = "a pool of any engine can be shared between tasks")]
fn a_pool_can_be_shared<E: Engine>(pool: Pool<E>) -> impl Send + Sync {
    pool
}
