//! Instances whose clocks are minutes apart.

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::config::{App, Settings};
use dbtick::model::lease::StoreClock;
use dbtick::store::{BlobStore, StateStore, StoreKey};
use dbtick::tick::budget::Budget;
use dbtick::tick::report::Outcome;
use dbtick::tick::{Poller, tick};
use dbtick::wiring::Parts;
use serde_json::json;

use super::support::azurite::Azurite;
use super::support::receiver::Answer;
use super::support::world::World;

const TTL: Duration = Duration::from_secs(5);
const MARGIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Skewed(TimeDelta);

impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        SystemClock.now() + self.0
    }

    fn random(&self) -> u128 {
        SystemClock.random()
    }
}

/// The poller of this world as a process with such a clock would run it.
fn poller(world: &World, skew_minutes: i64) -> Poller {
    let settings: Settings = world.environment.iter().collect();
    let app = App::load(&world.app(), &settings);
    let clock = Arc::new(Skewed(TimeDelta::minutes(skew_minutes)));
    let parts = Parts::new(clock).unwrap();
    let config = app.pollers().next().unwrap();
    parts.poller(&app, config).unwrap()
}

async fn store_clock(store: &BlobStore) -> StoreClock {
    let key = StoreKey::state("app", "orders").unwrap();
    let loaded = store.load(&key).await.unwrap().unwrap();
    loaded.clock.unwrap()
}

fn budget() -> Budget {
    Budget::starting(SystemClock.monotonic(), Some(Duration::from_secs(60)))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_owner_is_followed_after_ttl_and_margin_by_the_stores_clock() {
    let azurite = Azurite::blob();
    let connection = azurite.connection_string();
    let world = World::with_orders(json!({
        "state": { "connection": "STORAGE" },
        "lease": { "ttl": "5s", "heartbeat": "1s", "margin": "2s" }
    }))
    .await
    .setting("STORAGE", &connection)
    .rows(3)
    .await;
    let store = azurite.store("db-state");
    let wait = TimeDelta::from_std(TTL + MARGIN).unwrap();
    for (owner, follower) in [(10, -10), (-10, 10)] {
        world.receiver.answer(|_, _| Answer::Never);
        let before = world.receiver.count();
        let first = poller(&world, owner);
        // Dies in the middle of a delivery: no more heartbeats, no release.
        tokio::select! {
            biased;
            _ = tick(&first, budget()) => panic!("the receiver never answers"),
            _ = world.receiver.arrived(before + 1) => {}
        }
        world.receiver.answer(|_, _| Answer::Ok);
        let second = poller(&world, follower);
        let last_sign_of_life = store_clock(&store).await.last_write;
        // By the store's clock, because this machine may stall at any place in here.
        loop {
            let before = store_clock(&store).await.now - last_sign_of_life;
            let report = tick(&second, budget()).await;
            let after = store_clock(&store).await.now - last_sign_of_life;
            let skew = report.clock_skew.map_or(0, |skew| skew.seconds());
            assert!((skew - follower * 60).abs() <= 2, "{skew} s");
            match report.result.unwrap() {
                Outcome::HeldElsewhere { .. } => {
                    assert!(before < wait, "not taken after {before}");
                    tokio::time::sleep(TTL / 50).await;
                }
                Outcome::Drained => {
                    assert!(after >= wait, "taken after {after} already");
                    break;
                }
                other => panic!("{other:?}"),
            }
        }
        world.writer().await.insert(3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_warns_of_a_clock_that_is_off_the_stores() {
    let azurite = Azurite::blob();
    let connection = azurite.connection_string();
    let world = super::world(&[("AzureWebJobsStorage", &connection)]).await;
    let right = poller(&world, 0);
    assert_eq!(tick(&right, budget()).await.clock_skew, None);
    assert_eq!(right.standing().await.unwrap().clock_skew, None);
    let found = poller(&world, -7).standing().await.unwrap();
    let sentence = found.clock_skew.unwrap().sentence();
    assert!(
        sentence.contains("s behind the state store's"),
        "{sentence}"
    );
}
