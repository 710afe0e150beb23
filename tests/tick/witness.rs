//! A row is to blame only where the receiver takes another one: where that other one comes from (D8, I13).

use std::time::Duration;

use dbtick::sink::FailureKind;
use dbtick::tick::report::Outcome;
use tokio::time::sleep;

use crate::late::sight;
use crate::poison::{aside, later, rows, rows_aside, ticks_until_done, world};
use crate::world::{Fault, Reply, Temper, World, done, failed};

#[tokio::test(start_paused = true)]
async fn a_row_that_was_set_aside_before_a_crash_needs_no_neighbour_after_it() {
    for (temper, failures) in [
        (Temper::At(FailureKind::Rejected, rows([2])), 4),
        (Temper::Names(rows([2]), true), 0),
    ] {
        let mut world = world(2, 2);
        world.hook().is(temper.clone());
        for _ in 0..failures {
            failed(world.tick().await);
            later().await;
        }
        world.store.take_writes();
        for write in 3..30 {
            world.store.on_write(write, Fault::Silence);
        }
        failed(world.tick().await);
        assert_eq!(rows_aside(&world).await, [2], "{temper:?}");
        assert!(world.checkpoint() < 2, "{temper:?}");
        world.store.heal();
        later().await;
        world.max_rows = 1;
        ticks_until_done(&world, 12).await;
        assert_eq!(world.checkpoint(), 2, "{temper:?}");
        assert_eq!(rows_aside(&world).await, [2]);
        assert_eq!(world.document().counters.quarantined, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn bad_rows_that_fill_a_batch_are_shown_to_be_bad_by_the_row_behind_it() {
    for temper in [
        Temper::At(FailureKind::Rejected, rows([1, 2])),
        Temper::At(FailureKind::Broken, rows([1, 2])),
        Temper::Names(rows([1, 2]), true),
    ] {
        let world = world(5, 2);
        world.hook().is(temper.clone());
        ticks_until_done(&world, 9).await;
        assert_eq!(rows_aside(&world).await, [1, 2], "{temper:?}");
        assert_eq!(rows(world.hook().stored()), rows(3..=5));
        assert_eq!(world.checkpoint(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_row_whose_neighbours_were_all_delivered_before_it_does_not_block_for_ever() {
    let world = world(4, 4);
    world.hook().is(Temper::At(FailureKind::Broken, rows([1])));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    // Whole, first half, row 1; the others are taken; when row 1 is asked once more, nobody is there.
    let no = || Reply::Fail(FailureKind::Broken);
    let yes = || Reply::Acknowledge;
    world
        .hook()
        .will([no(), no(), no(), yes(), yes(), Reply::Refuse]);
    failed(world.tick().await);
    assert_eq!(world.document().delivered.len(), 3);
    sleep(Duration::from_secs(301)).await;
    ticks_until_done(&world, 6).await;
    assert_eq!(rows_aside(&world).await, [1]);
    assert_eq!(world.checkpoint(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_bad_row_that_commits_late_among_delivered_ones_does_not_block_for_ever() {
    for temper in [
        Temper::At(FailureKind::Rejected, rows([1])),
        Temper::Names(rows([1]), false),
        Temper::Names(rows([1]), true),
    ] {
        let mut world = World::new();
        world.max_rows = 4;
        world.insert([2, 3, 4, 5]);
        world.sees(sight(6, &["3/17"]));
        assert_eq!(done(world.tick().await), Outcome::Drained);
        world.insert([1]);
        world.sees(sight(6, &[]));
        world.hook().is(temper.clone());
        ticks_until_done(&world, 6).await;
        assert_eq!(rows_aside(&world).await, [1], "{temper:?}");
        assert_eq!(world.checkpoint(), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_row_that_is_alone_waits_for_a_neighbour_that_shows_whose_fault_it_is() {
    let world = world(1, 10);
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows([1])));
    for _ in 0..10 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    assert_eq!(aside(&world).await, []);
    world.insert([2]);
    ticks_until_done(&world, 1).await;
    assert_eq!(rows_aside(&world).await, [1]);
    assert_eq!(world.hook().stored(), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_left_over_is_not_alone_for_ever() {
    // The search was cut short when all good rows of the page were through: what is left of it is one
    // bad row, and the good ones that show whose fault it is are beyond the page.
    let world = world(4, 4);
    world.hook().is(Temper::At(FailureKind::Broken, rows([2])));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    let [no, yes] = [Reply::Fail(FailureKind::Broken), Reply::Acknowledge];
    // All, 1 and 2, 1, 2, 3 and 4; then nobody is there when 2 is sent once more.
    world
        .hook()
        .will([no.clone(), no.clone(), yes.clone(), no, yes, Reply::Refuse]);
    failed(world.tick().await);
    assert_eq!(aside(&world).await, []);
    world.insert(5..=20);
    sleep(Duration::from_secs(301)).await;
    ticks_until_done(&world, 2).await;
    assert_eq!(rows_aside(&world).await, [2]);
    assert_eq!(world.checkpoint(), 20);
    assert_eq!(
        rows(world.hook().stored()),
        rows(5..=20),
        "what it took by the script is not sent again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_bad_row_in_a_batch_of_one_is_set_aside_once_another_row_shows_whose_fault_it_is() {
    for kind in [
        FailureKind::Rejected,
        FailureKind::Broken,
        FailureKind::TooLarge,
    ] {
        let world = world(5, 1);
        world.hook().is(Temper::At(kind, rows([2])));
        ticks_until_done(&world, 9).await;
        assert_eq!(rows_aside(&world).await, [2], "{kind:?}");
        assert_eq!(rows(world.hook().stored()), rows([1, 3, 4, 5]), "{kind:?}");
        assert_eq!(world.checkpoint(), 5);
        let most = world
            .hook()
            .attempts()
            .iter()
            .map(|attempt| attempt.rows.len())
            .max();
        assert_eq!(most, Some(1), "no batch is larger than it may be");
    }
}
