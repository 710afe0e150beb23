//! What little work costs: to start, to find nothing, to deliver one batch.

use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use serde_json::json;

use crate::parts::{Case, Parts, SMALL, TINY};
use crate::peer::Peer;
use crate::support::proxy::Proxy;
use crate::table;

/// Behind a release the peer waits for half of its lease before it ticks again.
const SHORT_LEASE: u32 = 1;
const BEHIND_A_RELEASE: Duration = Duration::from_millis(600);
/// What was delivered settles in a tick or two.
const SETTLED: usize = 4;
const ONE_BATCH: usize = 500;

#[derive(Debug, Default)]
pub(crate) struct Start {
    /// Until `GET /` was answered, unless it answers nothing.
    pub(crate) answer: Vec<Duration>,
    pub(crate) delivery: Vec<Duration>,
}

/// Requests to the storage account, and how long ticks took that went straight to it.
#[derive(Debug, Default)]
pub(crate) struct Ticks {
    pub(crate) idle: Vec<String>,
    pub(crate) one_batch: Vec<String>,
    /// What the tick after that one did: rows settle.
    pub(crate) settling: Vec<String>,
    pub(crate) idle_time: Vec<Duration>,
    pub(crate) idle_cpu: Option<Duration>,
}

pub(crate) async fn starts(parts: &Parts, count: usize, peers: usize) -> (Start, Start) {
    let (mut ours, mut theirs) = (Start::default(), Start::default());
    let case = tiny(parts);
    for _ in 0..count {
        let handler = parts.app(&case, &parts.blobs.connection_string()).start();
        handler.tick().await;
        ours.answer.push(handler.ready_after);
        let first = parts.receiver.first_arrival().unwrap();
        ours.delivery.push(first - handler.started);
        parts.receiver.take().check(TINY.1);
    }
    for _ in 0..peers {
        let told = parts.told(TINY.0, 1000, &parts.blobs.connection_string());
        let mut peer = Peer::start(&told);
        peer.tick();
        let first = parts.receiver.first_arrival().unwrap();
        theirs.delivery.push(first - peer.started);
        parts.receiver.take().check(TINY.1);
    }
    (ours, theirs)
}

pub(crate) async fn ticks(parts: &Parts, repetitions: usize) -> Ticks {
    let mut ticks = Ticks::default();
    let case = small(parts);
    let proxy = Proxy::before(&parts.blobs);
    let counted = parts.app(&case, &proxy.connection_string()).start();
    for _ in 0..SETTLED {
        counted.tick().await;
    }
    proxy.fresh();
    counted.tick().await;
    ticks.idle = proxy.fresh_lines();
    add_a_batch(parts).await;
    counted.tick().await;
    ticks.one_batch = proxy.fresh_lines();
    counted.tick().await;
    ticks.settling = proxy.fresh_lines();
    drop(counted);

    let timed = parts.app(&case, &parts.blobs.connection_string()).start();
    for _ in 0..SETTLED {
        timed.tick().await;
    }
    let before = timed.process.cpu();
    for _ in 0..repetitions {
        ticks.idle_time.push(timed.tick().await);
    }
    let spent = timed.process.cpu() - before;
    ticks.idle_cpu = Some(spent / u32::try_from(repetitions).unwrap());
    take_the_batch_back(parts).await;
    parts.receiver.take();
    ticks
}

pub(crate) async fn peer_ticks(parts: &Parts, repetitions: usize) -> Ticks {
    let mut ticks = Ticks::default();
    let proxy = Proxy::before(&parts.blobs);
    // Its cheapest way: it asks for no second batch, which costs two more requests.
    let mut told = parts.told(SMALL.0, SMALL.1, &proxy.connection_string());
    told["batches"] = json!(1);
    told["lease"] = json!(SHORT_LEASE);
    let mut counted = Peer::start(&told);
    // The proxy runs here, in this process.
    let mut tick = async || tokio::task::block_in_place(|| counted.tick());
    tick().await;
    pause().await;
    proxy.fresh();
    assert_eq!(tick().await.0, 0);
    ticks.idle = proxy.fresh_lines();
    add_a_batch(parts).await;
    pause().await;
    assert_eq!(tick().await.0, ONE_BATCH);
    ticks.one_batch = proxy.fresh_lines();
    drop(counted);
    take_the_batch_back(parts).await;

    told["storage"] = json!(parts.blobs.connection_string());
    let mut timed = Peer::start(&told);
    timed.ready();
    for _ in 0..=repetitions {
        pause().await;
        let before = SystemClock.monotonic();
        assert_eq!(timed.tick().0, 0);
        ticks.idle_time.push(SystemClock.monotonic() - before);
    }
    // The first one connects.
    ticks.idle_time.remove(0);
    parts.receiver.take();
    ticks
}

async fn pause() {
    tokio::time::sleep(BEHIND_A_RELEASE).await;
}

async fn add_a_batch(parts: &Parts) {
    table::add_to_postgres(&parts.postgres, SMALL.0, SMALL.1 + 1, ONE_BATCH).await;
}

async fn take_the_batch_back(parts: &Parts) {
    let (table, rows) = SMALL;
    let statement = format!("DELETE FROM {table} WHERE id > {rows}; VACUUM ANALYZE {table}");
    for statement in statement.split(';') {
        parts.postgres.sql(statement).await;
    }
}

fn small(parts: &Parts) -> Case {
    let (table, rows) = SMALL;
    Case {
        table,
        rows,
        ..parts.case()
    }
}

fn tiny(parts: &Parts) -> Case {
    let (table, rows) = TINY;
    Case {
        table,
        rows,
        ..parts.case()
    }
}
