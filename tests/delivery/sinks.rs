//! Several receivers, as function.json names them (E1 to E3).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::azure::queue::Queue;
use dbtick::clock::SystemClock;
use dbtick::config::Settings;
use serde_json::{Value, json};

use crate::support::azurite::{ACCOUNT, Azurite, KEY};
use crate::support::command::{good, refused, run};
use crate::support::proxy::Proxy;
use crate::support::receiver::{Answer, Receiver};
use crate::support::world::World;
use crate::{filled, hasty, ticks_until};

const QUEUE: &str = "order-events";

/// The keys of the rows whose messages lie in the queue; they are taken out.
async fn messages(connection: &str) -> Vec<i64> {
    let settings = Settings::from_iter([("STORAGE", connection)]);
    let connection = StorageConnection::resolve(&settings, "STORAGE").unwrap();
    let endpoint = Arc::new(connection.service(Service::Queue).unwrap());
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    let queue = Queue::new(&azure, endpoint, QUEUE, Arc::new(SystemClock));
    let mut rows = Vec::new();
    loop {
        let found = queue.receive(Duration::from_secs(60)).await.unwrap();
        if found.is_empty() {
            return rows;
        }
        for message in found {
            queue.delete(&message).await.unwrap();
            let text = BASE64.decode(message.text.as_bytes()).unwrap();
            let message: Value = serde_json::from_slice(&text).unwrap();
            rows.push(message["event"]["key"]["id"].as_i64().unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_optional_queue_that_is_down_holds_up_nobody_and_gets_every_row_in_the_end() {
    let azurite = Azurite::queue();
    let proxy = Proxy::before(&azurite);
    let through = format!(
        "AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint=http://127.0.0.1:{}/{ACCOUNT}",
        proxy.port
    );
    let world = World::with_orders(hasty(json!({
        "deliver": [
            { "webhook": { "url": "%HOOK%" } },
            { "name": "audit", "queue": { "queue": QUEUE, "connection": "QUEUES" }, "required": false }
        ],
        "batch": { "max_rows": 4 },
        "lease": { "ttl": "5s", "heartbeat": "1s", "margin": "2s" }
    })))
    .await
    .setting("QUEUES", &through);
    let handler = world.serve().await;
    filled(&world, 3).await;
    assert_eq!(handler.tick("Orders").await.status, 200);

    proxy.close().await;
    for rows in [10, 16] {
        filled(&world, if rows == 10 { 7 } else { 6 }).await;
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(
            answer.logs().contains("audit is behind since"),
            "{answer:?}"
        );
        assert_eq!(world.receiver.acknowledged_rows().len(), rows);
        assert_eq!(
            world.state("orders").committed(),
            i64::try_from(rows).unwrap()
        );
    }
    proxy.reopen();
    let caught_up = ticks_until(&handler, "the queue catches up", |answer| {
        answer.status == 200 && !answer.logs().contains("behind since")
    })
    .await;
    assert!(
        caught_up.logs().contains("got what it had missed"),
        "{caught_up:?}"
    );
    filled(&world, 1).await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let found: BTreeSet<i64> = messages(&azurite.queue_connection_string())
        .await
        .into_iter()
        .collect();
    assert_eq!(found, (1..=17).collect());
    let rows = world.receiver.acknowledged_rows();
    assert_eq!(rows.len(), 17);
    assert!(
        rows.values().all(|events| events.len() == 1),
        "each once: {rows:?}"
    );
}

/// Two webhooks, of which the second is down.
async fn with_one_down(second: Value, commit: Value) -> (u16, i64, String) {
    let down = Receiver::start().await;
    down.answer(|_, _| Answer::Say(500, None, String::new()));
    let mut second = json!({ "name": "second", "webhook": { "url": "%SECOND%", "attempts": 1 } , "required": second });
    if second["required"].is_null() {
        second.as_object_mut().unwrap().remove("required");
    }
    let first = json!({ "name": "first", "webhook": { "url": "%HOOK%" } });
    let mut changes = json!({ "deliver": [first, second] });
    if !commit.is_null() {
        changes["commit"] = commit;
    }
    let world = World::with_orders(changes)
        .await
        .setting("SECOND", &down.url())
        .rows(3)
        .await;
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert!(down.count() > 0, "it was asked");
    (
        answer.status,
        world.state("orders").committed(),
        answer.logs(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_checkpoint_waits_for_those_whom_function_json_names() {
    let nothing = Value::Null;
    for (required, commit, goes_on) in [
        (nothing.clone(), nothing.clone(), false),
        (json!(true), json!("required"), false),
        (json!(false), nothing.clone(), true),
        (json!(false), json!("required"), true),
        (json!(false), json!("all"), false),
        (nothing.clone(), json!({ "quorum": 1 }), true),
        (json!(false), json!({ "quorum": 2 }), false),
    ] {
        let case = format!("required {required}, commit {commit}");
        let (status, committed, logs) = with_one_down(required, commit).await;
        let expected = if goes_on { (200, 3) } else { (500, 0) };
        assert_eq!((status, committed), expected, "{case}: {logs}");
        let words = match goes_on {
            true => "second is behind since",
            false => "delivery to second failed",
        };
        assert!(logs.contains(words), "{case}: {logs}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_list_of_receivers_stops_the_poller_until_it_is_adopted() {
    let archive = Receiver::start().await;
    let hook = json!({ "name": "hook", "webhook": { "url": "%HOOK%" } });
    let world = World::with_orders(json!({ "deliver": [hook] }))
        .await
        .rows(3)
        .await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    drop(handler);
    let both = json!([hook, { "name": "archive", "webhook": { "url": "%ARCHIVE%" } }]);
    let world = world
        .poller("Orders", json!({ "deliver": both }))
        .setting("ARCHIVE", &archive.url())
        .rows(2)
        .await;
    let handler = world.serve().await;
    let stopped = handler.tick("Orders").await;
    assert_eq!(stopped.status, 500);
    for words in [
        "made for: archive is new; a new one",
        "from the checkpoint on",
        "`dbtick adopt orders`",
    ] {
        assert!(stopped.logs().contains(words), "{words}: {stopped:?}");
    }
    handler
        .stdout
        .line(&["\"outcome\":\"sinks_changed\""])
        .await;
    assert_eq!(
        (world.receiver.count(), archive.count()),
        (1, 0),
        "nothing goes out meanwhile"
    );
    refused(
        &run(&world, &["adopt", "orders"]),
        2,
        &["say --yes to do it"],
    );
    let adopted = run(
        &world,
        &["adopt", "orders", "--yes", "--reason", "an archive"],
    );
    for words in [
        "archive is new",
        "undo: put the old receivers back into function.json, then",
    ] {
        assert!(good(&adopted).contains(words), "{words}: {adopted:?}");
    }
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.acknowledged_rows().len(), 5);
    let new: Vec<i64> = archive.acknowledged_rows().into_keys().collect();
    assert_eq!(new, [4, 5], "a new one begins at the checkpoint");
    assert!(good(&run(&world, &["history", "orders"])).contains("an archive"));
}
