//! Rows that commit late (B5): they are delivered, once, and the checkpoint passes nobody.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::DateTime;
use dbtick::clock::{Clock, Timestamp};
use dbtick::model::late::{Bound, Epoch, Highest, Ordering, Sight, Survey, Witness};
use dbtick::model::position::Scalar;
use dbtick::store::ObjectStore;
use dbtick::tick::report::{Outcome, TickError};

use super::world::{Fault, Reply, World, done, failed, place};

fn at(second: i64) -> Timestamp {
    DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn named(names: &[&str]) -> BTreeSet<Witness> {
    names.iter().map(|name| Witness::new(*name)).collect()
}

/// Numbers below `next` are drawn, and these transactions are in flight.
pub(crate) fn sight(next: i128, writers: &[&str]) -> Sight {
    Sight {
        now: Some(at(0)),
        bound: Bound {
            highest: Highest::Any,
            below: Some(vec![Scalar::Integer(next)]),
        },
        writers: named(writers),
        ..Sight::default()
    }
}

impl World {
    pub(crate) fn sees(&self, sight: Sight) {
        self.source.late.lock().unwrap().sight = sight;
    }

    fn survey(&self, in_flight: &[i64]) {
        self.source.late.lock().unwrap().survey = Survey {
            made: true,
            in_flight: in_flight.iter().map(|id| place(*id, *id)).collect(),
            up_to: None,
        };
    }

    fn looks(&self) -> u32 {
        std::mem::take(&mut self.source.late.lock().unwrap().looks)
    }

    fn remembered(&self) -> usize {
        self.document().delivered.len()
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_commits_late_is_delivered_and_nothing_is_delivered_twice() {
    let world = World::new();
    world.insert([1, 2, 4, 5]);
    world.sees(sight(6, &["3/17"]));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().rows(), [1, 2, 4, 5]);
    assert_eq!(world.document().position(), None);

    world.insert([3]);
    world.sees(sight(6, &[]));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().rows(), [1, 2, 4, 5, 3]);
    assert_eq!((world.checkpoint(), world.remembered()), (5, 0));
    assert_eq!(world.document().late.fences, []);
}

#[tokio::test(start_paused = true)]
async fn new_rows_arrive_while_somebody_is_waited_for() {
    let mut world = World::new();
    world.max_rows = 10;
    world.insert([1, 2]);
    world.sees(sight(4, &["3/17"]));
    world.tick().await;
    for id in 4..20 {
        world.insert([id]);
        world.sees(sight(i128::from(id) + 1, &["3/17", &format!("4/{id}")]));
        world.tick().await;
    }
    let rows: Vec<_> = [1, 2].into_iter().chain(4..20).collect();
    assert_eq!(world.hook().rows(), rows);
    assert_eq!(world.document().position(), None);
    world.sees(sight(20, &[]));
    assert_eq!(done(world.tick().await), Outcome::Settled);
    assert_eq!((world.checkpoint(), world.remembered()), (19, 0));
}

/// Who has been waited for all along is the only one who can still come before; so what was read is
/// not read again.
#[tokio::test(start_paused = true)]
async fn what_was_read_is_not_read_again_while_the_same_witness_lives() {
    let world = World::new();
    world.insert(1..=8);
    world.sees(sight(9, &["3/17"]));
    world.tick().await;
    world.source.take_reads();
    world.insert([9]);
    world.sees(sight(10, &["3/17"]));
    world.tick().await;
    assert_eq!(world.source.take_reads(), 1);
    world.insert([0]);
    world.sees(sight(10, &[]));
    world.tick().await;
    assert_eq!(world.hook().rows(), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
    assert_eq!((world.checkpoint(), world.remembered()), (9, 0));
}

#[tokio::test(start_paused = true)]
async fn waiting_costs_no_write_settling_costs_one_and_then_none() {
    let world = World::with_rows(2);
    world.sees(sight(3, &["3/17"]));
    world.tick().await;
    world.store.take_writes();
    for writers in [&["3/17"][..], &["3/17", "9/1"], &["3/17", "9/2"]] {
        world.sees(sight(3, writers));
        let report = world.tick().await;
        assert_eq!((report.late.remembered, report.late.witnesses), (2, 1));
        assert_eq!((report.tally.writes, done(report)), (0, Outcome::Idle));
    }
    world.sees(sight(3, &["9/2"]));
    let report = world.tick().await;
    assert_eq!((report.tally.writes, done(report)), (1, Outcome::Settled));
    assert_eq!((world.checkpoint(), world.remembered()), (2, 0));
    let token = world.document().lease.token.get();
    let report = world.tick().await;
    assert_eq!((report.tally.writes, done(report)), (0, Outcome::Idle));
    assert_eq!(world.document().lease.token.get(), token);
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_is_lost_or_never_answered_is_made_again() {
    for fault in [Fault::RequestLost, Fault::AnswerLost] {
        let world = World::with_rows(2);
        world.sees(sight(3, &["3/17"]));
        world.tick().await;
        world.sees(sight(3, &[]));
        world.store.on_write(1, fault);
        world.tick().await;
        world.tick().await;
        assert_eq!((world.checkpoint(), world.remembered()), (2, 0));
        assert_eq!(world.hook().rows(), [1, 2]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_witness_that_goes_on_under_another_name_is_still_waited_for() {
    let world = World::with_rows(2);
    world.sees(sight(4, &["3/17"]));
    world.tick().await;
    // Another that is prepared later is another.
    for (number, passed) in [(1, None), (1, None), (2, Some(2))] {
        let mut prepared = sight(4, &[]);
        prepared.disguised = BTreeSet::from([Witness::prepared(number)]);
        prepared.writers.clone_from(&prepared.disguised);
        world.sees(prepared);
        world.tick().await;
        assert_eq!(
            world.document().position().cloned(),
            passed.map(|id| place(id, id))
        );
    }
}

/// What cannot be asked about any more must not be taken for gone.
#[tokio::test(start_paused = true)]
async fn a_fence_whose_witness_nobody_can_tell_of_is_forgotten() {
    let world = World::with_rows(2);
    world.sees(sight(4, &["3/17"]));
    world.tick().await;
    let mut blind = sight(0, &[]);
    blind.unanswered = named(&["3/17"]);
    world.sees(blind);
    world.tick().await;
    assert_eq!(world.document().position(), None);
}

#[tokio::test(start_paused = true)]
async fn a_window_is_waited_for_by_the_databases_clock() {
    let world = World::with_rows(2);
    let windowed = |second| Sight {
        now: Some(at(second)),
        window: Some(Duration::from_secs(5)),
        ..sight(3, &[])
    };
    for (second, checkpoint) in [(0, 0), (4, 0), (5, 2)] {
        world.sees(windowed(second));
        world.tick().await;
        let position = world.document().position().cloned();
        assert_eq!(
            position.map_or(0, |_| world.checkpoint()),
            checkpoint,
            "{second}"
        );
    }
    assert_eq!(world.hook().rows(), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_row_in_flight_holds_the_checkpoint_before_it_and_nothing_else() {
    let mut world = World::new();
    world.max_rows = 10;
    world.insert([1, 2, 4]);
    world.survey(&[3]);
    world.sees(Sight {
        rows_in_flight: BTreeSet::from([Witness::row(&place(3, 3))]),
        ..sight(5, &[])
    });
    world.tick().await;
    assert_eq!(world.hook().rows(), [1, 2, 4]);
    assert_eq!((world.checkpoint(), world.remembered()), (2, 1));
    // It was rolled back.
    world.survey(&[]);
    world.sees(sight(5, &[]));
    world.tick().await;
    assert_eq!((world.checkpoint(), world.remembered()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn rows_of_the_future_are_held_and_counted_until_their_time_has_come() {
    let world = World::new();
    world.insert([1, 2, 1_000_000]);
    let held = |next: i128| Sight {
        ceiling: Some(Scalar::Integer(next)),
        ..sight(next, &[])
    };
    world.sees(held(3));
    let report = world.tick().await;
    assert_eq!(report.late.future_rows, 1);
    assert_eq!((world.hook().rows(), world.checkpoint()), (vec![1, 2], 2));
    let report = world.tick().await;
    assert_eq!((report.tally.writes, report.late.future_rows), (0, 1));
    world.sees(held(1_000_001));
    world.tick().await;
    assert_eq!(world.hook().rows(), [1, 2, 1_000_000]);
}

#[tokio::test(start_paused = true)]
async fn in_strict_order_nothing_goes_out_that_a_row_could_come_before() {
    let mut world = World::new();
    world.ordering = Ordering::Cursor;
    world.insert([1, 2, 4]);
    world.sees(sight(5, &["3/17"]));
    let report = world.tick().await;
    let marker = 1;
    assert_eq!(
        (report.late.waiting_rows, report.tally.writes),
        (2, 1 + marker)
    );
    for _ in 0..2 {
        assert_eq!(world.tick().await.tally.writes, 0);
    }
    assert!(world.hook().rows().is_empty());
    world.insert([3]);
    world.sees(sight(5, &[]));
    world.tick().await;
    assert_eq!(world.hook().rows(), [1, 2, 3, 4]);
    assert_eq!(world.checkpoint(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_has_come_to_its_bound_looks_again() {
    let world = World::with_rows(7);
    world.sees(sight(3, &[]));
    world.tick().await;
    assert_eq!(world.hook().rows(), (1..=7).collect::<Vec<_>>());
    // It proved nothing new the second time, and so it was not asked a third time.
    assert_eq!(world.looks(), 2);
    assert_eq!((world.checkpoint(), world.remembered()), (2, 5));
}

#[tokio::test(start_paused = true)]
async fn what_does_not_fit_into_the_document_is_kept_beside_it_and_removed() {
    let mut world = World::new();
    world.max_rows = 100;
    world.insert(1..=2000);
    world.sees(sight(2002, &["3/17"]));
    world.tick().await;
    let document = world.document();
    assert!(document.delivered.len() <= 512);
    assert!(!document.late.spilled.is_empty());
    assert!(document.to_bytes().len() < 128 << 10);
    let objects = world.objects.names("late/").await.unwrap();
    assert_eq!(objects.len(), document.late.spilled.len());
    world.tick().await;
    world.insert([0]);
    world.sees(sight(2002, &[]));
    world.tick().await;
    let rows: Vec<_> = (1..=2000).chain([0]).collect();
    assert_eq!(world.hook().rows(), rows);
    assert_eq!((world.checkpoint(), world.remembered()), (2000, 0));
    world.insert([2001]);
    world.sees(sight(2002, &[]));
    world.tick().await;
    assert_eq!(world.objects.names("late/").await.unwrap(), []);
    assert_eq!(world.document().late.spilled, []);
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_gone_costs_duplicates_and_no_row() {
    let mut world = World::new();
    world.max_rows = 1000;
    world.insert(1..=600);
    world.sees(sight(601, &["3/17"]));
    world.tick().await;
    for name in world.objects.names("late/").await.unwrap() {
        world.objects.remove(&name).await.unwrap();
    }
    world.insert([0]);
    world.sees(sight(601, &[]));
    world.tick().await;
    let rows = world.hook().rows();
    assert!(rows.contains(&0) && rows.len() == 1201, "{}", rows.len());
    assert_eq!(world.checkpoint(), 600);
}

fn epoch(world: &World, started: i64, transaction: u64) -> Epoch {
    Epoch {
        timeline: Some("00000001".to_owned()),
        started: Some(at(started)),
        started_within: 0,
        transaction: Some(transaction),
        written_down: None,
        now: world.clock.now(),
    }
}

impl World {
    fn server(&self, next: i128, epoch: Epoch) {
        self.sees(Sight {
            now: Some(epoch.now),
            epoch: Some(epoch),
            ..sight(next, &[])
        });
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_an_overlap_is_read_again() {
    let world = World::with_rows(2);
    world.server(3, epoch(&world, -3600, 100));
    world.tick().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    world.insert([3, 4]);
    world.server(5, epoch(&world, -3600, 200));
    world.tick().await;
    assert_eq!(world.checkpoint(), 4);
    // It was restarted a moment later, and has lost row 4, whose number it gives out again.
    world.source.remove(4);
    world.source.put(4, 4, "another");
    let started = (world.clock.now() - at(0)).num_seconds() + 1;
    world.server(5, epoch(&world, started, 300));
    world
        .poller("somebody who looks")
        .next_rows()
        .await
        .unwrap();
    let report = world.tick().await;
    assert!(
        report
            .rewound
            .as_deref()
            .is_some_and(|why| why.contains("restarted"))
    );
    assert_eq!(world.hook().rows(), [1, 2, 3, 4, 3, 4]);
    let audit = world.document().audit;
    assert_eq!((audit.len(), audit[0].who.as_str()), (1, "dbtick"));
    assert!(world.tick().await.rewound.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_that_is_older_than_the_restart_stays() {
    let world = World::with_rows(2);
    world.server(3, epoch(&world, -3600, 100));
    world.tick().await;
    tokio::time::advance(Duration::from_secs(600)).await;
    let started = (world.clock.now() - at(0)).num_seconds() - 5;
    world.server(3, epoch(&world, started, 101));
    let report = world.tick().await;
    assert_eq!((report.tally.writes, report.rewound), (0, None));
}

#[tokio::test(start_paused = true)]
async fn a_restored_copy_is_read_from_what_it_surely_has() {
    let world = World::with_rows(2);
    world.server(3, epoch(&world, -3600, 100));
    world.tick().await;
    world.insert([3, 4]);
    world.server(5, epoch(&world, -3600, 200));
    world.tick().await;
    // A copy from between the two; what comes now has the numbers of what was lost.
    world.source.remove(3);
    world.source.remove(4);
    world.source.put(3, 3, "another");
    world.server(4, epoch(&world, -3600, 150));
    let report = world.tick().await;
    assert!(
        report
            .rewound
            .as_deref()
            .is_some_and(|why| why.contains("restored"))
    );
    assert_eq!(world.hook().rows(), [1, 2, 3, 4, 3]);

    // A copy from before everything that is known.
    world.server(4, epoch(&world, -3600, 50));
    let error = failed(world.tick().await);
    assert!(matches!(error, TickError::Restored { .. }), "{error}");
    assert!(error.to_string().contains("dbtick reset orders"), "{error}");
}

/// Otherwise the document would name the new server, and nobody would ask what it has lost.
#[tokio::test(start_paused = true)]
async fn a_restart_in_the_middle_of_a_tick_is_left_to_the_next_one() {
    let mut world = World::with_rows(2);
    world.max_rows = 2;
    world.server(3, epoch(&world, -3600, 100));
    world.tick().await;
    tokio::time::advance(Duration::from_secs(60)).await;
    world.insert([3, 4]);
    world.server(5, epoch(&world, -3600, 200));
    world.tick().await;
    assert_eq!(world.checkpoint(), 4);

    // While a slow receiver is waited for, the server is restarted and loses row 4.
    world.insert(5..=10);
    let waits = Sight {
        writers: named(&["3/17"]),
        epoch: Some(epoch(&world, -3600, 300)),
        ..sight(11, &[])
    };
    world.sees(waits);
    let started = (world.clock.now() - at(0)).num_seconds() + 1;
    let restarted = Sight {
        epoch: Some(epoch(&world, started, 400)),
        ..sight(11, &[])
    };
    world.source.late.lock().unwrap().then = Some(restarted);
    let slow = || Reply::AcknowledgeAfter(Duration::from_secs(3));
    world.hook().will((0..3).map(|_| slow()));
    world.source.remove(4);
    world.source.put(4, 4, "another");
    let error = failed(world.tick().await);
    assert!(
        error.to_string().contains("in the middle of this tick"),
        "{error}"
    );
    let known = world.document().late.epoch.unwrap();
    assert_eq!(known.transaction, Some(300));

    let report = world.tick().await;
    let why = report.rewound.unwrap();
    assert!(why.contains("restarted"), "{why}");
    assert_eq!(
        world.hook().rows().iter().filter(|row| **row == 4).count(),
        2
    );
}

/// A tick that goes on and on looks again, and may then begin further back than before.
#[tokio::test(start_paused = true)]
async fn a_long_tick_finds_who_has_gone_meanwhile_and_sends_nothing_twice() {
    let mut world = World::new();
    world.max_rows = 300;
    world.insert(1..=600);
    world.sees(sight(601, &["3/17"]));
    world.tick().await;
    assert!(!world.document().late.spilled.is_empty());
    world.insert(602..=1800);
    world.sees(sight(602, &["3/17"]));
    world.source.late.lock().unwrap().then = Some(sight(1801, &[]));
    world.insert([0]);
    let slow = || Reply::AcknowledgeAfter(Duration::from_secs(3));
    world.hook().will((0..5).map(|_| slow()));
    world.tick().await;
    let mut rows = world.hook().rows();
    rows.sort_unstable();
    let expected: Vec<_> = (0..=600).chain(602..=1800).collect();
    assert_eq!(rows, expected);
    assert_eq!((world.checkpoint(), world.remembered()), (1800, 0));
    assert_eq!(world.looks(), 3);
}

/// Rights that change between a look and a page must not turn "nobody has looked" into "nobody is there".
#[tokio::test(start_paused = true)]
async fn a_page_that_nobody_has_surveyed_proves_nothing_where_surveys_are_the_evidence() {
    let world = World::with_rows(2);
    world.sees(Sight {
        surveys: true,
        ..sight(3, &[])
    });
    let error = failed(world.tick().await);
    assert!(
        error.to_string().contains("next tick looks again"),
        "{error}"
    );
    assert_eq!(world.store.take_writes(), []);
    world.survey(&[]);
    world.tick().await;
    assert_eq!((world.hook().rows(), world.checkpoint()), (vec![1, 2], 2));
}

/// A backlog is within the bound, and only a window holds the checkpoint back: once that has passed,
/// the same tick goes on without remembering.
#[tokio::test(start_paused = true)]
async fn a_long_backlog_is_remembered_no_longer_than_its_window() {
    let world = World::with_rows(8);
    let windowed = |second| Sight {
        now: Some(at(second)),
        window: Some(Duration::from_secs(5)),
        ..sight(9, &[])
    };
    world.sees(windowed(0));
    world.source.late.lock().unwrap().then = Some(windowed(6));
    world
        .hook()
        .will((0..4).map(|_| Reply::AcknowledgeAfter(Duration::from_secs(3))));
    world.tick().await;
    assert_eq!(world.hook().rows(), (1..=8).collect::<Vec<_>>());
    let passed = world.document().position().cloned();
    assert!(passed >= Some(place(2, 2)), "{passed:?}");
}

/// The last row is within no bound yet: it alone must not keep a burst from being settled.
#[tokio::test(start_paused = true)]
async fn much_that_is_proven_is_settled_though_the_last_row_is_not() {
    let mut world = World::with_rows(300);
    world.max_rows = 100;
    world.sees(sight(300, &["3/17"]));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.remembered(), 300);
    world.sees(sight(300, &[]));
    let report = world.tick().await;
    assert_eq!(report.tally.writes, 1);
    assert_eq!(done(report), Outcome::Settled);
    assert_eq!((world.checkpoint(), world.remembered()), (299, 1));
    let report = world.tick().await;
    assert_eq!(report.tally.writes, 0, "and then nothing is written");
    assert_eq!(done(report), Outcome::Idle);
}
