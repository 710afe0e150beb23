//! Rows below the checkpoint once more, beside a live poller, by the real binary (F5, H1 to H3).

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "backfill/kills.rs"]
mod kills;
#[path = "backfill/reconcile.rs"]
mod reconcile;
#[path = "backfill/rows.rs"]
mod rows;

use serde_json::{Value, json};
use support::command::{Said, run};
use support::handler::HandlerProcess;
use support::world::World;

/// Leases that run out soon, because processes die here.
fn changes(more: Value) -> Value {
    let mut changes = json!({
        "batch": { "max_rows": 10 },
        "lease": { "ttl": "2s", "heartbeat": "500ms", "margin": "500ms" },
        "poison": { "attempts": 2 }
    });
    support::world::merge(&mut changes, more);
    changes
}

/// A live poller that has delivered rows 1 to n.
async fn drained(rows: i64, more: Value) -> (World, HandlerProcess) {
    let world = World::with_orders(changes(more)).await.rows(rows).await;
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    (world, handler)
}

fn backfill(world: &World, arguments: &[&str]) -> Said {
    run(
        world,
        &[&["backfill", "orders", "--yes", "--json"], arguments].concat(),
    )
}

fn report(said: &Said) -> (u64, u64, u64, u64) {
    let object = support::command::json(said);
    let number = |name: &str| object["report"][name].as_u64().unwrap();
    (
        number("total"),
        number("delivered"),
        number("quarantined"),
        number("missing"),
    )
}
