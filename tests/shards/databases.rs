//! The same key is in the same shard whichever database it is read from.

use serde_json::json;

use super::support::mariadb::MariaDb;
use super::support::postgres::Postgres;
use super::support::world::World;
use super::{all_rows, shard_of};

const TABLE: &str = "CREATE TABLE orders (id INT PRIMARY KEY, seq INT NOT NULL, note VARCHAR(20), part INT NOT NULL); \
     CREATE INDEX by_part ON orders (part, seq, id);";

fn rows() -> String {
    let rows = (1..=40).map(|id| format!("({id}, {id}, 'x', {})", id % 2));
    let rows: Vec<_> = rows.collect();
    format!("INSERT INTO orders VALUES {};", rows.join(", "))
}

async fn by_key_and_by_column(url: &str) {
    let changes = json!({ "source": { "late_commits": "off" }, "batch": { "max_rows": 3 } });
    let mut by_key = changes.clone();
    by_key["shards"] = json!(3);
    let world = World::with_orders(by_key).await.setting("ORDERS_DB", url);
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let times = all_rows(&world, 40);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    for delivery in world.receiver.deliveries() {
        for (row, _) in delivery.events() {
            let shard = shard_of(row, 3).to_string();
            assert_eq!(delivery.body["fence"]["shard"], shard.as_str(), "{row}");
        }
    }
    let mut by_column = changes;
    by_column["shards"] = json!({ "count": 2, "column": "part" });
    let world = World::with_orders(by_column)
        .await
        .setting("ORDERS_DB", url);
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    all_rows(&world, 40);
    for delivery in world.receiver.deliveries() {
        for (row, _) in delivery.events() {
            let shard = format!("{}of2c", row % 2);
            assert_eq!(delivery.body["fence"]["shard"], shard.as_str(), "{row}");
        }
    }
}

#[tokio::test]
async fn a_key_is_in_one_shard_whether_it_is_read_from_postgresql() {
    let server = Postgres::start().await;
    server.sql(TABLE).await;
    server.sql(&rows()).await;
    by_key_and_by_column(&server.url()).await;
}

#[tokio::test]
async fn a_key_is_in_one_shard_whether_it_is_read_from_mariadb() {
    let server = MariaDb::start().await;
    server.sql(TABLE).await;
    server.sql(&rows()).await;
    by_key_and_by_column(&server.url()).await;
}
