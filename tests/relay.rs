//! Rows through a relay to a queue: the real handler under the local host, and a real Azurite.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "relay/answers.rs"]
mod answers;
#[path = "relay/dev.rs"]
mod dev;
#[path = "relay/outputs.rs"]
mod outputs;
#[path = "relay/sizes.rs"]
mod sizes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::azure::queue::{Queue, QueueError};
use dbtick::clock::SystemClock;
use dbtick::config::Settings;
use dbtick::local::{HostEvent, HostOptions, InvocationFailure, LocalHost, OutputFault};
use serde_json::{Value, json};

use support::azurite::Azurite;
use support::world::World;

const KEY: &str = "canary-relay-key";
const QUEUE: &str = "order-events";

/// An app with a poller `orders` that delivers through the relay `carry` to a queue.
async fn world(storage: &str, changes: Value) -> World {
    World::new()
        .await
        .setting("STORAGE", storage)
        .setting("QUEUE", "Order-Events")
        .setting("RELAY_KEY", KEY)
        .file("carry/function.json", &relay_function().to_string())
        .poller("Orders", {
            let mut poller = json!({ "deliver": [relay_sink()] });
            support::world::merge(&mut poller, changes);
            poller
        })
}

fn relay_sink() -> Value {
    json!({ "relay": { "function": "carry", "key": "%RELAY_KEY%" } })
}

fn relay_function() -> Value {
    json!({
        "bindings": [
            { "type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "function", "methods": ["post"] },
            { "type": "http", "direction": "out", "name": "res" },
            { "type": "queue", "direction": "out", "name": "messages", "queueName": "%QUEUE%", "connection": "STORAGE" }
        ],
        "relay": {}
    })
}

/// The host knows the key that the poller shows.
fn options() -> HostOptions {
    HostOptions {
        function_keys: BTreeMap::from([("carry".to_owned(), KEY.to_owned())]),
        ..HostOptions::default()
    }
}

fn failing(faults: &[(u64, usize)]) -> HostOptions {
    let faults = faults.iter();
    HostOptions {
        output_faults: faults
            .map(|&(write, after)| OutputFault { write, after })
            .collect(),
        ..options()
    }
}

fn queue(azurite: &Azurite, name: &str) -> Queue {
    let settings = Settings::from_iter([("STORAGE", azurite.queue_connection_string())]);
    let connection = StorageConnection::resolve(&settings, "STORAGE").unwrap();
    let endpoint = Arc::new(connection.service(Service::Queue).unwrap());
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    Queue::new(&azure, endpoint, name, Arc::new(SystemClock))
}

/// Every message of the queue, as it is stored, in order; the queue is empty then.
async fn stored(queue: &Queue) -> Vec<String> {
    let mut texts = Vec::new();
    loop {
        let received = match queue.receive(Duration::from_secs(30)).await {
            Ok(received) => received,
            Err(QueueError::Missing { .. }) => return texts,
            Err(error) => panic!("{error}"),
        };
        if received.is_empty() {
            return texts;
        }
        for message in &received {
            queue.delete(message).await.unwrap();
            texts.push(message.text.clone());
        }
    }
}

async fn messages(azurite: &Azurite) -> Vec<String> {
    let stored = stored(&queue(azurite, QUEUE)).await;
    let decoded = stored
        .iter()
        .map(|text| BASE64.decode(text.as_bytes()).unwrap());
    decoded
        .map(|bytes| String::from_utf8(bytes).unwrap())
        .collect()
}

fn row(message: &str) -> i64 {
    let message: Value = serde_json::from_str(message).unwrap();
    message["event"]["key"]["id"].as_i64().unwrap()
}

fn rows(messages: &[String]) -> Vec<i64> {
    messages.iter().map(|message| row(message)).collect()
}

/// The tick failed because its delivery did.
async fn failed_tick(host: &LocalHost) {
    let outcome = host.invoke("Orders").await.outcome;
    assert_eq!(outcome.unwrap_err(), InvocationFailure::Status(500));
}

/// What was logged until the first line that holds `part`; it holds no key.
async fn log_until(host: &LocalHost, part: &str) -> String {
    let mut events = host.events();
    let mut said = String::new();
    support::within(part, async {
        while let Some(event) = events.next().await {
            if let HostEvent::Log { line, .. } = event {
                said = format!("{said}{line}\n");
                if line.contains(part) {
                    break;
                }
            }
        }
        assert!(!said.contains(KEY), "{said}");
        said
    })
    .await
}
