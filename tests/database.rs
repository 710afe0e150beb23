//! Connections to real servers: how they are opened, pinned, kept, replaced, and what their errors
//! say.

#![allow(clippy::unwrap_used)]

mod support;

use sqlx::Row;
use support::mariadb::MariaDb;
use support::postgres::Postgres;
use support::server::End;

#[tokio::test]
async fn a_private_postgres_server_keeps_its_data_over_a_restart() {
    let mut postgres = Postgres::start().await;
    postgres.database("Ünïcode \"db\"").await;
    postgres
        .sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1); CHECKPOINT")
        .await;
    for end in [End::Clean, End::Crash] {
        postgres.stop(end).await;
        postgres.start_again().await;
    }
    let mut connection = postgres.connect("postgres").await;
    let row = sqlx::query("SELECT x FROM t")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(row.get::<i32, _>(0), 1);
}

#[tokio::test]
async fn a_private_mariadb_server_keeps_its_data_over_a_restart() {
    let mut mariadb = MariaDb::start().await;
    mariadb.database("Ünïcode `db`").await;
    mariadb
        .sql("CREATE TABLE t (x int); INSERT INTO t VALUES (1)")
        .await;
    for end in [End::Clean, End::Crash] {
        mariadb.stop(end).await;
        mariadb.start_again().await;
    }
    let mut connection = mariadb.connect("main").await;
    let row = sqlx::query("SELECT x FROM t")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(row.get::<i32, _>(0), 1);
}
