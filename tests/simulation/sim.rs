//! The simulator: the production tick in a world that is harsher than production.
//!
//! Real code, fake world. Everything that happens is drawn from one seed, time is virtual, and every
//! I/O takes a drawn time: that is the exploration. A run goes through chaos, healing and
//! quiescence; what must hold is in `invariants`, what can go wrong is in `faults`.

pub(crate) mod backfill;
pub(crate) mod faults;
pub(crate) mod instance;
pub(crate) mod invariants;
pub(crate) mod keys;
pub(crate) mod layout;
pub(crate) mod manners;
pub(crate) mod operator;
pub(crate) mod panics;
pub(crate) mod receivers;
pub(crate) mod rng;
pub(crate) mod sink;
pub(crate) mod size;
pub(crate) mod source;
pub(crate) mod spoiler;
pub(crate) mod store;
pub(crate) mod table;
pub(crate) mod trace;
pub(crate) mod world;
pub(crate) mod writers;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use faults::{Bug, Mode};
use instance::{LEASE, TICK};
use invariants::{Summary, Violation};
use size::Size;
use trace::TraceMode;
use world::World;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) bug: Option<Bug>,
    pub(crate) trace: TraceMode,
    pub(crate) size: Size,
}

/// What one seed led to.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) violation: Option<Violation>,
    pub(crate) summary: Summary,
    pub(crate) trace_hash: u64,
}

pub(crate) fn run(seed: u64, plan: Plan) -> Run {
    let panics = panics::counted();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let world = Arc::new(World::new(seed, plan));
        let living = chaos(&world).await;
        world.heal();
        quiesce(&world, living).await;
        world.check_the_end();
        if panics.more() {
            world.violated(
                "panic",
                "something has panicked; its message is above".to_owned(),
            );
        }
        world.finish()
    })
}

/// Returns the processes that go on: fresh ones, except in a calm world, where nobody is killed.
async fn chaos(world: &Arc<World>) -> JoinSet<()> {
    let mut writer = JoinSet::new();
    writer.spawn(writers::keep_writing(world.clone()));
    let mut instances = JoinSet::new();
    for number in 0..world.instances() {
        instances.spawn(instance::live_and_die(world.clone(), number));
    }
    // A planted bug is looked for where nothing else moves the checkpoint back.
    if world.plan.mode == Mode::Chaos && world.plan.bug.is_none() {
        instances.spawn(operator::keep_moving(world.clone()));
    }
    attend(world, &mut instances);
    if let Some(filling) = world.layout.filling {
        for number in 0..filling.processes {
            instances.spawn(backfill::keep_filling(world.clone(), filling, number));
        }
        if filling.given_up {
            instances.spawn(backfill::give_up(world.clone()));
        }
    }
    let mut spoiler = JoinSet::new();
    spoiler.spawn(spoiler::keep_spoiling(world.clone()));
    pass_the_time(world).await;
    writer.shutdown().await;
    spoiler.shutdown().await;
    if world.plan.mode == Mode::Chaos {
        world.note(format_args!("heal: every process is gone"));
        instances.shutdown().await;
        for number in 0..2 {
            instances.spawn(instance::live(world.clone(), format!("healed-{number}")));
        }
        attend(world, &mut instances);
        if let Some(filling) = world.layout.filling {
            instances.spawn(backfill::keep_filling(world.clone(), filling, 9));
        }
    }
    instances
}

async fn pass_the_time(world: &World) {
    let time = world.time_of_chaos();
    if !world.fault(|odds| odds.host_off) {
        return sleep(time).await;
    }
    let before = world.draw_time(time);
    sleep(before).await;
    world.turn_the_host_off(faults::HOST_OFF);
    world.until_the_host_is_on().await;
    world.note(format_args!("the host is on again"));
    sleep(time - before.min(time)).await;
}

/// Somebody looks after pollers that have paused by themselves.
fn attend(world: &Arc<World>, living: &mut JoinSet<()>) {
    if world.somebody_leaves() {
        living.spawn(operator::keep_resuming(world.clone()));
    }
}

/// No new faults: the backlog must go, within bounds (I6). What stands in the way is left alone for as
/// long as the document says, and a bad row is looked for after so many failed ticks.
async fn quiesce(world: &Arc<World>, mut living: JoinSet<()>) {
    while world.in_flight() > 0 {
        sleep(TICK).await;
    }
    let bad = u32::try_from(world.receivers().bad_rows()).unwrap();
    if bad > 0 {
        living.spawn(writers::keep_good_rows_coming(world.clone()));
    }
    let search = instance::LONGEST_PAUSE * world.layout.attempts;
    let patience = LEASE.ttl + LEASE.margin + faults::MOST_SKEW * 2 + faults::MOST_NOT_BEFORE;
    let patience = patience + world.longest_wait() + search * bad.min(1);
    let from = world.checkpoints();
    let moves = || {
        let now = world.checkpoints();
        let mut moves = now.iter().zip(&from);
        moves.any(|(now, from)| now > from) || world.is_drained()
    };
    if !within(patience + 2 * TICK, moves).await {
        world.violated(
            "I6",
            "the checkpoint does not move after healing".to_owned(),
        );
    }
    let patience = 12 * TICK + world.longest_wait() + search * bad;
    if !within(patience, || world.is_drained()).await {
        world.violated("I6", "the tail is not reached in bounded ticks".to_owned());
    }
    // Each range may have to look for each of them, and to wait for a lease.
    if !within(3 * patience, || world.is_filled()).await {
        world.violated("I6", "the backfill comes to no end".to_owned());
    }
    living.shutdown().await;
}

async fn within(time: Duration, reached: impl Fn() -> bool) -> bool {
    let waits = time.as_secs();
    for _ in 0..waits {
        if reached() {
            return true;
        }
        sleep(Duration::from_secs(1)).await;
    }
    reached()
}
