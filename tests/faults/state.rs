//! State that is too large, shared by two who should not, or in a database that may only be read.

use serde_json::json;

use crate::support::postgres::Postgres;
use crate::support::world::World;

#[tokio::test]
async fn a_document_of_ten_megabytes_is_refused_and_left_alone() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.writer().await.insert(1).await;
    let file = world.state("orders").path;
    let good = std::fs::read_to_string(&file).unwrap();
    let (tag, document) = good.split_once('\n').unwrap();
    let padding = "x".repeat(10 << 20);
    let padded = document.replacen('{', &format!("{{ \"padding\": \"{padding}\","), 1);
    for text in [
        format!("{tag}\n{padded}"),
        format!("{good}{padding}"),
        format!("{tag}\n{}", "[".repeat(10 << 20)),
        "\0".repeat(10 << 20),
    ] {
        std::fs::write(&file, &text).unwrap();
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 500);
        let logs = answer.logs();
        assert!(
            logs.contains("orders.json") && logs.len() < 2000,
            "{}",
            logs.len()
        );
        assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    }
    assert_eq!(world.receiver.count(), 1, "nothing from a doubtful state");
    std::fs::write(&file, &good).unwrap();
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.state("orders").committed(), 3);
}

/// A staging slot, or a colleague's machine, with the same names and the same storage.
#[tokio::test]
async fn of_two_deployments_with_different_sources_only_the_first_gets_on() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    let mut table = world.writer().await;
    table
        .sql("CREATE TABLE others (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL UNIQUE)")
        .await;
    table
        .sql("INSERT INTO others VALUES (901, 1), (902, 900)")
        .await;
    let first = world.serve().await;
    assert_eq!(first.tick("Orders").await.status, 200);
    let world = world.poller("Orders", json!({ "source": { "table": "others" } }));
    let second = world.serve().await;
    for round in 1..=3 {
        let answer = second.tick("Orders").await;
        assert_eq!(answer.status, 500, "{answer:?}");
        let logs = answer.logs();
        assert!(logs.contains("others") && logs.contains("adopt"), "{logs}");
        table.insert(1).await;
        assert_eq!(first.tick("Orders").await.status, 200);
        assert_eq!(world.state("orders").committed(), 2 + round);
    }
    let rows: Vec<i64> = world.receiver.acknowledged_rows().into_keys().collect();
    assert_eq!(rows, [1, 2, 3, 4, 5], "and none of the other table");
}

/// After a fail-over the address may lead to a copy that takes no writes.
#[tokio::test]
async fn state_in_a_database_that_may_only_be_read_stops_the_poller_and_loses_nothing() {
    let mut postgres = Postgres::start().await;
    let world = World::with_orders(json!({ "state": { "kind": "sql", "connection": "STATE_DB" } }))
        .await
        .setting("STATE_DB", &postgres.url())
        .rows(2)
        .await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.writer().await.insert(2).await;
    postgres.become_standby().await;
    for _ in 0..2 {
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 500, "{answer:?}");
        assert!(answer.logs().contains("STATE_DB"), "{answer:?}");
    }
    assert_eq!(world.receiver.count(), 1, "no lease, no delivery");
    postgres.promote().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let rows: Vec<i64> = world.receiver.acknowledged_rows().into_keys().collect();
    assert_eq!(rows, [1, 2, 3, 4]);
    assert_eq!(world.receiver.count(), 2);
}
