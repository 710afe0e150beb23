//! kill -9 while a bad row is looked for, and between its quarantine and the commit.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::moods::{Badness, Moody};
use crate::support::azurite::Azurite;
use crate::support::dice::Dice;
use crate::support::proxy::{Exchange, Fault, Proxy};
use crate::support::receiver::Answer;
use crate::support::world::World;
use crate::{filled, hasty, quarantined, ticks_until, until_quiet};

const ROWS: i64 = 12;
const BAD: i64 = 7;

/// All rows, and of which one the receiver never takes.
async fn world(changes: Value) -> (World, BTreeMap<i64, Value>) {
    let world = World::with_orders(hasty(changes)).await;
    let rows = filled(&world, ROWS).await;
    (world, rows)
}

fn never_takes_it() -> BTreeMap<i64, Badness> {
    [(BAD, Badness::Rejected)].into()
}

/// How many deliveries it takes when nobody is killed: one tick that fails, and one that finds the row.
async fn undisturbed() -> usize {
    let (world, _) = world(json!({})).await;
    let _moody = Moody::take_over(&world.receiver, Dice::thrown(), never_takes_it());
    let handler = world.serve().await;
    until_quiet(&handler).await;
    assert_eq!(quarantined(&world).keys().collect::<Vec<_>>(), [&BAD]);
    world.receiver.count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_middle_of_the_search_for_a_bad_row_loses_nothing() {
    let deliveries = undisturbed().await;
    assert!(deliveries > 6, "{deliveries}");
    for fatal in 1..deliveries {
        let (world, rows) = world(json!({})).await;
        let moody = Moody::take_over(&world.receiver, Dice::thrown(), never_takes_it());
        let mut handler = world.serve().await;
        assert_eq!(handler.tick("Orders").await.status, 500);
        let inner = moody.clone();
        world.receiver.answer(move |index, delivery| {
            let answer = inner.answer(delivery);
            // What it would say is never heard; what it has taken, it has.
            if index == fatal {
                Answer::Never
            } else {
                answer
            }
        });
        let (died, ()) = tokio::join!(handler.try_tick("Orders"), async {
            world.receiver.arrived(fatal + 1).await;
            handler.signal(Signal::SIGKILL);
        });
        assert!(died.is_none(), "{died:?}");
        handler.ended().await;
        let handler = world.serve().await;
        ticks_until(&handler, "the lease of the dead ends", |answer| {
            !answer.logs().contains("is held by")
        })
        .await;
        until_quiet(&handler).await;
        let aside = quarantined(&world);
        assert_eq!(
            aside.keys().collect::<Vec<_>>(),
            [&BAD],
            "killed at {fatal}"
        );
        let mut whole: BTreeMap<i64, Value> = moody
            .taken()
            .into_iter()
            .map(|(row, events)| (row, events[0]["data"].clone()))
            .collect();
        assert!(!whole.contains_key(&BAD));
        whole.insert(BAD, aside[&BAD]["data"].clone());
        assert_eq!(whole, rows, "killed at {fatal}");
        assert_eq!(world.state("orders").committed(), ROWS);
    }
}

fn is_put_of(exchange: &Exchange, path: &str) -> bool {
    exchange.is("PUT", path)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_quarantine_and_commit_leaves_the_row_in_quarantine_and_comes_again() {
    let azurite = Azurite::blob();
    let proxy = Proxy::before(&azurite);
    let (world, rows) = world(json!({
        "state": { "kind": "blob", "connection": "STORAGE" },
        "lease": { "ttl": "4s", "heartbeat": "1s", "margin": "2s" }
    }))
    .await;
    let world = world.setting("STORAGE", &proxy.connection_string());
    let moody = Moody::take_over(&world.receiver, Dice::thrown(), never_takes_it());
    let mut handler = world.serve().await;
    let first = handler.tick("Orders").await;
    assert!(first.logs().contains("422"), "{first:?}");
    // The claim passes; whatever is written to the document then waits.
    const DOCUMENT: &str = "orders.json";
    proxy.nth(2, "PUT", DOCUMENT, Fault::RequestHeld);
    let (died, ()) = tokio::join!(handler.try_tick("Orders"), async {
        let between = |exchanges: &[Exchange]| {
            let kept = exchanges
                .iter()
                .position(|it| is_put_of(it, "quarantine") && it.landed());
            let held = exchanges
                .iter()
                .position(|it| is_put_of(it, DOCUMENT) && it.fault == Some(Fault::RequestHeld));
            kept.is_some() && held > kept
        };
        proxy
            .until("the commit comes after the quarantine", between)
            .await;
        handler.signal(Signal::SIGKILL);
    });
    assert!(died.is_none(), "{died:?}");
    handler.ended().await;
    assert_eq!(quarantined(&world).keys().collect::<Vec<_>>(), [&BAD]);
    let before = world.receiver.count();
    let handler = world.serve().await;
    ticks_until(&handler, "the lease of the dead ends", |answer| {
        !answer.logs().contains("is held by")
    })
    .await;
    assert!(
        world.receiver.count() > before,
        "what was not committed comes again"
    );
    until_quiet(&handler).await;
    // The commit of the dead arrives after all, and changes nothing.
    proxy.let_go();
    until_quiet(&handler).await;
    assert_eq!(quarantined(&world).keys().collect::<Vec<_>>(), [&BAD]);
    let taken: Vec<i64> = moody.taken().into_keys().collect();
    let expected: Vec<i64> = rows.into_keys().filter(|row| *row != BAD).collect();
    assert_eq!(taken, expected);
}
