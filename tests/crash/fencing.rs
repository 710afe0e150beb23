//! Two processes on one state directory: one works at a time, and a stale one is rejected.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use dbtick::clock::{Clock, SystemClock};
use dbtick::model::definition::SourceIdentity;
use dbtick::model::lease::AgeEvidence;
use dbtick::model::state::StateDocument;
use dbtick::model::transitions::{Action, Applied, Claim, apply};
use dbtick::store::{FileStore, StateStore, StoreKey, Swap};
use nix::fcntl::{Flock, FlockArg};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::handler::HandlerProcess;
use crate::support::receiver::Answer;
use crate::support::state::Watcher;
use crate::support::within;
use crate::support::world::World;

#[tokio::test]
async fn two_processes_share_the_work_without_doing_any_twice() {
    let world = World::with_orders(json!({ "batch": { "max_rows": 3 } })).await;
    let (first, second) = (world.serve().await, world.serve().await);
    let watcher = Watcher::of(world.state("orders"));
    let mut table = world.writer().await;
    for _ in 0..20 {
        table.insert(7).await;
        let (a, b) = tokio::join!(first.tick("Orders"), second.tick("Orders"));
        assert_eq!((a.status, b.status), (200, 200), "{a:?} {b:?}");
    }
    assert_eq!(first.tick("Orders").await.status, 200);
    watcher.finish();
    assert_eq!(world.state("orders").committed(), 140);
    let fences = world.receiver.deliveries();
    let fences: Vec<_> = fences
        .iter()
        .map(|delivery| {
            (
                delivery.token(),
                delivery.body["fence"]["sequence"].as_u64(),
            )
        })
        .collect();
    assert!(fences.is_sorted(), "one works at a time: {fences:?}");
    let rows = world.receiver.acknowledged_rows();
    assert_eq!(rows.len(), 140);
    assert!(
        rows.values().all(|events| events.len() == 1),
        "a calm world has no duplicates"
    );
}

#[tokio::test]
async fn the_second_process_skips_while_the_first_delivers() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let (first, second) = (world.serve().await, world.serve().await);
    let meanwhile = async {
        world.receiver.arrived(1).await;
        let answer = second.tick("Orders").await;
        assert_eq!(answer.status, 200);
        assert!(
            answer.logs().contains(&format!("worker-{}", first.port)),
            "{answer:?}"
        );
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(first.tick("Orders"), meanwhile);
    assert_eq!(answer.status, 200);
    assert_eq!(world.receiver.count(), 1);
    assert_eq!(world.state("orders").committed(), 2);
}

#[tokio::test]
async fn a_stopped_holder_that_wakes_after_a_takeover_commits_nothing() {
    let world = World::with_orders(json!({
        "lease": { "ttl": "400ms", "heartbeat": "100ms", "margin": "100ms" }
    }))
    .await
    .rows(3)
    .await;
    world.receiver.answer(|index, _| match index {
        0 => Answer::WhenOpened,
        _ => Answer::Ok,
    });
    let (zombie, heir) = (world.serve().await, world.serve().await);
    let watcher = Watcher::of(world.state("orders"));
    let takeover = async {
        world.receiver.arrived(1).await;
        stop_outside_a_write(&world, &zombie).await;
        within("the heir takes over", async {
            while world.state("orders").committed() == 0 {
                assert_eq!(heir.tick("Orders").await.status, 200);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        let taken = world.state("orders").read().unwrap();
        world.receiver.open_gate();
        zombie.signal(Signal::SIGCONT);
        taken
    };
    let (answer, taken) = tokio::join!(zombie.tick("Orders"), takeover);
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(answer.logs().contains("lease was lost"), "{answer:?}");
    let now = world.state("orders").read().unwrap();
    assert_eq!(now.tag, taken.tag, "the zombie wrote nothing");
    assert_eq!(now.document.lease.token.get(), 2);
    assert_eq!(world.receiver.count(), 2);
    world.writer().await.insert(1).await;
    assert_eq!(
        zombie.tick("Orders").await.status,
        200,
        "it works again with a new lease"
    );
    assert_eq!(world.state("orders").committed(), 4);
    assert_eq!(world.state("orders").document().lease.token.get(), 3);
    watcher.finish();
}

/// A process that is stopped while it holds the directory's lock would stop everybody.
async fn stop_outside_a_write(world: &World, handler: &HandlerProcess) {
    let lock = world.path("state/state/app/.orders.json.lock");
    within("it is stopped outside a write", async {
        loop {
            handler.signal(Signal::SIGSTOP);
            let file = std::fs::File::open(&lock).unwrap();
            if Flock::lock(file, FlockArg::LockExclusiveNonblock).is_ok() {
                return;
            }
            handler.signal(Signal::SIGCONT);
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A rival whose clock is an hour ahead breaks the lease; the compare-and-swap still holds.
#[tokio::test]
async fn a_holder_that_believes_in_its_lease_is_fenced_off_by_the_swap() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    world.receiver.answer(|index, _| match index {
        0 => Answer::WhenOpened,
        _ => Answer::Ok,
    });
    let handler = world.serve().await;
    let rival = async {
        world.receiver.arrived(1).await;
        take_over(&world).await;
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(handler.tick("Orders"), rival);
    assert_eq!(answer.status, 500, "{answer:?}");
    assert!(answer.logs().contains("lease was lost"), "{answer:?}");
    handler.stderr.line(&["lease was lost"]).await;
    let document = world.state("orders").document();
    assert_eq!(
        document.position(),
        None,
        "the rejected commit moved nothing"
    );
    assert_eq!(document.lease.token.get(), 2);
    assert_eq!(document.lease.held.unwrap().owner_id, "rival");
}

async fn take_over(world: &World) {
    let store = FileStore::new(world.path("state"), Arc::new(SystemClock));
    let key = StoreKey::state("app", "orders").unwrap();
    let found = store.load(&key).await.unwrap().unwrap();
    let document = StateDocument::from_bytes(&found.body, "orders", &["id".to_owned()]).unwrap();
    let an_hour_ahead = SystemClock.now() + TimeDelta::hours(1);
    let claim = Action::Claim(Claim {
        owner_id: "rival".to_owned(),
        nonce: "rival".to_owned(),
        source: SourceIdentity {
            fingerprint: document.source_fingerprint.clone(),
            definition: document.source.clone().unwrap_or_default(),
        },
        sinks: document.sinks.keys().cloned().collect(),
        ttl: Duration::from_secs(60),
        evidence: AgeEvidence {
            local_now: an_hour_ahead,
            store: None,
            margin: Duration::ZERO,
        },
    });
    let Applied::Changed(next) = apply(&document, &claim, an_hour_ahead).unwrap() else {
        panic!("the rival holds it already");
    };
    let swap = store
        .replace(&key, &found.tag, next.to_bytes().into())
        .await;
    assert!(matches!(swap.unwrap(), Swap::Won(_)));
}

#[tokio::test]
async fn a_delivery_that_outlasts_the_lease_keeps_it_by_heartbeats() {
    let world = World::with_orders(json!({
        "lease": { "ttl": "400ms", "heartbeat": "100ms", "margin": "100ms" }
    }))
    .await
    .rows(1)
    .await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let (first, second) = (world.serve().await, world.serve().await);
    let meanwhile = async {
        world.receiver.arrived(1).await;
        within("the lease is renewed past its first end", async {
            loop {
                let held = world.state("orders").document().lease.held.unwrap();
                if held.heartbeat_at - held.acquired_at > TimeDelta::milliseconds(600) {
                    return;
                }
                assert_eq!(second.tick("Orders").await.status, 200);
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(first.tick("Orders"), meanwhile);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(world.receiver.count(), 1, "nobody took it");
    assert_eq!(world.state("orders").committed(), 1);
    assert_eq!(world.state("orders").document().lease.token.get(), 1);
}

/// A process that was stopped inside a write holds the directory's lock for as long as it sleeps.
#[tokio::test]
async fn a_lock_that_is_never_released_fails_the_tick_and_does_not_prevent_a_stop() {
    let world = World::with_orders(json!({
        "lease": { "ttl": "400ms", "heartbeat": "100ms", "margin": "100ms" }
    }))
    .await
    .rows(1)
    .await;
    let mut handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    world.writer().await.insert(1).await;
    let lock = std::fs::File::open(world.path("state/state/app/.orders.json.lock")).unwrap();
    let lock = Flock::lock(lock, FlockArg::LockExclusive).unwrap();
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(
        world.receiver.count(),
        1,
        "without a lease nothing is delivered"
    );
    handler.signal(Signal::SIGTERM);
    assert_ne!(handler.ended().await.code(), Some(0));
    drop(lock);
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.state("orders").committed(), 2);
}
