//! A custom handler that does what the JSON in `SCRIPT` says, and records what it was asked.
//!
//! `exit_at_start`, `never_listen`, `stdout`, `stderr`; `answers`: one per invocation, the last
//! repeats (`functions.<name>` goes first), each with `status`, `content_type`, `body`, `location`, `work_ms`, `exit`, `hang`.
//! `RECORD` names a file that gets one JSON line per start and per invocation.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // It is a process of its own, and its environment is its script.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;
use serde_json::{Value, json};

struct Script {
    script: Value,
    served: AtomicUsize,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let script: Value =
        serde_json::from_str(&std::env::var("SCRIPT").unwrap_or("{}".into())).unwrap();
    let environment: std::collections::BTreeMap<_, _> = std::env::vars().collect();
    record(json!({
        "pid": std::process::id(),
        "arguments": std::env::args().skip(1).collect::<Vec<_>>(),
        "directory": std::env::current_dir().unwrap(),
        "environment": environment,
    }));
    for line in script["stdout"].as_array().into_iter().flatten() {
        println!("{}", line.as_str().unwrap());
    }
    for line in script["stderr"].as_array().into_iter().flatten() {
        eprintln!("{}", line.as_str().unwrap());
    }
    if let Some(code) = script["exit_at_start"].as_i64() {
        std::process::exit(code as i32);
    }
    if script["never_listen"] == true {
        std::future::pending::<()>().await;
    }
    let port: u16 = std::env::var("FUNCTIONS_CUSTOMHANDLER_PORT")
        .unwrap()
        .parse()
        .unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port))
        .await
        .unwrap();
    let state = Arc::new(Script {
        script,
        served: AtomicUsize::new(0),
    });
    axum::serve(listener, Router::new().fallback(serve).with_state(state))
        .await
        .unwrap();
}

async fn serve(State(state): State<Arc<Script>>, request: Request) -> Response {
    if request.method() == Method::GET && request.uri().path() == "/" {
        return Response::new(Body::empty());
    }
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    let headers: std::collections::BTreeMap<_, _> = parts
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), value.to_str().unwrap()))
        .collect();
    record(json!({
        "method": parts.method.as_str(),
        "path": parts.uri.path(),
        "headers": headers,
        "body": String::from_utf8_lossy(&body),
    }));
    let function = &state.script["functions"][parts.uri.path().trim_start_matches('/')];
    if function.is_object() {
        return answer(function).await;
    }
    let nth = state.served.fetch_add(1, Ordering::SeqCst);
    let answers = state.script["answers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let fallback = json!({});
    answer(answers.get(nth).or(answers.last()).unwrap_or(&fallback)).await
}

async fn answer(answer: &Value) -> Response {
    if let Some(work) = answer["work_ms"].as_u64() {
        tokio::time::sleep(Duration::from_millis(work)).await;
    }
    if let Some(code) = answer["exit"].as_i64() {
        std::process::exit(code as i32);
    }
    if answer["hang"] == true {
        std::future::pending::<()>().await;
    }
    let mut response = Response::builder().status(answer["status"].as_u64().unwrap_or(200) as u16);
    if let Some(location) = answer["location"].as_str() {
        response = response.header("location", location);
    }
    match &answer["content_type"] {
        Value::String(kind) => response = response.header("content-type", kind),
        _ => response = response.header("content-type", "application/json"),
    }
    let body = match &answer["body"] {
        Value::Null => "{}".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    response.body(Body::from(body)).unwrap()
}

fn record(entry: Value) {
    let Ok(path) = std::env::var("RECORD") else {
        return;
    };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(format!("{entry}\n").as_bytes()).unwrap();
}
