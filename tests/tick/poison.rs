//! Rows that a receiver never takes, and receivers that take nothing (D8, I13).

use std::collections::BTreeSet;
use std::time::Duration;

use dbtick::model::policy::{PoisonPolicy, Poisoned};
use dbtick::model::quarantine::Case;
use dbtick::model::state::Status;
use dbtick::sink::FailureKind;
use dbtick::store::ObjectStore;
use dbtick::tick::report::{Outcome, TickError};
use tokio::time::sleep;

use crate::world::{Fault, Reply, Temper, World, done, failed};

/// The rows that are kept aside, and why.
pub(crate) async fn aside(world: &World) -> Vec<(i64, String)> {
    let names = world
        .objects
        .names("quarantine/shop/orders/")
        .await
        .unwrap();
    let mut rows = Vec::new();
    for name in names {
        let body = world.objects.get(&name).await.unwrap().unwrap();
        let case = Case::from_bytes(&body).unwrap();
        let event: serde_json::Value = serde_json::from_str(case.event().get()).unwrap();
        assert_eq!(event["id"], case.event_id);
        rows.push((event["key"]["id"].as_i64().unwrap(), case.error));
    }
    rows.sort();
    rows
}

pub(crate) async fn rows_aside(world: &World) -> Vec<i64> {
    aside(world).await.into_iter().map(|(row, _)| row).collect()
}

pub(crate) fn rows(rows: impl IntoIterator<Item = i64>) -> BTreeSet<i64> {
    rows.into_iter().collect()
}

/// Ticks until one ends well, far enough apart; how many that took.
pub(crate) async fn ticks_until_done(world: &World, most: usize) -> usize {
    let mut said = Vec::new();
    for tick in 1..=most {
        let report = world.tick().await;
        said.push(report.sentence());
        if report.result.is_ok() {
            return tick;
        }
        sleep(Duration::from_secs(301)).await;
    }
    panic!("it did not end well in {most} ticks: {said:#?}");
}

pub(crate) async fn later() {
    sleep(Duration::from_secs(301)).await;
}

pub(crate) fn world(n: i64, max_rows: usize) -> World {
    let mut world = World::with_rows(n);
    world.max_rows = max_rows;
    world
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_rejected_again_and_again_is_set_aside_and_the_others_arrive() {
    for kind in [FailureKind::Rejected, FailureKind::Broken] {
        let world = world(100, 100);
        world.hook().is(Temper::At(kind, rows([37])));
        assert_eq!(ticks_until_done(&world, 9).await, 5, "{kind:?}");
        assert_eq!(rows_aside(&world).await, [37]);
        let taken = rows(world.hook().stored());
        assert_eq!(taken, rows((1..=100).filter(|row| *row != 37)));
        assert_eq!(world.checkpoint(), 100);
        let document = world.document();
        assert_eq!(document.counters.quarantined, 1);
        assert_eq!(document.counters.rows, 100);
        assert_eq!(done(world.tick().await), Outcome::Idle);
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_row_is_found_by_few_deliveries_and_good_ones_are_sent_once() {
    let world = world(1000, 1000);
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows([700])));
    ticks_until_done(&world, 9).await;
    let stored = world.hook().stored();
    assert_eq!(stored.len(), 999, "no good row is sent twice");
    // Five whole ones, then two for each halving, then the row that was found once more.
    assert!(
        world.hook().attempts().len() <= 5 + 2 * 10 + 1,
        "{}",
        world.hook().attempts().len()
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_set_aside_is_durable_before_the_checkpoint_passes_it() {
    let world = world(8, 8);
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows([3])));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    world.store.take_writes();
    // Claim, marker, and then a commit that never arrives, however often it is sent.
    for write in 3..30 {
        world.store.on_write(write, Fault::Silence);
    }
    failed(world.tick().await);
    assert_eq!(rows_aside(&world).await, [3]);
    assert!(world.checkpoint() < 3, "the checkpoint has not moved");
    world.store.heal();
    sleep(Duration::from_secs(301)).await;
    ticks_until_done(&world, 9).await;
    assert_eq!(rows_aside(&world).await, [3]);
    assert_eq!(world.checkpoint(), 8);
}

/// Its neighbours were committed after the crash, in a page of their own, so that nobody is left to show it again.
/// Not even the receiver's word on one of them would tell them from a receiver that takes nothing.
#[tokio::test(start_paused = true)]
async fn a_receiver_that_rejects_everything_drains_nothing_into_quarantine() {
    for kind in [FailureKind::Rejected, FailureKind::Broken] {
        let world = world(50, 50);
        world.hook().is(Temper::Always(kind));
        for _ in 0..30 {
            let error = failed(world.tick().await).to_string();
            sleep(Duration::from_secs(301)).await;
            if world.document().sink("hook").failure.unwrap().attempts > 5 {
                assert!(error.contains("the receiver's fault"), "{error}");
            }
        }
        assert_eq!(aside(&world).await, []);
        assert_eq!(world.checkpoint(), 0);
        let sent = world.hook().attempts().len();
        assert!(sent < 30 * 25, "each tick looks at a few rows only: {sent}");
        world.hook().is(Temper::Kind);
        ticks_until_done(&world, 1).await;
        assert_eq!(rows(world.hook().stored()), rows(1..=50));
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_down_for_a_weekend_quarantines_nothing() {
    let world = world(10, 10);
    for kind in [
        FailureKind::Passing,
        FailureKind::Broken,
        FailureKind::Refused,
    ] {
        world.hook().is(Temper::Always(kind));
        for _ in 0..200 {
            world.tick().await;
            sleep(Duration::from_secs(60)).await;
        }
    }
    assert_eq!(aside(&world).await, []);
    world.hook().is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    ticks_until_done(&world, 1).await;
    assert_eq!(world.hook().stored(), (1..=10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_failing_receiver_is_called_less_and_less_often() {
    let world = world(1, 1);
    world.hook().is(Temper::Always(FailureKind::Passing));
    for _ in 0..(3600 / 15) {
        world.tick().await;
        sleep(Duration::from_secs(15)).await;
    }
    let calls = world.hook().attempts().len();
    assert!(
        (12..40).contains(&calls),
        "{calls} calls in an hour of ticks"
    );
    world.hook().is(Temper::Kind);
    let mut waited = 0;
    while world.hook().stored().is_empty() {
        world.tick().await;
        sleep(Duration::from_secs(15)).await;
        waited += 15;
    }
    assert!(waited <= 315, "and again within five minutes: {waited} s");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_fails_in_the_middle_of_the_search_convicts_no_row() {
    let world = world(16, 16);
    world.hook().is(Temper::At(FailureKind::Broken, rows([2])));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    // Whole, first half, a quarter of it, an eighth: row 1 is taken, and then nobody is there.
    let no = || Reply::Fail(FailureKind::Broken);
    world
        .hook()
        .will([no(), no(), no(), no(), Reply::Acknowledge]);
    world.hook().is(Temper::Always(FailureKind::Broken));
    failed(world.tick().await);
    assert_eq!(aside(&world).await, []);
    world.hook().is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    ticks_until_done(&world, 2).await;
    assert_eq!(aside(&world).await, []);
    assert_eq!(world.checkpoint(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_recovers_in_the_middle_of_the_search_convicts_no_row() {
    let world = world(4, 4);
    world.hook().is(Temper::Always(FailureKind::Rejected));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    // Whole, first half, row 1; then it takes what comes.
    world
        .hook()
        .will([(); 3].map(|()| Reply::Fail(FailureKind::Rejected)));
    world.hook().is(Temper::Kind);
    ticks_until_done(&world, 1).await;
    assert_eq!(aside(&world).await, []);
    assert_eq!(rows(world.hook().stored()), rows(1..=4));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_not_tried_when_it_was_asked_for_once_more_is_not_convicted() {
    let world = world(4, 4);
    world.hook().is(Temper::Always(FailureKind::Rejected));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    // Whole, first half, row 1, which the others show to be bad; then it is not tried.
    let (no, yes) = (Reply::Fail(FailureKind::Rejected), Reply::Acknowledge);
    let search = [
        no.clone(),
        no.clone(),
        no,
        yes.clone(),
        yes.clone(),
        Reply::DoNotTry,
    ];
    world.hook().will(search);
    world.hook().is(Temper::Kind);
    failed(world.tick().await);
    assert_eq!(aside(&world).await, []);
    later().await;
    ticks_until_done(&world, 2).await;
    assert_eq!(aside(&world).await, []);
    assert_eq!(world.checkpoint(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_begins_to_reject_everything_in_the_middle_of_the_search_convicts_no_row() {
    let world = world(4, 4);
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows([1])));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    // Whole; the first half is good after all; then nothing is.
    world
        .hook()
        .will([Reply::Fail(FailureKind::Rejected), Reply::Acknowledge]);
    world.hook().is(Temper::Always(FailureKind::Rejected));
    failed(world.tick().await);
    assert_eq!(aside(&world).await, []);
    world.hook().is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    ticks_until_done(&world, 1).await;
    assert_eq!(aside(&world).await, []);
    assert_eq!(rows(world.hook().stored()), rows(3..=4));
}

#[tokio::test(start_paused = true)]
async fn more_than_ten_of_a_thousand_rows_are_the_receivers_fault() {
    let world = world(40, 20);
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows(5..=16)));
    let mut said = Vec::new();
    for _ in 0..10 {
        said.push(failed(world.tick().await).to_string());
        sleep(Duration::from_secs(301)).await;
    }
    assert_eq!(aside(&world).await, []);
    let blamed = |error: &String| error.contains("more than 10 of a thousand rows");
    assert!(said.iter().any(blamed), "{said:#?}");
    let mut lenient = world.clone();
    lenient.poison.most = 20;
    sleep(Duration::from_secs(301)).await;
    ticks_until_done(&lenient, 3).await;
    assert_eq!(rows_aside(&world).await, (5..=16).collect::<Vec<_>>());
    let good = (1..=4).chain(17..=40);
    assert_eq!(rows(world.hook().stored()), rows(good));
}

#[tokio::test(start_paused = true)]
async fn the_thousand_rows_are_counted_over_ticks() {
    let world = world(60, 6);
    // One bad row in each batch of six: ten of them are set aside, the next is one too many.
    let bad: Vec<i64> = (0..10).map(|batch| batch * 6 + 2).collect();
    world.hook().is(Temper::Names(rows(bad.clone()), true));
    let report = world.tick().await;
    assert_eq!(done(report), Outcome::Drained);
    assert_eq!(rows_aside(&world).await, bad);
    world.insert(61..=66);
    world.hook().is(Temper::Names(rows([62]), true));
    let error = failed(world.tick().await).to_string();
    assert!(error.contains("poison.most"), "{error}");
    assert_eq!(rows_aside(&world).await, bad);
}

/// Each is judged by a document that knows nothing of the others.
#[tokio::test(start_paused = true)]
async fn batches_on_their_way_together_set_aside_no_more_than_one_may() {
    let mut world = world(60, 6);
    world.max_inflight = 5;
    let bad: Vec<i64> = (0..10)
        .flat_map(|batch| [1, 2, 3].map(|row| batch * 6 + row))
        .collect();
    world.hook().is(Temper::Names(rows(bad), true));
    let error = failed(world.tick().await).to_string();
    assert!(error.contains("poison.most"), "{error}");
    for _ in 0..5 {
        sleep(Duration::from_secs(301)).await;
        world.tick().await;
    }
    let aside = rows_aside(&world).await;
    assert!(aside.len() <= 10, "{aside:?}");
}

#[tokio::test(start_paused = true)]
async fn with_block_nothing_behind_the_bad_row_goes_on() {
    let mut world = world(20, 20);
    world.poison = PoisonPolicy {
        then: Poisoned::Block,
        ..PoisonPolicy::default()
    };
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows([9])));
    for _ in 0..12 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    assert_eq!(aside(&world).await, []);
    assert_eq!(world.checkpoint(), 8);
    assert_eq!(world.hook().stored(), (1..=8).collect::<Vec<_>>());
    world.hook().is(Temper::Kind);
    ticks_until_done(&world, 1).await;
    assert_eq!(world.hook().stored(), (1..=20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_partial_answer_acknowledges_the_rest() {
    let world = world(6, 6);
    world.hook().is(Temper::Names(rows([3]), false));
    let error = failed(world.tick().await);
    assert!(matches!(error, TickError::Delivery { .. }), "{error}");
    assert_eq!(
        world.checkpoint(),
        2,
        "it stops before the row that is left"
    );
    assert_eq!(world.document().delivered.len(), 3);
    world.hook().is(Temper::Kind);
    ticks_until_done(&world, 1).await;
    assert_eq!(
        world.hook().stored(),
        [1, 2, 4, 5, 6, 3],
        "only the row that was left comes again"
    );
    assert_eq!(world.checkpoint(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_named_too_often_or_for_good_is_set_aside() {
    for (never, expected) in [(false, 5), (true, 1)] {
        let world = world(6, 6);
        world.hook().is(Temper::Names(rows([3, 5]), never));
        assert_eq!(ticks_until_done(&world, 9).await, expected);
        assert_eq!(
            aside(&world).await,
            [
                (3, "not this one".to_owned()),
                (5, "not this one".to_owned())
            ]
        );
        assert_eq!(world.hook().stored(), [1, 2, 4, 6]);
        assert_eq!(world.checkpoint(), 6);
    }
}

#[tokio::test(start_paused = true)]
async fn how_often_a_row_was_named_is_not_forgotten_while_the_receiver_is_down() {
    let world = world(6, 6);
    for _ in 0..4 {
        world.hook().is(Temper::Names(rows([3]), false));
        failed(world.tick().await);
        later().await;
        world.hook().is(Temper::Always(FailureKind::Passing));
        failed(world.tick().await);
        later().await;
    }
    assert_eq!(aside(&world).await, []);
    world.hook().is(Temper::Names(rows([3]), false));
    // It is the last that is left; a neighbour shows whose fault it is.
    world.insert([7]);
    assert_eq!(ticks_until_done(&world, 1).await, 1);
    assert_eq!(rows_aside(&world).await, [3]);
    assert_eq!(world.checkpoint(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_names_everything_sets_nothing_aside() {
    let world = world(6, 6);
    world.hook().is(Temper::Names(rows(1..=6), true));
    for _ in 0..12 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    assert_eq!(aside(&world).await, []);
    assert_eq!(world.checkpoint(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_too_large_is_halved_and_that_is_remembered() {
    let world = world(32, 16);
    world.hook().is(Temper::Small(5));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().stored(), (1..=32).collect::<Vec<_>>());
    world.insert(33..=64);
    let before = world.hook().attempts().len();
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let later: Vec<usize> = world.hook().attempts()[before..]
        .iter()
        .map(|attempt| attempt.rows.len())
        .collect();
    assert!(
        later.iter().all(|rows| *rows <= 5),
        "no batch is too large again: {later:?}"
    );
    assert_eq!(world.hook().stored(), (1..=64).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_too_large_by_itself_is_like_any_other_bad_row() {
    let world = world(4, 4);
    world
        .hook()
        .is(Temper::At(FailureKind::TooLarge, rows([2])));
    ticks_until_done(&world, 9).await;
    assert_eq!(rows_aside(&world).await, [2]);
    assert_eq!(rows(world.hook().stored()), rows([1, 3, 4]));
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_gone_pauses_the_poller() {
    let world = world(3, 3);
    world.hook().will([Reply::Fail(FailureKind::Gone)]);
    let error = failed(world.tick().await).to_string();
    assert!(error.contains("dbtick resume orders"), "{error}");
    let document = world.document();
    assert_eq!(document.status, Status::Paused);
    let entry = document.audit.last().unwrap();
    assert_eq!(
        (entry.who.as_str(), entry.what.as_str()),
        ("dbtick", "pause")
    );
    assert_eq!(done(world.tick().await), Outcome::Paused);
    world.operate_now(dbtick::model::transitions::Order::Resume);
    ticks_until_done(&world, 1).await;
    assert_eq!(world.hook().stored(), [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn every_attempt_carries_a_greater_fence_than_the_one_before() {
    for max_rows in [20, 1] {
        let world = world(40, max_rows);
        world
            .hook()
            .is(Temper::At(FailureKind::Broken, rows([7, 30])));
        ticks_until_done(&world, 20).await;
        let attempts = world.hook().attempts();
        let fences: Vec<_> = attempts.iter().map(|attempt| attempt.fence).collect();
        assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_receiver_has_named_is_counted_over_a_failure_in_between() {
    let world = world(6, 6);
    world.hook().is(Temper::Names(rows([1]), false));
    failed(world.tick().await);
    world.hook().will([Reply::Refuse]);
    failed(world.tick().await);
    ticks_until_done(&world, 9).await;
    assert_eq!(rows_aside(&world).await, [1]);
    assert_eq!(rows(world.hook().stored()), rows(2..=6));
}

#[tokio::test(start_paused = true)]
async fn a_search_that_is_cut_short_by_an_outage_goes_on_with_the_next_tick() {
    let world = world(8, 8);
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows([1])));
    for _ in 0..4 {
        failed(world.tick().await);
        sleep(Duration::from_secs(301)).await;
    }
    // All, the first half, a quarter, row 1, row 2; then nobody answers.
    let [no, yes] = [Reply::Fail(FailureKind::Rejected), Reply::Acknowledge];
    world
        .hook()
        .will([no.clone(), no.clone(), no.clone(), no, yes, Reply::Refuse]);
    failed(world.tick().await);
    ticks_until_done(&world, 1).await;
    assert_eq!(
        rows_aside(&world).await,
        [1],
        "the search goes on where it was"
    );
    assert_eq!(rows(world.hook().stored()), rows(3..=8));
    assert_eq!(world.checkpoint(), 8);
}
