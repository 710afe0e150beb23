//! The figures that ride in the document (G5): what they count, and that they cost no write.

use std::sync::Arc;
use std::time::Duration;

use dbtick::model::counters::{Counters, Timing};
use dbtick::sink::FailureKind;
use dbtick::tick::report::Outcome;
use tokio::time::sleep;

use crate::SECOND;
use crate::world::Wrote::{Claim, Commit, LastCommit, Marker, Nothing};
use crate::world::{Fault, Receiver, Reply, Temper, World, done, failed};

fn counters(world: &World) -> Counters {
    world.document().counters
}

fn timing(count: u64, took: Duration) -> Timing {
    let us = u64::try_from(took.as_micros()).unwrap();
    Timing { count, us }
}

#[tokio::test(start_paused = true)]
async fn times_are_those_of_the_batches_that_were_committed_and_cost_no_write() {
    let world = World::with_rows(3);
    // There, and back.
    world.store.take(SECOND / 20);
    world.hook().will([
        Reply::AcknowledgeAfter(SECOND),
        Reply::AcknowledgeAfter(SECOND * 2),
    ]);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let writes = [Claim, Marker, Commit, LastCommit];
    assert_eq!(world.store.take_writes(), writes);
    let counted = counters(&world);
    assert_eq!((counted.batches, counted.rows), (2, 3));
    assert_eq!(counted.deliver, timing(2, SECOND * 3));
    assert_eq!(counted.read.count, 2);
    // The claim and the first commit: how long the last write takes is known after it.
    assert_eq!(counted.commit, timing(2, SECOND / 5));
    let bodies = world.hook().attempts();
    assert!(counted.bytes > 0 && bodies.len() == 2);
    assert_eq!(done(world.tick().await), Outcome::Idle);
    assert_eq!(world.store.take_writes(), []);
    assert_eq!(counters(&world), counted);
}

#[tokio::test(start_paused = true)]
async fn a_tick_of_one_batch_tells_how_long_its_claim_took() {
    let world = World::with_rows(1);
    // There, and back.
    world.store.take(SECOND / 20);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(counters(&world).commit, timing(1, SECOND / 10));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_did_not_succeed_is_counted_with_the_next_that_does() {
    // The marker is nobody's commit, and what becomes of the last write is told in none.
    let counted = [(1, 1), (2, 0), (3, 1), (4, 0)];
    for (n, failed) in counted {
        let world = World::with_rows(3);
        world.store.on_write(n, Fault::AnswerLost);
        assert_eq!(done(world.tick().await), Outcome::Drained, "write {n}");
        assert_eq!(counters(&world).failed_commits, failed, "write {n}");
    }
    for fault in [Fault::Unreachable, Fault::RequestLost] {
        let world = World::with_rows(3);
        world.store.on_write(4, fault);
        assert_eq!(done(world.tick().await), Outcome::Drained);
        // It was sent again, and that one says so.
        assert_eq!(counters(&world).failed_commits, 1);
        let mut writes = world.store.take_writes();
        writes.retain(|wrote| *wrote != Nothing);
        assert_eq!(writes, [Claim, Marker, Commit, LastCommit]);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_sent_again_are_counted_for_each_sink_that_gets_them_again() {
    let mut world = World::with_rows(2);
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.sinks[1].is(Temper::Always(FailureKind::Passing));
    failed(world.tick().await);
    assert_eq!(counters(&world).resent, 0, "nobody had them before");
    // Now who fails is asked first, and the other is left alone.
    failed(world.tick().await);
    assert_eq!(counters(&world).resent, 2);
    world.sinks[1].is(Temper::Kind);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(counters(&world).resent, 6, "two to each of the two");
    world.insert([3, 4]);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(counters(&world).resent, 6, "these are new");
    assert_eq!(world.hook().rows(), [1, 2, 1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn only_rows_that_were_sent_count_as_sent_again() {
    let mut world = World::with_rows(1);
    world.max_rows = 10;
    world.hook().will([Reply::Refuse]);
    failed(world.tick().await);
    world.insert(2..=5);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().rows().len(), 6);
    assert_eq!(counters(&world).resent, 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_catches_up_gets_again_what_it_refused_before() {
    let mut world = World::with_rows(2);
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.optional.insert("audit".to_owned());
    world.sinks[1].is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(counters(&world).resent, 0);
    world.sinks[1].is(Temper::Kind);
    world.insert([3]);
    sleep(Duration::from_secs(301)).await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(counters(&world).resent, 2);
}
