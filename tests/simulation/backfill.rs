//! Persons who have rows sent once more beside the poller, and give the same command again until that is
//! complete, or given up.

use std::sync::Arc;
use std::time::Duration;

use dbtick::backfill::{Backfill, Bounds, Ended, Plan, PlanError, Status, Stuck, Wishes};
use dbtick::model::position::Scalar;
use dbtick::model::transitions::Operator;
use dbtick::tick::Poller;
use dbtick::tick::operate::{Found, OperateError};
use dbtick::tick::report::TickError;
use tokio::time::{sleep, timeout};

use super::instance::poller;
use super::keys::BACKFILL;
use super::layout::Filling;
use super::table::Place;
use super::world::World;

/// Who reads, sends and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    Poller,
    /// Plans a backfill and reconciles it.
    Person,
    /// One range of it.
    Range,
}

/// One process after another, each killed at an instant of chance, with the same command.
pub(crate) async fn keep_filling(world: Arc<World>, filling: Filling, number: u64) {
    for generation in 0.. {
        sleep(world.draw_time(Duration::from_secs(15))).await;
        if world.rests() {
            continue;
        }
        let owner = format!("filler-{number}.{generation}");
        let crashes = world.fault(|odds| odds.process_crashes * 5);
        let time = match crashes {
            true => world.draw_time(Duration::from_secs(20)),
            false => Duration::from_secs(3600),
        };
        match timeout(time, fill(&world, filling, &owner)).await {
            Ok(Ok(said)) => {
                world.note(format_args!("{owner}: {said:?}"));
                if said == Said::Over || said == Said::Nothing && world.is_over() {
                    return world.note_that_it_is_filled();
                }
            }
            Ok(Err(stuck)) => {
                world.note(format_args!("{owner}: stuck: {stuck}"));
                let verdict = world.invariants().check_stuck(&stuck);
                world.judge(verdict);
            }
            Err(_) => {
                world.note(format_args!("{owner} is killed"));
                world.invariants().summary.crashes += 1;
            }
        }
    }
}

/// Somebody does not want it any more, whoever is at work on it.
pub(crate) async fn give_up(world: Arc<World>) {
    sleep(world.draw_time(Duration::from_secs(60))).await;
    let live = poller(&world, "whoever-gives-up", &world.parts[0], Hand::Person);
    let given_up = Plan::abandon(&live, BACKFILL, &by("gives up", &live)).await;
    let status = given_up.map(|(plan, _)| plan.status);
    world.note(format_args!("the backfill is given up: {status:?}"));
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    /// Complete, or given up.
    Over,
    /// There is nothing that could be sent again.
    Nothing,
    GoOn,
}

fn by(why: &str, poller: &Poller) -> Operator {
    Operator {
        who: "a person".to_owned(),
        why: why.to_owned(),
        id: format!("{:x}", poller.clock.random()),
    }
}

async fn fill(world: &Arc<World>, filling: Filling, owner: &str) -> Result<Said, Stuck> {
    let live = poller(world, owner, &world.parts[0], Hand::Person);
    let plan = match Plan::load(&live, BACKFILL).await? {
        Some(plan) => plan,
        None => match begin(world, filling, &live).await? {
            Some(plan) => plan,
            None => return Ok(Said::Nothing),
        },
    };
    if plan.status != Status::Running {
        return Ok(Said::Over);
    }
    let range = |_| {
        let mut range = poller(world, owner, &world.parts[0], Hand::Range);
        range.clock = Arc::clone(&live.clock);
        range
    };
    let ranges = plan.ranges.iter().map(range).collect();
    let wishes = Wishes {
        rate: (world.draw(4) == 0).then_some(2.0),
        batch_rows: world.layout.max_rows.try_into().ok(),
        give_up_after: Duration::from_secs(60 + world.draw(600)),
    };
    let by = by("a new receiver", &live);
    let backfill = Backfill::new(live, ranges, plan, wishes)?;
    let switch = backfill.stop_switch();
    let run = backfill.run(&by);
    if world.fault(|odds| odds.process_crashes) {
        // It is asked to end, and not killed.
        let patience = world.draw_time(Duration::from_secs(30));
        tokio::pin!(run);
        tokio::select! {
            biased;
            ended = &mut run => return Ok(said(&ended?)),
            () = sleep(patience) => switch.raise(),
        }
        return Ok(said(&run.await?));
    }
    Ok(said(&run.await?))
}

fn said(ended: &Ended) -> Said {
    match ended {
        Ended::Complete(_) => Said::Over,
        Ended::Stopped(_) | Ended::Incomplete(_) => Said::GoOn,
    }
}

/// `None`: there is nothing yet that could be sent again.
async fn begin(world: &World, filling: Filling, live: &Poller) -> Result<Option<Plan>, Stuck> {
    let Found::Document(document) = live.found().await? else {
        return Ok(None);
    };
    let Some(checkpoint) = document.position() else {
        return Ok(None);
    };
    let reached = Place::from(checkpoint).cursor;
    let edge = |world: &World| {
        let drawn = i64::try_from(world.draw(reached.unsigned_abs() + 1)).unwrap();
        (world.draw(3) == 0).then_some(Scalar::Integer(drawn.into()))
    };
    let (from, to) = (edge(world), edge(world));
    let bounds = Bounds::find(live, from.as_ref(), to.as_ref(), checkpoint).await;
    let Some(bounds) = bounds.map_err(TickError::from)? else {
        return Ok(None);
    };
    let ranges = bounds.cut(live, filling.ranges).await;
    let ranges = ranges.map_err(TickError::from)?;
    let plan = Plan::new(live, BACKFILL, (None, None), ranges, &by("begins", live));
    Ok(Some(plan.create(live).await?))
}

/// What may stop a backfill in a world in which everything fails now and then.
pub(crate) fn may_stop(stuck: &Stuck, spoiled: bool) -> bool {
    let passes = |error: &TickError| match error {
        TickError::Source(_)
        | TickError::Store(_)
        | TickError::Delivery { .. }
        | TickError::LeaseLost { .. }
        | TickError::Contended { .. } => true,
        TickError::DocumentGone { .. } | TickError::Document { .. } => spoiled,
        _ => false,
    };
    match stuck {
        Stuck::Tick(error) | Stuck::Operate(OperateError::Tick(error)) => passes(error),
        Stuck::Operate(OperateError::Held { .. })
        | Stuck::Plan(PlanError::Store(_) | PlanError::Contended)
        | Stuck::GaveUp { .. }
        | Stuck::Abandoned => true,
        Stuck::NoPoller(_) => spoiled,
        Stuck::Operate(_) | Stuck::Plan(_) | Stuck::LedgerGone { .. } | Stuck::Broken(_) => false,
    }
}
