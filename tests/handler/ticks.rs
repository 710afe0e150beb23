//! What one invocation does, and what it leaves to others.

use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::support::receiver::Answer;
use crate::support::world::{World, poller};

/// The `dbtick.tick` lines of a stream.
fn tick_lines(lines: &[String]) -> Vec<Value> {
    let parsed = lines
        .iter()
        .filter_map(|line| serde_json::from_str(line).ok());
    parsed
        .filter(|line: &Value| line["event"] == "dbtick.tick")
        .collect()
}

#[tokio::test]
async fn rows_arrive_in_order_and_the_checkpoint_follows() {
    let world = World::with_orders(json!({ "batch": { "max_rows": 4 } }))
        .await
        .rows(10)
        .await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let deliveries = world.receiver.deliveries();
    let rows: Vec<i64> = deliveries
        .iter()
        .flat_map(|d| d.events())
        .map(|(row, _)| row)
        .collect();
    assert_eq!(rows, (1..=10).collect::<Vec<_>>());
    assert_eq!(deliveries.len(), 3);
    let schema = serde_json::from_str(include_str!("../../schema/batch.schema.json")).unwrap();
    for delivery in &deliveries {
        if let Err(error) = jsonschema::validate(&schema, &delivery.body) {
            panic!("{error}: {}", delivery.body);
        }
        assert_eq!(delivery.headers["idempotency-key"], delivery.batch_id());
    }
    assert_eq!(world.state("orders").committed(), 10);
    assert_eq!(
        world.state("orders").document().lease.held,
        None,
        "given back"
    );

    let before = world.state("orders").read().unwrap().tag;
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.count(), 3, "nothing twice in a calm world");
    assert_eq!(
        world.state("orders").read().unwrap().tag,
        before,
        "an idle tick writes nothing"
    );
}

#[tokio::test]
async fn each_tick_writes_one_line_that_a_query_can_parse() {
    let world = World::with_orders(json!({})).await.rows(3).await;
    let handler = world.serve().await;
    handler.tick_as("Orders", "the-invocation").await;
    let line = handler.stdout.line(&["dbtick.tick"]).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    for (field, expected) in [
        ("poller", json!("orders")),
        ("outcome", json!("drained")),
        ("invocation_id", json!("the-invocation")),
        ("past_due", json!(false)),
        ("batches", json!(1)),
        ("rows", json!(3)),
    ] {
        assert_eq!(line[field], expected, "{field}: {line}");
    }
    assert!(
        line["took_ms"].is_u64() && line["writes"].is_u64(),
        "{line}"
    );
    assert_eq!(tick_lines(&handler.stdout.all()).len(), 1);
    assert_eq!(handler.stderr.all(), [""; 0], "stderr is for errors");
}

#[tokio::test]
async fn a_failed_tick_tells_its_story_on_stdout_and_one_line_on_stderr() {
    let world = World::with_orders(json!({})).await.rows(3).await;
    world
        .receiver
        .answer(|_, _| Answer::Say(400, None, "no".to_owned()));
    let handler = world.serve().await;
    let answer = handler.tick_as("Orders", "the-invocation").await;
    assert_eq!(answer.status, 500);
    assert!(answer.logs().contains("400"), "{answer:?}");
    let line = handler.stdout.line(&["dbtick.tick"]).await;
    let line: Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["outcome"], "delivery_failed");
    assert_eq!(line["invocation_id"], "the-invocation");
    assert!(line["error"].as_str().unwrap().contains("400"), "{line}");
    let error = handler.stderr.line(&["the-invocation"]).await;
    assert!(error.contains("orders") && error.contains("400"), "{error}");
    assert_eq!(handler.stderr.all().len(), 1);
    assert_eq!(world.state("orders").committed(), 0);

    world.receiver.answer(|_, _| Answer::Ok);
    assert_eq!(
        handler.tick("Orders").await.status,
        200,
        "the lease was given back"
    );
    let deliveries = world.receiver.deliveries();
    assert_eq!(deliveries[0].events(), deliveries[1].events());
    assert_eq!(deliveries[0].batch_id(), deliveries[1].batch_id());
    assert_eq!(
        (
            &deliveries[0].body["attempt"],
            &deliveries[1].body["attempt"]
        ),
        (&json!(1), &json!(2))
    );
    assert_eq!(world.state("orders").committed(), 3);
}

#[tokio::test]
async fn a_receiver_that_asks_for_time_gets_it_across_ticks() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    let later = Some(("retry-after", "3600".to_owned()));
    world
        .receiver
        .answer(move |_, _| Answer::Say(503, later.clone(), String::new()));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "waiting is not a failure: {answer:?}");
    assert!(answer.logs().contains("wait"), "{answer:?}");
    assert_eq!(world.receiver.count(), 1);
    assert_eq!(world.state("orders").committed(), 0);
}

#[tokio::test]
async fn a_bad_poller_does_not_stop_a_good_one() {
    let missing = poller(json!({ "name": "missing", "source": { "table": "no_such_table" } }));
    let good = poller(json!({ "name": "good" }));
    for parallel in [1, 4] {
        let pollers = json!({ "pollers": [missing, good], "parallel": parallel });
        let world = World::new().await.function("All", pollers).rows(2).await;
        let handler = world.serve().await;
        let answer = handler.tick("All").await;
        assert_eq!(answer.status, 500);
        assert!(answer.logs().contains("no_such_table"), "{answer:?}");
        assert_eq!(world.receiver.acknowledged_count(), 1);
        assert_eq!(world.state("good").committed(), 2);
        handler.stderr.line(&["missing", "no_such_table"]).await;
    }
}

#[tokio::test]
async fn a_slow_function_does_not_hold_up_another() {
    let world = World::with_orders(json!({}))
        .await
        .rows(1)
        .await
        .poller("Second", json!({}));
    world
        .receiver
        .answer(|_, delivery| match delivery.body["poller"].as_str() {
            Some("orders") => Answer::WhenOpened,
            _ => Answer::Ok,
        });
    let handler = world.serve().await;
    let slow = handler.tick("Orders");
    let fast = async {
        world.receiver.arrived(1).await;
        assert_eq!(handler.tick("Second").await.status, 200);
        assert_eq!(world.state("second").committed(), 1);
        assert_eq!(world.state("orders").committed(), 0);
        world.receiver.open_gate();
    };
    let (slow, ()) = tokio::join!(slow, fast);
    assert_eq!(slow.status, 200);
}

#[tokio::test]
async fn a_second_tick_of_the_same_poller_leaves_the_first_its_lease() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let handler = world.serve().await;
    let overlap = async {
        world.receiver.arrived(1).await;
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 200, "losing the race is normal");
        assert!(answer.logs().contains("held"), "{answer:?}");
        assert_eq!(world.receiver.count(), 1);
        world.receiver.open_gate();
    };
    let (first, ()) = tokio::join!(handler.tick("Orders"), overlap);
    assert_eq!(first.status, 200);
    assert_eq!(world.receiver.count(), 1);
    assert_eq!(world.state("orders").committed(), 1);
}

#[tokio::test]
async fn a_damaged_or_missing_document_is_refused_and_left_alone() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let file = world.state("orders").path;
    let good = std::fs::read_to_string(&file).unwrap();
    world.writer().await.insert(1).await;
    let damaged = [
        String::new(),
        "{}".to_owned(),
        good[..good.len() / 2].to_owned(),
        good.replace("\"rows\": 2", "\"rows\": 3"),
        good.replace("\"version\": 1", "\"version\": 2"),
    ];
    for text in damaged {
        assert_ne!(text, good);
        std::fs::write(&file, &text).unwrap();
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 500, "{text}: {answer:?}");
        assert!(answer.logs().contains("orders.json"), "{answer:?}");
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            text,
            "left as it is"
        );
    }
    std::fs::remove_file(&file).unwrap();
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 500);
    assert!(answer.logs().contains("gone"), "{answer:?}");
    assert_eq!(
        world.receiver.count(),
        1,
        "nothing was delivered from a doubtful state"
    );
    std::fs::write(&file, &good).unwrap();
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.state("orders").committed(), 3);
}

#[tokio::test]
async fn a_changed_source_is_refused_until_a_person_decides() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let world = world.poller("Orders", json!({ "source": { "filter": "id > 0" } }));
    let answer = world.serve().await.tick("Orders").await;
    assert_eq!(answer.status, 500);
    assert!(answer.logs().contains("reset"), "{answer:?}");
    assert_eq!(world.receiver.count(), 1);
}

/// The host kills the whole process at its limit, so a tick ends before (I16).
#[tokio::test]
async fn a_tick_ends_before_the_host_would_kill_it() {
    let world = World::with_orders(json!({}))
        .await
        .rows(1)
        .await
        .setting("AzureFunctionsJobHost__functionTimeout", "00:00:04");
    world.receiver.answer(|_, _| Answer::Never);
    let handler = world.serve().await;
    let started = SystemClock.monotonic();
    let answer = handler.tick("Orders").await;
    let took = SystemClock.monotonic() - started;
    assert_eq!(answer.status, 500);
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert!(answer.logs().contains("time budget"), "{answer:?}");
    let document = world.state("orders").document();
    assert_eq!(document.lease.held, None, "the lease was given back");
    assert_eq!(document.position(), None);
}

#[tokio::test]
async fn a_state_directory_that_cannot_be_written_is_named() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    std::fs::write(world.path("state"), "a file").unwrap();
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 500);
    assert!(answer.logs().contains("state/app/orders"), "{answer:?}");
    assert_eq!(
        world.receiver.count(),
        0,
        "nothing is delivered that cannot be committed"
    );
}
