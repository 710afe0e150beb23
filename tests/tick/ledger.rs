//! What was delivered is written down before it is committed (F6).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dbtick::clock::{Clock, Timestamp};
use dbtick::model::envelope::Sequences;
use dbtick::model::ledger::{LedgerMode, Mark, Segment};
use dbtick::model::page::EventId;
use dbtick::model::transitions::Order;
use dbtick::sink::FailureKind;
use dbtick::store::{MemoryStore, ObjectStore, Put, StoreError, StoreKey};
use dbtick::tick::budget::Budget;
use dbtick::tick::ledger::{Reach, Records};
use dbtick::tick::report::{Outcome, TickError, TickReport};
use dbtick::tick::tick;
use tokio::time::{sleep, timeout};

use crate::world::{Fault, MARGIN, Receiver, TTL, Temper, World, done, failed, place, state_key};

fn world(rows: i64) -> World {
    World {
        ledger: LedgerMode::Full,
        ..World::with_rows(rows)
    }
}

/// Every event that a receiver got, by the row that it is about.
fn events(world: &World) -> BTreeMap<i64, EventId> {
    let attempts = world.sinks.iter().flat_map(|sink| sink.attempts());
    attempts
        .flat_map(|attempt| attempt.rows.into_iter().zip(attempt.event_ids))
        .map(|(row, id)| (row, EventId::parse(&id).unwrap()))
        .collect()
}

async fn records(world: &World) -> Records {
    let ids: BTreeSet<_> = events(world).into_values().collect();
    world.poller("app/reader").recorded(&ids).await.unwrap()
}

/// What the ledger says of each row: receiver and fate, the newest first.
async fn says(world: &World) -> BTreeMap<i64, Vec<(String, Mark)>> {
    let records = records(world).await;
    let said = |id: &EventId| {
        let found = records.found.get(id).cloned().unwrap_or_default();
        found.into_iter().map(|it| (it.sink, it.mark)).collect()
    };
    let events = events(world);
    events.iter().map(|(row, id)| (*row, said(id))).collect()
}

async fn reach(world: &World) -> Reach {
    records(world).await.reach.expect("there is a ledger")
}

async fn segments(world: &World) -> Vec<StoreKey> {
    world.objects.names(&state_key().ledger()).await.unwrap()
}

fn taken(sink: &str) -> (String, Mark) {
    (sink.to_owned(), Mark::Taken)
}

#[tokio::test(start_paused = true)]
async fn every_commit_is_in_the_ledger_and_an_idle_tick_writes_nothing() {
    let world = world(5);
    let report = world.tick().await;
    assert_eq!(report.tally.batches, 3);
    let said = says(&world).await;
    assert_eq!(said.len(), 5);
    assert!(said.values().all(|it| *it == [taken("hook")]), "{said:?}");

    let ledger = world.document().ledger.unwrap();
    assert_eq!((ledger.segments, ledger.rows), (3, 5));
    let keys = segments(&world).await;
    assert_eq!(keys.len(), 3);
    assert!(keys[2].as_str().ends_with(&ledger.head));
    let mut bytes = 0;
    for key in &keys {
        bytes += world.objects.get(key).await.unwrap().unwrap().len() as u64;
    }
    assert_eq!(ledger.bytes, bytes);
    let reach = reach(&world).await;
    assert_eq!((reach.segments, reach.gone), (3, None));
    assert_eq!(reach.covers, BTreeMap::from([("hook".to_owned(), None)]));

    world.store.take_writes();
    assert_eq!(done(world.tick().await), Outcome::Idle);
    assert!(world.store.take_writes().is_empty());
    assert_eq!(segments(&world).await, keys);
}

#[tokio::test(start_paused = true)]
async fn a_poller_without_a_ledger_writes_none() {
    let world = World::with_rows(3);
    world.tick().await;
    assert_eq!(world.document().ledger, None);
    assert!(segments(&world).await.is_empty());
    assert!(records(&world).await.reach.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_part_of_a_batch_is_recorded_as_far_as_it_was_taken() {
    let mut world = world(4);
    world.max_rows = 4;
    world.hook().is(Temper::Names(BTreeSet::from([2]), false));
    failed(world.tick().await);
    let said = says(&world).await;
    for row in [1, 3, 4] {
        assert_eq!(said[&row], [taken("hook")], "{row}");
    }
    assert!(said[&2].is_empty(), "it was not taken");
    world.hook().is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(says(&world).await[&2], [taken("hook")]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_is_set_aside_is_recorded_as_such_and_as_taken_once_it_is_sent_again() {
    let mut world = world(4);
    world.max_rows = 4;
    world.hook().is(Temper::Names(BTreeSet::from([2]), true));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let aside = ("hook".to_owned(), Mark::Quarantined);
    assert_eq!(says(&world).await[&2], std::slice::from_ref(&aside));

    world.hook().is(Temper::Kind);
    let poller = world.poller("app/person");
    let kept = poller.quarantined().await.unwrap().rows;
    let by = dbtick::model::transitions::Operator {
        who: "a person".to_owned(),
        why: "a test".to_owned(),
        id: "1".to_owned(),
    };
    let budget = Budget::starting(world.clock.monotonic(), None);
    let how = dbtick::tick::quarantine::Redrive::default();
    poller.redrive(&kept, how, &by, &budget).await.unwrap();
    assert_eq!(says(&world).await[&2], [taken("hook"), aside]);
}

#[tokio::test(start_paused = true)]
async fn a_receiver_that_is_behind_is_recorded_when_it_gets_its_rows() {
    let mut world = world(5);
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.optional.insert("audit".to_owned());
    world.sinks[1].is(Temper::Always(FailureKind::Passing));
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let said = says(&world).await;
    assert!(said.values().all(|it| *it == [taken("hook")]), "{said:?}");

    world.sinks[1].is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    assert_eq!(done(world.tick().await), Outcome::CaughtUp);
    let both = [taken("audit"), taken("hook")];
    let said = says(&world).await;
    assert!(said.values().all(|it| *it == both), "{said:?}");
    assert!(!world.document().is_anybody_behind());
}

#[tokio::test(start_paused = true)]
async fn what_was_delivered_above_the_checkpoint_is_recorded_for_whoever_catches_up() {
    let mut world = world(2);
    world.max_rows = 10;
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.optional.insert("audit".to_owned());
    world.sinks[1].is(Temper::Always(FailureKind::Passing));
    world.hook().is(Temper::Names(BTreeSet::from([1]), false));
    failed(world.tick().await);
    assert_eq!(world.checkpoint(), 0);
    assert_eq!(world.document().delivered.len(), 1, "row 2 is remembered");
    world.sinks[1].is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    failed(world.tick().await);
    assert!(!world.document().is_anybody_behind());
    assert_eq!(says(&world).await[&2], [taken("audit"), taken("hook")]);
}

#[tokio::test(start_paused = true)]
async fn a_segment_without_its_commit_counts_for_nothing_and_the_rows_come_again() {
    let mut world = world(2);
    world.max_rows = 2;
    // Claim, marker, then the commit, which never arrives; the process dies meanwhile.
    world.store.on_write(3, Fault::Silence);
    assert!(timeout(Duration::from_secs(1), world.tick()).await.is_err());
    assert_eq!(segments(&world).await.len(), 1, "the segment was written");
    assert_eq!(world.document().ledger, None, "and nothing names it");
    assert!(records(&world).await.found.is_empty());

    sleep(TTL + MARGIN).await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().rows(), [1, 2, 1, 2]);
    assert_eq!(segments(&world).await.len(), 2);
    let said = says(&world).await;
    assert!(said.values().all(|it| *it == [taken("hook")]), "{said:?}");
    assert_eq!(reach(&world).await.segments, 1);
}

/// Objects that cannot be put.
#[derive(Debug)]
struct Full {
    inner: Arc<MemoryStore>,
    is_full: AtomicBool,
}

#[async_trait]
impl ObjectStore for Full {
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(StoreError::Refused {
                context: "scripted".to_owned(),
                cause: "no space left".into(),
            });
        }
        self.inner.put(key, body).await
    }

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        self.inner.get(key).await
    }

    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        self.inner.remove(key).await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.inner.names(prefix).await
    }
}

async fn tick_on(world: &World, objects: &Arc<Full>) -> TickReport {
    let mut poller = world.poller("app/one");
    poller.objects = objects.clone();
    let budget = Budget::starting(world.clock.monotonic(), Some(world.function_timeout));
    tick(&poller, budget).await
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_not_committed_if_its_segment_cannot_be_written() {
    let bad_rows = [BTreeSet::new(), BTreeSet::from([2])];
    for bad in bad_rows {
        let mut world = world(3);
        world.max_rows = 3;
        world.hook().is(Temper::Names(bad, false));
        let objects = Arc::new(Full {
            inner: world.objects.clone(),
            is_full: AtomicBool::new(true),
        });
        let error = failed(tick_on(&world, &objects).await);
        assert!(matches!(error, TickError::Store(_)), "{error:?}");
        let document = world.document();
        assert_eq!(world.checkpoint(), 0);
        assert!(document.delivered.is_empty() && document.ledger.is_none());
        assert!(document.lease.held.is_none(), "the lease is given back");

        objects.is_full.store(false, Ordering::Relaxed);
        world.hook().is(Temper::Kind);
        sleep(Duration::from_secs(301)).await;
        assert_eq!(done(tick_on(&world, &objects).await), Outcome::Drained);
        assert_eq!(world.checkpoint(), 3);
        let said = says(&world).await;
        assert!(said.values().all(|it| *it == [taken("hook")]), "{said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_behind_gets_its_rows_again_if_they_cannot_be_written_down() {
    let mut world = world(3);
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.optional.insert("audit".to_owned());
    world.sinks[1].is(Temper::Always(FailureKind::Passing));
    world.tick().await;
    world.sinks[1].is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    let objects = Arc::new(Full {
        inner: world.objects.clone(),
        is_full: AtomicBool::new(true),
    });
    tick_on(&world, &objects).await;
    let lag = world.document().sink("audit").lag.expect("it is behind");
    assert!(lag.position.is_none() && lag.delivered.is_empty());
    objects.is_full.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(301)).await;
    tick_on(&world, &objects).await;
    assert!(!world.document().is_anybody_behind());
    let said = says(&world).await;
    let both = [taken("audit"), taken("hook")];
    assert!(said.values().all(|it| *it == both), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outbox_keeps_its_rows_until_it_is_written_down_that_whoever_was_behind_has_them() {
    let mut world = world(4);
    world.max_rows = 10;
    world.source.is_outbox.store(true, Ordering::Relaxed);
    world.sinks.push(Arc::new(Receiver::new("audit")));
    world.optional.insert("audit".to_owned());
    world.sinks[1].is(Temper::Always(FailureKind::Passing));
    world.hook().is(Temper::Names(BTreeSet::from([1]), false));
    failed(world.tick().await);
    assert_eq!(world.document().delivered.len(), 3, "above the checkpoint");

    world.sinks[1].is(Temper::Kind);
    sleep(Duration::from_secs(301)).await;
    let objects = Arc::new(Full {
        inner: world.objects.clone(),
        is_full: AtomicBool::new(true),
    });
    failed(tick_on(&world, &objects).await);
    assert!(world.document().is_anybody_behind());
    assert_eq!(world.sinks[1].stored(), [2, 3, 4], "it has them");
    assert_eq!(world.source.ids(), BTreeSet::from([1, 2, 3, 4]));

    objects.is_full.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(301)).await;
    failed(tick_on(&world, &objects).await);
    assert!(!world.document().is_anybody_behind());
    assert_eq!(world.source.ids(), BTreeSet::from([1]));
}

#[tokio::test(start_paused = true)]
async fn the_segment_of_a_holder_that_was_too_late_is_on_nobodys_way() {
    let mut world = world(2);
    world.max_rows = 2;
    // Its commit is on the way when another one takes over.
    world.store.on_write(3, Fault::Delayed);
    assert!(
        timeout(Duration::from_millis(20), world.tick())
            .await
            .is_err()
    );
    sleep(TTL + MARGIN).await;
    world.insert([3]);
    assert_eq!(done(world.tick_of("app/rival").await), Outcome::Drained);
    let head = world.document().ledger.unwrap().head;
    assert!(!world.store.land().await, "it comes too late");
    assert_eq!(world.document().ledger.unwrap().head, head);
    let said = says(&world).await;
    assert_eq!(said.len(), 3);
    assert!(said.values().all(|it| *it == [taken("hook")]), "{said:?}");
    assert_eq!(segments(&world).await.len(), 3, "one of them in vain");
    assert_eq!(reach(&world).await.segments, 2);
}

#[tokio::test(start_paused = true)]
async fn a_move_by_hand_keeps_the_ledger_and_rows_that_come_again_are_in_it_twice() {
    let world = world(2);
    world.tick().await;
    let evidence = dbtick::model::lease::AgeEvidence {
        local_now: world.clock.now(),
        store: None,
        margin: MARGIN,
    };
    let poller = world.poller("app/one");
    world.operate_now(Order::Reset {
        to: None,
        source: poller.identity(),
        evidence,
    });
    assert_eq!(world.document().ledger.unwrap().segments, 1);
    world.tick().await;
    let said = says(&world).await;
    let twice = [taken("hook"), taken("hook")];
    assert!(said.values().all(|it| *it == twice), "{said:?}");
}

#[tokio::test(start_paused = true)]
async fn a_ledger_says_how_far_back_it_reaches_when_old_segments_are_gone() {
    let world = world(6);
    world.tick().await;
    let keys = segments(&world).await;
    assert_eq!(keys.len(), 3);
    world.objects.remove(&keys[0]).await.unwrap();
    let reach = reach(&world).await;
    assert_eq!(reach.segments, 2);
    assert!(keys[0].as_str().ends_with(&reach.gone.unwrap()));
    let above = Some(place(2, 2));
    assert_eq!(reach.covers, BTreeMap::from([("hook".to_owned(), above)]));
    let said = says(&world).await;
    assert!(said[&2].is_empty() && said[&3] == [taken("hook")]);
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_was_off_for_a_while_vouches_only_for_what_came_since() {
    let mut world = world(2);
    world.tick().await;
    world.ledger = LedgerMode::Off;
    world.insert([3]);
    world.tick().await;
    let closed = world.document().ledger.unwrap();
    assert!(closed.closed);
    assert!(reach(&world).await.covers.is_empty());
    world.ledger = LedgerMode::Full;
    world.insert([4]);
    world.tick().await;
    let ledger = world.document().ledger.unwrap();
    assert_eq!((ledger.closed, ledger.segments), (false, 2));
    let reach = reach(&world).await;
    let above = Some(place(3, 3));
    assert_eq!(reach.covers, BTreeMap::from([("hook".to_owned(), above)]));
    let said = says(&world).await;
    assert_eq!(said[&1], [taken("hook")], "what was recorded stays so");
    assert!(said[&3].is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_ledger_that_begins_after_a_move_back_does_not_vouch_for_what_went_out_before() {
    let mut world = World::with_rows(6);
    world.tick().await;
    world.ledger = LedgerMode::Full;
    let evidence = dbtick::model::lease::AgeEvidence {
        local_now: world.clock.now(),
        store: None,
        margin: MARGIN,
    };
    world.operate_now(Order::Reset {
        to: None,
        source: world.poller("app/one").identity(),
        evidence,
    });
    world.tick().await;
    let above = Some(place(6, 6));
    let reach = reach(&world).await;
    assert_eq!(reach.covers, BTreeMap::from([("hook".to_owned(), above)]));
}

#[tokio::test(start_paused = true)]
async fn a_segment_says_all_that_a_person_needs() {
    let world = world(2);
    world.tick().await;
    let key = &segments(&world).await[0];
    let body = world.objects.get(key).await.unwrap().unwrap();
    let name = key.as_str().rsplit('/').next().unwrap();
    let segment = Segment::decode(name, &body).unwrap();
    let attempt = &world.hook().attempts()[0];
    assert_eq!(segment.poller, "orders");
    assert_eq!(segment.batch_id.as_ref(), Some(&attempt.batch_id));
    let ids: Vec<_> = segment.ids.iter().map(ToString::to_string).collect();
    assert_eq!(ids, attempt.event_ids);
    let header = body.split(|byte| *byte == b'\n').next().unwrap();
    let header: serde_json::Value = serde_json::from_slice(header).unwrap();
    assert_eq!(header["version"], 1);
    assert_eq!(
        header["sinks"]["hook"]["taken"],
        serde_json::json!([[0, 1]])
    );
}

#[tokio::test(start_paused = true)]
async fn beside_a_live_poller_a_page_is_read_only_when_it_is_its_turn() {
    for beside in [false, true] {
        let world = world(4);
        let mut poller = world.poller("app/one");
        let sequences = Sequences::of_range(1, 1, Timestamp::default());
        poller.beside = beside.then(|| dbtick::tick::Beside {
            token: Default::default(),
            sequences,
        });
        let slow = crate::world::Reply::AcknowledgeAfter(Duration::from_secs(2));
        world.hook().will([slow]);
        let change = async {
            sleep(Duration::from_secs(1)).await;
            world.source.put(3, 3, "changed");
        };
        let budget = Budget::starting(world.clock.monotonic(), Some(world.function_timeout));
        let (report, ()) = tokio::join!(tick(&poller, budget), change);
        assert_eq!(done(report), Outcome::Drained);
        let attempts = world.hook().attempts();
        let body = String::from_utf8(attempts[1].body.to_vec()).unwrap();
        assert_eq!(
            body.contains("changed"),
            beside,
            "row 3 as it was, or as it is"
        );
        let fence = attempts[1].fence;
        let first = sequences.before(world.document().lease.token);
        let expected = if beside { (0, first + 2) } else { (1, 2) };
        assert_eq!((fence.token.get(), fence.sequence), expected);
    }
}
