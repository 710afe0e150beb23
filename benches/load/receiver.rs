//! A receiver that counts each row of each poller and is as slow as it is told.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use nix::unistd::Pid;
use serde::Deserialize;

use crate::process::peak_kib;

/// How long it takes over one batch of a poller.
type Pace = dyn Fn(&str) -> Duration + Send + Sync;

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    got: Mutex<Got>,
    pace: Mutex<Arc<Pace>>,
    handler: OnceLock<Pid>,
    /// So many rows are looked at as the beginning.
    early: usize,
}

#[derive(Default)]
struct Got {
    pollers: BTreeMap<String, Rows>,
    events: usize,
    bytes: usize,
    early_kib: Option<u64>,
}

/// How often each row came, by its id.
#[derive(Default)]
struct Rows(Vec<u8>);

#[derive(Deserialize)]
struct Batch<'a> {
    #[serde(borrow)]
    poller: Cow<'a, str>,
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    key: Key,
}

#[derive(Deserialize)]
struct Key {
    id: usize,
}

impl Receiver {
    pub(crate) async fn start(early: usize) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            got: Mutex::default(),
            pace: Mutex::new(Arc::new(|_| Duration::ZERO)),
            handler: OnceLock::new(),
            early,
        });
        let router = Router::new()
            .fallback(receive)
            .with_state(Arc::clone(&shared))
            .layer(DefaultBodyLimit::disable());
        tokio::spawn(async move { axum::serve(listener, router).await });
        let url = format!("http://127.0.0.1:{port}/");
        Self { url, shared }
    }

    pub(crate) fn watch(&self, handler: Pid) {
        self.shared.handler.set(handler).unwrap();
    }

    pub(crate) fn pace(&self, pace: impl Fn(&str) -> Duration + Send + Sync + 'static) {
        *self.shared.pace.lock().unwrap() = Arc::new(pace);
    }

    pub(crate) fn events(&self) -> usize {
        self.shared.got.lock().unwrap().events
    }

    pub(crate) fn bytes(&self) -> usize {
        self.shared.got.lock().unwrap().bytes
    }

    /// What the handler held when the first rows had come.
    pub(crate) fn early_kib(&self) -> u64 {
        self.shared.got.lock().unwrap().early_kib.unwrap()
    }

    /// Of the rows 1 to `rows` of a poller: those that never came, and how often others came again.
    pub(crate) fn missing_and_again(&self, poller: &str, rows: usize) -> (usize, usize) {
        let got = self.shared.got.lock().unwrap();
        let count = |id| match got.pollers.get(poller) {
            Some(seen) => usize::from(seen.0.get(id).copied().unwrap_or(0)),
            None => 0,
        };
        let missing = (1..=rows).filter(|id| count(*id) == 0).count();
        let again = (1..=rows).map(|id| count(id).saturating_sub(1)).sum();
        (missing, again)
    }
}

async fn receive(State(shared): State<Arc<Shared>>, body: Bytes) {
    let batch: Batch<'_> = serde_json::from_slice(&body).unwrap();
    let pace = shared.pace.lock().unwrap().clone();
    let slow = pace(&batch.poller);
    if !slow.is_zero() {
        tokio::time::sleep(slow).await;
    }
    // Only now is it taken: who hangs up before has got nothing.
    let mut got = shared.got.lock().unwrap();
    got.events += batch.events.len();
    got.bytes += body.len();
    if got.early_kib.is_none() && got.events >= shared.early {
        got.early_kib = shared.handler.get().map(|handler| peak_kib(*handler));
    }
    let rows = got.pollers.entry(batch.poller.into_owned()).or_default();
    for Event { key } in &batch.events {
        if rows.0.len() <= key.id {
            rows.0.resize(key.id + 1, 0);
        }
        rows.0[key.id] = rows.0[key.id].saturating_add(1);
    }
}
