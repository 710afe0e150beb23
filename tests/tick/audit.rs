//! What was delivered, against what is in the source: by whoever reconciles, and at the end of a backfill
//! (F5, F6).

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use dbtick::backfill::{Backfill, Ended, Plan, Range, Stuck, Wishes};
use dbtick::clock::Clock;
use dbtick::model::ledger::LedgerMode;
use dbtick::model::transitions::Operator;
use dbtick::sink::FailureKind;
use dbtick::tick::audit::{Accounts, Audit, Demand, Missing};
use dbtick::tick::budget::Budget;
use dbtick::tick::quarantine::{Redrive, RedriveError, Redriven};
use dbtick::tick::report::{Outcome, TickError};
use tokio::time::sleep;

use crate::world::{Receiver, Reply, Temper, World, done, place};

fn world(rows: i64) -> World {
    World {
        ledger: LedgerMode::Full,
        ..World::with_rows(rows)
    }
}

fn by() -> Operator {
    Operator {
        who: "a person".to_owned(),
        why: "a test".to_owned(),
        id: "1".to_owned(),
    }
}

fn is_of(world: &World, server: &str) {
    *world.source.server.lock().unwrap() = Some(server.into());
}

/// Of all rows at or below the checkpoint.
async fn audit(world: &World) -> Result<Audit, TickError> {
    let poller = world.poller("app/reader");
    let document = world.document();
    let mut accounts = Accounts::default();
    let mut demand = Demand::default();
    for ledger in poller.ledgers().await? {
        let reach = accounts.read(&poller, &ledger).await?;
        if ledger.backfill.is_none() {
            demand = Demand::covered(&document, &reach);
        }
    }
    let up_to = document.position().unwrap();
    poller
        .audit(&[&document], (None, up_to), &demand, &accounts, 1000)
        .await
}

async fn backfill(world: &World, up_to: i64, wishes: Wishes) -> Result<Ended, Stuck> {
    let live = world.poller("app/backfill");
    let range = Range {
        after: None,
        up_to: place(up_to, up_to).to_tagged(),
        rows: u64::try_from(up_to).unwrap(),
    };
    let plan = Plan::new(&live, "again", (None, None), vec![range], &by());
    let plan = plan.create(&live).await.unwrap();
    let pollers = vec![world.poller("app/backfill")];
    Backfill::new(live, pollers, plan, wishes)
        .unwrap()
        .run(&by())
        .await
}

fn wishes() -> Wishes {
    Wishes {
        rate: None,
        batch_rows: NonZeroUsize::new(2),
        give_up_after: Duration::from_secs(600),
    }
}

#[tokio::test(start_paused = true)]
async fn rows_of_another_server_are_neither_reconciled_nor_sent() {
    let world = world(4);
    is_of(&world, "one");
    world.tick().await;
    world.insert([0]);
    let found = audit(&world).await.unwrap();
    assert_eq!((found.total, found.missing), (5, 1));

    is_of(&world, "other");
    let error = audit(&world).await.unwrap_err();
    assert!(matches!(error, TickError::OtherServer { .. }), "{error}");
    let before = world.hook().rows();
    let poller = world.poller("app/person");
    let error = poller.redeliver(&found.rows, &by()).await.unwrap_err();
    let is_other = matches!(
        &error,
        RedriveError::Tick(TickError::OtherServer { was, is, .. }) if was == "one" && is == "other"
    );
    assert!(is_other, "{error}");
    assert_eq!(world.hook().rows(), before, "nothing was sent");
    assert!(world.document().lease.held.is_none());

    is_of(&world, "one");
    let sent = poller.redeliver(&found.rows, &by()).await.unwrap();
    assert_eq!(sent.delivered, 1);
}

#[tokio::test(start_paused = true)]
async fn a_backfill_is_not_complete_by_what_another_server_has() {
    let world = world(4);
    is_of(&world, "one");
    world.tick().await;
    // The name leads to a server without these rows: nothing is missing there.
    is_of(&world, "other");
    for row in 1..=4 {
        world.source.remove(row);
    }
    let error = backfill(&world, 4, wishes()).await.unwrap_err();
    let is_other = matches!(error, Stuck::Tick(TickError::OtherServer { .. }));
    assert!(is_other, "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_backfill_does_not_give_up_while_a_receiver_catches_up() {
    let mut world = world(200);
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.optional.insert("audit".to_owned());
    world.tick().await;
    let audit = &world.sinks[1];
    audit.will([Reply::Fail(FailureKind::Passing)]);
    audit.will(vec![Reply::AcknowledgeAfter(Duration::from_secs(2)); 100]);
    let wishes = Wishes {
        give_up_after: Duration::from_secs(100),
        ..wishes()
    };
    let began = world.clock.monotonic();
    let ended = backfill(&world, 200, wishes).await.unwrap();
    let Ended::Complete(plan) = ended else {
        panic!("{ended:?}")
    };
    assert_eq!(plan.report.unwrap().delivered, 200);
    let took = world.clock.monotonic() - began;
    assert!(took > 2 * wishes.give_up_after, "{took:?}");
}

/// The poller has delivered `rows` rows, and lacks as many again.
async fn lacking(rows: i64) -> (World, Vec<Missing>) {
    let world = world(0);
    for row in 1..=rows {
        world.source.put(row, 1000 + row, "new");
    }
    world.tick().await;
    for row in 1..=rows {
        world.source.put(1000 + row, row, "late");
    }
    let found = audit(&world).await.unwrap();
    assert_eq!(found.rows.len(), usize::try_from(rows).unwrap());
    (world, found.rows)
}

#[tokio::test(start_paused = true)]
async fn a_poller_goes_on_while_its_missing_rows_are_sent() {
    let (world, missing) = lacking(40).await;
    let slow = Reply::AcknowledgeAfter(Duration::from_secs(2));
    world.hook().will(vec![slow; 40]);
    let poller = world.poller("app/person");
    let by = by();
    let sending = poller.redeliver(&missing, &by);
    let living = async {
        let mut row = 2000;
        let mut ticks = Vec::new();
        // Sending takes 40 seconds.
        for _ in 0..4 {
            sleep(Duration::from_secs(8)).await;
            row += 1;
            world.insert([row]);
            ticks.push(done(world.tick().await));
        }
        ticks
    };
    let (sent, ticks) = tokio::join!(sending, living);
    let sent = sent.unwrap();
    assert_eq!((sent.delivered, sent.left, sent.failed), (40, 0, 0));
    assert!(ticks.contains(&Outcome::Drained), "{ticks:?}");
    assert_eq!(audit(&world).await.unwrap().missing, 0);
}

#[tokio::test(start_paused = true)]
async fn missing_rows_go_in_batches_that_are_no_larger_than_others() {
    let (world, missing) = lacking(6).await;
    let mut poller = world.poller("app/person");
    poller.batch.max_rows = NonZeroUsize::new(100).unwrap();
    poller.batch.max_bytes = NonZeroUsize::new(600).unwrap();
    let before = world.hook().attempts().len();
    let sent = poller.redeliver(&missing, &by()).await.unwrap();
    assert_eq!(sent.delivered, 6);
    let batches = world.hook().attempts().split_off(before);
    let sizes: Vec<usize> = batches.iter().map(|batch| batch.rows.len()).collect();
    assert!(sizes.len() > 1 && sizes[0] > 1, "{sizes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_not_there_is_not_asked_for_every_missing_row() {
    let (world, missing) = lacking(40).await;
    let poller = world.poller("app/person");
    world.hook().is(Temper::Always(FailureKind::Passing));
    let before = world.hook().attempts().len();
    let sent = poller.redeliver(&missing, &by()).await.unwrap();
    assert_eq!(world.hook().attempts().len() - before, 3);
    assert_eq!((sent.delivered, sent.failed, sent.left), (0, 6, 34));

    // What is the fault of rows keeps nobody else from being sent.
    let bad: BTreeSet<i64> = (1001..=1010).collect();
    world.hook().is(Temper::At(FailureKind::Rejected, bad));
    let sent = poller.redeliver(&missing, &by()).await.unwrap();
    assert_eq!((sent.delivered, sent.failed, sent.left), (30, 10, 0));
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_row_is_not_compared_with_what_another_server_has() {
    let mut world = world(4);
    world.max_rows = 4;
    is_of(&world, "one");
    world.hook().is(Temper::Names(BTreeSet::from([2]), true));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    world.hook().is(Temper::Kind);
    let poller = world.poller("app/person");
    let budget = Budget::starting(world.clock.monotonic(), None);
    let redrive = async || {
        let kept = poller.quarantined().await.unwrap().rows;
        let by = by();
        let sent = poller.redrive(&kept, Redrive::default(), &by, &budget);
        sent.await.unwrap().remove(0)
    };
    is_of(&world, "other");
    let refused = redrive().await;
    assert!(
        matches!(&refused, Redriven::Failed(why) if why.contains("another server")),
        "{refused:?}"
    );
    is_of(&world, "one");
    assert_eq!(redrive().await, Redriven::Delivered);
}
