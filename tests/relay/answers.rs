//! What acknowledges, and what does not.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::support::receiver::{Answer, Delivery};
use super::support::world::World;
use super::{KEY, QUEUE, failed_tick, log_until, queue, stored, world};
use crate::support::azurite::Azurite;
use dbtick::local::HostOptions;

/// A handler whose host is somebody else.
async fn elsewhere(changes: Value) -> World {
    let world = world("UseDevelopmentStorage=true", changes)
        .await
        .rows(3)
        .await;
    let port = world.receiver.port;
    world.setting("WEBSITE_HOSTNAME", &format!("127.0.0.1:{port}"))
}

fn token(delivery: &Delivery) -> String {
    let token = delivery.headers.get("x-dbtick-relay-token");
    token.unwrap().to_str().unwrap().to_owned()
}

fn say(status: u16, body: Value) -> Answer {
    Answer::Say(status, None, body.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_200_with_token_and_count_is_an_acknowledgement() {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    type Script = fn(&Delivery) -> Answer;
    let scripts: [(Script, &str); 13] = [
        (|_| Answer::Ok, "without the receipt"),
        (|_| say(200, json!({})), "without the receipt"),
        (
            |_| say(200, json!({ "token": "0a", "count": 3 })),
            "without the receipt",
        ),
        (
            |d| say(200, json!({ "token": token(d), "count": 2 })),
            "without the receipt",
        ),
        (
            |d| say(202, json!({ "token": token(d), "count": 3 })),
            "202 Accepted without the receipt",
        ),
        (
            |_| Answer::Say(204, None, String::new()),
            "204 No Content without the receipt",
        ),
        (
            |d| say(500, json!({ "token": token(d), "count": 3 })),
            "output binding messages was not written",
        ),
        (
            |_| say(404, json!({})),
            "is the function deployed and enabled",
        ),
        (
            |_| say(401, json!({})),
            "check that %RELAY_KEY% is a key of the function carry",
        ),
        (|_| say(413, json!({})), "batch.max_bytes"),
        (|_| say(400, json!({})), "another version of dbtick"),
        (|_| say(429, json!({})), "429"),
        (
            |_| {
                Answer::Say(
                    307,
                    Some(("location", "/api/other".to_owned())),
                    String::new(),
                )
            },
            "redirects are not followed",
        ),
    ];
    for (script, expected) in scripts {
        // Each with a poller of its own: one that fails too often is left alone for a while.
        let world = elsewhere(json!({})).await;
        let handler = world.serve().await;
        let tokens = Arc::clone(&seen);
        world.receiver.answer(move |_, delivery| {
            tokens.lock().unwrap().push(token(delivery));
            script(delivery)
        });
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 500, "{expected}: {answer:?}");
        assert!(
            answer.logs().contains(expected),
            "{expected}: {}",
            answer.logs()
        );
        assert_eq!(world.state("orders").committed(), 0, "{expected}");
        if expected != "batch.max_bytes" {
            let requests = world.receiver.count();
            assert_eq!(requests, 1, "one request, whatever the answer");
        }
        world
            .receiver
            .answer(|_, d| say(200, json!({ "token": token(d), "count": 3 })));
        let answer = handler.tick("Orders").await;
        // Where it has become smaller, the count is another one.
        if expected != "batch.max_bytes" {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(world.state("orders").committed(), 3);
        }
        let said = handler.everything_said();
        assert!(!said.contains(KEY), "{said}");
    }
    let mut tokens = seen.lock().unwrap().clone();
    tokens.sort();
    tokens.dedup();
    let attempts = seen.lock().unwrap().len();
    assert_eq!(
        tokens.len(),
        attempts,
        "each attempt has a token of its own"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_what_the_host_hands_on_whole() {
    let world = elsewhere(json!({})).await;
    let handler = world.serve().await;
    world
        .receiver
        .answer(|_, d| say(200, json!({ "token": token(d), "count": 3 })));
    assert_eq!(handler.tick("Orders").await.status, 200);
    let [delivery] = world.receiver.deliveries().try_into().unwrap();
    assert_eq!(delivery.uri, "/api/carry");
    let header = |name: &str| {
        delivery
            .headers
            .get(name)
            .map(|value| value.to_str().unwrap())
    };
    assert!(header("content-length").is_some());
    assert_eq!(header("transfer-encoding"), None);
    assert_eq!(header("x-functions-key"), Some(KEY));
    assert_eq!(header("content-type"), Some("application/json"));
    // The host copies every member that is not an array.
    let members = delivery.body.as_object().unwrap();
    assert!(members.values().all(Value::is_array), "{members:?}");
    assert_eq!(delivery.body["messages"].as_array().unwrap().len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_that_asks_to_be_left_alone_is() {
    let world = elsewhere(json!({})).await;
    let handler = world.serve().await;
    world
        .receiver
        .answer(|_, _| Answer::Say(503, Some(("retry-after", "600".to_owned())), String::new()));
    assert_eq!(handler.tick("Orders").await.status, 500);
    let answer = handler.tick("Orders").await;
    assert_eq!(world.receiver.count(), 1, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_that_does_not_answer_in_time_has_acknowledged_nothing() {
    let relay =
        json!({ "relay": { "function": "carry", "key": "%RELAY_KEY%", "timeout": "200ms" } });
    let world = elsewhere(json!({ "deliver": [relay] })).await;
    let handler = world.serve().await;
    world.receiver.answer(|_, _| Answer::Never);
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 500);
    assert!(
        answer.logs().contains("did not answer within 200ms"),
        "{}",
        answer.logs()
    );
    assert_eq!(
        world.receiver.count(),
        1,
        "it may be writing: nothing is sent twice"
    );
    assert_eq!(world.state("orders").committed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_host_a_poller_says_what_is_missing() {
    let world = world("UseDevelopmentStorage=true", json!({}))
        .await
        .rows(1)
        .await;
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 500);
    assert!(
        answer.logs().contains("WEBSITE_HOSTNAME is not set"),
        "{}",
        answer.logs()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_key_is_refused_with_what_to_mend_and_shown_nowhere() {
    let azurite = Azurite::queue();
    let world = world(&azurite.queue_connection_string(), json!({}))
        .await
        .rows(2)
        .await;
    let host = world.host(HostOptions::default()).await;
    failed_tick(&host).await;
    let said = log_until(&host, "\"outcome\"").await;
    assert!(
        said.contains(
            "answered 401 Unauthorized; check that %RELAY_KEY% is a key of the function carry"
        ),
        "{said}"
    );
    assert!(world.state_texts().iter().all(|text| !text.contains(KEY)));
    assert!(stored(&queue(&azurite, QUEUE)).await.is_empty());
}
