//! The simulator in CI: bounded numbers of seeds, planted bugs, and the proof that a seed replays.

#![allow(clippy::unwrap_used)]

#[path = "simulation/sim.rs"]
mod sim;

use sim::faults::{Bug, Mode};
use sim::trace::TraceMode;
use sim::{Plan, Run, run};

const CHAOS: Plan = Plan {
    mode: Mode::Chaos,
    bug: None,
    trace: TraceMode::Off,
};
const CALM: Plan = Plan {
    mode: Mode::Calm,
    ..CHAOS
};

fn hold(plan: Plan, seeds: u64) {
    for seed in 0..seeds {
        let Run { violation, .. } = run(seed, plan);
        if let Some(found) = violation {
            panic!(
                "seed {seed} {plan:?}: {found:?}; cargo run --example simulate -- --seed {seed}"
            );
        }
    }
}

/// The invariant that finds the bug first, with its seed.
fn found_by(bug: Bug, mode: Mode, seeds: u64) -> Option<(&'static str, u64)> {
    let plan = Plan {
        mode,
        bug: Some(bug),
        trace: TraceMode::Off,
    };
    (0..seeds).find_map(|seed| run(seed, plan).violation.map(|found| (found.name, seed)))
}

#[test]
fn no_row_is_lost_in_chaos() {
    hold(CHAOS, 100);
}

#[test]
fn a_calm_world_has_no_duplicates() {
    hold(CALM, 40);
}

#[test]
fn the_same_seed_is_the_same_run() {
    for mode in [Mode::Chaos, Mode::Calm] {
        let plan = Plan {
            mode,
            trace: TraceMode::Hashed,
            ..CHAOS
        };
        let hashes = || {
            (0..20)
                .map(|seed| run(seed, plan).trace_hash)
                .collect::<Vec<_>>()
        };
        let first = hashes();
        assert_eq!(first, hashes());
        assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
    }
}

#[test]
fn every_planted_bug_is_found() {
    for (bug, mode, invariants) in [
        (
            Bug::IfMatchIgnored,
            Mode::Chaos,
            ["I3", "I4", "I5", "I9"].as_slice(),
        ),
        (
            Bug::IfNoneMatchIgnored,
            Mode::Chaos,
            &["I3", "I4", "I5", "I9"],
        ),
        (Bug::TagsReused, Mode::Chaos, &["I3", "I4", "I5", "I9"]),
        (Bug::FailureCountedAsDone, Mode::Chaos, &["I1"]),
        (Bug::AcknowledgedBeforeStored, Mode::Calm, &["I1"]),
        (Bug::SecondSinkForgotten, Mode::Calm, &["I1"]),
        (Bug::TiesSkipped, Mode::Calm, &["I1"]),
        (Bug::LateCommits, Mode::Calm, &["I1", "I2"]),
        (Bug::IdsPerProcess, Mode::Chaos, &["I12"]),
        (Bug::LeaseExpiryIgnored, Mode::Calm, &["I11", "calm"]),
    ] {
        let found = found_by(bug, mode, 60);
        let Some((invariant, _)) = found else {
            panic!("{bug:?} was not found");
        };
        assert!(
            invariants.contains(&invariant),
            "{bug:?} was found by {invariant}"
        );
    }
}

#[test]
fn the_lease_is_economy_and_not_safety() {
    for bug in [Bug::LeaseExpiryIgnored, Bug::UnknownTrusted] {
        let plan = Plan {
            bug: Some(bug),
            ..CHAOS
        };
        hold(plan, 20);
    }
}

/// Otherwise the promises above are about a world in which nothing happens.
#[test]
fn the_chaos_is_real() {
    let (mut takeovers, mut duplicates, mut crashes, mut failed) = (0, 0, 0, 0);
    for seed in 0..25 {
        let summary = run(seed, CHAOS).summary;
        assert!(summary.commits > 0 && summary.rows > 0, "seed {seed}");
        takeovers += summary.takeovers;
        duplicates += summary.duplicates;
        crashes += summary.crashes;
        failed += summary.failed_ticks;
    }
    let seen = [takeovers, duplicates, crashes, failed];
    assert!(seen.iter().all(|times| *times >= 10), "{seen:?}");
}
