//! The contract of one tick, from `semantics.md` (A, C, D): each test is one promise.

#![allow(clippy::unwrap_used)]

#[path = "tick/audit.rs"]
mod audit;
#[path = "tick/columns.rs"]
mod columns;
#[path = "tick/counters.rs"]
mod counters;
#[path = "tick/late.rs"]
mod late;
#[path = "tick/ledger.rs"]
mod ledger;
#[path = "tick/orders.rs"]
mod orders;
#[path = "tick/poison.rs"]
mod poison;
#[path = "tick/sinks.rs"]
mod sinks;
#[path = "tick/trouble.rs"]
mod trouble;
#[path = "tick/witness.rs"]
mod witness;
#[path = "tick/world.rs"]
mod world;

use std::sync::Arc;
use std::time::Duration;

use chrono::TimeDelta;
use dbtick::clock::Clock;
use dbtick::config::Start;
use dbtick::model::position::Scalar;
use dbtick::model::state::Status;
use dbtick::model::transitions::Order;
use dbtick::tick::report::{Outcome, TickError};
use tokio::time::{sleep, timeout};

use world::Wrote::{
    Birth, Claim, Commit, Failure, Heartbeat, LastCommit, Marker, Nothing, Trouble,
};
use world::{Fault, HEARTBEAT, MARGIN, Read, Receiver, Reply, TTL, World, done, failed};
use world::{marker_key, state_key};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn held_elsewhere(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::HeldElsewhere { .. })
}

mod cost {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_idle_tick_writes_nothing() {
        let world = World::with_rows(1);
        world.tick().await;
        world.store.take_writes();
        world.store.take_loads();
        world.source.take_reads();

        let report = world.tick().await;

        assert_eq!(report.tally.writes, 0);
        assert_eq!(done(report), Outcome::Idle);
        assert_eq!(world.store.take_writes(), []);
        assert_eq!(world.store.take_loads(), 1);
        assert_eq!(world.source.take_reads(), 1);
    }

    /// Where nothing new comes, nobody would ever take it.
    #[tokio::test(start_paused = true)]
    async fn the_lease_of_a_dead_holder_is_released_by_one_write_of_an_idle_tick() {
        let world = World::with_rows(1);
        assert_eq!(done(world.tick().await), Outcome::Drained);
        world.insert([2]);
        world.hook().will([Reply::Never]);
        assert!(timeout(SECOND, world.tick()).await.is_err());
        world.source.remove(2);
        let held = world.document().lease;
        assert!(held.held.is_some());
        assert!(matches!(
            done(world.tick().await),
            Outcome::HeldElsewhere { .. }
        ));
        sleep(TTL + MARGIN).await;
        world.store.take_writes();
        assert_eq!(done(world.tick().await), Outcome::Settled);
        let released = world.document().lease;
        assert_eq!((released.token, released.held), (held.token.next(), None));
        assert_eq!(done(world.tick().await), Outcome::Idle);
        assert_eq!(world.store.take_writes().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_tick_without_rows_writes_nothing() {
        let world = World::new();
        assert_eq!(done(world.tick().await), Outcome::Idle);
        assert_eq!(world.store.take_writes(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_of_n_batches_writes_at_most_n_plus_one_times() {
        let (quick, slow) = (Duration::ZERO, Duration::from_millis(50));
        for (rows, pace, expected) in [
            (1, slow, vec![Claim, LastCommit]),
            (2, slow, vec![Claim, LastCommit]),
            (3, slow, vec![Claim, Commit, LastCommit]),
            (7, slow, vec![Claim, Commit, Commit, Commit, LastCommit]),
            // What goes out quickly shares commits.
            (3, quick, vec![Claim, Commit, LastCommit]),
            (7, quick, vec![Claim, Commit, LastCommit]),
        ] {
            let world = World::with_rows(1);
            world.tick().await;
            world.store.take_writes();
            world.insert(2..2 + rows);
            world
                .hook()
                .will((0..rows).map(|_| Reply::AcknowledgeAfter(pace)));

            let report = world.tick().await;

            let writes = world.store.take_writes();
            assert_eq!(writes, expected, "{rows} rows");
            assert_eq!(report.tally.writes, writes.len() as u64, "{rows} rows");
            assert!(
                writes.len() as u64 <= report.tally.batches + 1,
                "{rows} rows"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_run_also_leaves_a_birth_marker_before_it_delivers() {
        let world = World::with_rows(3);
        let report = world.tick().await;
        let writes = world.store.take_writes();
        assert_eq!(writes, [Claim, Marker, Commit, LastCommit]);
        assert_eq!(report.tally.writes, 4, "every write is counted");
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_commit_releases_the_lease_and_the_next_tick_claims_at_once() {
        let world = World::with_rows(1);
        world.tick().await;
        let token = world.document().lease.token;
        assert_eq!(world.document().lease.held, None);
        world.insert([2]);

        assert_eq!(done(world.tick_of("app/two").await), Outcome::Drained);

        assert_eq!(
            world.document().lease.token,
            token.next(),
            "the token survives"
        );
        assert_eq!(world.hook().rows(), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_page_that_ends_exactly_at_the_last_row_is_not_followed_by_an_empty_batch() {
        let world = World::with_rows(4);
        assert_eq!(done(world.tick().await), Outcome::Drained);
        let sizes: Vec<_> = world
            .hook()
            .attempts()
            .iter()
            .map(|a| a.rows.len())
            .collect();
        assert_eq!(sizes, [2, 2]);
    }
}

mod delivery {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn rows_come_in_order_of_cursor_then_key_and_ties_straddle_batches() {
        let world = World::new();
        for (id, cursor) in [(5, 1), (3, 1), (4, 1), (1, 2), (2, 0)] {
            world.source.put(id, cursor, "new");
        }
        world.tick().await;
        assert_eq!(world.hook().rows(), [2, 3, 4, 5, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_checkpoint_moves_only_after_every_sink_acknowledged() {
        let mut world = World::with_rows(4);
        world.sinks.push(Arc::new(Receiver::new("audit")));
        world.hook().watch(&world);
        world.sinks[1].will([Reply::AcknowledgeAfter(3 * SECOND), Reply::Refuse]);

        let TickError::Delivery { sink, .. } = failed(world.tick().await) else {
            panic!("the second batch was refused");
        };

        assert_eq!(sink, "audit");
        assert_eq!(world.checkpoint(), 2);
        let seen: Vec<_> = world
            .hook()
            .attempts()
            .iter()
            .map(|a| a.checkpoint_then)
            .collect();
        assert_eq!(seen, [Some(0), Some(2)]);

        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(
            world.hook().rows(),
            [1, 2, 3, 4, 3, 4],
            "whole batch again, to all"
        );
        assert_eq!(world.checkpoint(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_delivery_keeps_the_checkpoint_and_is_recorded() {
        let world = World::with_rows(2);
        world.hook().will([Reply::Refuse, Reply::Refuse]);

        for expected in 1..=2 {
            let report = world.tick().await;
            let TickError::Delivery { attempts, .. } = failed(report) else {
                panic!("the delivery was refused");
            };
            assert_eq!(attempts, expected);
            let document = world.document();
            let (sink, failure) = document.failures().next().unwrap();
            assert_eq!(failure.attempts, expected);
            assert_eq!(sink, "hook");
            assert_eq!(failure.event_id, world.hook().attempts()[0].event_ids[0]);
            assert_eq!(document.counters.failed_ticks, u64::from(expected));
            assert_eq!(document.lease.held, None, "the lease is given back");
            assert_eq!(world.checkpoint(), 0);
            sleep(SECOND).await;
        }
        let first = world.document().sink("hook").failure.unwrap();
        assert!(first.first_at < first.last_at);

        assert_eq!(done(world.tick().await), Outcome::Drained);
        let numbers: Vec<_> = world.hook().attempts().iter().map(|a| a.number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert_eq!(world.document().failures().count(), 0, "success clears it");
        let expected = [
            Claim, Marker, Failure, Claim, Nothing, Failure, Claim, Nothing, LastCommit,
        ];
        assert_eq!(world.store.take_writes(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn not_before_is_respected() {
        let world = World::with_rows(2);
        let until = world.clock.now() + TimeDelta::seconds(60);
        world.hook().will([Reply::RefuseUntil(until)]);
        failed(world.tick().await);

        sleep(59 * SECOND).await;
        assert_eq!(done(world.tick().await), Outcome::NotBefore { until });
        assert_eq!(world.hook().attempts().len(), 1);

        sleep(SECOND).await;
        assert_eq!(done(world.tick().await), Outcome::Drained);
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_rows_have_the_same_batch_and_event_ids_on_replay() {
        let world = World::with_rows(2);
        world.hook().will([Reply::Refuse]);
        failed(world.tick_of("app/one").await);
        done(world.tick_of("app/two").await);

        let [first, second] = &world.hook().attempts()[..] else {
            panic!("two attempts");
        };
        assert_eq!(first.batch_id, second.batch_id);
        assert_eq!(first.event_ids, second.event_ids);
        assert!(
            first.fence < second.fence,
            "receivers can tell the older attempt"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_row_with_other_content_has_another_event_id() {
        let world = World::with_rows(1);
        world.hook().will([Reply::Refuse]);
        failed(world.tick().await);
        world.source.put(1, 1, "changed, with the same cursor");
        done(world.tick().await);
        let [first, second] = &world.hook().attempts()[..] else {
            panic!("two attempts");
        };
        assert_ne!(first.event_ids, second.event_ids);
        assert_ne!(first.batch_id, second.batch_id);
    }

    #[tokio::test(start_paused = true)]
    async fn every_body_validates_against_the_published_schema() {
        let schema = include_str!("../schema/batch.schema.json");
        let schema = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let world = World::with_rows(5);
        world.hook().will([Reply::Refuse]);
        failed(world.tick().await);
        done(world.tick().await);
        let attempts = world.hook().attempts();
        assert_eq!(attempts.len(), 4);
        for attempt in attempts {
            let body = serde_json::from_slice(&attempt.body).unwrap();
            validator.validate(&body).unwrap();
        }
    }
}

mod lease {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn heartbeats_keep_the_lease_during_a_long_delivery() {
        let world = World::with_rows(1);
        world.hook().will([Reply::AcknowledgeAfter(TTL * 3)]);
        let rival = async {
            sleep(TTL + MARGIN * 2).await;
            world.tick_of("app/two").await
        };
        let (report, rival) = tokio::join!(world.tick(), rival);
        assert_eq!(done(report), Outcome::Drained);
        assert!(held_elsewhere(&done(rival)));
        assert_eq!(world.hook().rows(), [1]);
        let writes = world.store.take_writes();
        let beats = writes.iter().filter(|w| **w == Heartbeat).count();
        assert_eq!(beats, 10, "72 s at one in 7 s");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unexpired_lease_is_never_taken_not_even_by_the_same_owner() {
        let world = World::with_rows(1);
        world.hook().will([Reply::Never]);
        crash_after(&world, SECOND).await;

        sleep(TTL + MARGIN - 2 * SECOND).await;
        assert!(held_elsewhere(&done(world.tick().await)));
        sleep(SECOND).await;
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.document().lease.token.get(), 2);
        assert_eq!(world.hook().rows(), [1, 1]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_lease_cancels_the_delivery_and_commits_nothing() {
        let world = World::with_rows(1);
        world.hook().will([Reply::AcknowledgeAfter(TTL)]);
        // The first heartbeat finds that somebody has taken the lease over.
        let reset = Order::Reset {
            to: None,
            source: world.poller("app/one").identity(),
            evidence: dbtick::model::lease::AgeEvidence {
                local_now: world.clock.now() + TimeDelta::days(1),
                store: None,
                margin: MARGIN,
            },
        };
        world.store.on_write(3, world.operate(reset));

        let started = world.clock.monotonic();
        assert!(matches!(
            failed(world.tick().await),
            TickError::LeaseLost { .. }
        ));

        assert_eq!(world.clock.monotonic() - started, HEARTBEAT);
        assert!(
            !world.hook().attempts()[0].answered,
            "the delivery was cancelled"
        );
        assert_eq!(world.checkpoint(), 0);
        assert_eq!(world.store.take_writes(), [Claim, Marker, Nothing]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_holder_that_cannot_renew_stops_before_its_lease_ends() {
        let world = World::with_rows(1);
        world.hook().will([Reply::AcknowledgeAfter(TTL * 2)]);
        for n in 3..40 {
            world.store.on_write(n, Fault::Unreachable);
        }
        let started = world.clock.monotonic();
        let error = failed(world.tick().await);
        assert!(
            matches!(error, TickError::LeaseLost { .. } | TickError::Store(_)),
            "{error}"
        );
        assert!(world.clock.monotonic() - started <= TTL - MARGIN);
        assert!(!world.hook().attempts()[0].answered);
        assert_eq!(world.checkpoint(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_out_of_reach_costs_the_lease_only_when_it_runs_out() {
        let world = World::with_rows(1);
        world.hook().will([Reply::AcknowledgeAfter(SECOND)]);
        // More failures in a row than any fixed number of tries, over less time than a lease.
        for n in 3..14 {
            world.store.on_write(n, Fault::Unreachable);
        }
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.checkpoint(), 1);
        assert_eq!(world.hook().rows(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn one_heartbeat_without_an_answer_does_not_cost_the_lease() {
        let world = World::with_rows(1);
        world.hook().will([Reply::AcknowledgeAfter(TTL * 2)]);
        world.store.take(Duration::from_millis(10));
        world.store.on_write(3, Fault::Silence);
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn losing_the_race_to_claim_is_a_skip_not_an_error() {
        // The rival claims, commits and releases between our load and our claim.
        for first_run in [true, false] {
            let world = World::with_rows(3);
            if !first_run {
                world.tick().await;
                world.insert([4, 5]);
            }
            let before = world.hook().rows();
            world.store.on_write(1, world.rival_tick());

            assert!(
                held_elsewhere(&done(world.tick().await)),
                "first: {first_run}"
            );

            let mut expected: Vec<i64> = (1..=if first_run { 3 } else { 5 }).collect();
            expected.drain(..before.len());
            assert_eq!(
                world.hook().rows()[before.len()..],
                expected,
                "no duplicates"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rivals_first_run_is_not_taken_for_a_lost_document() {
        // The rival creates document and marker after we have looked for the document, and before
        // we look for the marker.
        for start in [Start::Beginning, Start::Now] {
            let mut world = World::with_rows(3);
            world.start = start;
            let mut rival = world.clone();
            rival.start = Start::Beginning;
            world.store.after_load(1, rival.rival_tick());

            let outcome = done(world.tick().await);

            assert!(
                held_elsewhere(&outcome) || outcome == Outcome::Idle,
                "{outcome:?}"
            );
            assert_eq!(world.hook().rows(), [1, 2, 3]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_wins_the_race_to_claim_is_told_as_a_pause() {
        let world = World::with_rows(1);
        world.tick().await;
        world.insert([2]);
        world.store.on_write(1, world.operate(Order::Pause));
        assert_eq!(done(world.tick().await), Outcome::Paused);
        assert_eq!(world.hook().rows(), [1]);
    }

    /// The process dies in the middle of a tick.
    async fn crash_after(world: &World, time: Duration) {
        let tick = world.tick();
        assert!(tokio::time::timeout(time, tick).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_after_part_of_the_delivery_brings_the_whole_batch_again() {
        let mut world = World::with_rows(2);
        world.sinks.push(Arc::new(Receiver::new("audit")));
        world.sinks[1].will([Reply::Never]);
        crash_after(&world, SECOND).await;
        sleep(TTL + MARGIN).await;
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1, 2, 1, 2]);
        assert_eq!(world.sinks[1].rows(), [1, 2, 1, 2]);
    }
}

mod crashes {
    use super::*;

    /// A first run of three batches, with every request and every delivery taking time, is killed
    /// at each instant, and once more while it recovers.
    #[tokio::test(start_paused = true)]
    async fn every_instant_is_a_safe_place_to_die() {
        let milli = Duration::from_millis(1);
        for (first, second) in (0..40).flat_map(|first| [0, 7, 14].map(|second| (first, second))) {
            let world = World::with_rows(6);
            world.store.take(2 * milli);
            world
                .hook()
                .will(vec![Reply::AcknowledgeAfter(2 * milli); 9]);
            for instant in [first, second] {
                let tick = tokio::time::timeout(instant * milli + milli / 2, world.tick());
                drop(tick.await);
                sleep(TTL + MARGIN).await;
            }
            let outcome = done(world.tick().await);
            assert!(matches!(outcome, Outcome::Drained | Outcome::Idle));

            let mut seen = Vec::new();
            let rows = world.hook().rows();
            for row in &rows {
                if !seen.contains(row) {
                    seen.push(*row);
                }
            }
            assert_eq!(seen, [1, 2, 3, 4, 5, 6], "killed at {first}, then {second}");
            assert!(
                rows.len() <= 6 + 2 * 2 * 2,
                "a crash repeats what was on its way and what was not committed: {rows:?}"
            );
            assert_eq!(world.checkpoint(), 6);
        }
    }
}

mod unknown_outcomes {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_whose_answer_was_lost_is_found_again() {
        // Claim, marker, the commit that renews, the one that releases: no second delivery, no
        // failure, and the write is not repeated.
        for n in 1..=4 {
            let world = World::with_rows(3);
            world.store.on_write(n, Fault::AnswerLost);
            assert_eq!(done(world.tick().await), Outcome::Drained, "write {n}");
            assert_eq!(world.hook().rows(), [1, 2, 3], "write {n}");
            assert_eq!(world.document().lease.token.get(), 1, "write {n}");
            assert_eq!(world.document().lease.held, None, "write {n}");
            assert_eq!(world.document().counters.batches, 2, "write {n}");
            let mut writes = world.store.take_writes();
            writes.retain(|wrote| *wrote != Nothing);
            assert_eq!(writes, [Claim, Marker, Commit, LastCommit], "write {n}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_did_not_arrive_is_sent_again() {
        for n in 1..=4 {
            for fault in [Fault::RequestLost, Fault::Unreachable, Fault::Silence] {
                let world = World::with_rows(3);
                let text = format!("write {n}, {:?}", std::mem::discriminant(&fault));
                world.store.on_write(n, fault);
                assert_eq!(done(world.tick().await), Outcome::Drained, "{text}");
                assert_eq!(world.hook().rows(), [1, 2, 3], "{text}");
                assert_eq!(world.document().counters.batches, 2, "{text}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_lands_late_changes_nothing() {
        for n in [1, 3, 4] {
            let world = World::with_rows(3);
            world.store.on_write(n, Fault::Delayed);
            assert_eq!(done(world.tick().await), Outcome::Drained, "write {n}");
            let before = world.store.body(&state_key());
            assert!(!world.store.land().await, "write {n}");
            assert_eq!(world.store.body(&state_key()), before, "write {n}");
            assert_eq!(world.hook().rows(), [1, 2, 3], "write {n}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_commit_that_lands_after_a_takeover_changes_nothing() {
        let world = World::with_rows(1);
        world.store.on_write(3, Fault::Delayed);
        world.hook().will([Reply::AcknowledgeAfter(SECOND)]);
        // From then on the store is out of reach, so the lease runs out with a commit on the way.
        for n in 4..60 {
            world.store.on_write(n, Fault::Unreachable);
        }
        let fail = async {
            sleep(SECOND / 2).await;
            world.store.fail_loads(u32::MAX);
        };
        let (report, ()) = tokio::join!(world.tick(), fail);
        assert!(matches!(failed(report), TickError::LeaseLost { .. }));
        world.store.heal();

        sleep(TTL + MARGIN).await;
        assert_eq!(done(world.tick_of("app/two").await), Outcome::Drained);
        let before = world.store.body(&state_key());
        assert!(!world.store.land().await);
        assert_eq!(world.store.body(&state_key()), before);
        assert_eq!(world.hook().rows(), [1, 1], "a duplicate at worst");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_whose_answer_was_lost_is_counted_once() {
        let world = World::with_rows(1);
        world.hook().will([Reply::Refuse]);
        world.store.on_write(3, Fault::AnswerLost);
        assert!(matches!(
            failed(world.tick().await),
            TickError::Delivery { .. }
        ));
        assert_eq!(world.document().counters.failed_ticks, 1);
        assert_eq!(world.document().failures().next().unwrap().1.attempts, 1);
    }
}

mod stopping {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_operators_pause_during_a_drain_stops_after_the_batch_on_its_way() {
        let world = World::with_rows(6);
        world.store.on_write(3, world.operate(Order::Pause));

        assert_eq!(done(world.tick().await), Outcome::Paused);

        assert_eq!(world.checkpoint(), 4, "what was delivered is committed");
        assert_eq!(world.hook().rows(), [1, 2, 3, 4]);
        assert_eq!(
            world.document().status,
            Status::Paused,
            "the pause is preserved"
        );
        assert_eq!(world.document().lease.held, None);
        assert_eq!(
            world.store.take_writes(),
            [Claim, Marker, Nothing, Commit, LastCommit]
        );

        assert_eq!(done(world.tick().await), Outcome::Paused);
        assert_eq!(world.store.take_writes(), []);
        world.operate_now(Order::Resume);
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1, 2, 3, 4, 5, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_poller_delivers_nothing_until_it_is_reset() {
        let world = World::with_rows(1);
        world.tick().await;
        world.insert([2]);
        world.operate_now(Order::Fail);
        assert!(matches!(
            failed(world.tick().await),
            TickError::MarkedFailed
        ));
        assert_eq!(world.hook().rows(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_budget_ends_a_drain_and_the_next_tick_goes_on() {
        let mut world = World::with_rows(6);
        world.function_timeout = 10 * SECOND;
        world
            .hook()
            .will(vec![Reply::AcknowledgeAfter(4 * SECOND); 2]);
        let report = world.tick().await;
        assert_eq!(report.tally.batches, 2);
        assert_eq!(done(report), Outcome::BudgetSpent);
        assert_eq!(world.checkpoint(), 4);
        assert_eq!(world.document().lease.held, None, "the lease is given back");
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1, 2, 3, 4, 5, 6]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_delivery_longer_than_the_budget_is_abandoned() {
        let mut world = World::with_rows(2);
        world.function_timeout = 60 * SECOND;
        world.hook().will([Reply::Never]);
        let started = world.clock.monotonic();
        assert!(matches!(
            failed(world.tick().await),
            TickError::Delivery { .. }
        ));
        assert!(world.clock.monotonic() - started < world.function_timeout);
        assert_eq!(world.checkpoint(), 0);
        assert_eq!(world.document().lease.held, None);
        assert_eq!(done(world.tick().await), Outcome::Drained);
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_hangs_cannot_outlast_the_budget() {
        // Otherwise the host kills the process, the delivered batch is never committed, and the
        // next tick ends in the same place, for ever.
        for hangs_at in 0..3 {
            let mut world = World::with_rows(6);
            world.function_timeout = 60 * SECOND;
            world.source.will(vec![Read::Works; hangs_at]);
            world.source.will([Read::Hangs]);
            let tick = tokio::time::timeout(world.function_timeout, world.tick());
            let report = tick.await.expect("a tick ends before the host ends it");
            assert!(
                matches!(failed(report), TickError::Source(_)),
                "read {hangs_at}"
            );
            let committed = world.store.document().map_or(0, |_| world.checkpoint());
            assert_eq!(committed, 2 * i64::try_from(hangs_at).unwrap());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_poller_may_start_at_a_given_cursor() {
        for (from, delivered) in [(1, 1..7), (4, 4..7), (7, 7..7)] {
            let mut world = World::with_rows(6);
            world.start = Start::From(Scalar::Integer(from));
            assert_eq!(done(world.tick().await), Outcome::Started);
            world.tick().await;
            assert_eq!(
                world.hook().rows(),
                delivered.collect::<Vec<_>>(),
                "from {from}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_database_that_hangs_cannot_hold_up_start_now() {
        let mut world = World::with_rows(6);
        world.function_timeout = 60 * SECOND;
        world.start = Start::Now;
        world.source.will([Read::Hangs]);
        let tick = tokio::time::timeout(world.function_timeout, world.tick());
        let report = tick.await.expect("a tick ends before the host ends it");
        assert!(matches!(failed(report), TickError::Source(_)));
        assert!(world.store.document().is_none(), "no \"now\" was made up");
    }

    #[tokio::test(start_paused = true)]
    async fn a_state_store_that_does_not_answer_cannot_outlast_the_budget() {
        // The first load, and the birth marker, beside which heartbeats would go on for ever.
        for marker in [false, true] {
            let mut world = World::with_rows(2);
            world.function_timeout = 120 * SECOND;
            if marker {
                // The fourth is a heartbeat.
                for n in [2, 3, 5] {
                    world.store.on_write(n, Fault::Silence);
                }
            } else {
                for n in 1..=3 {
                    let never = Box::pin(std::future::pending());
                    world.store.after_load(n, Fault::Meanwhile(never));
                }
            }
            let tick = tokio::time::timeout(world.function_timeout, world.tick());
            let report = tick.await.expect("a tick ends before the host ends it");
            assert!(
                matches!(failed(report), TickError::Store(_)),
                "marker: {marker}"
            );
            assert_eq!(world.hook().rows(), [] as [i64; 0]);
        }
    }
}

mod documents {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_missing_document_with_a_marker_is_refused() {
        for start in [Start::Beginning, Start::Now] {
            let mut world = World::with_rows(2);
            world.start = start;
            world.tick().await;
            world.store.remove(&state_key()).await;
            world.store.take_writes();
            let delivered = world.hook().rows();

            assert!(matches!(
                failed(world.tick().await),
                TickError::DocumentGone { .. }
            ));

            assert_eq!(world.store.take_writes(), []);
            assert_eq!(world.hook().rows(), delivered);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_document_that_disappears_during_a_tick_is_not_made_again() {
        let world = World::with_rows(4);
        let store = world.store.clone();
        let vanish = async move { store.remove(&state_key()).await };
        world.store.on_write(3, Fault::Meanwhile(Box::pin(vanish)));
        assert!(matches!(
            failed(world.tick().await),
            TickError::DocumentGone { .. }
        ));
        assert_eq!(world.store.body(&state_key()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_crash_between_document_and_marker_simply_begins() {
        let world = World::with_rows(2);
        world.store.on_write(2, Fault::Silence);
        let tick = tokio::time::timeout(SECOND, world.tick());
        assert!(tick.await.is_err());
        assert!(world.store.document().is_some());
        assert_eq!(world.store.body(&marker_key()), None);
        assert_eq!(
            world.hook().rows(),
            [] as [i64; 0],
            "no delivery before the marker"
        );

        sleep(TTL + MARGIN).await;
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1, 2]);
        assert!(world.store.body(&marker_key()).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_marker_that_cannot_be_left_stops_the_first_delivery() {
        let world = World::with_rows(2);
        for n in 2..=4 {
            world.store.on_write(n, Fault::Unreachable);
        }
        assert!(matches!(failed(world.tick().await), TickError::Store(_)));
        assert_eq!(world.hook().rows(), [] as [i64; 0]);
        assert_eq!(world.document().lease.held, None, "the lease is given back");
        assert_eq!(done(world.tick().await), Outcome::Drained);
    }

    #[tokio::test(start_paused = true)]
    async fn start_now_is_written_down_once() {
        let mut world = World::with_rows(3);
        world.start = Start::Now;
        let report = world.tick().await;
        assert_eq!(report.tally.writes, 2);
        assert_eq!(done(report), Outcome::Started);
        assert_eq!(world.store.take_writes(), [Birth, Marker]);
        assert_eq!(world.checkpoint(), 3);

        assert_eq!(done(world.tick().await), Outcome::Idle);
        assert_eq!(world.store.take_writes(), []);

        world.insert([4]);
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [4]);
    }

    #[tokio::test(start_paused = true)]
    async fn start_now_on_an_empty_table_delivers_the_first_row() {
        let mut world = World::new();
        world.start = Start::Now;
        assert_eq!(done(world.tick().await), Outcome::Started);
        world.insert([1]);
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn start_now_survives_an_unreachable_database_or_store_and_a_lost_answer() {
        for fault in [Fault::Unreachable, Fault::AnswerLost, Fault::RequestLost] {
            let mut world = World::with_rows(3);
            world.start = Start::Now;
            world.source.will([Read::Unreachable]);
            world.store.on_write(1, fault);
            assert_eq!(done(world.tick().await), Outcome::Started);
            assert_eq!(world.checkpoint(), 3);
            world.insert([4]);
            assert_eq!(done(world.tick().await), Outcome::Drained);
            assert_eq!(world.hook().rows(), [4]);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_fingerprint_is_refused() {
        let mut world = World::with_rows(1);
        world.tick().await;
        world.insert([2]);
        world.store.take_writes();
        world.fingerprint = "sha256:bb";
        assert!(matches!(
            failed(world.tick().await),
            error @ TickError::Fingerprint { .. }
                if error.to_string().contains("table was \"sha256:aa\", is \"sha256:bb\"")
                    && error.to_string().contains("dbtick adopt orders")
        ));
        assert_eq!(world.store.take_writes(), [Trouble]);
        assert_eq!(world.hook().rows(), [1]);
    }

    #[tokio::test(start_paused = true)]
    async fn corrupt_documents_are_refused_and_never_overwritten() {
        let world = World::with_rows(1);
        world.tick().await;
        let good = world.store.body(&state_key()).unwrap();
        let text = String::from_utf8(good.to_vec()).unwrap();
        world.insert([2]);
        world.store.take_writes();
        for bad in [
            String::new(),
            "{}".to_owned(),
            "[]".to_owned(),
            text[..text.len() / 2].to_owned(),
            text.replace("\"version\": 1", "\"version\": 2"),
            text.replace("\"rows\": 1", "\"rows\": 2"),
            text.replace(world::POLLER, "others"),
        ] {
            assert_ne!(bad, text);
            world.store.put(&state_key(), bad.clone().into()).await;
            let error = failed(world.tick().await);
            assert!(
                matches!(error, TickError::Document { .. }),
                "{bad}: {error}"
            );
            assert_eq!(world.store.body(&state_key()).unwrap(), bad);
        }
        assert_eq!(world.store.take_writes(), []);
        assert_eq!(world.hook().rows(), [1]);
    }
}

mod infrastructure {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_source_is_retried_then_fails_and_loses_nothing() {
        let world = World::with_rows(1);
        world.source.will([Read::Unreachable; 2]);
        assert_eq!(done(world.tick().await), Outcome::Drained);

        world.insert([2]);
        world.source.will([Read::Unreachable; 3]);
        assert!(matches!(failed(world.tick().await), TickError::Source(_)));
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_unreachable_store_is_retried_then_fails_and_loses_nothing() {
        let world = World::with_rows(1);
        world.store.fail_loads(2);
        assert_eq!(done(world.tick().await), Outcome::Drained);

        world.insert([2]);
        world.store.fail_loads(3);
        assert!(matches!(failed(world.tick().await), TickError::Store(_)));
        assert_eq!(done(world.tick().await), Outcome::Drained);
        assert_eq!(world.hook().rows(), [1, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_error_in_the_middle_of_a_drain_commits_what_was_delivered() {
        for broken in [vec![Read::Broken], vec![Read::Unreachable; 3]] {
            let world = World::with_rows(6);
            world.source.will([Read::Works, Read::Works]);
            world.source.will(broken);
            let report = world.tick().await;
            assert_eq!(report.tally.batches, 2);
            assert!(matches!(failed(report), TickError::Source(_)));
            assert_eq!(world.checkpoint(), 4);
            assert_eq!(world.document().lease.held, None);
            assert_eq!(done(world.tick().await), Outcome::Drained);
            assert_eq!(world.hook().rows(), [1, 2, 3, 4, 5, 6]);
        }
    }
}
