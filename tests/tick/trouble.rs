//! G4, F1: ticks that fail before a delivery are written down where others can see it, and cost nothing
//! more than that.

use dbtick::tick::report::Outcome;

use super::world::{Fault, Read, World, done, failed};
use super::{MINUTE, SECOND};

#[tokio::test(start_paused = true)]
async fn a_source_that_fails_is_written_down_once_and_taken_back_by_the_tick_that_finds_it_in_order()
 {
    let world = World::with_rows(2);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let began = dbtick::clock::Clock::now(&*world.clock);
    let committed = world.document();
    world.source.will([Read::Broken]);
    let report = world.tick().await;
    assert_eq!(report.tally.writes, 1);
    assert_eq!(failed(report).name(), "source_failed");
    let trouble = world.document().trouble.expect("it is written down");
    assert_eq!(trouble.outcome, "source_failed");
    assert!(
        trouble.error.contains("no such column"),
        "{}",
        trouble.error
    );
    assert_eq!(trouble.since, began);
    // The same again costs no write, until it is time to say that it lasts.
    for (pause, writes) in [(SECOND, 0), (MINUTE, 0), (5 * MINUTE, 1)] {
        tokio::time::sleep(pause).await;
        world.source.will([Read::Broken]);
        let report = world.tick().await;
        assert_eq!(report.tally.writes, writes);
        failed(report);
    }
    let trouble = world.document().trouble.expect("it lasts");
    assert_eq!(trouble.since, began);
    assert!(trouble.last_at > began);
    // In order, and nothing new: one write, then none.
    for writes in [1, 0] {
        let report = world.tick().await;
        assert_eq!(report.tally.writes, writes);
        assert_eq!(done(report), Outcome::Idle);
    }
    let document = world.document();
    assert_eq!(document.trouble, None);
    assert_eq!(document.position(), committed.position());
    assert_eq!(
        document.lease, committed.lease,
        "nobody was fenced off by it"
    );
}

#[tokio::test(start_paused = true)]
async fn a_tick_with_work_takes_trouble_back_without_a_write_of_its_own() {
    let world = World::with_rows(2);
    world.tick().await;
    world.source.will([Read::Broken]);
    failed(world.tick().await);
    world.insert([3]);
    let report = world.tick().await;
    assert_eq!(report.tally.writes, 2, "claim and commit");
    assert_eq!(done(report), Outcome::Drained);
    assert_eq!(world.document().trouble, None);
}

#[tokio::test(start_paused = true)]
async fn trouble_that_cannot_be_written_down_changes_nothing_else() {
    for fault in [
        Fault::Unreachable,
        Fault::RequestLost,
        Fault::AnswerLost,
        Fault::Delayed,
    ] {
        let world = World::with_rows(2);
        world.tick().await;
        world.insert([3]);
        world.source.will([Read::Broken]);
        world.store.on_write(1, fault);
        assert_eq!(failed(world.tick().await).name(), "source_failed");
        assert_eq!(done(world.tick().await), Outcome::Drained);
        world.store.land().await;
        assert_eq!(world.checkpoint(), 3);
        assert_eq!(
            world.document().trouble,
            None,
            "what lands late has lost its race"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_changed_source_is_written_down_although_nothing_is_claimed() {
    let mut world = World::with_rows(2);
    world.tick().await;
    world.fingerprint = "sha256:bb";
    assert_eq!(failed(world.tick().await).name(), "fingerprint_changed");
    let trouble = world.document().trouble.expect("it is written down");
    assert_eq!(trouble.outcome, "fingerprint_changed");
}
