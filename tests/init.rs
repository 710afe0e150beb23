//! `dbtick init`: from a table to a poller that works, deletions included, on every database.

#![allow(clippy::unwrap_used)] // the lint exempts test functions, not what they call

mod support;

use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;

use dbtick::azure::Azure;
use dbtick::clock::SystemClock;
use dbtick::config::{App, Settings};
use dbtick::database::Databases;
use dbtick::model::page::PageWriter;
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _};
use support::DEADLINE;
use support::mariadb::MariaDb;
use support::postgres::Postgres;

fn init(app: &Path, connection: &str, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dbtick"))
        .args(["init", "orders", "--connection", "ORDERS_DB", "--app"])
        .arg(app)
        .args(more)
        .env("ORDERS_DB", connection)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Everything that the poller of the app would deliver: op and key.
async fn events(app: &Path, connection: &str) -> Vec<Value> {
    let settings: Settings = [
        ("ORDERS_DB", connection),
        ("HOOK", "http://127.0.0.1:9/"),
        ("DBTICK_STATE_DIR", "../state"),
    ]
    .into_iter()
    .collect();
    let app = App::load(app, &settings);
    assert_eq!(
        app.faults().count(),
        0,
        "{:?}",
        app.faults().collect::<Vec<_>>()
    );
    let poller = app.pollers().next().unwrap();
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    let source = dbtick::source::open(&poller.source, &Databases::new(azure));
    let writer = PageWriter::new("orders", 100, 1 << 20);
    let read = source.read(None, writer, DEADLINE).await.unwrap();
    let events = read.page.events().iter();
    let event = |event| -> Value { serde_json::from_slice(read.page.json(event)).unwrap() };
    events
        .map(event)
        .map(|event| json!([event["op"], event["key"]["id"]]))
        .collect()
}

/// The statements that init printed for the owner of the table.
fn printed_ddl(output: &Output) -> String {
    let said = said(output);
    said.split_once("as the owner of the table:\n")
        .unwrap()
        .1
        .to_owned()
}

const ROWS: &str = "INSERT INTO orders (id, status, updated_at) VALUES \
     (1, 'new', '2026-01-01 00:00:00'), (2, 'new', '2026-01-02 00:00:00')";

async fn check(connection: &str, table: &str, expect: &str, run: impl AsyncFn(&str)) {
    let parent = tempfile::tempdir().unwrap();
    let app = parent.path().join("app");
    run(table).await;
    run(ROWS).await;
    let more = ["--table", "orders", "--webhook", "%HOOK%", "--tombstones"];
    let output = init(&app, connection, &more);
    assert!(output.status.success(), "{}", said(&output));
    for part in [
        expect,
        "key id: the primary key",
        "cursor updated_at:",
        "app setting HOOK",
    ] {
        assert!(said(&output).contains(part), "{part}: {}", said(&output));
    }
    run(&printed_ddl(&output)).await;
    run("DELETE FROM orders WHERE id = 1").await;
    let found = events(&app, connection).await;
    assert_eq!(found, [json!(["upsert", 2]), json!(["delete", 1])]);

    let again = init(&app, connection, &more);
    assert_eq!(again.status.code(), Some(1));
    assert!(said(&again).contains("--force"), "{}", said(&again));
    let other = init(&app, connection, &["--table", "order", "--force"]);
    assert!(
        said(&other).contains("did you mean \"orders\"?"),
        "{}",
        said(&other)
    );
}

#[tokio::test]
async fn a_table_of_sqlite_becomes_a_poller() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("orders.db");
    let options = SqliteConnectOptions::new()
        .filename(&file)
        .create_if_missing(true);
    let writer = tokio::sync::Mutex::new(SqliteConnection::connect_with(&options).await.unwrap());
    check(
        &format!("sqlite:{}", file.display()),
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, status TEXT, updated_at DATETIME NOT NULL)",
        "no index begins with cursor and key",
        async |sql: &str| {
            let mut writer = writer.lock().await;
            let ran = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
                .execute(&mut *writer)
                .await;
            ran.unwrap();
        },
    )
    .await;
}

#[tokio::test]
async fn a_table_of_postgresql_becomes_a_poller() {
    let server = Postgres::start().await;
    let url = server.database("shop").await;
    check(
        &url,
        "CREATE TABLE orders (id integer PRIMARY KEY, status text, updated_at timestamptz(3) NOT NULL)",
        "no index begins with cursor and key",
        async |sql: &str| server.sql_in("shop", sql).await,
    )
    .await;
}

#[tokio::test]
async fn a_table_of_mariadb_becomes_a_poller() {
    let server = MariaDb::start().await;
    let url = server.database("shop").await;
    check(
        &url,
        "CREATE TABLE orders (id int unsigned PRIMARY KEY, status text, updated_at datetime(6), INDEX (updated_at))",
        "updated_at can be NULL",
        async |sql: &str| server.sql_in("shop", sql).await,
    )
    .await;
}
