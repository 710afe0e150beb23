//! A timer puts a message for each shard, and several processes take them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use data_encoding::BASE64;
use dbtick::azure::Azure;
use dbtick::azure::connection::{Service, StorageConnection};
use dbtick::azure::queue::{Posting, Queue};
use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::config::Settings;
use dbtick::local::{AppDirectory, HostEvent, HostOptions, LocalHost};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use tokio::time::{sleep, timeout};

use super::support::azurite::Azurite;
use super::support::command::{good, run};
use super::support::handler::{BINARY, HandlerProcess};
use super::support::http::{RawAnswer, chunked, exchange};
use super::support::receiver::Answer;
use super::support::within;
use super::support::world::{World, poller};
use super::{all_rows, versions};

const LONGEST: Duration = Duration::from_secs(60);

/// The templates, with a poller of the world and a schedule for people in a hurry.
fn deploy(world: &World, shards: u16) {
    deploy_with(world, shards, json!({}));
}

fn deploy_with(world: &World, shards: u16, lease: Value) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| {
        let path = root.join(format!("function-templates/{name}/function.json"));
        std::fs::read_to_string(path).unwrap()
    };
    let mut shard: Value = serde_json::from_str(&read("shard")).unwrap();
    shard["poller"] = poller(json!({
        "name": "orders",
        "shards": shards,
        "batch": { "max_rows": 3 },
        "lease": lease
    }));
    let fan_out = read("fan-out").replace("*/15 * * * * *", "*/2 * * * * *");
    for (name, text) in [("fan-out", fan_out), ("shard", shard.to_string())] {
        let directory = world.app().join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("function.json"), text).unwrap();
    }
}

async fn spread_world(azurite: &Azurite) -> World {
    let world = World::new().await;
    let host = json!({
        "version": "2.0",
        "extensions": { "queues": { "batchSize": 1, "newBatchThreshold": 0 } },
        "customHandler": { "description": {
            "defaultExecutablePath": "dbtick", "arguments": ["serve"]
        } }
    });
    let world = world.file("host.json", &host.to_string());
    world.setting("AzureWebJobsStorage", &azurite.queue_connection_string())
}

/// With timers and queues, as in production.
async fn host(world: &World) -> LocalHost {
    let mut environment = world.environment.clone();
    environment.remove("FUNCTIONS_APP_ROOT_PATH");
    let app = AppDirectory::read(&world.app(), environment).unwrap();
    let options = HostOptions {
        executable: Some(BINARY.into()),
        http_port: Some(0),
        restart_budget: Some(u32::MAX),
        ..HostOptions::default()
    };
    let host = LocalHost::start(app, options).await.unwrap();
    host.wait_ready().await.unwrap();
    host
}

fn queue(azurite: &Azurite, name: &str) -> Queue {
    let settings = Settings::from_iter([("S", azurite.queue_connection_string())]);
    let connection = StorageConnection::resolve(&settings, "S").unwrap();
    let endpoint = connection.service(Service::Queue).unwrap();
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    Queue::new(&azure, Arc::new(endpoint), name, Arc::new(SystemClock))
}

/// Until every row has come.
async fn all_have_come(world: &World, rows: i64) {
    let come = async {
        let all = |world: &World| {
            let got = world.receiver.acknowledged_rows();
            (1..=rows).all(|row| got.contains_key(&row))
        };
        while !all(world) {
            sleep(Duration::from_millis(100)).await;
        }
    };
    if timeout(LONGEST, come).await.is_err() {
        all_rows(world, rows);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_share_shards_and_are_killed_lose_nothing_also_when_shards_are_added() {
    let azurite = Azurite::queue();
    let world = spread_world(&azurite).await;
    let mut rows = 0;
    for (round, shards) in [2, 4].into_iter().enumerate() {
        let quickly = json!({ "ttl": "300ms", "heartbeat": "100ms", "margin": "50ms" });
        deploy_with(&world, shards, quickly);
        if round > 0 {
            sleep(Duration::from_millis(400)).await;
            good(&run(&world, &["reshard", "orders", "--yes"]));
        }
        let hosts = [host(&world).await, host(&world).await];
        let writing = AtomicBool::new(true);
        let writes = async {
            let mut table = world.writer().await;
            for version in 0..10 {
                table.insert(6).await;
                rows += 6;
                let update = format!(
                    "UPDATE orders SET note = '{:04}', seq = (SELECT max(seq) FROM orders) + id WHERE id > {}",
                    round * 100 + version,
                    rows - 6
                );
                let update = sqlx::query(AssertSqlSafe(update));
                update.execute(&mut table.0).await.unwrap();
                sleep(Duration::from_millis(200)).await;
            }
            writing.store(false, Ordering::Relaxed);
        };
        let kills = async {
            let mut turn = 0;
            while writing.load(Ordering::Relaxed) {
                sleep(Duration::from_millis(700)).await;
                hosts[turn % 2].kill_handler().await;
                turn += 1;
            }
        };
        tokio::join!(writes, kills);
        all_have_come(&world, rows).await;
        for host in hosts {
            host.shutdown().await;
        }
    }
    all_rows(&world, rows);
    for (row, notes) in versions(&world) {
        let last: Vec<_> = notes
            .iter()
            .filter(|it| it.parse::<u32>().is_ok())
            .collect();
        assert!(last.is_sorted(), "{row}: {notes:?}");
    }
}

/// As the host gives it.
fn message_body(poller: &str, scheduled: Timestamp, lives: TimeDelta, dequeued: u32) -> String {
    message_of("app", poller, scheduled, lives, dequeued)
}

fn message_of(
    app: &str,
    poller: &str,
    scheduled: Timestamp,
    lives: TimeDelta,
    dequeued: u32,
) -> String {
    let message = json!({ "app": app, "poller": poller, "scheduled": scheduled, "expires": scheduled + lives });
    let text = Value::from(message.to_string()).to_string();
    json!({ "Data": { "shard": text }, "Metadata": { "DequeueCount": dequeued.to_string() } })
        .to_string()
}

async fn send(handler: &HandlerProcess, body: &str) -> RawAnswer {
    exchange(handler.port, chunked("shard", "a-message", body)).await
}

#[tokio::test]
async fn a_message_ticks_its_shard_and_a_stale_or_repeated_one_ends_at_once() {
    let azurite = Azurite::queue();
    let world = spread_world(&azurite).await.rows(20).await;
    deploy(&world, 2);
    let handler = world.serve().await;
    let (now, minute) = (SystemClock.now(), TimeDelta::minutes(1));
    let stale = message_body("orders.0of2", now - minute, TimeDelta::seconds(15), 1);
    let again = message_body("orders.0of2", now, minute, 2);
    let unknown = message_body("orders.0of9", now, minute, 1);
    for (body, says) in [
        (&stale, "is stale"),
        (&again, "was taken before"),
        (&unknown, "has no poller orders.0of9"),
    ] {
        let answer = send(&handler, body).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.logs().contains(says), "{answer:?}");
    }
    assert_eq!(world.receiver.count(), 0);
    let good = message_body("orders.0of2", now, minute, 1);
    assert_eq!(send(&handler, &good).await.status, 200);
    let count = world.receiver.count();
    assert!(count > 0);
    let shards = world.receiver.deliveries();
    assert!(shards.iter().all(|it| it.body["fence"]["shard"] == "0of2"));
    let answer = send(&handler, &good).await;
    assert!(answer.logs().contains("is a duplicate"), "{answer:?}");
    assert_eq!(world.receiver.count(), count);
    let garbage = r#"{"Data":{"shard":"\"garbage\""},"Metadata":{}}"#;
    assert_eq!(send(&handler, garbage).await.status, 400);
}

#[tokio::test]
async fn a_failed_tick_of_a_message_is_in_the_state_and_the_host_is_told_200() {
    let azurite = Azurite::queue();
    let world = spread_world(&azurite).await.rows(20).await;
    deploy(&world, 2);
    world
        .receiver
        .answer(|_, _| Answer::Say(503, None, String::new()));
    let handler = world.serve().await;
    let now = SystemClock.now();
    let body = message_body("orders.1of2", now, TimeDelta::minutes(1), 1);
    let answer = send(&handler, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let document = world.state("orders.1of2").document();
    let failure = document.sink("webhook").failure.unwrap();
    assert!(failure.error.contains("503"), "{failure:?}");
}

#[tokio::test]
async fn what_no_state_tells_of_fails_for_the_host_too() {
    let azurite = Azurite::queue();
    let world = spread_world(&azurite).await.rows(20).await;
    deploy(&world, 2);
    let handler = world.serve().await;
    let minute = TimeDelta::minutes(1);
    let begun = message_body("orders.1of2", SystemClock.now(), minute, 1);
    assert_eq!(send(&handler, &begun).await.status, 200);
    deploy(&world, 4);
    let handler = world.serve().await;
    let body = message_body("orders.3of4", SystemClock.now(), minute, 1);
    assert_eq!(send(&handler, &body).await.status, 500);
    handler.stdout.line(&["dbtick reshard orders"]).await;
    // Who looks at it is told the same, and no row that would come again.
    let status = run(&world, &["status"]);
    assert_eq!(status.code, Some(1), "{status:?}");
    let says = "`dbtick reshard orders` lets it go on";
    assert!(status.stdout.contains(says), "{status:?}");
    for look in [&["check"] as &[&str], &["peek", "orders.3of4"]] {
        let said = run(&world, look);
        let text = said.stdout.clone() + &said.stderr;
        assert!(text.contains("dbtick reshard orders"), "{said:?}");
        assert!(!text.contains("there are rows to deliver"), "{said:?}");
    }
}

#[tokio::test]
async fn a_message_for_another_app_or_in_a_slot_that_is_off_is_not_taken_from_its_queue() {
    let azurite = Azurite::queue();
    let world = spread_world(&azurite).await.rows(20).await;
    deploy(&world, 2);
    let (now, minute) = (SystemClock.now(), TimeDelta::minutes(1));
    let handler = world.serve().await;
    let theirs = message_of("other", "orders.0of2", now, minute, 1);
    assert_eq!(send(&handler, &theirs).await.status, 400);
    handler.stdout.line(&["put by other"]).await;
    let own = message_body("orders.0of2", now, minute, 1);
    let slot = world.setting("WEBSITE_SLOT_NAME", "staging");
    let handler = slot.serve().await;
    assert_eq!(send(&handler, &own).await.status, 503);
    assert_eq!(slot.receiver.count(), 0);
}

#[tokio::test]
async fn a_fan_out_puts_one_message_for_each_shard_that_lives_for_one_interval() {
    let azurite = Azurite::queue();
    let world = spread_world(&azurite).await;
    deploy(&world, 3);
    let handler = world.serve().await;
    let before = SystemClock.now();
    assert_eq!(handler.tick("fan-out").await.status, 200);
    let mut names = Vec::new();
    for found in queue(&azurite, "dbtick-shards").peek().await.unwrap() {
        let text = BASE64.decode(found.text.as_bytes()).unwrap();
        let message: Value = serde_json::from_slice(&text).unwrap();
        names.push(message["poller"].as_str().unwrap().to_owned());
        let time = |member: &str| -> Timestamp {
            serde_json::from_value(message[member].clone()).unwrap()
        };
        let lives = time("expires") - time("scheduled");
        assert!(lives > TimeDelta::seconds(1) && lives <= TimeDelta::seconds(3));
        assert_eq!(time("expires").timestamp() % 2, 0, "the next one is due");
        assert!(time("scheduled") >= before);
        assert!(found.expires.unwrap() - before < TimeDelta::seconds(10));
    }
    names.sort();
    assert_eq!(names, ["orders.0of3", "orders.1of3", "orders.2of3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_fails_five_times_goes_to_the_poison_queue_of_the_local_host() {
    let azurite = Azurite::queue();
    let world = spread_world(&azurite).await;
    deploy(&world, 2);
    let work = queue(&azurite, "dbtick-shards");
    work.create().await.unwrap();
    let garbage = BASE64.encode(b"garbage");
    work.put(garbage.clone(), Posting::default()).await.unwrap();
    let host = host(&world).await;
    let mut events = host.events();
    let mut failed = 0;
    let moved = async {
        loop {
            match events.next().await.unwrap() {
                HostEvent::InvocationEnded { result, .. } if !result.succeeded() => failed += 1,
                HostEvent::Log { line, .. } if line.contains("was moved to") => return line,
                _ => {}
            }
        }
    };
    let line = within("it is moved", moved).await;
    assert!(line.contains("failed 5 times"), "{line}");
    assert!(line.contains("dbtick-shards-poison"), "{line}");
    assert_eq!(failed, 5);
    let poison = queue(&azurite, "dbtick-shards-poison")
        .peek()
        .await
        .unwrap();
    let texts: Vec<_> = poison.into_iter().map(|found| found.text).collect();
    assert_eq!(texts, [garbage]);
    host.shutdown().await;
}
