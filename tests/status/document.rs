//! The OpenAPI document says what the handler does.

use serde_json::{Value, json};

use super::{Form, act, ask, get, only_case, with_aside};

const CHECKED_IN: &str = include_str!("../../schema/openapi.json");

fn document() -> Value {
    serde_json::from_str(CHECKED_IN).unwrap()
}

/// Whether it is what the document promises for this answer.
#[track_caller]
pub(super) fn check(schema: &Value, value: &Value) {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "allOf": [schema], "components": document()["components"],
    });
    let validator = jsonschema::validator_for(&schema).unwrap();
    let faults: Vec<String> = validator
        .iter_errors(value)
        .map(|e| e.to_string())
        .collect();
    assert!(faults.is_empty(), "{faults:#?}\n{value:#}");
}

#[test]
fn the_document_is_the_one_that_is_checked_in() {
    let made = dbtick::host::openapi("api/dbtick");
    assert!(
        made == document(),
        "run: cargo run -q -- schema openapi > schema/openapi.json"
    );
}

/// Everything that looks first, then what changes something, discarding last.
fn operations() -> Vec<(String, String, Value)> {
    let document = document();
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            all.push((method.to_uppercase(), path.clone(), operation.clone()));
        }
    }
    let order = ["/pause", "/resume", "/redrive", "/discard"];
    all.sort_by_key(|(_, path, _)| {
        order
            .iter()
            .position(|end| path.ends_with(end))
            .map_or(0, |at| at + 1)
    });
    assert!(all.len() >= 14, "{all:#?}");
    all
}

async fn every_route_answers_as_the_document_says(form: Form) {
    let (_world, handler) = with_aside().await;
    let event = only_case(&handler).await;
    for (method, path, operation) in operations() {
        let path = path
            .replace("{poller}", "orders")
            .replace("{event}", &event);
        let path = path.trim_start_matches('/');
        let got = match method.as_str() {
            "POST" => act(&handler, form, path, "{\"reason\":\"a test\"}").await,
            _ => ask(&handler, form, &method, path, json!({}), "").await,
        };
        let responses = &operation["responses"];
        let promised = responses.get(got.status.to_string());
        let Some(promised) = promised else {
            panic!("{method} {path}: {got:?}");
        };
        let content = promised["content"].as_object().unwrap();
        let (kind, body) = content.iter().next().unwrap();
        let sent = got.headers["content-type"].as_str().unwrap();
        assert!(sent.starts_with(kind.as_str()), "{method} {path}: {sent}");
        if kind == "application/json" {
            check(&body["schema"], &got.json());
        }
    }
    let gone = get(&handler, "checkpoints/orders/quarantine").await;
    assert_eq!(gone.json()["rows"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_as_the_document_says_when_wrapped() {
    every_route_answers_as_the_document_says(Form::Wrapped).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_as_the_document_says_when_forwarded() {
    every_route_answers_as_the_document_says(Form::Forwarded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_refusal_says_what_is_wrong_and_what_to_do() {
    let (_world, handler) = with_aside().await;
    let refusal = json!({ "$ref": "#/components/schemas/Refusal" });
    for form in [Form::Wrapped, Form::Forwarded] {
        for (method, path, status, words) in [
            ("GET", "nothing", 404, "openapi.json"),
            ("GET", "checkpoints/nobody", 404, "this app has: orders"),
            (
                "GET",
                "checkpoints/nobody/quarantine",
                404,
                "this app has: orders",
            ),
            (
                "GET",
                "checkpoints/orders/quarantine/00",
                404,
                "no row of orders",
            ),
            (
                "GET",
                "checkpoints/orders/schema?version=999",
                404,
                "no kept checkpoint",
            ),
            (
                "GET",
                "checkpoints/orders/schema?version=x",
                400,
                "not a number",
            ),
            ("GET", "checkpoints/orders/pause", 405, "it answers POST"),
            ("POST", "checkpoints/orders", 405, "it answers GET"),
            ("POST", "", 405, "it answers GET"),
        ] {
            let got = ask(&handler, form, method, path, json!({}), "").await;
            got.says(status, words);
            check(&refusal, &got.json());
            if status == 405 {
                assert!(got.headers.contains_key("allow"), "{got:?}");
            }
        }
    }
}
