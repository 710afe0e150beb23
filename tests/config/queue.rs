//! What a queue may be told, and what is said about the rest.

use std::time::Duration;

use dbtick::azure::queue::{Posting, TimeToLive};
use dbtick::config::{MessageEncoding, Per, QueueConfig, Target};
use serde_json::{Value, json};

use crate::{World, check, only, poller};

/// A poller that delivers into a queue; `null` takes a key away.
fn delivering(queue: Value) -> Value {
    let mut receiver = json!({ "queue": "order-events", "connection": "STORAGE" });
    for (key, value) in queue.as_object().unwrap() {
        receiver[key] = value.clone();
    }
    receiver
        .as_object_mut()
        .unwrap()
        .retain(|_, v| !v.is_null());
    json!({ "deliver": [{ "queue": receiver }] })
}

fn world(queue: Value) -> World {
    World::new()
        .setting("AzureWebJobsStorage", "UseDevelopmentStorage=true")
        .setting("QUEUE_NAME", "from-setting")
        .setting("QUEUES__queueServiceUri", "https://shop.example/queues")
        .setting("QUEUES__credential", "managedidentity")
        .poller("orders", &poller(delivering(queue)))
}

#[track_caller]
fn accepted(queue: Value) -> QueueConfig {
    let world = world(queue);
    assert_eq!(world.faults(), [""; 0]);
    let app = world.load();
    let sink = &only(&app).pollers[0].deliver[0];
    assert_eq!(sink.name, "queue");
    match &sink.to {
        Target::Queue(queue) => queue.clone(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(queue: Value, expected: &str) {
    let faults = world(queue).faults();
    let expected = format!("orders/function.json: poller.deliver[0].queue{expected}");
    assert!(
        matches!(&*faults, [fault] if fault.starts_with(&expected)),
        "{expected}: {faults:#?}"
    );
    assert!(!faults[0].contains("Y2Fu"), "{faults:#?}");
}

#[test]
fn a_queue_needs_only_its_name() {
    let queue = accepted(json!({ "connection": null }));
    assert_eq!(queue.queue, "order-events");
    assert_eq!(queue.endpoint.setting(), "AzureWebJobsStorage");
    assert_eq!(queue.endpoint.host(), "127.0.0.1:10001");
    assert_eq!((queue.per, queue.create), (Per::Event, true));
    assert_eq!(queue.posting, Posting::default());
    assert_eq!(queue.encoding, MessageEncoding::Base64);
    let claims = queue.claims.unwrap();
    assert_eq!(claims.container, "db-claims");
    assert_eq!(claims.endpoint.host(), "127.0.0.1:10000");
}

#[test]
fn everything_about_a_queue_can_be_told() {
    let queue = accepted(json!({
        "queue": "%QUEUE_NAME%", "per": "packed", "create": false, "encoding": "text",
        "ttl": "30d", "visible_after": "00:01:30", "claim_check": { "container": "large-orders" }
    }));
    assert_eq!(queue.queue, "from-setting");
    assert_eq!((queue.per, queue.create), (Per::Packed, false));
    assert_eq!(queue.encoding, MessageEncoding::Text);
    assert_eq!(
        queue.posting,
        Posting {
            time_to_live: Some(TimeToLive::Seconds(30 * 24 * 60 * 60)),
            visible_after: Duration::from_secs(90),
        }
    );
    assert_eq!(queue.claims.unwrap().container, "large-orders");
    let forever = accepted(json!({ "ttl": "never", "visible_after": "7d" }));
    assert_eq!(forever.posting.time_to_live, Some(TimeToLive::Forever));
}

#[test]
fn a_queue_that_cannot_be_is_refused_and_no_secret_is_shown() {
    for (queue, expected) in [
        (
            json!({ "queue": "Orders" }),
            ".queue: is not the name of a queue: Orders (use 3 to 63 lower-case",
        ),
        (
            json!({ "queue": "or" }),
            ".queue: is not the name of a queue",
        ),
        (
            json!({ "queue": "a--b" }),
            ".queue: is not the name of a queue",
        ),
        (
            json!({ "queue": "%NOPE%" }),
            ".queue: '%NOPE%' does not resolve",
        ),
        (
            json!({ "connection": "AccountName=shop;AccountKey=Y2FuYXJ5" }),
            ".connection: is a connection, and must be the name of an app setting",
        ),
        (
            json!({ "connection": "NOPE" }),
            ".connection: no app setting has this name: NOPE",
        ),
        (json!({ "ttl": "0s" }), ".ttl: is zero (write 1s or more"),
        (
            json!({ "ttl": "1500ms" }),
            ".ttl: is not a number of whole seconds: 1500ms",
        ),
        (
            json!({ "ttl": "24856d" }),
            ".ttl: is too long: 24856d (write never",
        ),
        (
            json!({ "ttl": "forever" }),
            ".ttl: is not a duration: forever",
        ),
        (
            json!({ "visible_after": "8d", "ttl": "never" }),
            ".visible_after: is too long: 8d (a message is hidden for 7d at most)",
        ),
        (
            json!({ "visible_after": "1h", "ttl": "1h" }),
            ".visible_after: nobody would ever see a message, which lives for 1h (",
        ),
        (
            json!({ "visible_after": "7d" }),
            ".visible_after: nobody would ever see a message, which lives for 7d (",
        ),
        (
            json!({ "claim_check": { "container": "Large" } }),
            ".claim_check.container: is not the name of a container: Large",
        ),
    ] {
        refused(queue, expected);
    }
}

#[test]
fn a_connection_to_queues_alone_will_do_unless_claim_checks_are_asked_for() {
    let queue = accepted(json!({ "connection": "QUEUES" }));
    assert!(queue.claims.is_none());
    refused(
        json!({ "connection": "QUEUES", "claim_check": {} }),
        ".connection: the connection has no blob endpoint: QUEUES (set QUEUES__accountName or",
    );
}

#[test]
fn a_receiver_is_of_exactly_one_kind() {
    let webhook = json!({ "url": "%ORDERS_HOOK%" });
    let queue = json!({ "queue": "order-events", "connection": "STORAGE" });
    check(
        json!({ "deliver": [{ "name": "nobody" }, { "webhook": webhook, "queue": queue }] }),
        &[
            "deliver[0]: names no receiver (say where rows go",
            "deliver[1].queue: stands beside webhook, and a receiver is one of them (make each",
        ],
    );
}
