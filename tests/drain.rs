//! A drain of many rows by the real `dbtick serve`: every row once, in memory that does not grow
//! with their number.
//!
//! `DBTICK_DRAIN_ROWS=1000000 cargo test --test drain -- --nocapture` drains a million and prints
//! what it took on the way.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::{Value, json};
use support::http::{chunked, timer_body, try_exchange};
use support::memory::Memory;
use support::postgres::Postgres;
use support::world::World;
use tokio::sync::Barrier;

const ROWS: usize = 200_000;
const BATCH: usize = 500;
/// Of a KiB each.
const LARGE: usize = 60_000;
/// Whatever the number of rows: a tenth of what they weigh in the smallest drain.
const GROWTH_KIB: u64 = 8 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_of_many_rows_holds_memory_flat() {
    let rows = rows();
    let postgres = with_table(rows, 200).await;
    let batch = json!({ "max_rows": BATCH });
    let Drained { got, end } = drain(&postgres, rows, batch).await;
    let early = got.samples[0].1;
    for (count, memory) in got.samples.iter().chain([&(got.ids.len(), end)]) {
        println!("{count:>9} rows: {memory:?}");
    }
    let weight = got.bytes / 1024;
    assert!(
        weight > 8 * GROWTH_KIB,
        "too little to notice: {weight} KiB"
    );
    assert!(
        end.growth_since(early) < GROWTH_KIB,
        "from {early:?} to {end:?} while {weight} KiB were delivered"
    );
}

/// Batches of a MiB at the most, of a table that is three times as large, and eight of them on their way at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_most_memory_is_that_of_the_batches_on_their_way_whatever_the_table() {
    let mut peaks = Vec::new();
    for (rows, in_flight) in [(LARGE / 3, 1), (LARGE, 1), (LARGE, 8)] {
        let postgres = with_table(rows, 1000).await;
        let batch = json!({ "max_bytes": "1MiB", "max_inflight": in_flight });
        let Drained { got, end } = drain(&postgres, rows, batch).await;
        let weight = got.bytes / 1024;
        println!("{rows:>9} rows, {in_flight} on their way: {end:?}, {weight} KiB delivered");
        peaks.push(end.peak_kib);
    }
    let [small, large, many] = peaks[..] else {
        unreachable!("three were measured");
    };
    assert!(
        large < small + GROWTH_KIB,
        "{small} KiB for a third of the table, {large} KiB for all of it"
    );
    // A batch is there as rows that were read and as the body that is sent.
    assert!(
        many < large + 7 * 2 * 1024,
        "{large} KiB with one batch on its way, {many} KiB with eight"
    );
}

async fn with_table(rows: usize, bytes: usize) -> Postgres {
    let postgres = Postgres::start().await;
    postgres
        .sql(&format!(
            "CREATE TABLE orders (id int PRIMARY KEY, seq timestamptz NOT NULL, note text);
             INSERT INTO orders SELECT i, '2026-01-01Z'::timestamptz + i / 3 * interval '1 s',
                 repeat('n', {bytes}) FROM generate_series(1, {rows}) i;
             CREATE INDEX ON orders (seq, id)"
        ))
        .await;
    postgres
}

struct Drained {
    got: Got,
    end: Memory,
}

/// By one tick of a process of its own: every row once; in order, unless batches may overtake each other.
async fn drain(postgres: &Postgres, rows: usize, batch: Value) -> Drained {
    let in_flight = batch["max_inflight"].as_u64().unwrap_or(1);
    let in_flight = usize::try_from(in_flight).unwrap();
    let receiver = Counting::start(rows, in_flight).await;
    let changes = json!({ "source": { "table": "public.orders" }, "batch": batch });
    let world = World::with_orders(changes)
        .await
        .setting("ORDERS_DB", &postgres.url())
        .setting("HOOK", &receiver.url)
        .setting("AzureFunctionsJobHost__functionTimeout", "00:30:00");
    let handler = world.serve().await;
    receiver.watch(handler.pid);
    let request = chunked("Orders", "the-drain", &timer_body(&json!(null)).to_string());
    let answer = try_exchange(handler.port, request).await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    let end = Memory::of(handler.pid);
    let mut got = std::mem::take(&mut *receiver.got.lock().unwrap());
    if in_flight > 1 {
        got.ids.sort_unstable();
    }
    let every = i32::try_from(rows).unwrap();
    assert!(
        got.ids.iter().copied().eq(1..=every),
        "{} rows came for {rows}, or not in their order",
        got.ids.len()
    );
    Drained { got, end }
}

#[allow(clippy::disallowed_methods)] // a switch of the test, not a setting of the program
fn rows() -> usize {
    std::env::var("DBTICK_DRAIN_ROWS").map_or(ROWS, |rows| rows.parse().unwrap())
}

/// A receiver that keeps the keys alone, and looks at the handler after each tenth of the rows. It takes none of the
/// first batches before as many are there as may be on their way.
struct Counting {
    url: String,
    got: Arc<Mutex<Got>>,
    handler: Arc<OnceLock<Pid>>,
}

#[derive(Default)]
struct Got {
    ids: Vec<i32>,
    bytes: u64,
    samples: Vec<(usize, Memory)>,
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
    id: i32,
}

impl Counting {
    async fn start(rows: usize, in_flight: usize) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0));
        let listener = listener.await.unwrap();
        let url = format!(
            "http://127.0.0.1:{}/",
            listener.local_addr().unwrap().port()
        );
        let got = Arc::new(Mutex::new(Got::default()));
        let handler = Arc::new(OnceLock::new());
        let counter = Counter {
            got: Arc::clone(&got),
            handler: Arc::clone(&handler),
            tenth: rows / 10,
            first: Arc::new((AtomicUsize::new(in_flight), Barrier::new(in_flight))),
        };
        let router = Router::new()
            .fallback(receive)
            .with_state(counter)
            .layer(DefaultBodyLimit::disable());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, got, handler }
    }

    fn watch(&self, handler: Pid) {
        self.handler.set(handler).unwrap();
    }
}

#[derive(Clone)]
struct Counter {
    got: Arc<Mutex<Got>>,
    handler: Arc<OnceLock<Pid>>,
    tenth: usize,
    /// How many of the first are still to come, and where they wait for each other.
    first: Arc<(AtomicUsize, Barrier)>,
}

async fn receive(State(counter): State<Counter>, body: Bytes) {
    let (left, barrier) = &*counter.first;
    let is_first = |left: usize| left.checked_sub(1);
    if left.fetch_update(Relaxed, Relaxed, is_first).is_ok() {
        barrier.wait().await;
    }
    let batch: Batch = serde_json::from_slice(&body).unwrap();
    let mut got = counter.got.lock().unwrap();
    got.bytes += body.len() as u64;
    got.ids
        .extend(batch.events.iter().map(|event| event.key.id));
    let count = got.ids.len();
    if count / counter.tenth > got.samples.len() {
        let memory = Memory::of(*counter.handler.get().unwrap());
        got.samples.push((count, memory));
    }
}
