//! Ticks that are killed at any await while somebody is waited for, and owners that take over.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::support::dice::Dice;
use crate::world::{Session, World, mariadb, postgres};

const ROUNDS: u64 = 60;
const MAX_ROWS: usize = 60;

/// A tick that is dropped when it has been polled so often. Whether it was.
async fn killed_after(world: &World, owner: &str, mut polls: u64) -> bool {
    let mut tick = pin!(world.try_tick(owner));
    poll_fn(|context| {
        if polls == 0 {
            return Poll::Ready(true);
        }
        polls -= 1;
        tick.as_mut().poll(context).map(|report| {
            assert!(!report.is_failure(), "{}", report.sentence());
            false
        })
    })
    .await
}

async fn survives(mut world: World, mut sessions: (Session, Session)) {
    world.max_rows = MAX_ROWS;
    let mut dice = Dice::thrown();
    let (idle, session) = (&mut sessions.0, &mut sessions.1);
    let mut kills = 0;
    let mut is_open = false;
    let mut spilled = false;
    for round in 0..ROUNDS {
        let end = match dice.below(12) {
            0 => Some("COMMIT"),
            1 => Some("ROLLBACK"),
            _ => None,
        };
        match (is_open, end) {
            (false, _) => idle.begin("idle").await,
            (true, Some(end)) => idle.run(end).await,
            (true, None) => {}
        }
        is_open = !is_open || end.is_none();
        session
            .insert_many(1 + usize::try_from(dice.below(90)).unwrap())
            .await;
        let owner = format!("app/{round}");
        if killed_after(&world, &owner, dice.below(60)).await {
            kills += 1;
            world.clock.outlast_leases();
        }
        spilled |= !world.spilled().await.is_empty();
    }
    if is_open {
        idle.run("COMMIT").await;
    }
    session.insert("last").await;
    world.settle().await;
    let rows = session.rows().await;
    world.sink.has_all(&rows);
    let duplicates = world.sink.duplicates();
    println!(
        "{kills} kills, {duplicates} duplicates of {} rows, spilled: {spilled}",
        rows.len()
    );
    assert!(
        duplicates <= kills * MAX_ROWS,
        "{duplicates} after {kills} kills"
    );
    let (last, _) = rows.last().unwrap();
    world.is_at_rest(*last).await;
    assert!(kills > 0);
}

#[tokio::test]
async fn a_kill_at_any_await_loses_nothing_while_a_transaction_is_waited_for() {
    let server = postgres().await;
    let sessions = (
        Session::of_postgres(&server).await,
        Session::of_postgres(&server).await,
    );
    survives(World::of_postgres(&server), sessions).await;
}

#[tokio::test]
async fn a_kill_at_any_await_loses_nothing_while_a_row_of_mariadb_is_waited_for() {
    let server = mariadb().await;
    let sessions = (
        Session::of_mariadb(&server).await,
        Session::of_mariadb(&server).await,
    );
    survives(World::of_mariadb(&server), sessions).await;
}
