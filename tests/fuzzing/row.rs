//! A row of SQLite, which takes any bytes as any type: the event is one JSON object with all columns, says what is
//! stored, and has the same id whenever it is read.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use dbtick::azure::Azure;
use dbtick::clock::SystemClock;
use dbtick::config::{Connection, Deletes, LateCommits, NullPolicy, Rows, SourceConfig, Start};
use dbtick::database::Databases;
use dbtick::model::page::PageWriter;
use dbtick::source::{ReadPage, Source, SourceError, open};
use serde_json::Value;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Executor};

use super::block_on;
use super::wire_value::placed;

/// Names that want to be escaped, with the types that have rules of their own.
const COLUMNS: [(&str, &str); 8] = [
    ("seq", "INTEGER NOT NULL"),
    ("id", ""),
    ("plain", ""),
    ("quo\"te", "BIGINT"),
    ("new\nline", "BOOLEAN"),
    ("back\\slash", "JSON"),
    ("größe", "TEXT"),
    ("{\"a\":1}", "REAL"),
];

/// A value as it is bound.
#[derive(Debug, Clone)]
enum Stored {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    Blob(Vec<u8>),
}

/// For each column behind the first: a byte with the kind, one with the length, and as many bytes.
pub(crate) fn row(input: &[u8]) {
    let mut rest = input;
    let values: Vec<Stored> = (1..COLUMNS.len()).map(|_| next(&mut rest)).collect();
    let mut world = WORLD.take().unwrap_or_else(|| block_on(World::new()));
    let (one, again) = block_on(async {
        world.store(&values).await;
        (world.read("orders").await, world.read("orders").await)
    });
    WORLD.set(Some(world));
    let (one, again) = match (one, again) {
        (Ok(one), Ok(again)) => (one, again),
        // A key that has no exact place: said, whatever the value is.
        (Err(error), Err(_)) => return assert!(!error.to_string().is_empty()),
        (one, again) => panic!("{one:?}, then {again:?}"),
    };
    assert_eq!(one.page.len(), 1);
    let (event, second) = (&one.page.events()[0], &again.page.events()[0]);
    assert_eq!(event.id, second.id);
    event.position.key().iter().for_each(placed);
    let json: Value = serde_json::from_slice(one.page.json(event)).expect("an event is JSON");
    assert_eq!(json["id"], event.id.to_string());
    let data = json["data"].as_object().expect("a row is an object");
    let names: Vec<_> = COLUMNS.iter().map(|(name, _)| *name).collect();
    assert_eq!(data.len(), names.len());
    assert!(
        names.iter().all(|name| data.contains_key(*name)),
        "{data:?}"
    );
    for ((name, _), value) in COLUMNS.iter().skip(1).zip(&values) {
        faithful(name, value, &data[*name]);
    }
}

/// Columns without a type keep what they are given.
fn faithful(name: &str, stored: &Stored, json: &Value) {
    if !matches!(name, "id" | "plain") {
        return;
    }
    match stored {
        Stored::Null => assert!(json.is_null()),
        Stored::Integer(value) => assert_eq!(json.as_i64(), Some(*value)),
        // SQLite has no NaN.
        Stored::Real(value) if value.is_nan() => assert!(json.is_null()),
        Stored::Real(value) if value.is_infinite() => assert!(json.is_string()),
        Stored::Real(value) => assert_eq!(json.as_f64(), Some(*value)),
        Stored::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => assert_eq!(json.as_str(), Some(text)),
            Err(_) => assert!(json["base64"].is_string()),
        },
        Stored::Blob(bytes) => {
            let length = json.as_str().expect("bytes are text").len();
            assert_eq!(length, bytes.len().div_ceil(3) * 4);
        }
    }
}

fn next(rest: &mut &[u8]) -> Stored {
    let [kind, length, behind @ ..] = *rest else {
        return Stored::Integer(7);
    };
    let (bytes, behind) = behind.split_at(usize::from(*length).min(behind.len()));
    *rest = behind;
    let mut number = [0; 8];
    let taken = bytes.len().min(8);
    number[..taken].copy_from_slice(&bytes[..taken]);
    match kind % 5 {
        0 => Stored::Null,
        1 => Stored::Integer(i64::from_le_bytes(number)),
        2 => Stored::Real(f64::from_le_bytes(number)),
        3 => Stored::Text(bytes.to_vec()),
        _ => Stored::Blob(bytes.to_vec()),
    }
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

/// A database with one row, and the source that reads it.
struct World {
    writer: SqliteConnection,
    source: Arc<dyn Source>,
}

impl World {
    async fn new() -> Self {
        let file = tempfile::tempdir().unwrap().keep().join("orders.db");
        let options = SqliteConnectOptions::new()
            .filename(&file)
            .create_if_missing(true);
        let options = options
            .pragma("synchronous", "OFF")
            .disable_statement_logging();
        let mut writer = options.connect().await.unwrap();
        let columns = COLUMNS.map(|(name, declared)| format!("{} {declared}", quoted(name)));
        let create = format!("CREATE TABLE orders ({})", columns.join(", "));
        writer.execute(AssertSqlSafe(create)).await.unwrap();
        let azure = Azure::new(Arc::new(SystemClock)).unwrap();
        let config = SourceConfig {
            connection_name: "ORDERS_DB".into(),
            connection_identity: file.display().to_string(),
            connection: Connection::Sqlite { file },
            rows: Rows::Table {
                schema: None,
                table: "orders".to_owned(),
            },
            cursor: vec!["seq".to_owned()],
            key: vec!["id".to_owned()],
            columns: None,
            filter: None,
            start: Start::Beginning,
            nulls: NullPolicy::Fail,
            deletes: Deletes::Unseen,
            outbox: None,
            late: LateCommits::default(),
            shard: None,
        };
        Self {
            writer,
            source: open(&config, &Databases::new(azure)),
        }
    }

    async fn store(&mut self, values: &[Stored]) {
        self.writer.execute("DELETE FROM orders").await.unwrap();
        let places: Vec<_> = values
            .iter()
            .map(|value| match value {
                // The only way in for text that is none.
                Stored::Text(_) => "CAST(? AS TEXT)",
                _ => "?",
            })
            .collect();
        let insert = format!("INSERT INTO orders VALUES (1, {})", places.join(", "));
        let query =
            values.iter().fold(
                sqlx::query(AssertSqlSafe(insert)),
                |query, value| match value.clone() {
                    Stored::Null => query.bind(None::<i64>),
                    Stored::Integer(value) => query.bind(value),
                    Stored::Real(value) => query.bind(value),
                    Stored::Text(bytes) | Stored::Blob(bytes) => query.bind(bytes),
                },
            );
        query.execute(&mut self.writer).await.unwrap();
    }

    async fn read(&self, events_as: &str) -> Result<ReadPage, SourceError> {
        let writer = PageWriter::new(events_as, 10, 1 << 20);
        self.source.read(None, writer, Duration::from_secs(5)).await
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
