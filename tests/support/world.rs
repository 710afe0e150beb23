//! An app on disk, its table and its receiver.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use dbtick::local::{AppDirectory, HostOptions, LocalHost};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode};
use sqlx::{AssertSqlSafe, ConnectOptions};
use tempfile::TempDir;

use super::handler::{BINARY, HandlerProcess};
use super::receiver::Receiver;
use super::state::StateFile;

/// In a column of every row, and in a setting that nobody asks for.
pub const ROW_CANARY: &str = "canary-row-data";
pub const SETTING_CANARY: &str = "canary-setting-value";

pub struct World {
    directory: TempDir,
    pub environment: BTreeMap<String, String>,
    pub receiver: Receiver,
}

impl World {
    /// An app without functions, beside an empty table.
    pub async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let receiver = Receiver::start().await;
        let path = |name: &str| directory.path().join(name).display().to_string();
        let environment = [
            ("PATH", "/usr/bin:/bin".to_owned()),
            ("FUNCTIONS_APP_ROOT_PATH", path("app")),
            ("DBTICK_STATE_DIR", path("state")),
            ("ORDERS_DB", format!("sqlite:{}", path("orders.db"))),
            ("HOOK", receiver.url()),
            ("UNUSED_SECRET", SETTING_CANARY.to_owned()),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value));
        let world = Self {
            directory,
            environment: environment.into(),
            receiver,
        };
        let mut table = world.writer().await;
        sqlx::query(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL, note TEXT)",
        )
        .execute(&mut table.0)
        .await
        .unwrap();
        for index in [
            "orders_seq ON orders (seq, id)",
            "orders_once ON orders (seq)",
        ] {
            sqlx::query(AssertSqlSafe(format!("CREATE UNIQUE INDEX {index}")))
                .execute(&mut table.0)
                .await
                .unwrap();
        }
        world.file(
            "host.json",
            &json!({
                "version": "2.0",
                "customHandler": { "description": {
                    "defaultExecutablePath": "dbtick", "arguments": ["serve"]
                } }
            })
            .to_string(),
        )
    }

    /// The usual world: one function `Orders` with one poller `orders`.
    pub async fn with_orders(changes: Value) -> Self {
        Self::new().await.poller("Orders", changes)
    }

    pub fn app(&self) -> PathBuf {
        self.directory.path().join("app")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn file(self, path: &str, text: &str) -> Self {
        let file = self.app().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
        self
    }

    /// A timer function with the smallest poller, and `changes` on top of it.
    pub fn poller(self, function: &str, changes: Value) -> Self {
        self.function(function, json!({ "poller": poller(changes) }))
    }

    pub fn function(self, name: &str, mut document: Value) -> Self {
        document["bindings"] = json!([{
            "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 0 0 1 1 *"
        }]);
        self.file(&format!("{name}/function.json"), &document.to_string())
    }

    pub fn setting(mut self, name: &str, value: &str) -> Self {
        self.environment.insert(name.to_owned(), value.to_owned());
        self
    }

    pub async fn rows(self, count: i64) -> Self {
        self.writer().await.insert(count).await;
        self
    }

    pub async fn writer(&self) -> Writer {
        let options = SqliteConnectOptions::new()
            .filename(self.path("orders.db"))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(super::DEADLINE)
            .disable_statement_logging();
        Writer(options.connect().await.unwrap())
    }

    pub fn state(&self, poller: &str) -> StateFile {
        let path = self.path("state/state/app").join(format!("{poller}.json"));
        let poller = poller.to_owned();
        StateFile { path, poller }
    }

    pub async fn serve(&self) -> HandlerProcess {
        HandlerProcess::start(&self.environment).await
    }

    /// The local host with the real handler under it, without timers: tests fire.
    pub async fn host(&self, options: HostOptions) -> LocalHost {
        let mut environment = self.environment.clone();
        environment.remove("FUNCTIONS_APP_ROOT_PATH");
        let app = AppDirectory::read(&self.app(), environment).unwrap();
        let options = HostOptions {
            executable: Some(BINARY.into()),
            timers: false,
            http_port: Some(0),
            ..options
        };
        LocalHost::start(app, options).await.unwrap()
    }

    /// Everything that lies in the state directory, as text.
    pub fn state_texts(&self) -> Vec<String> {
        fn walk(directory: &Path, texts: &mut Vec<String>) {
            for entry in fs::read_dir(directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, texts);
                } else {
                    texts.push(String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
                }
            }
        }
        let mut texts = Vec::new();
        walk(&self.path("state"), &mut texts);
        texts
    }
}

pub struct Writer(pub SqliteConnection);

impl Writer {
    /// Appends rows with ids and cursors that go on from the last.
    pub async fn insert(&mut self, count: i64) {
        for _ in 0..count {
            sqlx::query(
                "INSERT INTO orders (seq, note) SELECT coalesce(max(seq), 0) + 1, ? FROM orders",
            )
            .bind(ROW_CANARY)
            .execute(&mut self.0)
            .await
            .unwrap();
        }
    }

    pub async fn sql(&mut self, statement: &'static str) {
        sqlx::query(statement).execute(&mut self.0).await.unwrap();
    }
}

pub fn poller(changes: Value) -> Value {
    let mut poller = json!({
        "source": { "connection": "ORDERS_DB", "table": "orders", "cursor": "seq", "key": "id", "stamped_by": "database" },
        "deliver": [{ "webhook": { "url": "%HOOK%" } }]
    });
    merge(&mut poller, changes);
    poller
}

pub fn merge(target: &mut Value, changes: Value) {
    match (target, changes) {
        (Value::Object(target), Value::Object(changes)) => {
            for (key, change) in changes {
                merge(target.entry(key).or_insert(Value::Null), change);
            }
        }
        (target, change) => *target = change,
    }
}
