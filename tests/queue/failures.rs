//! A service that fails in the middle of a batch.

use std::collections::BTreeSet;

use dbtick::model::page::{EventId, Op};
use dbtick::sink::{FailureKind, Stance, Unaccepted, Verdict};

use crate::support::proxy::{Fault, Proxy};
use crate::{Row, Storage, batch, deliver, ids, queues_at, row, sink};

const ROWS: i64 = 40;

async fn broken(fault: impl FnOnce(&Proxy)) -> (Verdict, BTreeSet<i64>, Proxy) {
    let storage = Storage::queues();
    storage.queue().create().await.unwrap();
    let proxy = Proxy::before(&storage.queues);
    fault(&proxy);
    let sink = sink(&queues_at(proxy.port), |_| {});
    let verdict = deliver(&sink, &batch((1..=ROWS).map(row))).await;
    let messages = storage.messages().await;
    let found = ids(&messages);
    let distinct: BTreeSet<i64> = found.iter().copied().collect();
    assert_eq!(distinct.len(), found.len(), "none is put twice in one tick");
    (verdict, distinct, proxy)
}

/// The keys of the rows that were named, all of them to come again.
#[track_caller]
fn named(verdict: &Verdict) -> BTreeSet<i64> {
    named_as(Stance::NotTried, verdict)
}

#[track_caller]
fn named_as(stance: Stance, verdict: &Verdict) -> BTreeSet<i64> {
    let Verdict::Partly(unaccepted) = verdict else {
        panic!("{verdict:?}");
    };
    let batch = batch((1..=ROWS).map(row));
    let key = |id: EventId| batch.event_ids.iter().position(|found| *found == id);
    let row = |event: &Unaccepted| i64::try_from(key(event.id).unwrap()).unwrap() + 1;
    let as_told = |event: &Unaccepted| event.stance == stance;
    assert!(unaccepted.iter().all(as_told), "{unaccepted:?}");
    let rows: Vec<i64> = unaccepted.iter().map(row).collect();
    assert!(rows.is_sorted(), "{rows:?}");
    rows.into_iter().collect()
}

#[tokio::test]
async fn what_was_not_put_is_named_and_nothing_else_is() {
    let all: BTreeSet<i64> = (1..=ROWS).collect();
    for fault in [
        Fault::Reset,
        Fault::Say(500, &[]),
        Fault::Say(403, &[]),
        Fault::Say(503, &[("retry-after", "60")]),
    ] {
        let (verdict, put, _) = broken(|proxy| {
            proxy.nth(12, "POST", "/messages", fault.clone());
        })
        .await;
        let named = named(&verdict);
        assert!(named.is_disjoint(&put), "{fault:?}");
        assert_eq!(named.union(&put).copied().collect::<BTreeSet<_>>(), all);
        assert!(put.len() < all.len(), "{fault:?}: nothing new is begun");
    }
}

#[tokio::test]
async fn a_put_whose_answer_is_lost_is_not_repeated_and_its_event_comes_again() {
    for fault in [Fault::AnswerDropped, Fault::Truncated] {
        let (verdict, put, proxy) = broken(|proxy| {
            proxy.nth(12, "POST", "/messages", fault.clone());
        })
        .await;
        let exchanges = proxy.exchanges();
        let stored = exchanges.iter().filter(|exchange| is_put(exchange));
        assert_eq!(stored.count(), put.len(), "{fault:?}");
        let both: Vec<i64> = named(&verdict).intersection(&put).copied().collect();
        assert_eq!(both.len(), 1, "{fault:?}: {both:?}");
    }
}

fn is_put(exchange: &crate::support::proxy::Exchange) -> bool {
    exchange.method == "POST" && exchange.status == Some(201)
}

#[tokio::test]
async fn a_busy_service_is_tried_again_inside_the_tick() {
    let (verdict, put, _) = broken(|proxy| {
        proxy.nth(3, "POST", "/messages", Fault::Say(503, &[]));
        proxy.nth(
            9,
            "POST",
            "/messages",
            Fault::Say(429, &[("retry-after", "1")]),
        );
    })
    .await;
    assert_eq!(verdict, Verdict::Acknowledged);
    assert_eq!(put, (1..=ROWS).collect());
}

#[tokio::test]
async fn a_message_that_is_not_taken_does_not_keep_the_others() {
    let (verdict, put, _) = broken(|proxy| {
        proxy.nth(5, "POST", "/messages", Fault::Say(413, &[]));
    })
    .await;
    assert_eq!(named_as(Stance::NotNow, &verdict).len(), 1);
    assert_eq!(put.len(), usize::try_from(ROWS).unwrap() - 1);
}

#[tokio::test]
async fn a_version_that_is_not_put_keeps_back_the_later_ones_of_its_row() {
    let storage = Storage::queues();
    storage.queue().create().await.unwrap();
    let proxy = Proxy::before(&storage.queues);
    proxy.nth(1, "POST", "/messages", Fault::Say(413, &[]));
    let gone = Row(1, Op::Delete, "null".to_owned());
    let batch = batch([row(1), gone, row(2)]);
    let verdict = deliver(&sink(&queues_at(proxy.port), |_| {}), &batch).await;
    let Verdict::Partly(unaccepted) = verdict else {
        panic!("{verdict:?}");
    };
    let named: Vec<EventId> = unaccepted.iter().map(|event| event.id).collect();
    assert_eq!(named, batch.event_ids[..2]);
    assert_eq!(ids(&storage.messages().await), [2]);
}

#[tokio::test]
async fn a_service_that_takes_nothing_says_what_kind_of_failure_it_is() {
    for (fault, kind, waits) in [
        (Fault::Reset, FailureKind::Passing, false),
        (Fault::Say(500, &[]), FailureKind::Passing, false),
        (
            Fault::Say(503, &[("retry-after", "60")]),
            FailureKind::Passing,
            true,
        ),
        (Fault::Say(403, &[]), FailureKind::Refused, false),
        (Fault::Say(404, &[]), FailureKind::Refused, false),
        (Fault::Say(413, &[]), FailureKind::Rejected, false),
    ] {
        let (verdict, put, _) = broken(|proxy| proxy.every("POST", "", fault.clone())).await;
        let Verdict::Failed(failure) = verdict else {
            panic!("{fault:?}: {verdict:?}");
        };
        assert_eq!(failure.kind, kind, "{fault:?}: {failure}");
        assert_eq!(failure.not_before.is_some(), waits, "{fault:?}");
        assert!(
            failure.reason.contains("queue order-events of STORAGE"),
            "{failure}"
        );
        assert!(put.is_empty());
    }
}

#[tokio::test]
async fn a_service_that_nobody_reaches_passes() {
    let storage = Storage::queues();
    let proxy = Proxy::before(&storage.queues);
    proxy.close().await;
    let sink = sink(&queues_at(proxy.port), |_| {});
    let verdict = deliver(&sink, &batch([row(1)])).await;
    let Verdict::Failed(failure) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(failure.kind, FailureKind::Passing);
    assert!(failure.reason.contains("not reached"), "{failure}");
}
