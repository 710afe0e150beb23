//! The queue sink against a real storage service: what lies in the queue, what counts as put, and
//! what is said when it was not.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "queue/access.rs"]
mod access;
#[path = "queue/claims.rs"]
mod claims;
#[path = "queue/failures.rs"]
mod failures;
#[path = "queue/handler.rs"]
mod handler;
#[path = "queue/messages.rs"]
mod messages;
#[path = "queue/settings.rs"]
mod settings;

use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::azure::queue::{Posting, Queue};
use dbtick::clock::SystemClock;
use dbtick::config::{Claims, MessageEncoding, Per, QueueConfig, Settings};
use dbtick::model::envelope::{Batch, Fence};
use dbtick::model::lease::FencingToken;
use dbtick::model::page::{Op, PageWriter};
use dbtick::model::position::{Position, Scalar};
use dbtick::sink::{QueueSink, Sink, Verdict};
use serde_json::Value;

use support::azurite::{ACCOUNT, Azurite, KEY};
use support::within;

const NAME: &str = "order-events";

/// A storage account: queues, and blobs where a test needs them.
struct Storage {
    queues: Azurite,
    blobs: Option<Azurite>,
}

impl Storage {
    fn queues() -> Self {
        Self {
            queues: Azurite::queue(),
            blobs: None,
        }
    }

    fn queues_and_blobs() -> Self {
        Self {
            queues: Azurite::queue(),
            blobs: Some(Azurite::blob()),
        }
    }

    fn connection(&self) -> String {
        let mut connection = self.queues.queue_connection_string();
        if let Some(blobs) = &self.blobs {
            connection += &format!(";BlobEndpoint={}", blobs.endpoint);
        }
        connection
    }

    fn sink(&self, change: impl FnOnce(&mut QueueConfig)) -> QueueSink {
        sink(&self.connection(), change)
    }

    fn queue(&self) -> Queue {
        queue(&self.connection())
    }

    /// What lies in the queue, decoded as the queue trigger does; it is taken out.
    async fn messages(&self) -> Vec<Vec<u8>> {
        let texts = self.texts().await;
        let decoded = texts.iter().map(|text| BASE64.decode(text.as_bytes()));
        decoded.map(Result::unwrap).collect()
    }

    async fn texts(&self) -> Vec<String> {
        let queue = self.queue();
        let mut texts = Vec::new();
        loop {
            let found = queue.receive(Duration::from_secs(60)).await.unwrap();
            if found.is_empty() {
                return texts;
            }
            for message in found {
                queue.delete(&message).await.unwrap();
                texts.push(message.text);
            }
        }
    }
}

/// Through a proxy, which is in front of the queues.
fn queues_at(port: u16) -> String {
    format!(
        "AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint=http://127.0.0.1:{port}/{ACCOUNT}"
    )
}

/// A configuration by the road that an app takes, with what a test changes.
fn config(connection: &str, change: impl FnOnce(&mut QueueConfig)) -> QueueConfig {
    let settings = Settings::from_iter([("STORAGE", connection)]);
    let connection = StorageConnection::resolve(&settings, "STORAGE").unwrap();
    let claims = connection.service(Service::Blob).ok();
    let mut config = QueueConfig {
        endpoint: Arc::new(connection.service(Service::Queue).unwrap()),
        queue: NAME.to_owned(),
        per: Per::Event,
        create: true,
        posting: Posting::default(),
        encoding: MessageEncoding::Base64,
        claims: claims.map(|endpoint| Claims {
            endpoint: Arc::new(endpoint),
            container: "db-claims".to_owned(),
        }),
    };
    change(&mut config);
    config
}

fn sink(connection: &str, change: impl FnOnce(&mut QueueConfig)) -> QueueSink {
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    let config = config(connection, change);
    QueueSink::new("shop", "queue", &config, &azure, Arc::new(SystemClock))
}

fn queue(connection: &str) -> Queue {
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    let endpoint = config(connection, |_| {}).endpoint;
    Queue::new(&azure, endpoint, NAME, Arc::new(SystemClock))
}

/// A row of a test: its number, what happened to it, and the JSON of its data.
struct Row(i64, Op, String);

/// In the key of a row with a number below zero, so that not even its key fits into a message.
const LONG_KEY: usize = 70_000;

fn row(id: i64) -> Row {
    Row(id, Op::Upsert, format!("{{\"id\":{id}}}"))
}

/// A row with so many bytes in it.
fn wide(id: i64, bytes: usize) -> Row {
    let note = "x".repeat(bytes);
    Row(
        id,
        Op::Upsert,
        format!("{{\"id\":{id},\"note\":\"{note}\"}}"),
    )
}

fn batch(rows: impl IntoIterator<Item = Row>) -> Batch {
    let mut writer = PageWriter::new("orders", 10_000, 1 << 30);
    for (cursor, Row(id, op, data)) in rows.into_iter().enumerate() {
        let cursor = i64::try_from(cursor).unwrap() + 1;
        let at = |number: i64| vec![Scalar::Integer(number.into())];
        writer.push(
            op,
            Position::new(at(cursor), at(id)),
            |out| out.extend_from_slice(cursor.to_string().as_bytes()),
            |out| {
                let long = "k".repeat(if id < 0 { LONG_KEY } else { 0 });
                out.extend_from_slice(format!("{{\"id\":{id},\"code\":\"{long}\"}}").as_bytes());
            },
            |out| out.extend_from_slice(data.as_bytes()),
        );
    }
    let types = [("id".to_owned(), "INTEGER".to_owned())];
    let fence = Fence {
        token: FencingToken::default().next(),
        sequence: 7,
        shard: None,
    };
    Batch::assemble("orders", &types, &writer.finish(), fence, 1, None)
}

/// No verdict shows what only the connection may know.
async fn deliver(sink: &QueueSink, batch: &Batch) -> Verdict {
    let verdict = within("a verdict", sink.deliver(batch)).await;
    let said = format!("{verdict:?} {sink:?}");
    for secret in [KEY, "Y2FuYXJ5", "sig="] {
        assert!(!said.contains(secret), "{said}");
    }
    verdict
}

#[track_caller]
fn validate(schema: &str, message: &Value) {
    let schema = match schema {
        "message" => include_str!("../schema/queue-message.schema.json"),
        "batch" => include_str!("../schema/batch.schema.json"),
        other => panic!("{other}"),
    };
    let schema = serde_json::from_str(schema).unwrap();
    if let Err(error) = jsonschema::validate(&schema, message) {
        panic!("{error}: {message}");
    }
}

fn parsed(message: &[u8]) -> Value {
    serde_json::from_slice(message).unwrap()
}

/// The keys of the rows that lie in messages of one event each, in order.
fn ids(messages: &[Vec<u8>]) -> Vec<i64> {
    let id = |message: &Vec<u8>| parsed(message)["event"]["key"]["id"].as_i64();
    let mut ids: Vec<i64> = messages.iter().map(|m| id(m).unwrap()).collect();
    ids.sort_unstable();
    ids
}
