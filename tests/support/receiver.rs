//! A webhook receiver that records what it gets and answers by script.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use dbtick::clock::{Clock, SystemClock};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::within;

/// In the path, where tokens live; no log, answer or state may ever show it.
pub const TOKEN: &str = "canary-webhook-token";

#[derive(Debug, Clone)]
pub struct Delivery {
    pub uri: String,
    pub headers: HeaderMap,
    pub body: Value,
    /// The body as it came.
    pub text: String,
    pub at: Instant,
    /// Set when the 200 was handed to the connection: before that, nothing was acknowledged.
    pub acknowledged: bool,
}

impl Delivery {
    pub fn batch_id(&self) -> &str {
        self.body["batch_id"].as_str().unwrap()
    }

    pub fn token(&self) -> u64 {
        self.body["fence"]["token"].as_u64().unwrap()
    }

    /// Row id → event id.
    pub fn events(&self) -> Vec<(i64, String)> {
        let events = self.body["events"].as_array().unwrap();
        events
            .iter()
            .map(|event| {
                let id = event["key"]["id"].as_i64().unwrap();
                (id, event["id"].as_str().unwrap().to_owned())
            })
            .collect()
    }
}

#[derive(Debug, Clone)]
pub enum Answer {
    Ok,
    /// Status, header, body.
    Say(u16, Option<(&'static str, String)>, String),
    /// 200, after this time.
    After(Duration),
    /// 200, once the gate is opened.
    WhenOpened,
    /// Never; the connection stays open.
    Never,
    /// 200 with this, and the connection breaks before the end of it.
    Cut(&'static str),
    /// 200 with this, over and over.
    Endless(&'static str),
}

type Script = dyn Fn(usize, &Delivery) -> Answer + Send + Sync;

#[derive(Clone)]
pub struct Receiver {
    pub port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    script: Mutex<Arc<Script>>,
    deliveries: Mutex<Vec<Delivery>>,
    arrived: watch::Sender<usize>,
    acknowledged: watch::Sender<usize>,
    gate: watch::Sender<bool>,
}

impl Receiver {
    pub async fn start() -> Self {
        Self::start_on(0).await
    }

    pub async fn start_on(port: u16) -> Self {
        let address = ("127.0.0.1", port);
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            script: Mutex::new(Arc::new(|_, _| Answer::Ok)),
            deliveries: Mutex::default(),
            arrived: watch::Sender::new(0),
            acknowledged: watch::Sender::new(0),
            gate: watch::Sender::new(false),
        });
        let router = Router::new()
            .fallback(receive)
            .with_state(Arc::clone(&shared))
            .layer(axum::extract::DefaultBodyLimit::disable());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, shared }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{TOKEN}?code={TOKEN}", self.port)
    }

    /// `script` gets the number of the delivery, from 0, and the delivery.
    pub fn answer(&self, script: impl Fn(usize, &Delivery) -> Answer + Send + Sync + 'static) {
        *self.shared.script.lock().unwrap() = Arc::new(script);
    }

    pub fn open_gate(&self) {
        self.shared.gate.send_replace(true);
    }

    pub fn close_gate(&self) {
        self.shared.gate.send_replace(false);
    }

    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.deliveries.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        *self.shared.arrived.borrow()
    }

    /// Resolves when `count` deliveries have arrived, answered or not.
    #[track_caller]
    pub fn arrived(&self, count: usize) -> impl Future<Output = ()> + use<> {
        let mut arrived = self.shared.arrived.subscribe();
        within("deliveries arrive", async move {
            arrived.wait_for(|n| *n >= count).await.unwrap();
        })
    }

    #[track_caller]
    pub fn acknowledged(&self, count: usize) -> impl Future<Output = ()> + use<> {
        let mut acknowledged = self.shared.acknowledged.subscribe();
        within("deliveries are acknowledged", async move {
            acknowledged.wait_for(|n| *n >= count).await.unwrap();
        })
    }

    pub fn acknowledged_count(&self) -> usize {
        *self.shared.acknowledged.borrow()
    }

    /// Row id → event ids of its acknowledged deliveries, in their order.
    pub fn acknowledged_rows(&self) -> BTreeMap<i64, Vec<String>> {
        let mut rows: BTreeMap<i64, Vec<String>> = BTreeMap::new();
        for delivery in self.deliveries().iter().filter(|d| d.acknowledged) {
            for (row, event) in delivery.events() {
                rows.entry(row).or_default().push(event);
            }
        }
        rows
    }
}

async fn receive(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let delivery = Delivery {
        uri: uri.to_string(),
        headers,
        body: serde_json::from_slice(&body).unwrap(),
        text: String::from_utf8(body.to_vec()).unwrap(),
        at: SystemClock.monotonic(),
        acknowledged: false,
    };
    let script = Arc::clone(&shared.script.lock().unwrap());
    let (index, answer) = {
        let mut deliveries = shared.deliveries.lock().unwrap();
        let index = deliveries.len();
        let answer = script(index, &delivery);
        deliveries.push(delivery);
        (index, answer)
    };
    shared.arrived.send_modify(|n| *n += 1);
    match answer {
        Answer::Ok => {}
        Answer::Say(status, header, body) => {
            let mut response = (StatusCode::from_u16(status).unwrap(), body).into_response();
            if let Some((name, value)) = header {
                response.headers_mut().insert(name, value.parse().unwrap());
            }
            return response;
        }
        Answer::After(time) => tokio::time::sleep(time).await,
        Answer::WhenOpened => {
            let mut gate = shared.gate.subscribe();
            gate.wait_for(|open| *open).await.unwrap();
        }
        Answer::Never => std::future::pending().await,
        Answer::Cut(text) => {
            let broken = std::io::Error::other("the receiver hangs up");
            let parts = stream::iter([Ok(text), Err(broken)]);
            return Body::from_stream(parts).into_response();
        }
        Answer::Endless(text) => {
            let parts = stream::repeat_with(move || Ok::<_, std::io::Error>(text));
            return Body::from_stream(parts).into_response();
        }
    }
    shared.deliveries.lock().unwrap()[index].acknowledged = true;
    shared.acknowledged.send_modify(|n| *n += 1);
    StatusCode::OK.into_response()
}
