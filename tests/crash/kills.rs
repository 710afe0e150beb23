//! kill -9 at chosen and at random moments, while rows keep coming.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use dbtick::local::{HostOptions, InvocationFailure, LocalHost};
use dbtick::tick::MOST_UNCOMMITTED;
use serde_json::json;
use tokio::time::sleep;

use crate::support::dice::Dice;
use crate::support::receiver::{Answer, Delivery, Receiver};
use crate::support::state::Watcher;
use crate::support::world::World;

const KILLS: usize = 50;
const MAX_ROWS: usize = 5;
const LONGEST: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_lose_no_row_and_never_move_the_checkpoint_back() {
    let started = SystemClock.monotonic();
    let mut dice = Dice::thrown();
    let world = World::with_orders(json!({
        "batch": { "max_rows": MAX_ROWS },
        "lease": { "ttl": "300ms", "heartbeat": "100ms", "margin": "50ms" }
    }))
    .await;
    let budget = HostOptions {
        restart_budget: Some(u32::MAX),
        ..HostOptions::default()
    };
    let host = world.host(budget).await;
    host.wait_ready().await.unwrap();
    let watcher = Watcher::of(world.state("orders"));
    let (killing, ticking) = (AtomicBool::new(true), AtomicBool::new(true));
    let failed = AtomicU64::new(0);
    let kills = async {
        for _ in 0..KILLS {
            kill_once(&host, &world.receiver, &mut dice).await;
        }
        killing.store(false, Ordering::Relaxed);
    };
    let ticks = async {
        while ticking.load(Ordering::Relaxed) {
            match host.invoke("Orders").await.outcome {
                Err(InvocationFailure::Status(_)) => failed.fetch_add(1, Ordering::Relaxed),
                Ok(_) | Err(_) => 0,
            };
            sleep(Duration::from_millis(5)).await;
        }
    };
    let rows = async {
        let mut table = world.writer().await;
        let mut total = 0;
        while killing.load(Ordering::Relaxed) {
            table.insert(2).await;
            total += 2;
            sleep(Duration::from_millis(10)).await;
        }
        while world.state("orders").committed() < total {
            assert!(
                SystemClock.monotonic() - started < LONGEST,
                "it does not catch up"
            );
            sleep(Duration::from_millis(20)).await;
        }
        ticking.store(false, Ordering::Relaxed);
        total
    };
    let ((), (), total) = tokio::join!(kills, ticks, rows);
    host.shutdown().await;
    let versions = watcher.finish();
    let took = SystemClock.monotonic() - started;
    println!("{total} rows, {} versions, {took:?}", versions.len());
    assert!(took < LONGEST, "{took:?}");

    let acknowledged = world.receiver.acknowledged_rows();
    let missing: Vec<_> = (1..=total)
        .filter(|row| !acknowledged.contains_key(row))
        .collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    let interruptions = KILLS + usize::try_from(failed.into_inner()).unwrap();
    check_deliveries(&world.receiver.deliveries(), interruptions);
    let token = versions.last().unwrap().document.lease.token.get();
    assert!(token >= KILLS as u64 / 2, "kills hit leases: {token}");
}

/// In the middle of a batch, right after its answer, or anywhere.
async fn kill_once(host: &LocalHost, receiver: &Receiver, dice: &mut Dice) {
    match dice.below(3) {
        0 => {
            receiver.answer(|_, _| Answer::WhenOpened);
            receiver.arrived(receiver.count() + 1).await;
            // Time enough for a handler that would commit without an answer.
            sleep(Duration::from_micros(dice.below(40_000))).await;
        }
        1 => {
            receiver
                .acknowledged(receiver.acknowledged_count() + 1)
                .await
        }
        _ => {
            receiver.arrived(receiver.count() + 1).await;
            sleep(Duration::from_micros(dice.below(60_000))).await;
        }
    }
    host.kill_handler().await;
    receiver.answer(|_, _| Answer::Ok);
}

/// I10, I12, and at most what was not committed and the batch on its way per interruption.
fn check_deliveries(deliveries: &[Delivery], interruptions: usize) {
    let mut ids: BTreeMap<i64, String> = BTreeMap::new();
    let mut last_new = 0;
    let mut again = 0;
    let mut token = 0;
    for delivery in deliveries {
        assert!(delivery.token() >= token, "an older holder delivered later");
        token = delivery.token();
        for (row, event) in delivery.events() {
            if let Some(before) = ids.insert(row, event.clone()) {
                assert_eq!(before, event, "row {row} has two ids");
                again += 1;
            } else {
                assert_eq!(row, last_new + 1, "first deliveries are in order");
                last_new = row;
            }
        }
    }
    println!("{again} rows again in {interruptions} interruptions");
    let most = interruptions * MAX_ROWS * (MOST_UNCOMMITTED + 1);
    assert!(again <= most, "{again} rows came again");
}
