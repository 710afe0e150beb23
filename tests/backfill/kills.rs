//! A large backfill that is killed again and again, while the live poller goes about its work.

use std::io::Read;
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::StatusCode;
use dbtick::clock::{Clock, SystemClock};
use dbtick::config::Settings;
use serde::Deserialize;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::changes;
use crate::support::command::{good, run};
use crate::support::handler::{BINARY, HandlerProcess};
use crate::support::world::World;

/// More of both by `DBTICK_BACKFILL_ROWS` and `DBTICK_BACKFILL_KILLS`, as `tests/run --long` does.
const ROWS: usize = 40_000;
const KILLS: usize = 4;
/// Of the live poller alone, to compare with.
const QUIET_TICKS: usize = 15;
const PATIENCE: Duration = Duration::from_secs(120);

fn wish(name: &str, otherwise: usize) -> usize {
    let settings = Settings::process();
    let told = settings.filled(name).map(|text| text.parse().unwrap());
    told.unwrap_or(otherwise)
}

/// Counts how often each row has come.
struct Counting {
    rows: Vec<AtomicU8>,
    came: watch::Sender<u64>,
    duplicates: AtomicU64,
}

#[derive(Deserialize)]
struct Batch {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    key: Key,
}

#[derive(Deserialize)]
struct Key {
    id: usize,
}

async fn count(State(counting): State<Arc<Counting>>, body: Bytes) -> StatusCode {
    let batch: Batch = serde_json::from_slice(&body).unwrap();
    for event in &batch.events {
        if counting.rows[event.key.id].fetch_add(1, Ordering::Relaxed) > 0 {
            counting.duplicates.fetch_add(1, Ordering::Relaxed);
        }
    }
    let new = batch.events.len() as u64;
    counting.came.send_modify(|came| *came += new);
    StatusCode::OK
}

async fn receiver(most: usize) -> (Arc<Counting>, String) {
    let counting = Arc::new(Counting {
        rows: (0..most).map(|_| AtomicU8::new(0)).collect(),
        came: watch::Sender::new(0),
        duplicates: AtomicU64::new(0),
    });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let port = listener.local_addr().unwrap().port();
    let router = Router::new()
        .fallback(count)
        .with_state(Arc::clone(&counting))
        .layer(DefaultBodyLimit::disable());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (counting, format!("http://127.0.0.1:{port}/"))
}

/// Rows 1 to n, with the live checkpoint on the last of them.
async fn world(rows: usize, hook: &str) -> World {
    let world = World::with_orders(changes(json!({}))).await;
    let world = world.setting("HOOK", hook);
    let fill = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) \
         INSERT INTO orders SELECT i, i, 'note ' || i FROM n"
    );
    sqlx::query(AssertSqlSafe(fill))
        .execute(&mut world.writer().await.0)
        .await
        .unwrap();
    let (cursor, key) = (rows.to_string(), format!("id={rows}"));
    let place = ["--to-cursor", &cursor, "--to-key", &key, "--yes"];
    let reset = run(&world, &[&["reset", "orders"][..], &place].concat());
    good(&reset);
    world
}

fn start(world: &World, rows: usize) -> Child {
    Command::new(BINARY)
        .args(["backfill", "orders", "--yes", "--json", "--ranges", "3"])
        .args(["--batch-rows", "1000", "--to", &rows.to_string()])
        .current_dir(world.app())
        .env_clear()
        .envs(&world.environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The live poller, tick after tick: how long each took from the row to its commit.
struct Live {
    times: Mutex<Vec<Duration>>,
}

impl Live {
    /// One new row, and one tick. Nobody else has written the document since the last one.
    async fn tick(&self, world: &World, handler: &HandlerProcess, tag: &mut String) {
        let state = world.state("orders");
        let before = state.read().unwrap();
        assert_eq!(before.tag, *tag, "only the live poller writes its document");
        let committed = state.committed();
        let began = SystemClock.monotonic();
        world.writer().await.insert(1).await;
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 200, "{answer:?}");
        self.times
            .lock()
            .unwrap()
            .push(SystemClock.monotonic() - began);
        let after = state.read().unwrap();
        assert_eq!(
            state.committed(),
            committed + 1,
            "its checkpoint moves as usual"
        );
        *tag = after.tag;
    }

    fn median(&self, ticks: Range<usize>) -> Duration {
        let mut times = self.times.lock().unwrap()[ticks].to_vec();
        times.sort();
        times[times.len() / 2]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backfill_that_is_killed_again_and_again_ends_complete_and_the_live_poller_does_not_notice()
 {
    let (rows, kills) = (
        wish("DBTICK_BACKFILL_ROWS", ROWS),
        wish("DBTICK_BACKFILL_KILLS", KILLS),
    );
    let (counting, hook) = receiver(rows + 1_000_000).await;
    let world = Arc::new(world(rows, &hook).await);
    let handler = Arc::new(world.serve().await);
    let live = Arc::new(Live {
        times: Mutex::default(),
    });
    let mut tag = world.state("orders").read().unwrap().tag;
    for _ in 0..QUIET_TICKS {
        live.tick(&world, &handler, &mut tag).await;
    }
    let (done, mut is_done) = watch::channel(false);
    let beside = tokio::spawn({
        let (world, handler, live) = (world.clone(), handler.clone(), live.clone());
        async move {
            while !*is_done.borrow_and_update() {
                live.tick(&world, &handler, &mut tag).await;
                sleep(Duration::from_millis(100)).await;
            }
        }
    });

    let began = SystemClock.monotonic();
    let mut came = counting.came.subscribe();
    let mut child = start(&world, rows);
    for kill in 1..=kills {
        let reached = (kill * rows / (kills + 1)) as u64;
        let wait = came.wait_for(|came| *came >= reached);
        timeout(PATIENCE, wait)
            .await
            .expect("it makes progress")
            .unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        child = start(&world, rows);
    }
    let ended = ended(child, began).await;
    done.send_replace(true);
    beside.await.unwrap();

    let report: Value =
        serde_json::from_str(&ended).unwrap_or_else(|error| panic!("{error}: {ended}"));
    assert_eq!(report["status"], "complete", "{ended}");
    assert_eq!(report["report"]["total"], rows);
    assert_eq!(report["report"]["delivered"], rows);
    assert_eq!(report["report"]["missing"], 0);
    let never = (1..=rows).filter(|row| counting.rows[*row].load(Ordering::Relaxed) == 0);
    assert_eq!(never.count(), 0, "every row has come");
    let ticks = live.times.lock().unwrap().len();
    assert_eq!(
        world.state("orders").committed(),
        i64::try_from(rows + ticks).unwrap()
    );
    let quiet = live.median(0..QUIET_TICKS);
    let busy = live.median(QUIET_TICKS..ticks);
    println!(
        "{rows} rows, {kills} kills: {:?}, {} rows came twice; {} live ticks beside it, median {busy:?}, alone {quiet:?}",
        SystemClock.monotonic() - began,
        counting.duplicates.load(Ordering::Relaxed),
        ticks - QUIET_TICKS,
    );
    // The two share two cores and one receiver here; a lock or a lease would cost seconds.
    assert!(
        busy < quiet + Duration::from_millis(500),
        "{busy:?} beside, {quiet:?} alone"
    );
}

async fn ended(mut child: Child, began: Instant) -> String {
    let wait = tokio::task::spawn_blocking(move || {
        let (mut out, mut err) = (String::new(), String::new());
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut out)
            .unwrap();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        assert!(child.wait().unwrap().success(), "{err}");
        out
    });
    let patience = PATIENCE * 10;
    let ended = timeout(patience, wait).await;
    ended
        .unwrap_or_else(|_| panic!("not within {:?}", SystemClock.monotonic() - began))
        .unwrap()
}
