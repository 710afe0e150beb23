//! Between dbtick and a receiver: hands on what is sent, and loses answers on purpose.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::watch;

use super::support::within;

/// Needs a provider for TLS, although it speaks plain HTTP only.
pub(crate) fn client() -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::new()
}

/// What becomes of an answer. The receiver has done its work by then.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Then {
    Pass,
    /// 500 in its place.
    Fail,
    /// Nobody hears of it.
    Keep,
}

#[derive(Clone)]
pub(crate) struct Front {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    receiver: String,
    client: reqwest::Client,
    script: Mutex<VecDeque<Then>>,
    events: Mutex<Vec<String>>,
    statuses: Mutex<Vec<u16>>,
    passed: watch::Sender<usize>,
}

impl Front {
    pub(crate) async fn before(receiver: String) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            receiver,
            client: client(),
            script: Mutex::default(),
            events: Mutex::default(),
            statuses: Mutex::default(),
            passed: watch::Sender::new(0),
        });
        let router = Router::new()
            .fallback(hand_on)
            .with_state(Arc::clone(&shared));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { port, shared }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/orders", self.port)
    }

    /// One after the other; what comes after them is passed.
    pub(crate) fn then(&self, script: &[Then]) {
        self.shared.script.lock().unwrap().extend(script);
    }

    /// Resolves when the receiver has answered so many times.
    pub(crate) async fn passed(&self, count: usize) {
        let mut passed = self.shared.passed.subscribe();
        let arrived = async { passed.wait_for(|n| *n >= count).await.map(drop) };
        within("the receiver answers", arrived).await.unwrap();
    }

    /// Whether something of the script is still to come.
    pub(crate) fn is_open(&self) -> bool {
        !self.shared.script.lock().unwrap().is_empty()
    }

    /// The ids of all events that came, in their order.
    pub(crate) fn events(&self) -> Vec<String> {
        self.shared.events.lock().unwrap().clone()
    }

    /// What the receiver answered.
    pub(crate) fn statuses(&self) -> Vec<u16> {
        self.shared.statuses.lock().unwrap().clone()
    }
}

async fn hand_on(
    State(shared): State<Arc<Shared>>,
    mut headers: HeaderMap,
    body: Bytes,
) -> Response {
    let batch: Value = serde_json::from_slice(&body).unwrap();
    let ids = batch["events"].as_array().unwrap().iter();
    let ids = ids.map(|event| event["id"].as_str().unwrap().to_owned());
    shared.events.lock().unwrap().extend(ids);
    for name in ["host", "content-length", "transfer-encoding"] {
        headers.remove(name);
    }
    let request = shared
        .client
        .post(&shared.receiver)
        .headers(headers)
        .body(body);
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    let text = answer.text().await.unwrap();
    let then = shared.script.lock().unwrap().pop_front();
    shared.statuses.lock().unwrap().push(status);
    shared.passed.send_modify(|n| *n += 1);
    match then {
        None | Some(Then::Pass) => (StatusCode::from_u16(status).unwrap(), text).into_response(),
        Some(Then::Fail) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Some(Then::Keep) => std::future::pending().await,
    }
}
