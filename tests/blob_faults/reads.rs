//! Reads that fail, are cut short, or show what is no longer so.

use std::time::Duration;

use dbtick::store::StoreError;
use dbtick::tick::report::{Outcome, TickError};

use crate::support::azurite::Azurite;
use crate::support::proxy::Fault;
use crate::world::{BlobWorld, CALM, IMPATIENT, a_few_at_a_time, done, failed};

/// One server for all of them; each function is a promise of its own.
#[tokio::test]
async fn reads_that_fail_or_lie_harm_nothing() {
    let azurite = Azurite::blob();
    tokio::join!(
        Box::pin(a_read_that_fails_once_is_made_again(&azurite)),
        Box::pin(a_store_that_cannot_be_read_fails_the_tick_after_a_few_tries(&azurite)),
        Box::pin(a_read_that_is_forbidden_is_not_tried_again_and_says_what_to_do(&azurite)),
        Box::pin(a_tick_that_read_an_old_document_sends_nothing(&azurite)),
        Box::pin(a_reload_that_fails_is_made_again_while_the_lease_is_good(
            &azurite
        )),
        Box::pin(a_reload_that_shows_an_old_document_never_undoes_a_commit(
            &azurite
        )),
        Box::pin(a_document_that_vanishes_under_its_holder_is_not_recreated(
            &azurite
        )),
    );
}

/// Half a document must never pass for a damaged one: that would send a person to repair a sound blob.
async fn a_read_that_fails_once_is_made_again(azurite: &Azurite) {
    let faults = [
        Fault::Reset,
        Fault::Truncated,
        Fault::AnswerDropped,
        Fault::AnswerDelayed(Duration::from_secs(3)),
        Fault::Say(500, &[]),
        Fault::Say(503, &[]),
        Fault::Say(429, &[]),
    ];
    let cases = faults.into_iter().map(|fault| async move {
        let world = BlobWorld::born_on(azurite, IMPATIENT).await;
        world.insert(2).await;
        world.proxy.nth(1, "GET", "orders.json", fault.clone());
        let report = world.tick().await;
        assert!(
            matches!(report.result, Ok(Outcome::Drained)),
            "{fault:?}: {report:?}"
        );
        let lines = world.proxy.fresh_lines();
        assert_eq!(
            lines.len(),
            4,
            "two reads, two writes; {fault:?}: {lines:#?}"
        );
        assert_eq!(world.sent(), [1, 1, 1], "{fault:?}");
    });
    a_few_at_a_time(cases).await;
}

/// D9.
async fn a_store_that_cannot_be_read_fails_the_tick_after_a_few_tries(azurite: &Azurite) {
    let faults = [
        Some(Fault::Reset),
        Some(Fault::Truncated),
        Some(Fault::Say(500, &[])),
        Some(Fault::Say(503, &[])),
        Some(Fault::AnswerDelayed(Duration::from_secs(5))),
        None,
    ];
    let cases = faults.into_iter().map(|fault| async move {
        let world = BlobWorld::born_on(azurite, IMPATIENT).await;
        world.insert(2).await;
        match &fault {
            Some(fault) => world.proxy.every("GET", "orders.json", fault.clone()),
            None => world.proxy.close().await,
        }
        let report = world.tick().await;
        assert!(report.took_ms < 5_000, "{fault:?}: {report:?}");
        let sentence = report.sentence();
        let error = failed(report);
        assert!(
            matches!(error, TickError::Store(StoreError::Unreachable { .. })),
            "{fault:?}: {error:?}"
        );
        let lines = world.proxy.fresh_lines();
        assert!(lines.len() <= 4, "{fault:?}: {lines:#?}");
        assert!(
            lines.iter().all(|line| line.starts_with("GET")),
            "{fault:?}: {lines:#?}"
        );
        assert!(
            !sentence.contains("write"),
            "it was a read; {fault:?}: {sentence}"
        );
        assert_eq!(world.sent(), [1], "{fault:?}");
    });
    a_few_at_a_time(cases).await;
}

async fn a_read_that_is_forbidden_is_not_tried_again_and_says_what_to_do(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    for status in [401, 403] {
        world
            .proxy
            .nth(1, "GET", "orders.json", Fault::Say(status, &[]));
        let report = world.tick().await;
        let sentence = report.sentence();
        let error = failed(report);
        assert!(
            matches!(error, TickError::Store(StoreError::Refused { .. })),
            "{error:?}"
        );
        assert!(sentence.contains(&status.to_string()), "{sentence}");
        assert!(sentence.contains("db-state"), "names the place: {sentence}");
        assert_eq!(world.proxy.fresh().len(), 1);
    }
}

/// A stale view is found out by the claim, before anything is sent.
async fn a_tick_that_read_an_old_document_sends_nothing(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    world.insert(2).await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    world.insert(1).await;
    world.proxy.nth(1, "GET", "orders.json", Fault::Stale);
    let outcome = done(world.tick().await);
    assert!(
        matches!(outcome, Outcome::HeldElsewhere { .. }),
        "{outcome:?}"
    );
    assert_eq!(world.sent(), [1, 1, 1]);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.sent(), [1, 1, 1, 1]);
}

/// What settles an unknown outcome may fail as well.
async fn a_reload_that_fails_is_made_again_while_the_lease_is_good(azurite: &Azurite) {
    let faults = [
        Fault::Reset,
        Fault::Truncated,
        Fault::Say(500, &[]),
        Fault::Say(503, &[]),
    ];
    let cases = faults.into_iter().flat_map(|fault| {
        [1, 2].map(|nth| {
            let fault = fault.clone();
            async move {
                let world = BlobWorld::born_on(azurite, CALM).await;
                world.insert(2).await;
                world
                    .proxy
                    .nth(nth, "PUT", "orders.json", Fault::AnswerDropped);
                for n in 2..=6 {
                    world.proxy.nth(n, "GET", "orders.json", fault.clone());
                }
                let report = world.tick().await;
                let lines = world.proxy.fresh_lines();
                assert!(
                    matches!(report.result, Ok(Outcome::Drained)),
                    "PUT {nth}, {fault:?}: {report:?} {lines:#?}"
                );
                assert_eq!(world.sent(), [1, 1, 1], "PUT {nth}, {fault:?}");
                assert_eq!(world.document().await.lease.token.get(), 2);
            }
        })
    });
    a_few_at_a_time(cases).await;
}

/// An old document shows neither our mark nor our lease: stop, and let the next tick look again.
async fn a_reload_that_shows_an_old_document_never_undoes_a_commit(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    world.insert(2).await;
    world
        .proxy
        .nth(2, "PUT", "orders.json", Fault::AnswerDropped);
    world.proxy.nth(2, "GET", "orders.json", Fault::Stale);
    let error = failed(world.tick().await);
    assert!(matches!(error, TickError::LeaseLost { .. }), "{error:?}");
    assert_eq!(world.committed().await, 3, "it had landed");
    assert_eq!(done(world.tick().await), Outcome::Idle);
    assert_eq!(world.sent(), [1, 1, 1]);
}

/// A document that is gone is never made again from memory.
async fn a_document_that_vanishes_under_its_holder_is_not_recreated(azurite: &Azurite) {
    let cases = [1, 2].into_iter().map(|nth| async move {
        let world = BlobWorld::born_on(azurite, CALM).await;
        world.insert(2).await;
        world
            .proxy
            .nth(nth, "PUT", "orders.json", Fault::Say(412, &[]));
        world
            .proxy
            .nth(2, "GET", "orders.json", Fault::Say(404, &[]));
        let error = failed(world.tick().await);
        assert!(matches!(error, TickError::DocumentGone { .. }), "{error:?}");
        let lines = world.proxy.fresh_lines();
        assert!(
            lines.iter().all(|line| !line.contains("if-none-match")),
            "{lines:#?}"
        );
    });
    a_few_at_a_time(cases).await;
}
