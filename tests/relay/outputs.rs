//! What reaches the queue, in calm and when writing it fails.

use dbtick::local::HostOptions;
use serde_json::json;

use super::support::azurite::{self, ACCOUNT, Azurite};
use super::support::http::exchange;
use super::support::proxy::{Fault, Proxy};
use super::{
    KEY, QUEUE, failed_tick, failing, log_until, messages, options, queue, row, rows, stored, world,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_reach_the_queue_once_each_in_order_and_byte_for_byte() {
    let azurite = Azurite::queue();
    let world = world(
        &azurite.queue_connection_string(),
        json!({ "batch": { "max_rows": 7 } }),
    )
    .await;
    let odd = r#"{ "n": 1.10,  "big": 12345678901234567890.10, "at": "2026-01-02T03:04:05.120000+02:00", "x": "\u00e9 \"é\" 😀" }"#;
    let mut table = world.writer().await;
    table
        .sql("ALTER TABLE orders ADD COLUMN payload JSON")
        .await;
    table.insert(40).await;
    sqlx::query("UPDATE orders SET payload = ? WHERE id = 13")
        .bind(odd)
        .execute(&mut table.0)
        .await
        .unwrap();
    let host = world.host(options()).await;
    host.invoke("Orders").await.outcome.unwrap();
    let messages = messages(&azurite).await;
    assert_eq!(rows(&messages), (1..=40).collect::<Vec<_>>());
    assert_eq!(world.state("orders").committed(), 40);
    let thirteenth = &messages[12];
    assert!(
        thirteenth.contains(&format!("\"payload\":{odd}")),
        "{thirteenth}"
    );
    let schema =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/queue-message.schema.json");
    let schema = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let message: serde_json::Value = serde_json::from_str(thirteenth).unwrap();
    assert!(schema.is_valid(&message), "{thirteenth}");
    assert_eq!(
        (&message["version"], &message["poller"]),
        (&json!(1), &json!("orders"))
    );
    assert_eq!(message["types"]["payload"], "JSON");
    assert!(message["batch_id"].is_string() && message["fence"]["token"].is_u64());

    let before = world.state("orders").read().unwrap().tag;
    host.invoke("Orders").await.outcome.unwrap();
    assert_eq!(world.state("orders").committed(), 40, "{before}");
    assert!(
        super::messages(&azurite).await.is_empty(),
        "none comes again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_is_not_written_keeps_the_checkpoint_and_loses_no_row() {
    let azurite = Azurite::queue();
    let world = world(&azurite.queue_connection_string(), json!({}))
        .await
        .rows(10)
        .await;
    let host = world.host(failing(&[(1, 0)])).await;
    failed_tick(&host).await;
    let said = log_until(&host, "\"outcome\"").await;
    assert!(
        said.contains("the output 'messages' was not written"),
        "{said}"
    );
    assert!(said.contains("the relay carry answered 500"), "{said}");
    assert!(
        said.contains("output binding messages was not written"),
        "{said}"
    );
    assert_eq!(world.state("orders").committed(), 0);
    assert!(messages(&azurite).await.is_empty());

    host.invoke("Orders").await.outcome.unwrap();
    assert_eq!(
        rows(&messages(&azurite).await),
        (1..=10).collect::<Vec<_>>()
    );
    assert_eq!(world.state("orders").committed(), 10);
}

/// A body of a tick has a few hundred bytes; one of a relay has a batch.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_megabytes_passes_in_one_piece() {
    let azurite = Azurite::queue();
    let world = world(
        &azurite.queue_connection_string(),
        json!({ "batch": { "max_bytes": "8MiB" } }),
    )
    .await
    .rows(80)
    .await;
    let mut table = world.writer().await;
    table
        .sql("UPDATE orders SET note = hex(zeroblob(20000))")
        .await;
    let host = world.host(options()).await;
    host.invoke("Orders").await.outcome.unwrap();
    let said = log_until(&host, "80 rows in 1 batches").await;
    assert!(
        said.contains("80 messages for the output messages"),
        "{said}"
    );
    assert_eq!(
        rows(&messages(&azurite).await),
        (1..=80).collect::<Vec<_>>()
    );
}

/// Before the failure a part was written, or even all of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_before_a_failure_comes_again_and_no_row_is_lost() {
    let azurite = Azurite::queue();
    let world = world(&azurite.queue_connection_string(), json!({}))
        .await
        .rows(10)
        .await;
    let host = world.host(failing(&[(1, 3), (2, 10)])).await;
    for written in [3, 10] {
        failed_tick(&host).await;
        assert_eq!(
            rows(&messages(&azurite).await),
            (1..=written).collect::<Vec<_>>()
        );
        assert_eq!(world.state("orders").committed(), 0);
    }
    host.invoke("Orders").await.outcome.unwrap();
    assert_eq!(
        rows(&messages(&azurite).await),
        (1..=10).collect::<Vec<_>>()
    );
    assert_eq!(world.state("orders").committed(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_service_that_refuses_or_is_away_fails_the_tick_until_it_is_back() {
    let azurite = Azurite::queue();
    let proxy = Proxy::before(&azurite);
    let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}", proxy.port);
    let storage = format!(
        "AccountName={ACCOUNT};AccountKey={};QueueEndpoint={endpoint}",
        azurite::KEY
    );
    let world = world(&storage, json!({})).await.rows(5).await;
    let host = world.host(options()).await;
    proxy.nth(4, "POST", "/messages", Fault::Say(503, &[]));
    failed_tick(&host).await;
    proxy.close().await;
    failed_tick(&host).await;
    proxy.reopen();
    assert_eq!(world.state("orders").committed(), 0);
    host.invoke("Orders").await.outcome.unwrap();
    let mut rows = rows(&messages(&azurite).await);
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows, (1..=5).collect::<Vec<_>>());
    assert_eq!(world.state("orders").committed(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_is_killed_while_its_relay_is_at_work_loses_no_row() {
    let azurite = Azurite::queue();
    let proxy = Proxy::before(&azurite);
    let endpoint = format!("http://127.0.0.1:{}/{ACCOUNT}", proxy.port);
    let storage = format!(
        "AccountName={ACCOUNT};AccountKey={};QueueEndpoint={endpoint}",
        azurite::KEY
    );
    let lease = json!({ "lease": { "ttl": "300ms", "heartbeat": "100ms", "margin": "50ms" } });
    let world = world(&storage, lease).await.rows(6).await;
    let host = world
        .host(HostOptions {
            restart_budget: Some(u32::MAX),
            ..options()
        })
        .await;
    queue(&azurite, QUEUE).create().await.unwrap();
    proxy.nth(3, "POST", "/messages", Fault::RequestHeld);
    let tick = host.invoke("Orders");
    let kill = async {
        proxy
            .until("a put is held", |seen| {
                seen.iter().any(|exchange| exchange.fault.is_some())
            })
            .await;
        host.kill_handler().await;
        proxy.let_go();
    };
    let (tick, ()) = tokio::join!(tick, kill);
    assert!(tick.outcome.is_err(), "its handler was killed");
    assert_eq!(world.state("orders").committed(), 0);
    // The host goes on writing for the handler that has gone.
    proxy
        .until("six puts", |seen| {
            seen.iter().filter(|one| one.status == Some(201)).count() >= 6
        })
        .await;
    host.wait_ready().await.unwrap();
    super::support::within("a tick that gets the lease", async {
        while world.state("orders").committed() < 6 {
            host.invoke("Orders").await.outcome.ok();
        }
    })
    .await;
    let mut counts = std::collections::BTreeMap::new();
    for message in messages(&azurite).await {
        *counts.entry(row(&message)).or_insert(0) += 1;
    }
    let twice = (1..=6).map(|row| (row, 2)).collect();
    assert_eq!(counts, twice, "once by each handler");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_are_stored_as_they_are_where_host_json_says_so() {
    let azurite = Azurite::queue();
    let world = world(&azurite.queue_connection_string(), json!({}))
        .await
        .rows(1)
        .await;
    let host: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(world.app().join("host.json")).unwrap())
            .unwrap();
    let mut host = host;
    host["extensions"] =
        json!({ "queues": { "messageEncoding": "none" }, "http": { "routePrefix": "" } });
    let world = world.file("host.json", &host.to_string());
    let host = world.host(options()).await;
    host.invoke("Orders").await.outcome.unwrap();
    let stored = stored(&queue(&azurite, QUEUE)).await;
    assert_eq!(rows(&stored), [1]);
}

/// A caller of a relay, as anybody with a key can be one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_its_length_has_no_body_and_writes_nothing() {
    let azurite = Azurite::queue();
    let world = world(&azurite.queue_connection_string(), json!({})).await;
    let host = world.host(failing(&[(2, 1)])).await;
    let body = r#"{"messages":[{"a":1}]}"#;
    let head = format!(
        "POST /api/carry HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
         x-functions-key: {KEY}\r\nx-dbtick-relay-token: 0a\r\nContent-Type: application/json\r\n"
    );
    let chunked = format!(
        "{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    );
    let whole = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());

    let answer = exchange(host.http_port(), &chunked).await;
    assert_eq!(answer.status, 400, "{answer:?}");
    assert!(answer.body.contains("Content-Length"), "{answer:?}");
    assert!(messages(&azurite).await.is_empty());

    let answer = exchange(host.http_port(), &whole).await;
    assert_eq!(
        (answer.status, answer.json()),
        (200, json!({ "token": "0a", "count": 1 }))
    );
    assert_eq!(messages(&azurite).await, [r#"{"a":1}"#]);

    let answer = exchange(host.http_port(), &whole).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (500, ""),
        "written, and then it failed"
    );
    let without_key = whole.replace(KEY, "other");
    assert_eq!(exchange(host.http_port(), &without_key).await.status, 401);
    assert_eq!(
        exchange(host.http_port(), whole.replace("POST", "GET"))
            .await
            .status,
        404
    );
}
