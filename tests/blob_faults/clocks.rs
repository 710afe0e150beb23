//! Leases between instances whose clocks disagree and jump: only the server's clock counts.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::tick::report::Outcome;
use futures_util::future::join_all;
use tokio::time::sleep;

use crate::support::azurite::Azurite;
use crate::support::receiver::Answer;
use crate::support::within;
use crate::world::{BRISK, BlobWorld, CALM, done, run};

/// A wall clock that is wrong by as much as it is told.
#[derive(Debug, Default)]
struct WrongClock(Mutex<TimeDelta>);

impl WrongClock {
    fn by_minutes(minutes: i64) -> Arc<Self> {
        Arc::new(Self(Mutex::new(TimeDelta::minutes(minutes))))
    }

    fn jump_to(&self, minutes: i64) {
        *self.0.lock().unwrap() = TimeDelta::minutes(minutes);
    }
}

impl Clock for WrongClock {
    fn now(&self) -> Timestamp {
        SystemClock.now() + *self.0.lock().unwrap()
    }

    fn random(&self) -> u128 {
        SystemClock.random()
    }
}

/// One server for all of them; each function is a promise of its own.
#[tokio::test]
async fn only_the_servers_clock_counts() {
    let azurite = Azurite::blob();
    tokio::join!(
        a_dead_holders_lease_is_taken_after_ttl_and_margin_however_wrong_the_clocks_are(&azurite),
        a_holder_whose_clock_jumps_keeps_its_lease_and_its_document_legal(&azurite),
        a_clock_that_is_off_by_more_than_the_margin_is_reported(&azurite),
    );
}

/// Issue 3, point 6: ttl + margin after the last write of the one that died, whatever clocks say.
/// The server tells whole seconds, so an age may be off by one.
async fn a_dead_holders_lease_is_taken_after_ttl_and_margin_however_wrong_the_clocks_are(
    azurite: &Azurite,
) {
    let cases = [(0, 0), (10, -10), (-10, 10), (10, 0), (-10, 0)]
        .into_iter()
        .map(|(dead, next)| async move {
            let world = BlobWorld::born_on(azurite, BRISK).await;
            world.insert(2).await;
            world.world.receiver.answer(|index, _| match index {
                1 => Answer::Never,
                _ => Answer::Ok,
            });
            let holder = world.poller_with(WrongClock::by_minutes(dead));
            tokio::select! {
                report = run(&holder) => panic!("{report:?}"),
                // Dropped here, as dead as a killed process: nothing is released.
                () = world.world.receiver.arrived(2) => {}
            }
            let last_write = world.proxy.exchanges().last().unwrap().at;
            let contender = world.poller_with(WrongClock::by_minutes(next));
            let outcome = within("the lease is taken", async {
                loop {
                    match done(run(&contender).await) {
                        Outcome::HeldElsewhere { .. } => sleep(Duration::from_millis(50)).await,
                        outcome => return outcome,
                    }
                }
            })
            .await;
            assert_eq!(outcome, Outcome::Drained);
            let deliveries = world.world.receiver.deliveries();
            let waited = deliveries.last().unwrap().at - last_write;
            let case = format!("{dead} and {next} minutes: {waited:?}");
            let age = BRISK.ttl + BRISK.margin;
            let second = Duration::from_secs(1);
            assert!(waited >= age - second, "too early, {case}");
            assert!(waited <= age + 3 * second, "too late, {case}");
            assert_eq!(world.sent(), [1, 2, 2], "{case}");
            assert_eq!(world.document().await.lease.token.get(), 3, "{case}");
        });
    join_all(cases.map(Box::pin)).await;
}

async fn a_holder_whose_clock_jumps_keeps_its_lease_and_its_document_legal(azurite: &Azurite) {
    let cases = [0, 10, -10].into_iter().map(|contender| async move {
        let world = BlobWorld::born_on(azurite, BRISK).await;
        world.insert(2).await;
        world.world.receiver.answer(|_, _| Answer::WhenOpened);
        let clock = WrongClock::by_minutes(0);
        let holder = world.poller_with(clock.clone());
        let contender = world.poller_with(WrongClock::by_minutes(contender));
        let meanwhile = async {
            world.world.receiver.arrived(2).await;
            // Longer than a lease that nobody renews.
            for turn in 0..14 {
                clock.jump_to([10, -10, 0][turn % 3]);
                sleep(Duration::from_millis(500)).await;
                let outcome = done(run(&contender).await);
                assert!(
                    matches!(outcome, Outcome::HeldElsewhere { .. }),
                    "{outcome:?}"
                );
            }
            world.world.receiver.open_gate();
        };
        let (report, ()) = tokio::join!(run(&holder), meanwhile);
        assert_eq!(done(report), Outcome::Drained);
        assert_eq!(world.sent(), [1, 1, 1]);
        assert_eq!(world.committed().await, 3);
        assert_eq!(world.document().await.lease.token.get(), 2);
    });
    join_all(cases.map(Box::pin)).await;
}

/// The tick works all the same; people are told, because logs and `not_before` go by that clock.
async fn a_clock_that_is_off_by_more_than_the_margin_is_reported(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    assert_eq!(world.tick().await.clock_skew, None);
    for minutes in [10, -10] {
        world.insert(2).await;
        let report = run(&world.poller_with(WrongClock::by_minutes(minutes))).await;
        let skew = report.clock_skew.expect("it is noticed").seconds();
        assert!(
            (minutes * 60 - skew).abs() <= 5,
            "{minutes} minutes: {skew} s"
        );
        assert_eq!(done(report), Outcome::Drained);
    }
}
