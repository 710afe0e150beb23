//! Each fault at each write of a tick.

use std::time::Duration;

use dbtick::config::LeaseTimes;
use dbtick::store::StoreError;
use dbtick::tick::report::{Outcome, TickError};

use crate::support::azurite::Azurite;
use crate::support::proxy::{Exchange, Fault};
use crate::support::receiver::Answer;
use crate::world::{BATCH, BRISK, BlobWorld, CALM, a_few_at_a_time, done, failed};

/// The writes of a tick, by what they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The first claim of all, which creates the document.
    Create,
    BirthMarker,
    Claim,
    Heartbeat,
    /// With more to come.
    Commit,
    /// Gives the lease back.
    LastCommit,
    /// A delivery has failed: says so, and gives the lease back.
    Failure,
}

const STEPS: [Step; 7] = [
    Step::Create,
    Step::BirthMarker,
    Step::Claim,
    Step::Heartbeat,
    Step::Commit,
    Step::LastCommit,
    Step::Failure,
];

/// For faults that differ from another one by their looks only.
const SOME: [Step; 3] = [Step::Claim, Step::Heartbeat, Step::LastCommit];

/// A heartbeat soon, and the end of the lease far away.
const QUICK_HEARTBEAT: LeaseTimes = LeaseTimes {
    heartbeat: Duration::from_millis(300),
    ..CALM
};

/// A world in which the next tick comes to `step`, and which of its PUTs that is.
async fn before(step: Step, azurite: &Azurite) -> (BlobWorld, usize, &'static str) {
    let lease = match step {
        Step::Heartbeat => QUICK_HEARTBEAT,
        _ => CALM,
    };
    let (world, rows, nth, path) = match step {
        Step::Create => (BlobWorld::on(azurite, lease).await, 2, 1, "orders.json"),
        Step::BirthMarker => (BlobWorld::on(azurite, lease).await, 2, 1, "orders.born"),
        Step::Claim => (
            BlobWorld::born_on(azurite, lease).await,
            2,
            1,
            "orders.json",
        ),
        Step::Commit => (
            BlobWorld::born_on(azurite, lease).await,
            4,
            2,
            "orders.json",
        ),
        Step::Heartbeat | Step::LastCommit | Step::Failure => (
            BlobWorld::born_on(azurite, lease).await,
            2,
            2,
            "orders.json",
        ),
    };
    world.insert(rows).await;
    match step {
        Step::Heartbeat => world.world.receiver.answer(|_, _| Answer::WhenOpened),
        Step::Failure => {
            let no = Answer::Say(500, None, String::new());
            world.world.receiver.answer(move |_, _| no.clone());
        }
        _ => {}
    }
    (world, nth, path)
}

/// The receiver of a `Heartbeat` case answers once a heartbeat after the fault has landed.
async fn open_in_time(step: Step, world: &BlobWorld) {
    if step == Step::Heartbeat {
        let renewed = |exchanges: &[Exchange]| {
            let fault = exchanges.iter().position(|e| e.fault.is_some());
            fault.is_some_and(|at| {
                exchanges[at + 1..]
                    .iter()
                    .any(|e| e.is("PUT", "") && e.landed())
            })
        };
        world.proxy.until("a heartbeat lands", renewed).await;
        world.world.receiver.open_gate();
    }
}

/// Passes by itself, wherever it happens: the tick ends as if nothing had happened.
async fn passes(azurite: &Azurite, step: Step, fault: Fault) {
    let (world, nth, path) = before(step, azurite).await;
    let rows = world.sent().len()
        + if step == Step::Commit {
            2 * BATCH
        } else {
            BATCH
        };
    let token = match world.stored().await {
        Some(_) => world.document().await.lease.token.get(),
        None => 0,
    };
    world.proxy.nth(nth, "PUT", path, fault.clone());
    let (report, ()) = tokio::join!(world.tick(), open_in_time(step, &world));
    let case = format!("{fault:?} at {step:?}: {:#?}", world.proxy.fresh_lines());
    let document = world.document().await;
    match step {
        Step::Failure => {
            let error = failed(report);
            assert!(
                matches!(error, TickError::Delivery { attempts: 1, .. }),
                "{error:?} {case}"
            );
            assert_eq!(document.failures().next().unwrap().1.attempts, 1, "{case}");
            assert_eq!(document.counters.failed_ticks, 1, "{case}");
        }
        _ => {
            let result = &report.result;
            assert!(matches!(result, Ok(Outcome::Drained)), "{result:?} {case}");
            assert_eq!(world.committed().await, rows as i64, "{case}");
            assert_eq!(document.counters.rows, rows as u64, "{case}");
        }
    }
    assert_eq!(world.sent(), vec![1; rows], "{case}");
    assert_eq!(document.lease.token.get(), token + 1, "one claim: {case}");
    assert_eq!(document.lease.held, None, "{case}");
    let born = world.proxy.exchanges();
    assert!(
        born.iter().any(|e| e.is("PUT", ".born") && e.landed()),
        "{case}"
    );
}

/// A fault, and the steps at which it happens.
async fn pass(azurite: &Azurite, faults: &[(Fault, &[Step])]) {
    let cases = faults.iter().flat_map(|(fault, steps)| {
        let case = |step: &Step| passes(azurite, *step, fault.clone());
        steps.iter().map(case)
    });
    a_few_at_a_time(cases).await;
}

/// One server for all of them; each function is a promise of its own.
#[tokio::test]
async fn every_write_survives_every_fault() {
    let azurite = Azurite::blob();
    // Boxed, or the stack of a debug build would not hold them.
    Box::pin(lost_answers_cost_no_failure_and_no_second_delivery(
        &azurite,
    ))
    .await;
    Box::pin(a_write_that_did_not_happen_is_made_again(&azurite)).await;
    Box::pin(a_server_that_is_busy_for_a_moment_is_asked_again(&azurite)).await;
    Box::pin(a_failed_condition_without_a_rival_is_no_lost_lease(
        &azurite,
    ))
    .await;
    Box::pin(a_dropped_answer_is_settled_by_one_read_and_no_write(
        &azurite,
    ))
    .await;
    Box::pin(no_write_is_repeated_behind_our_back(&azurite)).await;
}

#[tokio::test]
async fn a_store_in_trouble_is_outlasted_or_named() {
    let azurite = Azurite::blob();
    tokio::join!(
        Box::pin(a_refusal_of_access_ends_the_tick_with_a_way_out(&azurite)),
        Box::pin(retry_after_is_obeyed_within_the_lease(&azurite)),
        Box::pin(a_retry_after_beyond_the_lease_is_obeyed(&azurite)),
        Box::pin(a_server_that_takes_no_writes_is_outlasted(&azurite)),
        Box::pin(a_holder_outlasts_an_unreachable_server(&azurite)),
    );
}

async fn lost_answers_cost_no_failure_and_no_second_delivery(azurite: &Azurite) {
    let dropped = (Fault::AnswerDropped, STEPS.as_slice());
    pass(azurite, &[dropped, (Fault::Truncated, &SOME)]).await;
}

async fn a_write_that_did_not_happen_is_made_again(azurite: &Azurite) {
    let reset = (Fault::Reset, STEPS.as_slice());
    pass(azurite, &[reset, (Fault::Say(500, &[]), &SOME)]).await;
}

async fn a_server_that_is_busy_for_a_moment_is_asked_again(azurite: &Azurite) {
    let busy = (Fault::Say(503, &[]), STEPS.as_slice());
    let polite = Fault::Say(429, &[("retry-after", "1")]);
    pass(azurite, &[busy, (polite, &SOME)]).await;
}

/// The SDK, or somebody between, may have repeated a write of ours: what the document shows counts.
async fn a_failed_condition_without_a_rival_is_no_lost_lease(azurite: &Azurite) {
    let steps = STEPS.into_iter().filter(|step| *step != Step::BirthMarker);
    let cases = steps.map(|step| passes(azurite, step, Fault::Say(412, &[])));
    a_few_at_a_time(cases).await;
}

/// D6, told by the requests: written once, looked at once, not written again.
async fn a_dropped_answer_is_settled_by_one_read_and_no_write(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    world.insert(2).await;
    world
        .proxy
        .nth(2, "PUT", "orders.json", Fault::AnswerDropped);
    let report = world.tick().await;
    assert_eq!(done(report), Outcome::Drained);
    assert_eq!(
        world.proxy.fresh_lines(),
        [
            "GET orders.json 200",
            "PUT orders.json if-match 201",
            "PUT orders.json if-match 201",
            "GET orders.json 200",
        ]
    );
    assert_eq!(done(world.tick().await), Outcome::Idle);
    assert_eq!(world.sent(), [1, 1, 1]);
}

/// A repeat below us would meet our own success and come back as 412.
async fn no_write_is_repeated_behind_our_back(azurite: &Azurite) {
    let faults = [
        (Fault::AnswerDropped, vec!["201"]),
        (Fault::Truncated, vec!["201"]),
        (Fault::Reset, vec!["?", "201"]),
        (Fault::Say(500, &[]), vec!["500", "201"]),
        (Fault::Say(503, &[]), vec!["503", "201"]),
        (Fault::Say(429, &[]), vec!["429", "201"]),
    ];
    let cases = faults.into_iter().map(|(fault, statuses)| async move {
        for nth in [1, 2] {
            let world = BlobWorld::born_on(azurite, CALM).await;
            world.insert(2).await;
            world.proxy.nth(nth, "PUT", "orders.json", fault.clone());
            assert_eq!(done(world.tick().await), Outcome::Drained);
            let lines = world.proxy.fresh_lines();
            let puts = lines.iter().filter(|line| line.starts_with("PUT"));
            let puts: Vec<_> = puts.map(|line| line.rsplit(' ').next().unwrap()).collect();
            let mut expected = statuses.clone();
            expected.insert(if nth == 1 { expected.len() } else { 0 }, "201");
            assert_eq!(puts, expected, "{fault:?} at PUT {nth}: {lines:#?}");
        }
    });
    a_few_at_a_time(cases).await;
}

/// Nothing we do helps: say what to do, move nothing, and do not knock again and again.
async fn a_refusal_of_access_ends_the_tick_with_a_way_out(azurite: &Azurite) {
    let cases = STEPS.into_iter().map(|step| async move {
        let (world, nth, path) = before(step, azurite).await;
        let committed = match world.stored().await {
            Some(_) => world.committed().await,
            None => 0,
        };
        world.proxy.nth(nth, "PUT", path, Fault::Say(403, &[]));
        let report = world.tick().await;
        let sentence = report.sentence();
        let error = failed(report);
        let lines = world.proxy.fresh_lines();
        let case = format!("{step:?}: {sentence}: {lines:#?}");
        assert!(
            matches!(error, TickError::Store(StoreError::Refused { .. })),
            "{error:?} {case}"
        );
        assert!(sentence.contains("403"), "{case}");
        assert!(sentence.contains("db-state"), "names the place: {case}");
        assert!(
            sentence.contains("account key in STATE"),
            "names the way out: {case}"
        );
        if world.stored().await.is_some() {
            assert_eq!(world.committed().await, committed, "{case}");
        }
        let refused = lines.iter().filter(|line| line.ends_with("403")).count();
        assert_eq!(refused, 1, "{case}");
        let sent_before_claim = matches!(step, Step::Create | Step::BirthMarker | Step::Claim);
        if sent_before_claim {
            let sent = world.sent();
            assert!(sent.len() <= 1, "nothing is sent without a lease: {case}");
        }
    });
    a_few_at_a_time(cases).await;
}

async fn retry_after_is_obeyed_within_the_lease(azurite: &Azurite) {
    let cases = [Step::Create, Step::Claim, Step::Heartbeat, Step::LastCommit]
        .into_iter()
        .map(|step| async move {
            let (world, nth, path) = before(step, azurite).await;
            world
                .proxy
                .nth(nth, "PUT", path, Fault::Say(503, &[("retry-after", "2")]));
            let (report, ()) = tokio::join!(world.tick(), open_in_time(step, &world));
            assert_eq!(done(report), Outcome::Drained);
            let exchanges = world.proxy.fresh();
            let told = exchanges.iter().position(|e| e.fault.is_some()).unwrap();
            let next = exchanges.get(told + 1).expect("it is tried again");
            let waited = next.at - exchanges[told].at;
            assert!(
                waited >= Duration::from_secs(2),
                "{step:?}: asked again after {waited:?}: {:#?}",
                exchanges.iter().map(Exchange::line).collect::<Vec<_>>()
            );
        });
    a_few_at_a_time(cases).await;
}

/// An hour is longer than any lease: the tick ends, and says what the server has asked for.
async fn a_retry_after_beyond_the_lease_is_obeyed(azurite: &Azurite) {
    let cases = [Step::Claim, Step::LastCommit]
        .into_iter()
        .map(|step| async move {
            let (mut world, nth, path) = before(step, azurite).await;
            world.lease = BRISK;
            for n in nth..nth + 50 {
                let busy = Fault::Say(503, &[("retry-after", "3600")]);
                world.proxy.nth(n, "PUT", path, busy);
            }
            let report = world.tick().await;
            let (sentence, took_ms) = (report.sentence(), report.took_ms);
            let error = failed(report);
            let lines = world.proxy.fresh_lines();
            assert!(took_ms < 5_000, "{step:?}: {took_ms} ms");
            // A read, the claim, and the commit: nothing is sent while it asks to be left alone.
            let most = if step == Step::Claim { 2 } else { 3 };
            assert!(lines.len() <= most, "{step:?}: {lines:#?}");
            assert_eq!(world.committed().await, 1, "{step:?}");
            if step == Step::Claim {
                assert!(sentence.contains("503"), "{sentence}");
                assert!(sentence.contains("3600 s"), "{sentence}");
                assert_eq!(world.sent(), [1], "nothing is sent without a lease");
            } else {
                assert!(matches!(error, TickError::LeaseLost { .. }), "{error:?}");
            }
        });
    a_few_at_a_time(cases).await;
}

/// Reads are answered, writes are not: that is no rival, and passes like any other outage.
async fn a_server_that_takes_no_writes_is_outlasted(azurite: &Azurite) {
    let faults = [Fault::Reset, Fault::Say(500, &[])];
    let cases = faults.into_iter().map(|fault| async move {
        let world = BlobWorld::born_on(azurite, CALM).await;
        world.insert(2).await;
        // More than the races that a writer would lose before it gives up.
        for n in 2..=9 {
            world.proxy.nth(n, "PUT", "orders.json", fault.clone());
        }
        let report = world.tick().await;
        let case = format!("{fault:?}: {report:?}: {:#?}", world.proxy.fresh_lines());
        assert!(matches!(report.result, Ok(Outcome::Drained)), "{case}");
        assert_eq!(world.sent(), [1, 1, 1], "{case}");

        world.insert(2).await;
        world.proxy.every("PUT", "orders.json", fault.clone());
        let report = world.tick().await;
        let case = format!("{fault:?}: {report:?}: {:#?}", world.proxy.fresh_lines());
        let error = failed(report);
        assert!(
            matches!(error, TickError::Store(StoreError::Unknown { .. })),
            "{case}"
        );
        assert_eq!(world.sent(), [1, 1, 1], "{case}");
    });
    a_few_at_a_time(cases).await;
}

/// A server that is gone for a moment, as opposed to one that may have done something.
async fn a_holder_outlasts_an_unreachable_server(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, QUICK_HEARTBEAT).await;
    world.insert(2).await;
    world.world.receiver.answer(|_, _| Answer::WhenOpened);
    let outage = async {
        world.world.receiver.arrived(2).await;
        world.proxy.close().await;
        // Two heartbeats and a commit fall into it.
        tokio::time::sleep(Duration::from_millis(900)).await;
        world.world.receiver.open_gate();
        tokio::time::sleep(Duration::from_millis(300)).await;
        world.proxy.reopen();
    };
    let (report, ()) = tokio::join!(world.tick(), outage);
    assert_eq!(done(report), Outcome::Drained);
    assert_eq!(world.sent(), [1, 1, 1]);
    assert_eq!(world.committed().await, 3);
}
