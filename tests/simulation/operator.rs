//! A person who moves the poller back, and sometimes forth again, whatever else goes on.

use std::sync::Arc;
use std::time::Duration;

use dbtick::model::state::Status;
use dbtick::model::transitions::{Operator, Order};
use dbtick::tick::operate::{Found, Otherwise};
use tokio::time::sleep;

use super::backfill::Hand;
use super::instance::poller;
use super::world::World;

/// In half of the worlds, several times.
pub(crate) async fn keep_moving(world: Arc<World>) {
    if world.draw(2) == 0 {
        return;
    }
    for number in 0.. {
        sleep(world.draw_time(Duration::from_secs(25))).await;
        if world.rests() {
            continue;
        }
        give_one_order(&world, number).await;
    }
}

/// A receiver that was gone has come back, or will: whoever is told of the pause ends it.
pub(crate) async fn keep_resuming(world: Arc<World>) {
    for number in 0.. {
        sleep(world.draw_time(Duration::from_secs(10))).await;
        let states = world.states();
        let paused = states
            .iter()
            .position(|it| it.as_ref().is_some_and(|it| it.status == Status::Paused));
        let Some(part) = paused.map(|at| &world.parts[at]) else {
            continue;
        };
        let owner = format!("attendant-{number}");
        let poller = poller(&world, &owner, part, Hand::Poller);
        let by = Operator {
            who: "an attendant".to_owned(),
            why: "it is back".to_owned(),
            id: format!("resume {number} at {:?}", world.elapsed()),
        };
        let result = poller
            .operate(&by, Otherwise::Refuse, |_| Order::Resume)
            .await;
        world.note(format_args!("resume: {:?}", result.is_ok()));
    }
}

async fn give_one_order(world: &Arc<World>, number: u64) {
    let at = match world.parts.len() {
        1 => 0,
        parts => usize::try_from(world.draw(parts as u64)).unwrap(),
    };
    let owner = format!("operator-{number}");
    let poller = poller(world, &owner, &world.parts[at], Hand::Poller);
    let Ok(Found::Document(document)) = poller.found().await else {
        return;
    };
    let by = Operator {
        who: "an operator".to_owned(),
        why: "chaos".to_owned(),
        id: format!("order {number}"),
    };
    let choices = document.history.len() as u64 + 1;
    let kept = usize::try_from(world.draw(choices)).unwrap();
    let version = document.history.get(kept).map(|entry| entry.version);
    let order = |evidence| match version {
        Some(version) => Order::Rollback {
            version,
            source: poller.identity(),
            evidence,
        },
        None => Order::Reset {
            to: None,
            source: poller.identity(),
            evidence,
        },
    };
    let result = poller.operate(&by, Otherwise::Refuse, order).await;
    let said = match &result {
        Ok(operated) => format!("done, undo {:?}", operated.undo()),
        Err(error) => error.to_string(),
    };
    world.note(format_args!("order {number} to {version:?}: {said}"));
}
