//! Delivery that receivers can trust, by the real handler: whatever a receiver does, every good row
//! arrives, every bad row is in quarantine, and none is in neither (A1, D1, D8, E1 to E3, I13).

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "delivery/answers.rs"]
mod answers;
#[path = "delivery/kills.rs"]
mod kills;
#[path = "delivery/moods.rs"]
mod moods;
#[path = "delivery/quarantine.rs"]
mod quarantine;
#[path = "delivery/schedule.rs"]
mod schedule;
#[path = "delivery/sinks.rs"]
mod sinks;

use std::collections::BTreeMap;

use dbtick::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use sqlx::Row as _;

use support::DEADLINE;
use support::command::{good, json as parsed, run};
use support::handler::HandlerProcess;
use support::http::RawAnswer;
use support::world::{World, merge};

/// One try per tick, a short patience, and rows that are looked for in the second failed tick.
fn hasty(changes: Value) -> Value {
    let mut poller = json!({
        "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1, "timeout": "500ms" } }],
        "poison": { "attempts": 2 },
        "lease": { "ttl": "300ms", "heartbeat": "100ms", "margin": "50ms" }
    });
    merge(&mut poller, changes);
    poller
}

/// Rows of which no two are equal, as they stand in the database.
async fn filled(world: &World, rows: i64) -> BTreeMap<i64, Value> {
    let mut writer = world.writer().await;
    writer.insert(rows).await;
    writer.sql("UPDATE orders SET note = 'order ' || id").await;
    let rows = sqlx::query("SELECT id, seq, note FROM orders")
        .fetch_all(&mut writer.0)
        .await
        .unwrap();
    let row = |row: &sqlx::sqlite::SqliteRow| {
        let id: i64 = row.get(0);
        let (seq, note): (i64, String) = (row.get(1), row.get(2));
        (id, json!({ "id": id, "seq": seq, "note": note }))
    };
    rows.iter().map(row).collect()
}

/// Ticks, as a schedule does, until one of them satisfies.
async fn ticks_until(
    handler: &HandlerProcess,
    what: &str,
    satisfied: impl Fn(&RawAnswer) -> bool,
) -> RawAnswer {
    let started = SystemClock.monotonic();
    loop {
        let answer = handler.tick("Orders").await;
        if satisfied(&answer) {
            return answer;
        }
        let waited = SystemClock.monotonic() - started;
        assert!(waited < DEADLINE, "{what}: {}", handler.everything_said());
    }
}

/// Nothing is new, nobody is behind and nobody is waited for.
async fn until_quiet(handler: &HandlerProcess) {
    ticks_until(handler, "it comes to rest", |answer| {
        answer.status == 200 && answer.logs().contains("nothing new")
    })
    .await;
}

/// What is in quarantine, by the key of the row: the event as it was kept.
fn quarantined(world: &World) -> BTreeMap<i64, Value> {
    let list = run(world, &["quarantine", "list", "orders", "--json"]);
    good(&list);
    let rows = parsed(&list)["rows"].as_array().unwrap().clone();
    let event = |row: &Value| {
        let id = row["event_id"].as_str().unwrap();
        let shown = run(world, &["quarantine", "show", "orders", id, "--json"]);
        good(&shown);
        let event = parsed(&shown)["event"].clone();
        assert_eq!(event["id"], *id);
        (row["key"]["id"].as_i64().unwrap(), event)
    };
    rows.iter().map(event).collect()
}
