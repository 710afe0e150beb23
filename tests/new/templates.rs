//! Every template, as it is laid out, under `dbtick dev`, on every database.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::azure::queue::Queue;
use dbtick::clock::SystemClock;
use dbtick::config::Settings;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, SqliteConnection};
use tempfile::TempDir;

use super::support::azurite::Azurite;
use super::support::handler::{BINARY, Lines};
use super::support::mariadb::MariaDb;
use super::support::postgres::Postgres;
use super::support::receiver::Receiver;
use super::support::within;
use super::{listed, read, run};

/// `op` and key of an event, and the row or message.
type Event = (String, String, Value);

struct Shop {
    directory: TempDir,
    receiver: Receiver,
    azurite: Azurite,
    environment: BTreeMap<&'static str, String>,
}

impl Shop {
    /// All templates in one app; `connection` of a server, where the tables are still to be made.
    async fn new(database: &str, connection: Option<String>) -> Self {
        let directory = TempDir::new().unwrap();
        let arguments = ["new", "shop", "--database", database, "--template"];
        let said = run(
            &directory,
            &[&arguments[..], &[&listed().join(",")]].concat(),
        );
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        let shop = Self {
            environment: BTreeMap::from([
                ("PATH", "/usr/bin:/bin".to_owned()),
                (
                    "XDG_STATE_HOME",
                    directory.path().join("state").display().to_string(),
                ),
            ]),
            directory,
            receiver: Receiver::start().await,
            azurite: Azurite::queue(),
        };
        // Nothing else is changed: a quarter of a minute is long for a test.
        for name in listed() {
            let file = shop.app().join(name).join("function.json");
            let every_second = read(&file)
                .replace("*/15 * * * * *", "* * * * * *")
                .replace("0 * * * * *", "* * * * * *");
            std::fs::write(&file, every_second).unwrap();
        }
        let receiver = shop.receiver.url();
        let storage = shop.azurite.queue_connection_string();
        let mut shop = shop.setting("ORDERS_HOOK", receiver);
        if let Some(connection) = connection {
            shop = shop.setting("ORDERS_DB", connection);
        }
        shop.setting("AzureWebJobsStorage", storage)
    }

    fn setting(mut self, name: &'static str, value: String) -> Self {
        self.environment.insert(name, value);
        self
    }

    fn app(&self) -> PathBuf {
        self.directory.path().join("shop")
    }

    /// The statements that were laid out, in the order in which they need each other.
    fn statements(&self) -> String {
        let tables = [
            "orders",
            "order_lines",
            "outbox",
            "customers",
            "orders_deleted",
        ];
        let files = tables.map(|name| {
            let file = |end: &str| read(self.app().join(format!("tables/{name}.{end}")));
            file("sql") + &file("rows.sql")
        });
        files.concat()
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(BINARY);
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_clear()
            .envs(&self.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn succeeds(&self, arguments: &[&str]) -> String {
        let output = within("the command ends", self.command(arguments).output());
        let output = output.await.unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}{complaint}");
        said
    }

    /// What a poller has delivered, each event once, when it has all of `expected`.
    async fn delivered(&self, poller: &str, expected: usize) -> Vec<Event> {
        loop {
            let arrived = self.receiver.count();
            let events = self.events(poller);
            if events.len() >= expected {
                return events.into_values().collect();
            }
            self.receiver.arrived(arrived + 1).await;
        }
    }

    fn events(&self, poller: &str) -> BTreeMap<String, Event> {
        let deliveries = self.receiver.deliveries();
        let of_poller = deliveries.iter().filter(|it| it.body["poller"] == poller);
        let events = of_poller.flat_map(|it| it.body["events"].as_array().unwrap());
        let by_id = events.map(|it| (it["id"].to_string(), event(it)));
        by_id.collect()
    }

    /// The rows of the messages of a queue.
    async fn queued(&self, name: &str) -> Vec<String> {
        let storage = &self.environment["AzureWebJobsStorage"];
        let settings = Settings::from_iter([("STORAGE", storage.as_str())]);
        let connection = StorageConnection::resolve(&settings, "STORAGE").unwrap();
        let endpoint = Arc::new(connection.service(Service::Queue).unwrap());
        let azure = Azure::new(Arc::new(SystemClock)).unwrap();
        let queue = Queue::new(&azure, endpoint, name, Arc::new(SystemClock));
        let mut keys = Vec::new();
        loop {
            let received = queue.receive(Duration::from_secs(30)).await.unwrap();
            if received.is_empty() {
                keys.sort();
                return keys;
            }
            for message in received {
                let text = BASE64.decode(message.text.as_bytes()).unwrap();
                let message: Value = serde_json::from_slice(&text).unwrap();
                keys.push(event(&message["event"]).1);
            }
        }
    }
}

/// A bigint is text in JSON, where the database has them. The parts of a key are in the order of their names.
fn event(event: &Value) -> Event {
    let key = event["key"].as_object().unwrap().values();
    let key: Vec<_> = key.map(|part| part.to_string().replace('"', "")).collect();
    let op = event["op"].as_str().unwrap().to_owned();
    (op, key.join("/"), event["data"].clone())
}

fn sorted(events: &[Event]) -> Vec<String> {
    let mut short: Vec<_> = events
        .iter()
        .map(|(op, key, _)| format!("{op} {key}"))
        .collect();
    short.sort();
    short
}

/// `sql` runs statements, `count` says how many rows a table has.
async fn every_template_runs(
    shop: &Shop,
    sql: impl AsyncFn(&str),
    count: impl AsyncFn(&str) -> i64,
) {
    shop.succeeds(&["check", "shop"]).await;
    let mut dev = shop
        .command(&["dev", "shop", "--port", "0"])
        .spawn()
        .unwrap();
    let stdout = Lines::of(dev.stdout.take().unwrap());
    let stderr = Lines::of(dev.stderr.take().unwrap());

    let three = ["upsert 1", "upsert 2", "upsert 3"];
    assert_eq!(sorted(&shop.delivered("poll-webhook", 3).await), three);
    assert_eq!(sorted(&shop.delivered("orders", 3).await), three);
    assert_eq!(sorted(&shop.delivered("orders-in-shards", 3).await), three);
    let lines = sorted(&shop.delivered("order-lines", 3).await);
    assert_eq!(lines, ["upsert 1/1", "upsert 1/2", "upsert 1/3"]);
    let customers = shop.delivered("soft-delete", 3).await;
    assert_eq!(sorted(&customers), ["delete 3", "upsert 1", "upsert 2"]);
    let gone = shop.delivered("tombstones", 4).await;
    assert_eq!(
        sorted(&gone),
        ["delete 4", "upsert 1", "upsert 2", "upsert 3"]
    );
    let data = &gone.iter().find(|(op, ..)| op == "delete").unwrap().2;
    assert!(data.is_null(), "{data}");

    let messages = shop.delivered("outbox", 2).await;
    let said: Vec<_> = messages
        .iter()
        .map(|(.., data)| data["event"].clone())
        .collect();
    assert!(said.contains(&"order-placed".into()), "{messages:?}");
    // The end of the tick that delivered them.
    stdout.line(&["outbox: ok"]).await;
    assert_eq!(
        count("outbox").await,
        0,
        "delivered messages are cleaned up"
    );

    stdout.line(&["poll-queue: ok"]).await;
    assert_eq!(shop.queued("order-events").await, ["1", "2", "3"]);
    stdout.line(&["poll-relay: ok"]).await;
    assert_eq!(shop.queued("orders").await, ["1", "2", "3"]);

    let page = stdout.line(&["page", "http"]).await;
    let page = page.split_whitespace().last().unwrap();
    let page = reqwest::get(page).await.unwrap();
    assert!(page.status().is_success(), "{}", page.status());

    // What is new comes by itself, what was there before it only when it is asked for.
    stdout.line(&["backfill: ok"]).await;
    sql("INSERT INTO orders (status, amount) VALUES ('late', 1)").await;
    assert_eq!(sorted(&shop.delivered("backfill", 1).await), ["upsert 5"]);
    let backfill = ["backfill", "backfill", "--app", "shop", "--yes"];
    shop.succeeds(&backfill).await;
    let all = sorted(&shop.delivered("backfill", 4).await);
    assert_eq!(all, ["upsert 1", "upsert 2", "upsert 3", "upsert 5"]);

    shop.delivered("tombstones", 5).await;
    sql("DELETE FROM orders WHERE status = 'late'").await;
    let gone = sorted(&shop.delivered("tombstones", 6).await);
    assert!(gone.contains(&"delete 5".to_owned()), "{gone:?}");

    let pid = i32::try_from(dev.id().unwrap()).unwrap();
    kill(Pid::from_raw(pid), Signal::SIGINT).unwrap();
    let ended = within("dev ends", dev.wait()).await.unwrap();
    assert!(ended.success(), "{ended}");
    let complaints = stderr.text();
    assert!(!complaints.contains("FAILED"), "{complaints}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_template_runs_as_it_is_on_sqlite() {
    let shop = Shop::new("sqlite", None).await;
    let url = format!("sqlite:{}", shop.app().join("orders.db").display());
    let connect = async || SqliteConnection::connect(&url).await.unwrap();
    let sql = async |statements: &str| {
        let statements = AssertSqlSafe(statements.to_owned());
        let ran = sqlx::raw_sql(statements)
            .execute(&mut connect().await)
            .await;
        ran.unwrap();
    };
    let count = async |table: &str| {
        let question = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let mut connection = connect().await;
        let counted = sqlx::query_scalar(question).fetch_one(&mut connection);
        counted.await.unwrap()
    };
    every_template_runs(&shop, sql, count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_template_runs_as_it_is_on_postgresql() {
    let server = Postgres::start().await;
    let url = server.database("shop").await;
    let shop = Shop::new("postgres", Some(url)).await;
    server.sql_in("shop", &shop.statements()).await;
    let count = async |table: &str| {
        let question = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let mut connection = server.connect("shop").await;
        let counted = sqlx::query_scalar(question).fetch_one(&mut connection);
        counted.await.unwrap()
    };
    every_template_runs(&shop, async |sql| server.sql_in("shop", sql).await, count).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_template_runs_as_it_is_on_mariadb() {
    let server = MariaDb::start().await;
    let url = server.database("shop").await;
    let shop = Shop::new("mysql", Some(url)).await;
    server.sql_in("shop", &shop.statements()).await;
    let count = async |table: &str| {
        let question = AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        let mut connection = server.connect("shop").await;
        let counted = sqlx::query_scalar(question).fetch_one(&mut connection);
        counted.await.unwrap()
    };
    every_template_runs(&shop, async |sql| server.sql_in("shop", sql).await, count).await;
}

/// What each database can promise of the tables, told by `check`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tables_for_a_server_are_graded_proven() {
    let server = Postgres::start().await;
    let url = server.database("shop").await;
    let shop = Shop::new("postgres", Some(url)).await;
    server.sql_in("shop", &shop.statements()).await;
    let check = shop.succeeds(&["check", "shop", "--json"]).await;
    let check: Value = serde_json::from_str(&check).unwrap();
    let findings = check["findings"].as_array().unwrap().iter();
    let late = findings.filter(|it| it["subject"] == "late commits");
    let mut graded = 0;
    for finding in late.filter(|it| it["poller"] != "order-lines") {
        graded += 1;
        let text = finding["text"].as_str().unwrap();
        assert!(text.starts_with("PROVEN"), "{finding}");
    }
    assert!(graded > 5, "{check}");
}
