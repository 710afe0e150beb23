//! Answers and requests that come after their time, and leases that end meanwhile.

use std::sync::Arc;
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use dbtick::config::LeaseTimes;
use dbtick::model::definition::SourceIdentity;
use dbtick::model::lease::AgeEvidence;
use dbtick::model::transitions::{Action, Applied, Claim, apply};
use dbtick::tick::report::{Outcome, TickError};
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::support::azurite::Azurite;
use crate::support::proxy::{Exchange, Fault};
use crate::support::receiver::Answer;
use crate::support::within;
use crate::world::{BlobWorld, CALM, IMPATIENT, done, failed, run};

/// A request counts as lost after three quarters of a second, and the lease after two seconds.
const SHORT: LeaseTimes = LeaseTimes {
    ttl: Duration::from_secs(3),
    heartbeat: Duration::from_millis(500),
    margin: Duration::from_secs(1),
};

/// Ticks of the next owner, until one is not turned away.
async fn next_owner(world: &BlobWorld) -> Outcome {
    let poller = world.next_owner(Arc::new(SystemClock));
    within("the lease can be taken", async {
        loop {
            match done(run(&poller).await) {
                Outcome::HeldElsewhere { .. } => sleep(Duration::from_millis(100)).await,
                outcome => return outcome,
            }
        }
    })
    .await
}

/// One server for all of them; each function is a promise of its own.
#[tokio::test]
async fn nothing_that_comes_late_counts_twice_or_is_lost() {
    let azurite = Azurite::blob();
    tokio::join!(
        a_write_that_lands_late_is_counted_once(&azurite),
        a_commit_that_is_answered_after_the_lease_is_not_believed_and_not_lost(&azurite),
        a_commit_that_lands_after_the_next_claim_is_rejected(&azurite),
        a_holder_that_cannot_renew_cancels_the_delivery_and_writes_no_more(&azurite),
        a_stale_holders_commit_is_rejected_and_the_rivals_document_stands(&azurite),
    );
}

/// Just before, just when and well after we look: whichever comes first, it counts once.
async fn a_write_that_lands_late_is_counted_once(azurite: &Azurite) {
    let delays = [980, 1005, 1020, 1100, 1500];
    let cases = delays.iter().flat_map(|delay| {
        [1, 2].map(|nth| async move {
            let world = BlobWorld::born_on(azurite, IMPATIENT).await;
            world.insert(2).await;
            let late = Fault::RequestDelayed(Duration::from_millis(*delay));
            world.proxy.nth(nth, "PUT", "orders.json", late);
            let report = world.tick().await;
            let landed = |exchanges: &[Exchange]| {
                let late = exchanges.iter().find(|e| e.fault.is_some());
                late.is_some_and(|e| e.status.is_some())
            };
            world.proxy.until("the late write arrives", landed).await;
            let case = format!("PUT {nth}, {delay} ms: {:#?}", world.proxy.fresh_lines());
            assert!(
                matches!(report.result, Ok(Outcome::Drained)),
                "{report:?} {case}"
            );
            let document = world.document().await;
            assert_eq!(document.lease.token.get(), 2, "{case}");
            assert_eq!(document.counters.batches, 2, "{case}");
            assert_eq!(document.lease.held, None, "{case}");
            assert_eq!(done(world.tick().await), Outcome::Idle, "{case}");
            assert_eq!(world.sent(), [1, 1, 1], "{case}");
        })
    });
    join_all(cases.map(Box::pin)).await;
}

/// The server has done it, and nobody heard of it while the lease was good.
async fn a_commit_that_is_answered_after_the_lease_is_not_believed_and_not_lost(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, SHORT).await;
    world.insert(2).await;
    let late = Fault::AnswerDelayed(Duration::from_secs(5));
    world.proxy.nth(2, "PUT", "orders.json", late.clone());
    // From the second on: what looks at the outcome.
    for n in 2..20 {
        world.proxy.nth(n, "GET", "orders.json", late.clone());
    }
    let report = world.tick().await;
    assert_eq!(report.tally.batches, 0, "{report:?}");
    assert!(
        report.took_ms < 4_500,
        "it does not wait for the answer: {report:?}"
    );
    let error = failed(report);
    assert!(matches!(error, TickError::LeaseLost { .. }), "{error:?}");
    world.proxy.heal();
    assert_eq!(next_owner(&world).await, Outcome::Idle);
    assert_eq!(world.committed().await, 3);
    assert_eq!(world.sent(), [1, 1, 1]);
}

/// D3 with the server as the judge: the commit of a holder that was given up lands after the next
/// owner has begun.
async fn a_commit_that_lands_after_the_next_claim_is_rejected(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, SHORT).await;
    world.insert(2).await;
    world.proxy.nth(2, "PUT", "orders.json", Fault::RequestHeld);
    for n in 2..100 {
        world.proxy.nth(n, "GET", "orders.json", Fault::Reset);
        // Another try would win against the late one.
        world.proxy.nth(n + 1, "PUT", "orders.json", Fault::Reset);
    }
    let error = failed(world.tick().await);
    assert!(matches!(error, TickError::LeaseLost { .. }), "{error:?}");
    world.proxy.heal();
    assert_eq!(next_owner(&world).await, Outcome::Drained);
    let after_takeover = world.document().await;
    assert_eq!(after_takeover.lease.token.get(), 3);
    let late_one = |exchanges: &[Exchange]| {
        let late = exchanges
            .iter()
            .find(|e| e.fault == Some(Fault::RequestHeld));
        late.and_then(|e| e.status)
    };
    assert_eq!(late_one(&world.proxy.exchanges()), None, "still under way");
    world.proxy.let_go();
    world
        .proxy
        .until("the late commit arrives", move |e| late_one(e).is_some())
        .await;
    assert_eq!(late_one(&world.proxy.exchanges()), Some(412));
    assert_eq!(world.document().await, after_takeover, "it changed nothing");
    assert_eq!(world.sent(), [1, 2, 2], "the next owner has reprocessed");
}

/// C4: n heartbeats in a row that could not be sent.
async fn a_holder_that_cannot_renew_cancels_the_delivery_and_writes_no_more(azurite: &Azurite) {
    let faults = [
        Fault::Reset,
        Fault::Say(500, &[]),
        Fault::Say(503, &[]),
        Fault::AnswerDelayed(Duration::from_secs(10)),
    ];
    let cases = faults.into_iter().map(|fault| async move {
        let world = BlobWorld::born_on(azurite, SHORT).await;
        world.insert(2).await;
        world.world.receiver.answer(|index, _| match index {
            1 => Answer::Never,
            _ => Answer::Ok,
        });
        for n in 2..100 {
            world.proxy.nth(n, "PUT", "orders.json", fault.clone());
            world.proxy.nth(n, "GET", "orders.json", fault.clone());
        }
        let report = world.tick().await;
        assert!(report.took_ms < 5_000, "{report:?}");
        let error = failed(report);
        assert!(
            matches!(error, TickError::LeaseLost { .. }),
            "{fault:?}: {error:?}"
        );
        let at_its_end = world.proxy.exchanges().len();
        world.proxy.heal();
        sleep(SHORT.heartbeat * 2).await;
        let lines = world.proxy.fresh_lines();
        // One may have been under way.
        let later = world.proxy.exchanges().len() - at_its_end;
        assert!(later <= 1, "{fault:?}: {lines:#?}");
        assert_eq!(world.committed().await, 1, "{fault:?}");
        assert_eq!(next_owner(&world).await, Outcome::Drained, "{fault:?}");
        assert_eq!(world.committed().await, 3, "{fault:?}");
        assert_eq!(world.sent(), [1, 2, 2], "{fault:?}");
    });
    join_all(cases.map(Box::pin)).await;
}

/// D3, D7: a rival has the lease; the commit that follows is refused by the server and by us.
async fn a_stale_holders_commit_is_rejected_and_the_rivals_document_stands(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    world.insert(2).await;
    world.world.receiver.answer(|_, _| Answer::WhenOpened);
    let rival = async {
        world.world.receiver.arrived(2).await;
        take_over(&world).await;
        world.world.receiver.open_gate();
    };
    let (report, ()) = tokio::join!(world.tick(), rival);
    let error = failed(report);
    assert!(matches!(error, TickError::LeaseLost { .. }), "{error:?}");
    assert_eq!(
        world.proxy.fresh_lines(),
        [
            "GET orders.json 200",
            "PUT orders.json if-match 201",
            "PUT orders.json if-match 412",
            "GET orders.json 200",
        ],
        "nothing is written after the loss is known"
    );
    let document = world.document().await;
    assert_eq!(document.lease.held.unwrap().owner_id, "rival");
    assert_eq!(document.lease.token.get(), 3);
    assert_eq!(world.committed().await, 1);
}

/// Past the proxy, and as if the lease had long run out.
async fn take_over(world: &BlobWorld) {
    let document = world.document().await;
    let an_hour_ahead = SystemClock.now() + chrono::TimeDelta::hours(1);
    let claim = Action::Claim(Claim {
        owner_id: "rival".to_owned(),
        nonce: "rival".to_owned(),
        source: SourceIdentity {
            fingerprint: document.source_fingerprint.clone(),
            definition: document.source.clone().unwrap_or_default(),
        },
        sinks: document.sinks.keys().cloned().collect(),
        ttl: Duration::from_secs(60),
        evidence: AgeEvidence {
            local_now: an_hour_ahead,
            store: None,
            margin: Duration::ZERO,
        },
    });
    let Applied::Changed(next) = apply(&document, &claim, an_hour_ahead).unwrap() else {
        panic!("the rival holds it already");
    };
    world.put(next.to_bytes()).await;
}
