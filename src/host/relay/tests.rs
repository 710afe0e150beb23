use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use futures_util::stream;
use tokio::sync::watch;
use tower::ServiceExt;

use axum::http::StatusCode;

use super::*;
use crate::clock::SystemClock;
use crate::config::{App, Settings};
use crate::host::{CONCURRENT_INVOCATIONS, CONCURRENT_RELAYS, router};
use crate::stop::Stop;
use crate::wiring::Parts;

fn relay() -> RelayFunction {
    RelayFunction {
        name: "orders-relay".to_owned(),
        path: "api/orders-relay".to_owned(),
        request: "req".to_owned(),
        response: "res".to_owned(),
        output: "messages".to_owned(),
        kind: "queue".to_owned(),
        largest_message: None,
    }
}

/// What the host gets for a request with this token and body.
fn answer(token: Option<&str>, body: Option<&str>) -> Result<Value, NotForARelay> {
    let mut request = json!({ "Url": "http://x/", "Method": "POST", "Headers": {} });
    if let Some(token) = token {
        request["Headers"]["X-Dbtick-Relay-Token"] = json!([token]);
    }
    if let Some(body) = body {
        request["Body"] = json!(body);
    }
    let envelope = json!({ "Data": { "req": request }, "Metadata": {} }).to_string();
    let request = super::request(&relay(), envelope.as_bytes()).unwrap();
    let answer = relayed(&relay(), &request)?;
    Ok(serde_json::to_value(answer).unwrap())
}

#[test]
fn each_message_becomes_a_text_of_its_own_byte_for_byte() {
    let one = r#"{"n":1.10,"t":"2026-01-02T03:04:05.120000+02:00","x":"\u00e9é"}"#;
    let body = format!(r#"{{"messages":[{one}, {{ "b" : 2 }}]}}"#);
    let answer = answer(Some("0af1"), Some(&body)).unwrap();
    assert_eq!(
        answer["Outputs"]["messages"],
        json!([one, r#"{ "b" : 2 }"#])
    );
    let response = &answer["Outputs"]["res"];
    assert_eq!(response["statusCode"], 200);
    assert_eq!(response["body"], r#"{"count":2,"token":"0af1"}"#);
}

#[test]
fn a_request_that_no_poller_sends_writes_nothing_and_is_told_why() {
    let messages = Some(r#"{"messages":[{}]}"#);
    let long = "0".repeat(LONGEST_TOKEN + 1);
    for (token, body, expected) in [
        (None, messages, NotForARelay::Tokenless),
        (Some(""), messages, NotForARelay::Tokenless),
        (Some("\"},{"), messages, NotForARelay::Tokenless),
        (Some(long.as_str()), messages, NotForARelay::Tokenless),
        (Some("0a"), None, NotForARelay::Empty),
        (Some("0a"), Some("{}"), NotForARelay::Foreign),
    ] {
        assert_eq!(answer(token, body), Err(expected), "{token:?} {body:?}");
    }
    let turned_away = serde_json::to_value(turned_away(&relay(), NotForARelay::Empty)).unwrap();
    assert_eq!(turned_away["Outputs"]["res"]["statusCode"], 400);
    assert_eq!(turned_away["Outputs"].get("messages"), None);
    let status = super::turned_away(&relay(), NotForARelay::Empty)
        .into_response()
        .status();
    assert_eq!(
        status,
        StatusCode::OK,
        "the invocation itself has not failed"
    );
}

#[test]
fn what_is_not_an_invocation_with_a_request_is_noticed() {
    for body in [
        "",
        "{}",
        r#"{"Data":{}}"#,
        r#"{"Data":{"other":{}}}"#,
        r#"{"Data":{"req":5}}"#,
    ] {
        assert!(request(&relay(), body.as_bytes()).is_none(), "{body}");
    }
}

/// As many requests as have a place in line, each of which keeps it: its body never comes.
async fn fill(router: &Router, path: &'static str, places: usize) {
    let (reading, mut all) = watch::channel(0);
    for _ in 0..places {
        let reading = reading.clone();
        let body = stream::once(async move {
            reading.send_modify(|count| *count += 1);
            std::future::pending::<Result<Bytes, std::io::Error>>().await
        });
        let body = Body::from_stream(body);
        let request = axum::extract::Request::post(path).body(body).unwrap();
        tokio::spawn(router.clone().oneshot(request));
    }
    all.wait_for(|count| *count == places).await.unwrap();
}

async fn answers(router: &Router, request: axum::extract::Request) -> bool {
    let answer = router.clone().oneshot(request);
    tokio::time::timeout(Duration::from_secs(5), answer)
        .await
        .is_ok()
}

#[tokio::test(start_paused = true)]
async fn ticks_and_relays_do_not_stand_in_one_line() {
    let root = tempfile::tempdir().unwrap();
    let app = App::load(root.path(), &Settings::default());
    let parts = Parts::new(Arc::new(SystemClock)).unwrap();
    for (busy, places, free) in [
        ("/orders", CONCURRENT_INVOCATIONS, "/carry"),
        ("/carry", CONCURRENT_RELAYS, "/orders"),
    ] {
        let mut handler = Handler::new(&app, parts.clone(), Stop::never());
        let role = Role::Relay(relay());
        handler.functions.insert("carry".to_owned(), role);
        let router = router(Arc::new(handler));
        fill(&router, busy, places).await;
        let post = |path: &str| {
            axum::extract::Request::post(path)
                .body(Body::empty())
                .unwrap()
        };
        assert!(!answers(&router, post(busy)).await, "{busy} is full");
        assert!(answers(&router, post(free)).await, "{free} has room");
    }
}
