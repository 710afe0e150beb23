//! The status functions, by the real handler: addresses, actions, and the page in a real browser.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "status/actions.rs"]
mod actions;
#[path = "status/browser.rs"]
mod browser;
#[path = "status/dev.rs"]
mod dev;
#[path = "status/document.rs"]
mod document;
#[path = "status/reading.rs"]
mod reading;
#[path = "status/stuck.rs"]
mod stuck;

use serde_json::{Map, Value, json};

use support::handler::HandlerProcess;
use support::http::{RawAnswer, chunked, exchange};
use support::receiver::Answer;
use support::world::World;

const TEMPLATE: &str = include_str!("../function-templates/status/function.json");
const KEY_CANARY: &str = "canary-function-key";
const ROWS: i64 = 6;

/// How the host hands a request over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Wrapped,
    Forwarded,
}

/// What a caller gets.
#[derive(Debug)]
struct Got {
    status: u16,
    headers: Map<String, Value>,
    body: String,
}

impl Got {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    #[track_caller]
    fn says(&self, status: u16, words: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.body.contains(words), "{words:?} in {self:?}");
    }
}

/// A poller `orders` whose bad rows are set aside with the first tick, and the status function.
async fn world() -> World {
    let world = World::with_orders(json!({
        "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1 } }],
        "poison": { "attempts": 2 },
    }));
    world.await.file("status/function.json", TEMPLATE)
}

/// Refuses these rows for good, in such words.
fn refuse(world: &World, rows: &'static [i64], why: &'static str) {
    world.receiver.answer(move |_, delivery| {
        let events = delivery.events().into_iter();
        let failed: Vec<Value> = events
            .filter(|(row, _)| rows.contains(row))
            .map(|(_, id)| json!({ "id": id, "reason": why, "retry": false }))
            .collect();
        match failed.is_empty() {
            true => Answer::Ok,
            false => Answer::Say(200, None, json!({ "failed": failed }).to_string()),
        }
    });
}

/// Six rows, of which the second is in quarantine.
async fn with_aside() -> (World, HandlerProcess) {
    let world = world().await.rows(ROWS).await;
    refuse(&world, &[2], "no such customer");
    let handler = world.serve().await;
    let ticked = handler.tick("Orders").await;
    assert_eq!(ticked.status, 200, "{}", ticked.logs());
    (world, handler)
}

async fn get(handler: &HandlerProcess, path: &str) -> Got {
    ask(handler, Form::Wrapped, "GET", path, json!({}), "").await
}

/// An action as the page sends it.
async fn act(handler: &HandlerProcess, form: Form, path: &str, body: &str) -> Got {
    let headers = json!({ "Content-Type": "application/json", "X-Dbtick-Action": "1" });
    ask(handler, form, "POST", path, headers, body).await
}

async fn ask(
    handler: &HandlerProcess,
    form: Form,
    method: &str,
    path: &str,
    headers: Value,
    body: &str,
) -> Got {
    let headers = headers.as_object().unwrap();
    match form {
        Form::Wrapped => wrapped(handler, method, path, headers, body).await,
        Form::Forwarded => forwarded(handler, method, path, headers, body).await,
    }
}

async fn wrapped(
    handler: &HandlerProcess,
    method: &str,
    path: &str,
    headers: &Map<String, Value>,
    body: &str,
) -> Got {
    let (_, query) = path.split_once('?').unwrap_or((path, ""));
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let query: Map<String, Value> = pairs.map(|(k, v)| (k.to_owned(), v.into())).collect();
    let listed = headers
        .iter()
        .map(|(name, value)| (name.clone(), json!([value])));
    let mut listed: Map<String, Value> = listed.collect();
    listed.insert("X-Functions-Key".to_owned(), json!([KEY_CANARY]));
    let keyed = json!([{ "IsAuthenticated": true, "Name": null, "Claims": [
        { "Type": "http://schemas.microsoft.com/2017/07/functions/claims/keyid", "Value": "night-shift" }
    ] }]);
    let mut request = json!({
        "Url": format!("https://app.example/api/dbtick/{path}"), "Method": method, "Query": query,
        "Headers": listed, "Params": {}, "Identities": keyed,
    });
    if !body.is_empty() {
        request["Body"] = body.into();
    }
    let invocation = json!({ "Data": { "req": request }, "Metadata": {} }).to_string();
    let id = "00000000-0000-0000-0000-000000000000";
    let answer = exchange(handler.port, chunked("status", id, &invocation)).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let output = answer.json()["Outputs"]["res"].clone();
    Got {
        status: output["statusCode"].as_u64().unwrap().try_into().unwrap(),
        headers: output["headers"].as_object().unwrap().clone(),
        body: output["body"].as_str().unwrap().to_owned(),
    }
}

async fn forwarded(
    handler: &HandlerProcess,
    method: &str,
    path: &str,
    headers: &Map<String, Value>,
    body: &str,
) -> Got {
    let headers = headers
        .iter()
        .map(|(name, value)| format!("{name}: {}\r\n", value.as_str().unwrap()));
    let headers: String = headers.collect();
    let length = body.len();
    let request = format!(
        "{method} /api/dbtick/{path} HTTP/1.1\r\nHost: app.example\r\nConnection: close\r\n\
         X-Functions-Key: {KEY_CANARY}\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    );
    let RawAnswer { status, head, body } = exchange(handler.port, request).await;
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    Got {
        status,
        headers: lines.map(|(k, v)| (k.to_owned(), v.into())).collect(),
        body,
    }
}

async fn only_case(handler: &HandlerProcess) -> String {
    let list = get(handler, "checkpoints/orders/quarantine").await.json();
    let rows = list["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{list}");
    rows[0]["event_id"].as_str().unwrap().to_owned()
}
