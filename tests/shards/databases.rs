//! The same key is in the same shard whichever database it is read from.

use dbtick::model::late::{Epoch, Witness};
use dbtick::model::position::Scalar;
use serde_json::json;
use sqlx::{AssertSqlSafe, Executor, Row};

use super::support::command::{good, run};
use super::support::mariadb::MariaDb;
use super::support::postgres::Postgres;
use super::support::world::World;
use super::{all_rows, shard_of};

const TABLE: &str = "CREATE TABLE orders (id INT PRIMARY KEY, seq INT NOT NULL, note VARCHAR(20), part INT NOT NULL); \
     CREATE INDEX by_part ON orders (part, seq, id);";

/// Of MariaDB and PostgreSQL.
const OTHER_INDEX: &str = "CREATE INDEX by_seq ON orders (seq, id); DROP INDEX by_part";

fn rows() -> String {
    let rows = (1..=40).map(|id| format!("({id}, {id}, 'x', {})", id % 2));
    let rows: Vec<_> = rows.collect();
    format!("INSERT INTO orders VALUES {};", rows.join(", "))
}

/// With every row committed, nobody is waited for, whoever the rows belong to.
fn nobody_is_waited_for(world: &World, shards: &[&str]) {
    for shard in shards {
        let fences = world
            .state(&format!("orders.{shard}"))
            .document()
            .late
            .fences;
        let waits = fences.iter().any(|fence| !fence.witnesses.is_empty());
        assert!(!waits, "{shard}: {fences:?}");
    }
}

/// The index on the column of the shards is gone, and one on the order of the rows is there.
fn check_misses_the_index(url: &str, world: &World) {
    let check = run(world, &["check"]);
    let missing = "no index begins with \"part\", then cursor and key";
    assert!(check.stdout.contains(missing), "{url}: {check:?}");
    assert!(check.stdout.contains("CREATE INDEX"), "{check:?}");
}

async fn by_key_and_by_column(url: &str) -> World {
    let changes = json!({ "source": { "late_commits": "auto" }, "batch": { "max_rows": 3 } });
    let mut by_key = changes.clone();
    by_key["shards"] = json!(3);
    let world = World::with_orders(by_key).await.setting("ORDERS_DB", url);
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let times = all_rows(&world, 40);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    nobody_is_waited_for(&world, &["0of3", "1of3", "2of3"]);
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
    let check = run(&world, &["check"]);
    let serves = "each shard reads its own rows, by an index on";
    assert!(check.stdout.contains(serves), "{check:?}");
    all_rows(&world, 40);
    nobody_is_waited_for(&world, &["0of2c", "1of2c"]);
    for delivery in world.receiver.deliveries() {
        for (row, _) in delivery.events() {
            let shard = format!("{}of2c", row % 2);
            assert_eq!(delivery.body["fence"]["shard"], shard.as_str(), "{row}");
        }
    }
    world
}

#[tokio::test]
async fn a_key_is_in_one_shard_whether_it_is_read_from_postgresql() {
    let server = Postgres::start().await;
    server.sql(TABLE).await;
    server.sql(&rows()).await;
    let world = by_key_and_by_column(&server.url()).await;
    server.sql(OTHER_INDEX).await;
    check_misses_the_index(&server.url(), &world);
}

#[tokio::test]
async fn a_key_is_in_one_shard_whether_it_is_read_from_mariadb() {
    let server = MariaDb::start().await;
    server.sql(TABLE).await;
    server.sql(&rows()).await;
    let world = by_key_and_by_column(&server.url()).await;
    let on = format!("{OTHER_INDEX} ON orders");
    server.sql(&on).await;
    check_misses_the_index(&server.url(), &world);
}

#[tokio::test]
async fn a_row_in_flight_among_rows_of_another_shard_is_waited_for() {
    let server = MariaDb::start().await;
    server.sql(TABLE).await;
    let own = (1..).filter(|row| shard_of(*row, 2).index() == 0);
    let own: Vec<i64> = own.take(2).collect();
    let foreign = (1..).filter(|row| shard_of(*row, 2).index() == 1);
    let foreign: Vec<i64> = foreign.take(20).collect();
    let insert = |id: i64, seq: i64| format!("INSERT INTO orders VALUES ({id}, {seq}, 'x', 0);");
    // The first page of the shard ends with rows of the other one, and one of its own is in flight there.
    let mut rows = insert(own[0], 1);
    let places = (2..).filter(|seq| *seq != 4);
    for (id, seq) in foreign.iter().zip(places) {
        rows += &insert(*id, seq);
    }
    server.sql(&rows).await;
    let mut writer = server.connect("main").await;
    let late = format!("BEGIN; {}", insert(own[1], 4));
    writer.execute(AssertSqlSafe(late)).await.unwrap();
    let world = World::with_orders(json!({ "shards": 2, "batch": { "max_rows": 3 } })).await;
    let world = world.setting("ORDERS_DB", &server.url());
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let state = world.state("orders.0of2");
    let fences = state.document().late.fences;
    assert!(state.committed() < 4, "{fences:?}");
    let beyond = fences
        .iter()
        .filter(|fence| fence.up_to.cursor() >= [Scalar::Integer(4)].as_slice());
    assert!(!fences.is_empty());
    for fence in beyond {
        let named: Vec<_> = fence.witnesses.iter().filter_map(Witness::as_row).collect();
        let named: Vec<_> = named.iter().map(ToString::to_string).collect();
        assert_eq!(named, [format!("4 ({})", own[1])], "{fences:?}");
    }
    writer.execute("COMMIT").await.unwrap();
    assert_eq!(handler.tick("Orders").await.status, 200);
    let got = world.receiver.acknowledged_rows();
    assert!(got.contains_key(&own[1]), "lost: {got:?}");
}

#[tokio::test]
async fn new_shards_know_the_server_its_epoch_and_the_columns_that_the_old_ones_knew() {
    let server = Postgres::start().await;
    server.sql(TABLE).await;
    server.sql(&rows()).await;
    let configured = |shards: i32| json!({ "shards": shards });
    let world = World::with_orders(configured(2)).await;
    let world = world.setting("ORDERS_DB", &server.url());
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    let was = world.state("orders.0of2").document();
    let world = world.poller("Orders", configured(3));
    good(&run(&world, &["reshard", "orders", "--yes"]));
    let is = world.state("orders.0of3").document();
    assert!(is.server.is_some() && is.schema.is_some());
    assert_eq!((is.server, is.schema), (was.server, was.schema));
    let of = |epoch: Option<Epoch>| epoch.map(|it| (it.timeline, it.started));
    assert!(is.late.epoch.is_some());
    assert_eq!(of(is.late.epoch), of(was.late.epoch));
    assert_eq!(world.serve().await.tick("Orders").await.status, 200);
    all_rows(&world, 40);
}

async fn rows_read(server: &MariaDb) -> u64 {
    let rows = sqlx::query("SHOW GLOBAL STATUS LIKE 'Handler_read%'")
        .fetch_all(&mut server.connect("main").await)
        .await
        .unwrap();
    let counts = rows.iter().map(|row| row.get::<String, _>(1));
    counts.map(|count| count.parse::<u64>().unwrap()).sum()
}

/// What all shards together read of a table, for each of its rows.
async fn times_read(server: &MariaDb, shards: serde_json::Value, rows: u64) -> f64 {
    let source = json!({ "late_commits": "off" });
    let changes = json!({ "source": source, "shards": shards, "batch": { "max_rows": 200 } });
    let world = World::with_orders(changes).await;
    let world = world.setting("ORDERS_DB", &server.url());
    let handler = world.serve().await;
    let before = rows_read(server).await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let read = rows_read(server).await - before;
    all_rows(&world, i64::try_from(rows).unwrap());
    read as f64 / rows as f64
}

#[tokio::test]
async fn with_an_index_on_their_column_shards_read_the_table_once_and_by_key_as_often_as_there_are_shards()
 {
    const ROWS: u64 = 4000;
    let server = MariaDb::start().await;
    server.sql(TABLE).await;
    server.sql("CREATE INDEX by_seq ON orders (seq, id)").await;
    let rows = format!(
        "INSERT INTO orders SELECT seq, seq, 'x', seq % 4 FROM seq_1_to_{ROWS}; ANALYZE TABLE orders"
    );
    server.sql(&rows).await;
    // Of any poller: the catalogue is looked at before each page, too.
    let whole = times_read(&server, json!(1), ROWS).await;
    let by_column = json!({ "count": 4, "column": "part" });
    let by_column = times_read(&server, by_column, ROWS).await;
    let by_key = times_read(&server, json!(4), ROWS).await;
    println!("whole {whole:.2}, by column {by_column:.2}, by key {by_key:.2}");
    assert!(by_column < 1.5 * whole, "{by_column} and {whole}");
    assert!(by_key > 3.0 * whole, "{by_key} and {whole}");
}
