//! Processes: they start with a wrong clock, tick on a timer that doubles, overlaps and has gaps,
//! and die at any instant.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use dbtick::clock::{Clock, Timestamp};
use dbtick::config::{Batch as BatchLimits, LeaseTimes, Start};
use dbtick::model::definition::SourceDefinition;
use dbtick::model::policy::PoisonPolicy;
use dbtick::sink::Outlet;
use dbtick::source::Source;
use dbtick::source::sharded::Sharded;
use dbtick::tick::budget::Budget;
use dbtick::tick::{Poller, tick};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::backfill::Hand;
use super::faults::{MOST_DRIFT_PER_MILLE, MOST_SKEW, Mode};
use super::keys::{Part, marker_of};
use super::receivers;
use super::sink::SimSink;
use super::source::SimSource;
use super::store::SimStore;
use super::world::World;

pub(crate) const APP: &str = "shop";
pub(crate) const POLLER: &str = "orders";
pub(crate) const TICK: Duration = Duration::from_secs(5);
/// Between two ticks that ask a sink which fails.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(300);
pub(crate) const LEASE: LeaseTimes = LeaseTimes {
    ttl: Duration::from_secs(10),
    heartbeat: Duration::from_secs(3),
    margin: Duration::from_secs(2),
};

pub(crate) fn key_columns() -> Vec<String> {
    vec!["id".to_owned()]
}

/// One process after another, each killed at an instant of chance.
pub(crate) async fn live_and_die(world: Arc<World>, number: u64) {
    for generation in 0.. {
        world.until_the_host_is_on().await;
        let life = live(world.clone(), format!("i{number}.{generation}"));
        let crashes = world.fault(|odds| odds.process_crashes * 5);
        let time = if crashes {
            world.draw_time(Duration::from_secs(20))
        } else {
            Duration::from_secs(3600)
        };
        if timeout(time, life).await.is_err() {
            world.note(format_args!("i{number}.{generation} is killed"));
            world.invariants().summary.crashes += 1;
        }
        sleep(world.draw_time(TICK)).await;
    }
}

/// Dropping this future is `kill -9`: whatever it has sent is still on its way.
pub(crate) async fn live(world: Arc<World>, owner: String) {
    let pollers: Vec<_> = world
        .parts
        .iter()
        .map(|part| Arc::new(poller(&world, &owner, part, Hand::Poller)))
        .collect();
    let mut ticks = JoinSet::new();
    loop {
        let pause = if world.fault(|odds| odds.tick_doubled) {
            Duration::from_millis(world.draw(50))
        } else if world.fault(|odds| odds.tick_gap) {
            world.draw_time(TICK * 8)
        } else {
            TICK / 2 + world.draw_time(TICK)
        };
        sleep(pause).await;
        world.until_the_host_is_on().await;
        while ticks.try_join_next().is_some() {}
        for poller in &pollers {
            ticks.spawn(one_tick(world.clone(), poller.clone()));
        }
    }
}

async fn one_tick(world: Arc<World>, poller: Arc<Poller>) {
    let function_timeout = match world.plan.mode {
        Mode::Chaos => Duration::from_secs(60),
        Mode::Calm => Duration::from_secs(300),
    };
    let _unborn = Unborn::in_case(&world);
    let budget = Budget::starting(poller.clock.monotonic(), Some(function_timeout));
    let Ok(report) = timeout(function_timeout, tick(&poller, budget)).await else {
        let what = format!("the host would have killed the tick of {}", poller.owner);
        return world.violated("I16", what);
    };
    world.note(format_args!("{}: {}", poller.owner, report.sentence()));
    let verdict = world.invariants().check_report(&report, world.plan.mode);
    world.judge(verdict);
}

/// A tick that has found no document: what it writes may still be the first one.
struct Unborn<'a>(&'a World);

impl<'a> Unborn<'a> {
    fn in_case(world: &'a World) -> Option<Self> {
        let unborn = !world.has_begun();
        unborn.then(|| {
            world.unborn_ticks(1);
            Self(world)
        })
    }
}

impl Drop for Unborn<'_> {
    fn drop(&mut self) {
        self.0.unborn_ticks(-1);
    }
}

pub(crate) fn poller(world: &Arc<World>, owner: &str, part: &Part, hand: Hand) -> Poller {
    let sink = |index| {
        let sink = SimSink {
            world: world.clone(),
            hand,
            name: receivers::name(index).to_owned(),
            index,
        };
        Outlet {
            sink: Arc::new(sink),
            required: !world.layout.optional[index],
        }
    };
    let skew = if world.fault(|odds| odds.clock_skewed) {
        let range = TimeDelta::from_std(world.draw_time(MOST_SKEW * 2)).unwrap();
        range - TimeDelta::from_std(MOST_SKEW).unwrap()
    } else {
        TimeDelta::zero()
    };
    let drift = match world.fault(|odds| odds.clock_drifts) {
        true => {
            MOST_DRIFT_PER_MILLE
                - i32::try_from(world.draw(u64::from(2 * MOST_DRIFT_PER_MILLE.unsigned_abs())))
                    .unwrap()
        }
        false => 0,
    };
    world.note(format_args!(
        "{owner} starts {}, its clock is off by {skew}, and by {drift} ms more with each second",
        part.name
    ));
    let source: Arc<dyn Source> = Arc::new(SimSource {
        world: world.clone(),
        hand,
        process: world.draw(u64::MAX),
    });
    Poller {
        name: part.name.clone(),
        events_as: POLLER.to_owned(),
        fingerprint: "sha256:aa".to_owned(),
        definition: SourceDefinition::default(),
        owner: owner.to_owned(),
        key_columns: key_columns(),
        start: Start::Beginning,
        ordering: world.layout.ordering,
        recovery_point: Duration::from_secs(60),
        batch: BatchLimits {
            max_rows: NonZeroUsize::new(world.layout.max_rows).unwrap(),
            max_bytes: NonZeroUsize::new(1 << 16).unwrap(),
            max_wait: Duration::from_secs(5),
            max_inflight: NonZeroUsize::new(world.layout.max_inflight).unwrap(),
        },
        lease: LEASE,
        source: match part.shard {
            Some(shard) => Arc::new(Sharded::by_key(source, world.believed(shard))),
            None => source,
        },
        sinks: (0..world.layout.sinks).map(sink).collect(),
        commit: world.layout.commit,
        poison: PoisonPolicy {
            attempts: world.layout.attempts,
            ..PoisonPolicy::default()
        },
        poison_queue: None,
        ledger: world.layout.ledger,
        store: Arc::new(SimStore {
            world: world.clone(),
            hand,
        }),
        objects: Arc::new(SimStore {
            world: world.clone(),
            hand,
        }),
        state_key: part.key.clone(),
        birth_marker: marker_of(&part.key),
        beside: None,
        clock: Arc::new(SkewedClock {
            world: world.clone(),
            skew,
            drift,
            started: world.now(),
        }),
    }
}

#[derive(Debug)]
struct SkewedClock {
    world: Arc<World>,
    skew: TimeDelta,
    /// In milliseconds a second.
    drift: i32,
    started: Timestamp,
}

impl Clock for SkewedClock {
    fn now(&self) -> Timestamp {
        let now = self.world.now();
        let most = TimeDelta::from_std(MOST_SKEW).unwrap();
        let drifted = (now - self.started) * self.drift / 1000;
        now + (self.skew + drifted).clamp(-most, most)
    }

    fn random(&self) -> u128 {
        u128::from(self.world.draw(u64::MAX)) << 64 | u128::from(self.world.draw(u64::MAX))
    }
}
