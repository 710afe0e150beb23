//! A slow receiver, and more processes: `cargo test --test shards throughput -- --nocapture` prints the figures
//! of docs/scale.md.

use std::time::Duration;

use chrono::TimeDelta;
use dbtick::clock::{Clock, SystemClock};
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::all_rows;
use super::support::azurite::{ACCOUNT, KEY};
use super::support::http::{chunked, exchange};
use super::support::receiver::Answer;
use super::support::world::{World, poller};

const ROWS: i64 = 800;
const LATENCY: Duration = Duration::from_millis(50);

/// How long so many processes take, each with a shard of its own.
async fn drained_by(processes: u16) -> Duration {
    let world = World::new().await.rows(ROWS).await;
    let document = json!({
        "bindings": [{
            "type": "queueTrigger", "direction": "in", "name": "shard", "queueName": "shards"
        }],
        "poller": poller(json!({ "name": "orders", "shards": processes, "batch": { "max_rows": 20 } }))
    });
    // Nobody calls it here: the messages come from this test.
    let endpoint = format!("http://127.0.0.1:1/{ACCOUNT}");
    let storage = format!("AccountName={ACCOUNT};AccountKey={KEY};QueueEndpoint={endpoint}");
    let world = world
        .file("shard/function.json", &document.to_string())
        .setting("AzureWebJobsStorage", &storage);
    world.receiver.answer(|_, _| Answer::After(LATENCY));
    let mut handlers = Vec::new();
    for _ in 0..processes {
        handlers.push(world.serve().await);
    }
    let began = SystemClock.monotonic();
    let ticks = (0..processes).zip(&handlers).map(|(shard, handler)| {
        let name = match processes {
            1 => "orders".to_owned(),
            count => format!("orders.{shard}of{count}"),
        };
        let now = SystemClock.now();
        let expires = now + TimeDelta::minutes(5);
        let message = json!({ "app": "app", "poller": name, "scheduled": now, "expires": expires });
        let text = Value::from(message.to_string()).to_string();
        let body = json!({ "Data": { "shard": text }, "Metadata": {} }).to_string();
        exchange(handler.port, chunked("shard", "a-message", &body))
    });
    for answer in join_all(ticks).await {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let took = SystemClock.monotonic() - began;
    let times = all_rows(&world, ROWS);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn throughput_grows_with_processes_where_the_receiver_is_slow() {
    let mut took = Vec::new();
    for processes in [1, 2, 4] {
        let time = drained_by(processes).await;
        let rate = ROWS as f64 / time.as_secs_f64();
        println!("{processes} processes: {ROWS} rows in {time:.1?}, {rate:.0} rows a second");
        took.push(time);
    }
    assert!(
        took[1] * 5 < took[0] * 4 && took[2] * 5 < took[0] * 4,
        "{took:?}"
    );
}
