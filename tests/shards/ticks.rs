//! What the ticks of shards do, in one function.

use serde_json::json;
use sqlx::AssertSqlSafe;

use super::support::command::{good, refused, run};
use super::support::receiver::Answer;
use super::support::world::World;
use super::{all_rows, shard_of, versions};

#[tokio::test]
async fn shards_send_every_row_once_and_under_the_ids_that_it_has_without_them() {
    let whole = World::with_orders(json!({})).await.rows(60).await;
    assert_eq!(whole.serve().await.tick("Orders").await.status, 200);
    let changes = json!({ "shards": 3, "batch": { "max_rows": 5 } });
    let world = World::with_orders(changes).await.rows(60).await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let all = all_rows(&world, 60);
    assert!(all.values().all(|times| *times == 1), "{all:?}");
    assert_eq!(
        world.receiver.acknowledged_rows(),
        whole.receiver.acknowledged_rows()
    );
    let schema = serde_json::from_str(include_str!("../../schema/batch.schema.json")).unwrap();
    for delivery in world.receiver.deliveries() {
        assert!(jsonschema::is_valid(&schema, &delivery.body));
        assert_eq!(delivery.body["poller"], "orders");
        for (row, _) in delivery.events() {
            let shard = shard_of(row, 3).to_string();
            assert_eq!(delivery.body["fence"]["shard"], shard.as_str());
        }
    }
    let status = run(&world, &["status"]);
    for shard in 0..3 {
        let name = format!("orders.{shard}of3");
        assert!(world.state(&name).committed() > 0, "{name}");
        assert!(good(&status).contains(&name), "{status:?}");
    }
    assert!(world.state("orders").read().is_none());
}

#[tokio::test]
async fn a_shard_passes_thousands_of_rows_of_another_and_reads_them_once() {
    let world = World::with_orders(json!({ "shards": 2, "batch": { "max_rows": 100 } })).await;
    let mut table = world.writer().await;
    let theirs = (1..).filter(|row| shard_of(*row, 2).index() == 0);
    for (seq, id) in theirs.take(2500).enumerate() {
        let row = format!("INSERT INTO orders VALUES ({id}, {}, 'x')", seq + 1);
        let row = sqlx::query(AssertSqlSafe(row));
        row.execute(&mut table.0).await.unwrap();
    }
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.state("orders.0of2").committed(), 2500);
    assert_eq!(world.state("orders.1of2").committed(), 2500, "passed");
    let before = world.state("orders.1of2").read().unwrap().tag;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let after = world.state("orders.1of2").read().unwrap().tag;
    assert_eq!(before, after, "an idle tick writes nothing");
    // The first of its own, behind all of these.
    let own = (1..).find(|row| shard_of(*row, 2).index() == 1).unwrap();
    let row = format!("INSERT INTO orders VALUES ({own}, 2501, 'x')");
    let row = sqlx::query(AssertSqlSafe(row));
    row.execute(&mut table.0).await.unwrap();
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.state("orders.1of2").committed(), 2501);
    assert_eq!(world.receiver.acknowledged_rows()[&own].len(), 1);
}

#[tokio::test]
async fn versions_of_one_row_come_in_order_while_a_receiver_fails() {
    let world = World::with_orders(json!({ "shards": 4, "batch": { "max_rows": 3 } }))
        .await
        .rows(20)
        .await;
    world.receiver.answer(|number, _| match number % 3 {
        1 => Answer::Say(503, None, String::new()),
        _ => Answer::Ok,
    });
    let handler = world.serve().await;
    let mut table = world.writer().await;
    for version in 0..6 {
        handler.tick("Orders").await;
        let update = format!(
            "UPDATE orders SET note = '{version}', seq = (SELECT max(seq) FROM orders) + id WHERE id % 6 <= {version}"
        );
        let update = sqlx::query(AssertSqlSafe(update));
        update.execute(&mut table.0).await.unwrap();
    }
    world.receiver.answer(|_, _| Answer::Ok);
    assert_eq!(handler.tick("Orders").await.status, 200);
    all_rows(&world, 20);
    for (row, notes) in versions(&world) {
        let numbers: Vec<i32> = notes.iter().filter_map(|it| it.parse().ok()).collect();
        assert!(numbers.is_sorted(), "{row}: {notes:?}");
        assert_eq!(notes.last().unwrap(), "5", "{row}");
    }
}

#[tokio::test]
async fn by_a_column_each_shard_has_its_rows_and_a_row_of_none_stops_all() {
    let changes = json!({ "shards": { "count": 2, "column": "part" } });
    let world = World::with_orders(changes).await;
    let mut table = world.writer().await;
    table
        .sql("ALTER TABLE orders ADD COLUMN part INTEGER NOT NULL DEFAULT 0")
        .await;
    table.insert(10).await;
    table.sql("UPDATE orders SET part = id % 2").await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let all = all_rows(&world, 10);
    assert!(all.values().all(|times| *times == 1), "{all:?}");
    for delivery in world.receiver.deliveries() {
        let shard = delivery.body["fence"]["shard"].as_str().unwrap().to_owned();
        for (row, _) in delivery.events() {
            assert_eq!(shard, format!("{}of2c", row % 2));
        }
    }
    for stray in ["2", "-1", "0.5", "'none'"] {
        let row = format!("INSERT INTO orders VALUES (99, 99, 'x', {stray})");
        let row = sqlx::query(AssertSqlSafe(row));
        row.execute(&mut table.0).await.unwrap();
        assert_eq!(handler.tick("Orders").await.status, 500, "{stray}");
        let check = run(&world, &["check"]);
        assert!(
            check.stdout.contains("is none of the 2 shards"),
            "{check:?}"
        );
        table.sql("DELETE FROM orders WHERE id = 99").await;
    }
    assert_eq!(handler.tick("Orders").await.status, 200);
    let adopted = run(&world, &["adopt", "orders.0of2c", "--yes"]);
    good(&adopted);
}

#[tokio::test]
async fn check_says_that_every_shard_reads_every_row_unless_a_column_tells_them_apart() {
    let world = World::with_orders(json!({ "shards": 2 }))
        .await
        .rows(1)
        .await;
    let said = run(&world, &["check"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(
        said.stdout.contains("the table is read 2 times"),
        "{said:?}"
    );
    assert!(!said.stdout.contains("their order is lost"), "{said:?}");
    let outbox = json!({ "shards": 2, "source": { "outbox": { "payload": "note" } } });
    let outbox = World::with_orders(outbox).await;
    let said = run(&outbox, &["check"]);
    assert!(said.stdout.contains("their order is lost"), "{said:?}");
    let unknown = World::with_orders(json!({ "shards": { "count": 2, "column": "prat" } }))
        .await
        .rows(1)
        .await;
    let said = run(&unknown, &["check"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.stdout.contains("prat"), "{said:?}");
    let handler = unknown.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
}

#[tokio::test]
async fn a_shard_that_is_asked_for_a_row_of_another_says_whose_it_is() {
    let world = World::with_orders(json!({ "shards": 2 }))
        .await
        .rows(1)
        .await;
    world.serve().await.tick("Orders").await;
    let owner = shard_of(1, 2);
    let name = format!("orders.{owner}");
    good(&run(&world, &["trace", &name, "1"]));
    let other = format!("orders.{}of2", 1 - owner.index());
    let asked = run(&world, &["trace", &other, "1"]);
    refused(&asked, 1, &[&format!("ask for it in shard {owner}")]);
}
