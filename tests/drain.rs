//! A drain of many rows by the real `dbtick serve`: every row once, in memory that does not grow
//! with their number.
//!
//! `DBTICK_DRAIN_ROWS=1000000 cargo test --test drain -- --nocapture` drains a million and prints
//! what it took on the way.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use nix::unistd::Pid;
use serde::Deserialize;
use serde_json::json;
use support::http::{chunked, timer_body, try_exchange};
use support::postgres::Postgres;
use support::world::World;

const ROWS: usize = 200_000;
const BATCH: usize = 500;
/// Whatever the number of rows: a tenth of what they weigh in the smallest drain.
const GROWTH_KIB: u64 = 8 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_of_many_rows_holds_memory_flat() {
    let rows = rows();
    let postgres = Postgres::start().await;
    postgres
        .sql(&format!(
            "CREATE TABLE orders (id int PRIMARY KEY, seq timestamptz NOT NULL, note text);
             INSERT INTO orders SELECT i, '2026-01-01Z'::timestamptz + i / 3 * interval '1 s',
                 repeat('n', 200) FROM generate_series(1, {rows}) i;
             CREATE INDEX ON orders (seq, id)"
        ))
        .await;
    let receiver = Counting::start(rows).await;
    let changes = json!({ "source": { "table": "public.orders" }, "batch": { "max_rows": BATCH } });
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

    let got = receiver.got.lock().unwrap();
    let early = got.samples[0].1;
    for (count, memory) in got.samples.iter().chain([&(got.ids.len(), end)]) {
        println!("{count:>9} rows: {memory:?}");
    }
    let every = i32::try_from(rows).unwrap();
    assert!(
        got.ids.iter().copied().eq(1..=every),
        "{} rows came for {rows}, or not in their order",
        got.ids.len()
    );
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

#[allow(clippy::disallowed_methods)] // a switch of the test, not a setting of the program
fn rows() -> usize {
    std::env::var("DBTICK_DRAIN_ROWS").map_or(ROWS, |rows| rows.parse().unwrap())
}

/// A receiver that keeps the keys alone, and looks at the handler after each tenth of the rows.
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
    async fn start(rows: usize) -> Self {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0));
        let listener = listener.await.unwrap();
        let url = format!(
            "http://127.0.0.1:{}/",
            listener.local_addr().unwrap().port()
        );
        let got = Arc::new(Mutex::new(Got::default()));
        let handler = Arc::new(OnceLock::new());
        let router = Router::new()
            .fallback(receive)
            .with_state((Arc::clone(&got), Arc::clone(&handler), rows / 10))
            .layer(DefaultBodyLimit::disable());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { url, got, handler }
    }

    fn watch(&self, handler: Pid) {
        self.handler.set(handler).unwrap();
    }
}

type Counter = (Arc<Mutex<Got>>, Arc<OnceLock<Pid>>, usize);

async fn receive(State((got, handler, tenth)): State<Counter>, body: Bytes) {
    let batch: Batch = serde_json::from_slice(&body).unwrap();
    let mut got = got.lock().unwrap();
    got.bytes += body.len() as u64;
    got.ids
        .extend(batch.events.iter().map(|event| event.key.id));
    let count = got.ids.len();
    if count / tenth > got.samples.len() {
        let memory = Memory::of(*handler.get().unwrap());
        got.samples.push((count, memory));
    }
}

/// What a process holds, as the kernel counts it.
#[derive(Debug, Clone, Copy)]
struct Memory {
    /// The most it ever held.
    peak_kib: u64,
    now_kib: u64,
}

impl Memory {
    /// Of the peak or of what is held, whichever grew more; the kernel's counts may also fall.
    fn growth_since(self, early: Self) -> u64 {
        let peak = self.peak_kib.saturating_sub(early.peak_kib);
        peak.max(self.now_kib.saturating_sub(early.now_kib))
    }

    fn of(process: Pid) -> Self {
        let status = PathBuf::from(format!("/proc/{process}/status"));
        let status = std::fs::read_to_string(status).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let value = line.unwrap().trim().strip_suffix(" kB").unwrap();
            value.parse().unwrap()
        };
        Self {
            peak_kib: field("VmHWM:"),
            now_kib: field("VmRSS:"),
        }
    }
}
