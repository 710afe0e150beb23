//! A poller that is moved by hand, over file state and with the real binary (G1, G2, G3, G7).

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "operate/lost.rs"]
mod lost;
#[path = "operate/moves.rs"]
mod moves;
#[path = "operate/pause.rs"]
mod pause;
#[path = "operate/source.rs"]
mod source;
#[path = "operate/tick.rs"]
mod tick;
#[path = "operate/trace.rs"]
mod trace;
#[path = "operate/unlock.rs"]
mod unlock;

use support::command::{beside, good, json, paste, refused, run, run_beside, said};
use support::handler::HandlerProcess;
use support::world::World;

/// Everything but the answer of a tick that must work.
async fn drain(handler: &HandlerProcess) {
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Rows 1 to n, three with each tick: batches of one tick may share a commit.
async fn drained(rows: i64) -> (World, HandlerProcess) {
    let changes = serde_json::json!({ "batch": { "max_rows": 3 } });
    let world = World::with_orders(changes).await;
    let handler = world.serve().await;
    let mut table = world.writer().await;
    for first in (0..rows).step_by(3) {
        table.insert((rows - first).min(3)).await;
        drain(&handler).await;
    }
    (world, handler)
}

/// How often each row from 1 on was acknowledged.
fn deliveries(world: &World) -> Vec<usize> {
    let rows = world.receiver.acknowledged_rows();
    rows.values().map(Vec::len).collect()
}
