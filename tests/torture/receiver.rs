//! The receivers: what comes is written to disk and synced before it is answered. Rows that are poison are
//! refused, for ever.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Path as Address, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use dbtick::clock::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::tables::{HOOK, Manners, Poller};

/// A line of `received.jsonl`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Delivery {
    /// Since the beginning, once it was synced.
    pub(crate) at_us: u64,
    pub(crate) poller: String,
    pub(crate) sink: String,
    pub(crate) token: u64,
    pub(crate) sequence: u64,
    pub(crate) status: u16,
    pub(crate) events: Vec<Event>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(crate) taken: bool,
    pub(crate) event: Value,
}

/// A batch that has come, before it is answered.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arrival {
    pub(crate) poller: String,
    pub(crate) token: u64,
}

pub(crate) struct Receiver {
    pub(crate) port: u16,
    pub(crate) arrivals: watch::Sender<Arrival>,
    pollers: BTreeMap<String, Arc<Poller>>,
    file: Mutex<File>,
    path: PathBuf,
    started: Instant,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// By poller and receiver, the labels that were taken.
    taken: BTreeMap<(String, String), BTreeSet<String>>,
    events: u64,
    last: Option<Instant>,
}

impl Receiver {
    pub(crate) async fn start(
        directory: &Path,
        pollers: &[Arc<Poller>],
        started: Instant,
    ) -> Arc<Self> {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let path = directory.join("received.jsonl");
        let receiver = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            arrivals: watch::Sender::default(),
            pollers: by_name(pollers),
            file: Mutex::new(File::create(&path).unwrap()),
            path,
            started,
            seen: Mutex::default(),
        });
        let router = Router::new()
            .route("/{poller}/{sink}", post(receive))
            .with_state(Arc::clone(&receiver));
        tokio::spawn(async move { axum::serve(listener, router).await });
        receiver
    }

    pub(crate) fn has_taken(&self, poller: &str, sink: &str, label: &str) -> bool {
        let seen = self.seen.lock().unwrap();
        let taken = seen.taken.get(&(poller.to_owned(), sink.to_owned()));
        taken.is_some_and(|taken| taken.contains(label))
    }

    /// How many events have come, and when the last one did.
    pub(crate) fn events(&self) -> (u64, Option<Instant>) {
        let seen = self.seen.lock().unwrap();
        (seen.events, seen.last)
    }

    /// As they lie on disk.
    pub(crate) fn deliveries(&self) -> Vec<Delivery> {
        let text = std::fs::read_to_string(&self.path).unwrap();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn judge(&self, poller: &str, sink: &str, batch: &Value) -> Delivery {
        let manners = self.pollers[poller].manners;
        let events = batch["events"].as_array().unwrap();
        let refused = |event: &Value| sink == HOOK && is_poison(event);
        let any = events.iter().any(refused);
        let (status, all) = match manners {
            Manners::Audited if any => (422, true),
            _ => (200, false),
        };
        let events = events.iter().map(|event| Event {
            taken: !all && !refused(event),
            event: event.clone(),
        });
        Delivery {
            at_us: 0,
            poller: poller.to_owned(),
            sink: sink.to_owned(),
            token: batch["fence"]["token"].as_u64().unwrap(),
            sequence: batch["fence"]["sequence"].as_u64().unwrap(),
            status,
            events: events.collect(),
        }
    }

    /// Durable when it returns.
    fn keep(&self, mut delivery: Delivery) {
        let mut file = self.file.lock().unwrap();
        let now = SystemClock.monotonic();
        delivery.at_us = (now - self.started).as_micros() as u64;
        let mut line = serde_json::to_vec(&delivery).unwrap();
        line.push(b'\n');
        file.write_all(&line).unwrap();
        file.sync_data().unwrap();
        drop(file);
        let mut seen = self.seen.lock().unwrap();
        seen.events += delivery.events.len() as u64;
        seen.last = Some(now);
        let taken = seen
            .taken
            .entry((delivery.poller, delivery.sink))
            .or_default();
        for event in delivery.events.iter().filter(|event| event.taken) {
            taken.insert(label(&event.event).to_owned());
        }
    }
}

pub(crate) fn by_name(pollers: &[Arc<Poller>]) -> BTreeMap<String, Arc<Poller>> {
    let named = pollers.iter();
    named
        .map(|poller| (poller.name.clone(), Arc::clone(poller)))
        .collect()
}

pub(crate) fn label(event: &Value) -> &str {
    event["data"]["label"].as_str().unwrap_or_default()
}

pub(crate) fn is_poison(event: &Value) -> bool {
    let poison = &event["data"]["poison"];
    *poison == json!(true) || *poison == json!(1)
}

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    Address((poller, sink)): Address<(String, String)>,
    body: Bytes,
) -> Response {
    let batch: Value = serde_json::from_slice(&body).unwrap();
    let delivery = receiver.judge(&poller, &sink, &batch);
    let token = delivery.token;
    receiver.arrivals.send_replace(Arrival { poller, token });
    let status = StatusCode::from_u16(delivery.status).unwrap();
    let refused = delivery.events.iter().filter(|event| !event.taken);
    let failed: Vec<Value> = refused
        .map(|event| json!({ "id": event.event["id"], "reason": "poison", "retry": false }))
        .collect();
    let kept = tokio::task::spawn_blocking(move || receiver.keep(delivery));
    kept.await.unwrap();
    match status {
        StatusCode::OK if failed.is_empty() => status.into_response(),
        StatusCode::OK => Json(json!({ "failed": failed })).into_response(),
        _ => status.into_response(),
    }
}
