//! Whatever is posted to the handler: never a panic, always an answer that the host understands.

use std::fs;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request};
use dbtick::clock::SystemClock;
use dbtick::config::{App, Settings};
use dbtick::host::{Handler, router};
use dbtick::stop::Stop;
use dbtick::wiring::Parts;
use serde_json::Value;
use tower::ServiceExt;

use super::block_on;

/// How a request comes: the first byte of the input says which.
const FORMS: [(&str, &str); 8] = [
    ("POST", "/orders"),
    ("POST", "/orders-relay"),
    ("POST", "/status"),
    ("POST", "/plain"),
    ("GET", "/api/dbtick/checkpoints/orders"),
    ("POST", "/api/dbtick/pollers/orders/pause"),
    ("PUT", "/"),
    ("POST", "/nobody"),
];
const LARGEST_ANSWER: usize = 4 * 1024 * 1024;

/// The form, two headers (each ends with a line), and the body.
pub(crate) fn invocation(input: &[u8]) {
    let Some((form, rest)) = input.split_first() else {
        return;
    };
    let (method, path) = FORMS[usize::from(*form) % FORMS.len()];
    let (one, rest) = line(rest);
    let (two, body) = line(rest);
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in [
        ("x-azure-functions-invocationid", one),
        ("traceparent", two),
        ("content-type", one),
        ("x-dbtick-action", two),
    ] {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            request = request.header(name, value);
        }
    }
    let request = request.body(Body::from(body.to_vec())).unwrap();
    block_on(async {
        let response = app().oneshot(request).await.unwrap();
        let status = response.status();
        assert!(status.as_u16() < 600);
        let forwarded = path.starts_with("/api/") || method == "PUT";
        let body = to_bytes(response.into_body(), LARGEST_ANSWER).await;
        let body = body.expect("an answer has an end");
        let text = String::from_utf8_lossy(&body);
        assert!(!text.contains("dbtick has a bug"), "{text}");
        if forwarded {
            return;
        }
        let answer: Value = serde_json::from_slice(&body).expect("an answer to the host is JSON");
        assert!(
            answer["Outputs"].is_object() && answer["Logs"].is_array(),
            "{answer}"
        );
        for output in answer["Outputs"].as_object().unwrap().values() {
            let response = output["statusCode"].is_u64();
            // What the host would hand on to a queue: texts, each a JSON object.
            let messages = output.as_array().is_some_and(|all| {
                all.iter().all(|one| {
                    let text = one.as_str().unwrap_or_default();
                    serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object())
                })
            });
            assert!(response || messages, "{output}");
        }
    });
}

fn line(bytes: &[u8]) -> (&[u8], &[u8]) {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (&[], bytes),
    }
}

const POLLER: &str = r#"{
    "bindings": [{ "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 * * * * *" }],
    "poller": {
        "source": { "connection": "ORDERS_DB", "table": "orders", "cursor": "seq", "key": "id" },
        "deliver": [{ "webhook": { "url": "%HOOK%" } }]
    }
}"#;
const RELAY: &str = r#"{
    "bindings": [
        { "type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "function", "methods": ["post"] },
        { "type": "http", "direction": "out", "name": "res" },
        { "type": "queue", "direction": "out", "name": "messages", "queueName": "orders", "connection": "AzureWebJobsStorage" }
    ],
    "relay": {}
}"#;
const STATUS: &str = r#"{
    "bindings": [
        { "type": "httpTrigger", "direction": "in", "name": "req", "authLevel": "function", "methods": ["get", "post"], "route": "dbtick/{*path}" },
        { "type": "http", "direction": "out", "name": "res" }
    ],
    "status": { "actions": true }
}"#;
const PLAIN: &str = r#"{ "bindings": [] }"#;

/// One app for all inputs of a thread: a poller of a table without rows, a relay, a page.
fn app() -> Router {
    thread_local! {
        static APP: Router = build();
    }
    APP.with(Clone::clone)
}

fn build() -> Router {
    let directory = tempfile::tempdir().unwrap().keep();
    let root = directory.join("app");
    let functions = [
        ("orders", POLLER),
        ("orders-relay", RELAY),
        ("status", STATUS),
        ("plain", PLAIN),
    ];
    for (name, text) in functions {
        fs::create_dir_all(root.join(name)).unwrap();
        fs::write(root.join(name).join("function.json"), text).unwrap();
    }
    let host = r#"{"version":"2.0","extensionBundle":{"id":"Microsoft.Azure.Functions.ExtensionBundle","version":"[4.*, 5.0.0)"}}"#;
    fs::write(root.join("host.json"), host).unwrap();
    let settings = [
        (
            "DBTICK_STATE_DIR",
            directory.join("state").display().to_string(),
        ),
        // Opened by a tick, which says that there is no such file.
        (
            "ORDERS_DB",
            format!("sqlite:{}", directory.join("none.db").display()),
        ),
        ("HOOK", "https://hooks.example/".to_owned()),
    ];
    let settings: Settings = settings.into_iter().collect();
    let app = App::load(&root, &settings);
    let faults: Vec<_> = app.faults().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let parts = Parts::new(Arc::new(SystemClock)).unwrap();
    router(Arc::new(Handler::new(&app, parts, Stop::never())))
}
