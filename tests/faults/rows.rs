//! Rows that are too much of something.

use serde_json::json;

use crate::support::receiver::Answer;
use crate::support::world::World;

const ROWS: i64 = 100_000;

/// More than any batch holds, so that a cursor without its key would lose rows or stand still.
#[tokio::test]
async fn a_hundred_thousand_rows_at_one_moment_arrive_once_each_and_in_order() {
    let world = World::with_orders(json!({
        "source": { "table": "burst", "cursor": "at" }, "batch": { "max_rows": 5000 }
    }))
    .await;
    let mut table = world.writer().await;
    table
        .sql("CREATE TABLE burst (id INTEGER PRIMARY KEY, at TEXT NOT NULL)")
        .await;
    table.sql("CREATE INDEX burst_at ON burst (at, id)").await;
    table
        .sql(
            "INSERT INTO burst SELECT value, '2026-01-01T00:00:00.000000Z' FROM (
             WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n WHERE value < 100000) SELECT value FROM n)",
        )
        .await;
    let handler = world.serve().await;
    let mut ticks = 0;
    while world.receiver.acknowledged_rows().len() < ROWS as usize {
        let answer = handler.try_tick("Orders").await.unwrap();
        assert_eq!(answer.status, 200, "{}", answer.logs());
        ticks += 1;
        assert!(
            ticks < 20,
            "{} rows",
            world.receiver.acknowledged_rows().len()
        );
    }
    assert_eq!(handler.try_tick("Orders").await.unwrap().status, 200);
    let deliveries = world.receiver.deliveries();
    let rows: Vec<i64> = deliveries
        .iter()
        .flat_map(|delivery| delivery.events())
        .map(|(row, _)| row)
        .collect();
    assert!(
        rows.iter().copied().eq(1..=ROWS),
        "{} deliveries",
        rows.len()
    );
}

/// One event is larger than a batch may be, and goes in one of its own. The lease is long, because a debug build
/// on a busy machine takes its time.
#[tokio::test]
async fn a_row_of_fifty_megabytes_arrives_whole_and_its_neighbours_too() {
    let world = World::with_orders(json!({
        "deliver": [{ "webhook": { "url": "%HOOK%", "timeout": "3m", "attempts": 1 } }],
        "lease": { "ttl": "5m" }
    }))
    .await
    .rows(1)
    .await;
    let mut table = world.writer().await;
    table
        .sql("INSERT INTO orders SELECT 2, 2, replace(hex(zeroblob(12500000)), '00', '\"é!')")
        .await;
    table.insert(1).await;
    let handler = world.serve().await;
    let answer = handler.try_tick("Orders").await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.logs());
    assert_eq!(world.state("orders").committed(), 3);
    let deliveries = world.receiver.deliveries();
    let events: Vec<_> = deliveries
        .iter()
        .flat_map(|delivery| delivery.body["events"].as_array().unwrap())
        .collect();
    assert_eq!(events.len(), 3);
    let note = events[1]["data"]["note"].as_str().unwrap();
    assert_eq!(note.len(), 50_000_000);
    assert!(
        note.as_bytes()
            .chunks(4)
            .all(|piece| piece == "\"é!".as_bytes())
    );
}

/// Who never takes it does not keep the others; where it is kept, it is kept whole.
#[tokio::test]
async fn a_row_of_megabytes_that_is_never_taken_is_kept_whole_in_quarantine() {
    let world = World::with_orders(json!({
        "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1 } }], "poison": { "attempts": 1 }
    }))
    .await
    .rows(2)
    .await;
    let mut table = world.writer().await;
    table
        .sql("INSERT INTO orders SELECT 3, 3, hex(zeroblob(2500000))")
        .await;
    table.insert(2).await;
    world.receiver.answer(
        |_, delivery| match delivery.events().iter().any(|(row, _)| *row == 3) {
            true => Answer::Say(422, None, String::new()),
            false => Answer::Ok,
        },
    );
    let handler = world.serve().await;
    for _ in 0..6 {
        handler.try_tick("Orders").await.unwrap();
    }
    assert_eq!(world.state("orders").committed(), 5);
    let rows: Vec<i64> = world.receiver.acknowledged_rows().into_keys().collect();
    assert_eq!(rows, [1, 2, 4, 5]);
    let kept = world.state_texts();
    let zeros = "0".repeat(5_000_000);
    assert!(kept.iter().any(|text| text.contains(&zeros)), "kept whole");
}
