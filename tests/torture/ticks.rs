//! Who ticks: what the host does at its worst. Ticks overlap, come twice, to one process or to both, and sometimes
//! for seconds not at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::World;
use super::faults::between;
use super::support::dice::Dice;
use super::support::http::{chunked, timer_body, try_exchange};
use super::tables::Poller;

/// The host gives up on a tick at its time limit; a process that sleeps would keep us longer.
const LONGEST_TICK: Duration = Duration::from_secs(20);
const MOST_AT_ONCE: usize = 4;

/// Of one poller.
pub(crate) async fn keep_ticking(
    world: Arc<World>,
    poller: Arc<Poller>,
    ports: [u16; 2],
    mut dice: Dice,
    ended: Arc<AtomicBool>,
) {
    let mut running = JoinSet::new();
    while !ended.load(Ordering::Relaxed) {
        while running.try_join_next().is_some() {}
        let one = ports[dice.below(2) as usize];
        let targets = match dice.below(10) {
            0..6 => vec![one],
            6..8 => ports.to_vec(),
            _ => vec![one, one],
        };
        for port in targets {
            let most = if world.is_healed() { 1 } else { MOST_AT_ONCE };
            if running.len() < most {
                running.spawn(tick(Arc::clone(&world), poller.name.clone(), port));
            }
        }
        let pause = match world.is_healed() {
            true => between(&mut dice, 100..300),
            false => match dice.below(30) {
                0 => between(&mut dice, 1_000..4_000),
                _ => between(&mut dice, 40..450),
            },
        };
        sleep(pause).await;
    }
}

async fn tick(world: Arc<World>, poller: String, port: u16) {
    let body = timer_body(&Value::Null).to_string();
    let id = "00000000-0000-0000-0000-000000000000";
    let request = chunked(&poller, id, &body);
    let answer = timeout(LONGEST_TICK, try_exchange(port, request)).await;
    let status = answer.ok().flatten().map(|answer| answer.status);
    world.count(|counts| {
        counts.ticks += 1;
        match status {
            Some(200) => counts.good_ticks += 1,
            Some(_) => counts.failed_ticks += 1,
            None => counts.unanswered_ticks += 1,
        }
    });
}
