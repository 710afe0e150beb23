//! Ticks over a PostgreSQL server that restarts while they drain it.

use serde_json::json;

use crate::support::postgres::{PASSWORD, Postgres};
use crate::support::receiver::Answer;
use crate::support::server::End;
use crate::support::world::World;

#[tokio::test]
async fn a_server_that_restarts_in_the_middle_of_a_drain_loses_no_row() {
    let mut postgres = Postgres::start().await;
    postgres
        .sql(
            "CREATE TABLE orders (id int PRIMARY KEY, seq timestamptz NOT NULL, note text);
             CREATE INDEX ON orders (seq, id);
             INSERT INTO orders SELECT i, '2026-01-01Z', 'note' FROM generate_series(1, 100) i;
             CHECKPOINT",
        )
        .await;
    let changes = json!({ "source": { "table": "public.orders" }, "batch": { "max_rows": 7 } });
    let world = World::with_orders(changes)
        .await
        .setting("ORDERS_DB", &postgres.url());
    world.receiver.close_gate();
    world.receiver.answer(|index, _| match index {
        3 => Answer::WhenOpened,
        _ => Answer::Ok,
    });
    let handler = world.serve().await;
    let (tick, ()) = tokio::join!(handler.tick("Orders"), async {
        world.receiver.arrived(4).await;
        postgres.stop(End::Crash).await;
        world.receiver.open_gate();
    });
    assert_ne!(tick.status, 200);
    postgres.start_again().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let rows: Vec<_> = world.receiver.acknowledged_rows().into_keys().collect();
    assert_eq!(rows, (1..=100).collect::<Vec<_>>());
    let said = handler.everything_said();
    assert!(said.contains("ORDERS_DB"), "{said}");
    assert!(!said.contains(PASSWORD), "{said}");
}
