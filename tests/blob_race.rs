//! Eight processes race for each poller on one Azurite, and are killed while they do.
//!
//! The proxy writes down every write that the server accepted, with the tag that it replaced and the
//! tag that it got. So the versions of a document form a chain that can be followed link by link: a
//! lost update would be a second write behind one tag.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use dbtick::model::position::Position;
use dbtick::model::state::StateDocument;
use dbtick::tick::MOST_UNCOMMITTED;
use futures_util::future::join_all;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use support::azurite::Azurite;
use support::dice::Dice;
use support::handler::HandlerProcess;
use support::http::{chunked, timer_body, try_exchange};
use support::proxy::{Exchange, Proxy};
use support::receiver::{Answer, Delivery};
use support::within;
use support::world::World;

const PROCESSES: usize = 8;
/// Each of them is raced for by all processes; several, because a killed holder's lease rests for
/// six seconds, and the others are raced for meanwhile.
const POLLERS: [&str; 4] = ["orders", "audit", "search", "ledger"];
const MAX_ROWS: usize = 5;
const TTL: Duration = Duration::from_secs(4);
const MARGIN: Duration = Duration::from_secs(2);
/// What the server's times leave out.
const SECOND: Duration = Duration::from_secs(1);
const INVOCATION: &str = "00000000-0000-0000-0000-000000000000";

/// For how long processes are killed: a few seconds, or as long as `DBTICK_RACE_SECONDS` says.
#[allow(clippy::disallowed_methods)] // A longer race is asked for from outside.
fn race_time() -> Duration {
    let seconds = std::env::var("DBTICK_RACE_SECONDS").ok();
    Duration::from_secs(seconds.map_or(8, |seconds| seconds.parse().unwrap()))
}

async fn racing_world(proxy: &Proxy, pollers: &[&str]) -> World {
    let mut world = World::new().await;
    for poller in pollers {
        world = world.poller(
            poller,
            json!({
                "batch": { "max_rows": MAX_ROWS },
                "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1 } }],
                "lease": { "ttl": "4s", "heartbeat": "700ms", "margin": "2s" },
                "state": { "connection": "STATE", "container": "db-state" }
            }),
        );
    }
    // A holder gives the lease back after two seconds at the latest, so that there is a race.
    let host = json!({
        "version": "2.0", "functionTimeout": "00:00:03",
        "customHandler": { "description": {
            "defaultExecutablePath": "dbtick", "arguments": ["serve"]
        } }
    });
    world
        .file("host.json", &host.to_string())
        .setting("STATE", &proxy.connection_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_processes_that_race_and_die_lose_no_update_and_no_row() {
    let azurite = Azurite::blob();
    let proxy = Proxy::before(&azurite);
    let world = racing_world(&proxy, &POLLERS).await;
    world
        .receiver
        .answer(|index, _| Answer::After(Duration::from_millis(20 * (index as u64 * 7 % 5))));
    let mut dice = Dice::thrown();
    let mut processes = join_all((0..PROCESSES).map(|_| world.serve())).await;
    let ports: Vec<_> = processes.iter().map(|p| AtomicU16::new(p.port)).collect();
    let (killing, ticking) = (AtomicBool::new(true), AtomicBool::new(true));
    let kills = AtomicUsize::new(0);
    let failed = AtomicUsize::new(0);

    let killer = async {
        let end = SystemClock.monotonic() + race_time();
        while SystemClock.monotonic() < end {
            sleep(Duration::from_millis(200 + dice.below(500))).await;
            let chosen = match dice.below(3) {
                0 => None,
                _ => holder(&proxy, POLLERS[dice.below(4) as usize], &ports),
            };
            let victim = chosen.unwrap_or(dice.below(PROCESSES as u64) as usize);
            processes[victim].signal(Signal::SIGKILL);
            processes[victim].ended().await;
            kills.fetch_add(1, Ordering::Relaxed);
            processes[victim] = world.serve().await;
            ports[victim].store(processes[victim].port, Ordering::Relaxed);
        }
        killing.store(false, Ordering::Relaxed);
    };
    let tickers = join_all(ports.iter().flat_map(|port| {
        POLLERS.map(|poller| {
            let (ticking, failed) = (&ticking, &failed);
            async move {
                let mut turn = 0;
                while ticking.load(Ordering::Relaxed) {
                    let body = timer_body(&Value::Null).to_string();
                    let request = chunked(poller, INVOCATION, &body);
                    let answer = try_exchange(port.load(Ordering::Relaxed), request).await;
                    if let Some(answer) = answer
                        && answer.status != 200
                    {
                        println!("{}", answer.logs());
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                    turn += 1;
                    sleep(Duration::from_millis(150 + turn * 37 % 150)).await;
                }
            }
        })
    }));
    let rows = async {
        let mut table = world.writer().await;
        let mut total = 0;
        while killing.load(Ordering::Relaxed) {
            // In bursts: between them the lease is free, and raced for.
            table.insert(3).await;
            total += 3;
            sleep(Duration::from_millis(150)).await;
        }
        let end = SystemClock.monotonic() + race_time() + support::DEADLINE;
        while POLLERS
            .iter()
            .any(|poller| committed(&proxy, poller) < total)
        {
            assert!(SystemClock.monotonic() < end, "it does not catch up");
            sleep(Duration::from_millis(100)).await;
        }
        ticking.store(false, Ordering::Relaxed);
        total
    };
    let ((), _, total) = tokio::join!(killer, tickers, rows);

    let (kills, failed) = (kills.into_inner(), failed.into_inner());
    let exchanges = proxy.exchanges();
    println!(
        "{total} rows, {kills} kills, {failed} failed ticks, {} requests",
        exchanges.len()
    );
    let mut abandoned_in_all = 0;
    for poller in POLLERS {
        let chain = chain(&exchanges, poller);
        let history = check_history(&chain);
        println!("{poller}: {} versions, {history:?}", chain.len());
        let deliveries = world.receiver.deliveries();
        let of_poller = deliveries.iter().filter(|d| d.body["poller"] == poller);
        let again = check_deliveries(of_poller.collect(), total);
        let interruptions = history.abandoned + history.failures;
        assert!(
            again <= interruptions * MAX_ROWS * (MOST_UNCOMMITTED + 1),
            "{poller}: {again} rows again after {interruptions} interruptions"
        );
        abandoned_in_all += history.abandoned;
    }
    assert!(
        abandoned_in_all > 0,
        "no kill has hit a holder: this race shows nothing"
    );
    assert!(
        abandoned_in_all <= kills * POLLERS.len() + failed,
        "leases were abandoned by processes that lived"
    );
}

/// The process whose lease the last accepted write of the poller shows.
fn holder(proxy: &Proxy, poller: &str, ports: &[AtomicU16]) -> Option<usize> {
    let exchanges = proxy.exchanges();
    let last = accepted(&exchanges, poller).last().map(document)?;
    let owner = last.lease.held?.owner_id;
    ports
        .iter()
        .position(|port| owner.contains(&format!("worker-{}", port.load(Ordering::Relaxed))))
}

fn committed(proxy: &Proxy, poller: &str) -> i64 {
    let exchanges = proxy.exchanges();
    let last = accepted(&exchanges, poller).last().map(document);
    last.map_or(0, |last| row_of(last.position()))
}

fn accepted<'a>(exchanges: &'a [Exchange], poller: &str) -> Vec<&'a Exchange> {
    let name = format!("/{poller}.json");
    let of_poller = exchanges.iter().filter(|e| e.is("PUT", &name));
    of_poller.filter(|e| e.landed()).collect()
}

fn document(exchange: &&Exchange) -> StateDocument {
    let value: Value = serde_json::from_slice(&exchange.body).unwrap();
    let poller = value["poller_name"].as_str().unwrap();
    StateDocument::from_bytes(&exchange.body, poller, &["id".to_owned()]).unwrap()
}

fn row_of(position: Option<&Position>) -> i64 {
    position.map_or(0, |position| {
        let text = position.to_string();
        text.split(' ').next().unwrap().parse().unwrap()
    })
}

/// The accepted writes in the server's order, by the tags: one beginning, and one successor each.
fn chain<'a>(exchanges: &'a [Exchange], poller: &str) -> Vec<&'a Exchange> {
    let accepted = accepted(exchanges, poller);
    let mut first = None;
    let mut successors: HashMap<&str, &Exchange> = HashMap::new();
    for write in &accepted {
        match &write.if_match {
            None => {
                assert!(
                    write.if_none_match.is_some(),
                    "a blind write: {}",
                    write.line()
                );
                assert!(first.replace(*write).is_none(), "created twice");
            }
            Some(tag) => {
                let twice = successors.insert(tag, write);
                assert!(twice.is_none(), "{poller}: a lost update behind {tag}");
            }
        }
    }
    let mut chain = vec![first.expect("it was created")];
    while let Some(next) = successors.get(chain.last().unwrap().etag.as_deref().unwrap()) {
        chain.push(next);
    }
    assert_eq!(
        chain.len(),
        accepted.len(),
        "{poller}: all writes are in one chain"
    );
    chain
}

#[derive(Debug, Default)]
struct History {
    claims: usize,
    /// Claims of a lease that nobody had given back.
    abandoned: usize,
    failures: usize,
}

/// I3, I4, I5 between every two versions, none left out.
fn check_history(chain: &[&Exchange]) -> History {
    let mut history = History::default();
    let mut before: Option<(Instant, StateDocument)> = None;
    for write in chain {
        let after = document(write);
        let mark = after.holder.clone().unwrap();
        let token = after.lease.token.get();
        let (at, old) = match before.take() {
            Some((at, old)) => (at, old),
            None => {
                assert_eq!(token, 1, "the first claim");
                history.claims += 1;
                before = Some((write.at, after));
                continue;
            }
        };
        let (from, to) = (row_of(old.position()), row_of(after.position()));
        assert!(from <= to, "the checkpoint went back from {from} to {to}");
        let old_mark = old.holder.clone().unwrap();
        if mark.nonce == old_mark.nonce {
            assert_eq!(token, old.lease.token.get(), "one claim, one token");
            assert!(
                mark.sequence > old_mark.sequence,
                "a write was applied twice"
            );
            assert!(old.lease.held.is_some(), "a write after the release");
            let batches = after.counters.batches - old.counters.batches;
            let most = MAX_ROWS as i64 * batches as i64;
            assert!(
                to - from <= most,
                "{batches} batches moved it by {}",
                to - from
            );
            assert!(batches <= MOST_UNCOMMITTED as u64 + 1);
        } else {
            assert_eq!(token, old.lease.token.get() + 1, "by one per claim");
            assert_eq!(from, to, "a claim moves nothing");
            history.claims += 1;
            if old.lease.held.is_some() {
                history.abandoned += 1;
                let age = write.at - at;
                assert!(age >= TTL + MARGIN - SECOND, "taken after {age:?}");
            }
        }
        if after.counters.failed_ticks > old.counters.failed_ticks {
            history.failures += 1;
        }
        before = Some((write.at, after));
    }
    history
}

/// Every row, first in order, always with one id. Returns how many rows came again.
fn check_deliveries(deliveries: Vec<&Delivery>, total: i64) -> usize {
    let mut ids: BTreeMap<i64, String> = BTreeMap::new();
    let mut acknowledged: BTreeMap<i64, ()> = BTreeMap::new();
    let (mut last_new, mut again, mut token) = (0, 0, 0);
    for delivery in deliveries {
        assert!(delivery.token() >= token, "an older holder delivered later");
        token = delivery.token();
        for (row, event) in delivery.events() {
            if delivery.acknowledged {
                acknowledged.insert(row, ());
            }
            if let Some(before) = ids.insert(row, event.clone()) {
                assert_eq!(before, event, "row {row} has two ids");
                again += 1;
            } else {
                assert_eq!(row, last_new + 1, "first deliveries are in order");
                last_new = row;
            }
        }
    }
    let missing: Vec<_> = (1..=total)
        .filter(|row| !acknowledged.contains_key(row))
        .collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    println!("{again} rows again");
    again
}

#[tokio::test]
async fn the_next_process_takes_over_after_ttl_and_margin_by_the_servers_clock() {
    let azurite = Azurite::blob();
    let proxy = Proxy::before(&azurite);
    let world = racing_world(&proxy, &["orders"]).await.rows(2).await;
    world.receiver.answer(|index, _| match index {
        0 => Answer::Never,
        _ => Answer::Ok,
    });
    let (mut first, second): (HandlerProcess, HandlerProcess) =
        (world.serve().await, world.serve().await);
    let body = timer_body(&Value::Null).to_string();
    let tick = try_exchange(first.port, chunked("orders", INVOCATION, &body));
    let death = async {
        world.receiver.arrived(1).await;
        first.signal(Signal::SIGKILL);
        first.ended().await;
    };
    let (answer, ()) = tokio::join!(tick, death);
    assert!(answer.is_none(), "{answer:?}");
    let exchanges = proxy.exchanges();
    let last_write = accepted(&exchanges, "orders").last().unwrap().at;
    within("the lease is taken", async {
        while world.receiver.count() < 2 {
            let answer = second.tick("orders").await;
            assert_eq!(answer.status, 200, "{answer:?}");
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    let waited = world.receiver.deliveries()[1].at - last_write;
    assert!(waited >= TTL + MARGIN - SECOND, "{waited:?}");
    assert!(waited <= TTL + MARGIN + 3 * SECOND, "{waited:?}");
    let exchanges = proxy.exchanges();
    let last = document(accepted(&exchanges, "orders").last().unwrap());
    assert_eq!(row_of(last.position()), 2);
    assert_eq!(last.lease.token.get(), 2);
    assert_eq!(check_history(&chain(&exchanges, "orders")).abandoned, 1);
}
