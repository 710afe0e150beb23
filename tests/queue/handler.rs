//! From a table to a queue by the real handler.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::azurite::{Azurite, certificates};
use crate::support::identity::{CANARY, IdentityEndpoint, Token};
use crate::support::proxy::{Fault, Proxy};
use crate::support::receiver::Answer;
use crate::support::within;
use crate::support::world::{ROW_CANARY, World};
use crate::{Storage, ids, parsed, queues_at, validate};

fn into_queue() -> serde_json::Value {
    json!({ "deliver": [{ "queue": { "queue": "order-events" } }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_lie_in_the_queue_before_the_checkpoint_moves() {
    let storage = Storage::queues();
    let world = World::with_orders(into_queue())
        .await
        .setting("AzureWebJobsStorage", &storage.connection())
        .rows(10)
        .await;
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{}", handler.everything_said());
    let messages = storage.messages().await;
    assert_eq!(ids(&messages), (1..=10).collect::<Vec<_>>());
    for message in &messages {
        let message = parsed(message);
        validate("message", &message);
        assert_eq!(message["event"]["data"]["note"], ROW_CANARY);
    }
    assert_eq!(world.state("orders").committed(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_the_answer_to_a_put_is_lost() {
    let storage = Storage::queues();
    storage.queue().create().await.unwrap();
    let proxy = Proxy::before(&storage.queues);
    let world = World::with_orders(into_queue())
        .await
        .setting("AzureWebJobsStorage", &queues_at(proxy.port))
        .rows(30)
        .await;
    proxy.nth(5, "POST", "/messages", Fault::AnswerDropped);
    proxy.nth(40, "POST", "/messages", Fault::Reset);
    let handler = world.serve().await;
    let mut seen = BTreeSet::new();
    let ticking = async {
        loop {
            handler.tick("Orders").await;
            seen.extend(ids(&storage.messages().await));
            let committed = world.state("orders").committed();
            assert!(
                (1..=committed).all(|row| seen.contains(&row)),
                "{committed}: {seen:?}"
            );
            if committed == 30 {
                return;
            }
        }
    };
    within("all rows are committed", ticking).await;
    assert_eq!(seen, (1..=30).collect());
    let said = handler.everything_said();
    assert!(!said.contains(ROW_CANARY), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_managed_identity_may_put_messages() {
    let azurite = Azurite::queue_with_tokens();
    let identity = IdentityEndpoint::start(|_| Token::ExpiresIn(3600)).await;
    let trusted = certificates().join("ca.pem").display().to_string();
    let world = World::with_orders(into_queue())
        .await
        .setting("AzureWebJobsStorage__queueServiceUri", &azurite.endpoint)
        .setting("AzureWebJobsStorage__credential", "managedidentity")
        .setting("IDENTITY_ENDPOINT", &identity.url)
        .setting("IDENTITY_HEADER", CANARY)
        .setting("SSL_CERT_FILE", &trusted)
        .rows(10)
        .await;
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    let said = handler.everything_said();
    assert_eq!(answer.status, 200, "{said}");
    assert_eq!(world.state("orders").committed(), 10);
    assert_eq!(identity.asked().len(), 1);
    assert!(!said.contains(CANARY) && !said.contains("eyJ"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_is_told_of_rows_that_are_set_aside_before_the_checkpoint_passes_them() {
    let storage = Storage::queues();
    let proxy = Proxy::before(&storage.queues);
    let world = World::with_orders(json!({ "poison": { "queue": { "queue": "order-events" } } }))
        .await
        .setting("AzureWebJobsStorage", &queues_at(proxy.port))
        .rows(5)
        .await;
    // Row 3 is named for good, whenever it comes.
    world.receiver.answer(|_, delivery| {
        let events = delivery.body["events"].as_array().unwrap().iter();
        let bad = events.filter(|event| event["key"]["id"] == 3);
        let failed: Vec<_> = bad
            .map(|event| json!({ "id": event["id"], "reason": "no", "retry": false }))
            .collect();
        Answer::Say(200, None, json!({ "failed": failed }).to_string())
    });
    let handler = world.serve().await;
    proxy.every("POST", "/messages", Fault::Reset);
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 500, "{}", handler.everything_said());
    assert!(answer.logs().contains("the poison queue"), "{answer:?}");
    assert_eq!(
        world.state("orders").committed(),
        2,
        "who was not told is waited for"
    );
    proxy.heal();
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{}", handler.everything_said());
    assert_eq!(world.state("orders").committed(), 5);
    let messages = storage.messages().await;
    let notice = parsed(&messages[0]);
    assert_eq!(notice["event"]["key"]["id"], 3);
    assert_eq!(
        (&notice["sink"], &notice["error"]),
        (&json!("webhook"), &json!("no"))
    );
}
