//! Several receivers, and whose word counts (E1 to E3).

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use dbtick::model::policy::CommitPolicy;
use dbtick::model::state::Status;
use dbtick::model::transitions::Order;
use dbtick::sink::FailureKind;
use dbtick::tick::report::{Outcome, TickError};
use tokio::time::sleep;

use crate::late::sight;
use crate::world::{Receiver, Reply, Temper, World, done, failed};

/// `hook` is required, `audit` is not.
fn world(n: i64, max_rows: usize) -> World {
    let mut world = World::with_rows(n);
    world.max_rows = max_rows;
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.optional.insert("audit".to_owned());
    world
}

fn audit(world: &World) -> &Receiver {
    &world.sinks[1]
}

fn rows(rows: impl IntoIterator<Item = i64>) -> BTreeSet<i64> {
    rows.into_iter().collect()
}

async fn later() {
    sleep(Duration::from_secs(301)).await;
}

#[tokio::test(start_paused = true)]
async fn an_optional_sink_that_fails_blocks_nobody_and_catches_up_by_itself() {
    let world = world(10, 3);
    audit(&world).is(Temper::Always(FailureKind::Passing));
    let report = world.tick().await;
    assert_eq!(report.behind.len(), 1);
    assert!(
        report.sentence().contains("audit is behind since"),
        "{}",
        report.sentence()
    );
    assert_eq!(done(report), Outcome::Drained);
    assert_eq!(world.hook().stored(), (1..=10).collect::<Vec<_>>());
    assert_eq!(
        audit(&world).attempts().len(),
        1,
        "it gets no live batches while it is behind"
    );
    world.insert(11..=13);
    later().await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    later().await;
    let sentence = world.tick().await.sentence();
    assert!(
        sentence.contains("asked again; audit is behind since"),
        "{sentence}"
    );
    audit(&world).is(Temper::Kind);
    later().await;
    let report = world.tick().await;
    assert_eq!(report.behind, []);
    assert_eq!(done(report), Outcome::CaughtUp);
    assert_eq!(audit(&world).stored(), (1..=13).collect::<Vec<_>>());
    world.insert([14]);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(
        audit(&world).stored().last(),
        Some(&14),
        "and it is one of the others again"
    );
    assert_eq!(world.hook().stored(), (1..=14).collect::<Vec<_>>());
    assert_eq!(done(world.tick().await), Outcome::Idle);
}

#[tokio::test(start_paused = true)]
async fn a_required_sink_that_fails_keeps_the_checkpoint_where_it_is() {
    let world = world(4, 4);
    world.hook().is(Temper::Always(FailureKind::Passing));
    for _ in 0..5 {
        failed(world.tick().await);
        later().await;
    }
    assert_eq!(world.checkpoint(), 0);
    let twice = audit(&world).attempts().len();
    assert_eq!(
        twice, 1,
        "who takes it is not bothered with each try at who does not"
    );
    world.hook().is(Temper::Kind);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().stored(), [1, 2, 3, 4]);
    assert_eq!(rows(audit(&world).stored()), rows(1..=4));
}

#[tokio::test(start_paused = true)]
async fn an_optional_sink_that_is_gone_pauses_nobody_whoever_else_fails() {
    let world = world(4, 4);
    audit(&world).is(Temper::Always(FailureKind::Gone));
    world.hook().is(Temper::Always(FailureKind::Passing));
    let error = failed(world.tick().await);
    assert!(
        matches!(&error, TickError::Delivery { sink, paused: false, .. } if sink == "hook"),
        "{error}"
    );
    assert_eq!(world.document().status, Status::Active);
    world.hook().is(Temper::Kind);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().stored(), [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn with_all_every_sink_must_acknowledge() {
    let mut world = world(2, 2);
    world.commit = CommitPolicy::All;
    audit(&world).is(Temper::Always(FailureKind::Passing));
    let error = failed(world.tick().await);
    assert!(
        matches!(&error, TickError::Delivery { sink, .. } if sink == "audit"),
        "{error}"
    );
    assert_eq!(world.checkpoint(), 0);
    audit(&world).is(Temper::Kind);
    assert_eq!(done(world.tick().await), Outcome::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_quorum_is_enough_and_the_others_catch_up() {
    let mut world = world(4, 2);
    world.sinks.push(Arc::new(Receiver::new("third")));
    world.commit = CommitPolicy::Quorum(NonZeroUsize::new(2).unwrap());
    world.hook().is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.checkpoint(), 4);
    audit(&world).is(Temper::Always(FailureKind::Passing));
    world.insert([5]);
    let error = failed(world.tick().await);
    assert!(matches!(error, TickError::Delivery { .. }), "{error}");
    assert_eq!(world.checkpoint(), 4, "one of three is no quorum");
    for sink in &world.sinks {
        sink.is(Temper::Kind);
    }
    later().await;
    world.tick().await.result.unwrap();
    later().await;
    world.tick().await.result.unwrap();
    for sink in &world.sinks {
        assert_eq!(rows(sink.stored()), rows(1..=5));
    }
}

#[tokio::test(start_paused = true)]
async fn a_quorum_that_was_missed_is_met_by_whoever_recovers() {
    let mut world = world(2, 2);
    world.sinks.push(Arc::new(Receiver::new("third")));
    world.commit = CommitPolicy::Quorum(NonZeroUsize::new(2).unwrap());
    world.hook().is(Temper::Always(FailureKind::Passing));
    audit(&world).is(Temper::Always(FailureKind::Passing));
    for _ in 0..3 {
        failed(world.tick().await);
        later().await;
    }
    audit(&world).is(Temper::Kind);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.checkpoint(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_behind_sets_its_own_bad_rows_aside() {
    let world = world(10, 5);
    audit(&world).is(Temper::At(FailureKind::Rejected, rows([4])));
    for _ in 0..12 {
        world.tick().await.result.unwrap();
        later().await;
    }
    assert_eq!(world.document().counters.quarantined, 1);
    assert_eq!(
        rows(audit(&world).stored()),
        rows((1..=10).filter(|row| *row != 4))
    );
    assert!(!world.document().is_anybody_behind());
    assert_eq!(world.hook().stored(), (1..=10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_bad_row_with_nobody_behind_it_is_shown_by_the_one_before_it() {
    let world = world(10, 1);
    audit(&world).is(Temper::At(FailureKind::Rejected, rows([10])));
    for _ in 0..12 {
        world.tick().await.result.unwrap();
        later().await;
    }
    assert_eq!(world.document().counters.quarantined, 1);
    assert!(!world.document().is_anybody_behind());
    assert_eq!(rows(audit(&world).stored()), rows(1..=9));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_set_aside_is_counted_once_when_it_is_passed() {
    let mut world = world(3, 3);
    world.commit = CommitPolicy::All;
    world.hook().is(Temper::Names(rows([2]), true));
    audit(&world).is(Temper::Always(FailureKind::Passing));
    failed(world.tick().await);
    assert_eq!(world.document().counters.quarantined, 0);
    assert!(world.document().sink("hook").set_aside.is_empty());
    audit(&world).is(Temper::Kind);
    later().await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.document().counters.quarantined, 1);
    assert_eq!(world.document().sink("hook").set_aside.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_set_aside_above_the_checkpoint_is_counted_too() {
    let world = world(6, 3);
    world.sees(sight(7, &["3/17"]));
    audit(&world).is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.document().position(), None);
    audit(&world).is(Temper::Names(rows([2]), true));
    later().await;
    assert_eq!(done(world.tick().await), Outcome::CaughtUp);
    assert!(!world.document().is_anybody_behind());
    assert_eq!(world.document().counters.quarantined, 1);
    assert_eq!(world.document().sink("audit").set_aside.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_took_a_part_is_sent_only_the_rest() {
    let world = world(6, 6);
    audit(&world).is(Temper::Names(rows([2]), false));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    audit(&world).is(Temper::Kind);
    later().await;
    assert_eq!(done(world.tick().await), Outcome::CaughtUp);
    assert_eq!(audit(&world).stored(), [1, 3, 4, 5, 6, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_reset_that_is_undone_leaves_whoever_was_behind_where_it_was() {
    let world = world(6, 3);
    audit(&world).is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let poller = world.poller("app/one");
    let by = |id: &str| dbtick::model::transitions::Operator {
        who: "ada".to_owned(),
        why: "a mistake".to_owned(),
        id: id.to_owned(),
    };
    let otherwise = dbtick::tick::operate::Otherwise::Refuse;
    let reset = |evidence| Order::Reset {
        to: None,
        source: poller.identity(),
        evidence,
    };
    let operated = poller.operate(&by("1"), otherwise, reset).await.unwrap();
    let version = operated.undo().unwrap();
    let undo = |evidence| Order::Rollback {
        version,
        source: poller.identity(),
        evidence,
    };
    poller.operate(&by("2"), otherwise, undo).await.unwrap();
    assert_eq!(world.checkpoint(), 6);
    audit(&world).is(Temper::Kind);
    later().await;
    world.tick().await.result.unwrap();
    assert_eq!(rows(audit(&world).stored()), rows(1..=6));
}

#[tokio::test(start_paused = true)]
async fn catching_up_ends_after_a_while_and_goes_on_with_the_next_tick() {
    let world = world(40, 2);
    audit(&world).is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    audit(&world).is(Temper::Kind);
    later().await;
    audit(&world).will(vec![Reply::AcknowledgeAfter(Duration::from_secs(4)); 20]);
    let report = world.tick().await;
    assert!(report.took_ms < 15_000, "{} ms", report.took_ms);
    assert_eq!(report.behind.len(), 1);
    for _ in 0..10 {
        world.tick().await.result.unwrap();
    }
    let seen: BTreeSet<i64> = audit(&world).rows().into_iter().collect();
    assert_eq!(seen, rows(1..=40));
    assert!(!world.document().is_anybody_behind());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_added_renamed_or_removed_is_an_explicit_step() {
    let world = world(2, 2);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let mut renamed = world.clone();
    renamed.sinks[1] = Arc::new(Receiver::new("archive"));
    renamed.optional.insert("archive".to_owned());
    renamed.insert([3]);
    let error = failed(renamed.tick().await).to_string();
    assert!(error.contains("archive is new, audit is gone"), "{error}");
    assert!(error.contains("dbtick adopt orders"), "{error}");
    assert_eq!(
        renamed.hook().stored(),
        [1, 2],
        "nothing goes out meanwhile"
    );
    let poller = renamed.poller("app/one");
    let by = dbtick::model::transitions::Operator {
        who: "ada".to_owned(),
        why: "renamed".to_owned(),
        id: "1".to_owned(),
    };
    let order = |evidence| Order::Adopt {
        source: poller.identity(),
        schema: None,
        sinks: poller.sink_names(),
        evidence,
    };
    let otherwise = dbtick::tick::operate::Otherwise::Refuse;
    poller.operate(&by, otherwise, order).await.unwrap();
    assert_eq!(done(renamed.tick().await), Outcome::Drained);
    assert_eq!(
        renamed.sinks[1].stored(),
        [3],
        "a new one begins at the checkpoint"
    );
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_must_be_waited_for_now_catches_up_first() {
    let mut world = world(4, 2);
    audit(&world).is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    world.optional.clear();
    world.insert([5]);
    later().await;
    let error = failed(world.tick().await).to_string();
    assert!(
        error.contains("audit") && error.contains("behind"),
        "{error}"
    );
    assert_eq!(world.checkpoint(), 4);
    audit(&world).is(Temper::Kind);
    later().await;
    assert_eq!(done(world.tick().await), Outcome::CaughtUp);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(audit(&world).stored(), [1, 2, 3, 4, 5]);
}

#[tokio::test(start_paused = true)]
async fn who_is_behind_is_caught_up_although_the_others_are_blocked() {
    let mut world = world(4, 2);
    world.sinks.push(Arc::new(Receiver::new("third")));
    world.commit = CommitPolicy::Quorum(NonZeroUsize::new(2).unwrap());
    world.hook().is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    world.hook().is(Temper::Kind);
    audit(&world).is(Temper::Always(FailureKind::Passing));
    world.insert([5]);
    later().await;
    failed(world.tick().await);
    assert_eq!(
        rows(world.hook().stored()),
        rows(1..=4),
        "it has caught up meanwhile"
    );
    later().await;
    assert_eq!(
        done(world.tick().await),
        Outcome::Drained,
        "two of three are a quorum"
    );
    assert_eq!(world.checkpoint(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_new_sink_gets_what_was_delivered_above_the_checkpoint_too() {
    let mut world = world(6, 6);
    world.hook().is(Temper::Names(rows([3]), false));
    failed(world.tick().await);
    assert_eq!(world.checkpoint(), 2);
    world.hook().is(Temper::Kind);
    world.sinks.push(Arc::new(Receiver::new("archive")));
    world.optional.insert("archive".to_owned());
    let poller = world.poller("app/one");
    let by = dbtick::model::transitions::Operator {
        who: "ada".to_owned(),
        why: "one more".to_owned(),
        id: "1".to_owned(),
    };
    let order = |evidence| Order::Adopt {
        source: poller.identity(),
        schema: None,
        sinks: poller.sink_names(),
        evidence,
    };
    let otherwise = dbtick::tick::operate::Otherwise::Refuse;
    poller.operate(&by, otherwise, order).await.unwrap();
    for _ in 0..3 {
        world.tick().await.result.unwrap();
        later().await;
    }
    assert_eq!(
        rows(world.sinks[2].stored()),
        rows(3..=6),
        "all from the checkpoint on"
    );
    assert!(!world.document().is_anybody_behind());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_is_behind_may_set_ten_of_each_thousand_of_its_own_rows_aside() {
    let world = world(3000, 500);
    let bad: Vec<i64> = (0..24).map(|n| n * 125 + 7).collect();
    audit(&world).is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    audit(&world).is(Temper::Names(rows(bad.clone()), true));
    for _ in 0..6 {
        later().await;
        world.tick().await.result.unwrap();
    }
    assert_eq!(world.document().counters.quarantined, 24);
    assert!(!world.document().is_anybody_behind());
    assert_eq!(audit(&world).stored().len(), 3000 - 24);
}

/// Also where pages have one row each, and it has had nothing before.
#[tokio::test(start_paused = true)]
async fn a_bad_row_that_is_alone_in_its_page_does_not_hold_up_a_sink_that_is_behind() {
    for kind in [FailureKind::Rejected, FailureKind::Broken] {
        let world = world(4, 1);
        audit(&world).is(Temper::Always(FailureKind::Passing));
        assert_eq!(done(world.tick().await), Outcome::Drained);
        audit(&world).is(Temper::At(kind, rows([1])));
        for _ in 0..6 {
            later().await;
            world.tick().await.result.unwrap();
        }
        assert_eq!(world.document().counters.quarantined, 1, "{kind:?}");
        assert!(!world.document().is_anybody_behind());
        assert_eq!(rows(audit(&world).stored()), rows(2..=4));
    }
}

#[tokio::test(start_paused = true)]
async fn two_required_sinks_with_a_bad_row_each_do_not_take_turns_for_ever() {
    let mut world = world(8, 8);
    world.optional.clear();
    world
        .hook()
        .is(Temper::At(FailureKind::Rejected, rows([3])));
    audit(&world).is(Temper::At(FailureKind::Rejected, rows([6])));
    let mut ticks = 0;
    while world.tick().await.result.is_err() {
        ticks += 1;
        assert!(ticks < 20, "it never ends");
        later().await;
    }
    assert_eq!(world.document().counters.quarantined, 2);
    assert_eq!(world.checkpoint(), 8);
    assert_eq!(
        rows(world.hook().stored()),
        rows((1..=8).filter(|row| *row != 3))
    );
    assert_eq!(
        rows(audit(&world).stored()),
        rows((1..=8).filter(|row| *row != 6))
    );
}
