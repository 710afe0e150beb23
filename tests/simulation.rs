//! The simulator in CI: bounded numbers of seeds, planted bugs, and the proof that a seed replays.

#![allow(clippy::unwrap_used)]

#[path = "simulation/sim.rs"]
mod sim;

use sim::faults::{Bug, Mode, Odds};
use sim::invariants::Summary;
use sim::size::{Size, shrink};
use sim::trace::TraceMode;
use sim::{Plan, Run, run};

const CHAOS: Plan = Plan {
    mode: Mode::Chaos,
    bug: None,
    trace: TraceMode::Off,
    size: Size::AS_DRAWN,
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
        ..CHAOS
    };
    (0..seeds).find_map(|seed| run(seed, plan).violation.map(|found| (found.name, seed)))
}

#[test]
fn no_row_is_lost_in_chaos() {
    // Every other one of these worlds has a ledger.
    hold(CHAOS, 100);
}

/// As long as nothing is drawn in another order, they are those worlds.
#[test]
fn what_rare_seeds_have_shown_does_not_come_again() {
    for (seed, shown) in [
        (
            300_247_824,
            "a tick outlasted the host's limit while the store was slow",
        ),
        (300_648_983, "a row was set aside, and no figure counted it"),
        (
            500_247_746,
            "a sweep forgot the fence of a row in flight that it began behind",
        ),
        (
            500_147_744,
            "a row that was set aside before a crash had lost its neighbours after it",
        ),
        (620_008_367, "a bad row was its shard's only one in a page"),
        (620_018_365, "and again, for a sink that was behind"),
        (630_233_715, "a bad row had only others as bad in its page"),
        (
            630_126_597,
            "a row that came again was set aside twice, and counted twice",
        ),
        (
            700_336_019,
            "a backfill went on by a clock that was behind, under fences of the past",
        ),
        (
            700_780_282,
            "a backfill kept below the token of a dead holder, whose lease nobody took",
        ),
    ] {
        assert_eq!(run(seed, CHAOS).violation, None, "seed {seed}: {shown}");
    }
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

/// Where a planted bug shows, and by which invariants; `None` for those that cost duplicates at
/// most, because the compare-and-swap is the fence and the lease only saves work.
fn shows(bug: Bug) -> Option<(Mode, &'static [&'static str])> {
    const FENCE: &[&str] = &["I3", "I4", "I5", "I9", "I14", "G3"];
    match bug {
        Bug::IfMatchIgnored | Bug::IfNoneMatchIgnored | Bug::TagsReused => {
            Some((Mode::Chaos, FENCE))
        }
        Bug::FailureCountedAsDone => Some((Mode::Chaos, &["I1"])),
        Bug::AcknowledgedBeforeStored | Bug::SecondSinkForgotten | Bug::TiesSkipped => {
            Some((Mode::Calm, &["I1"]))
        }
        Bug::LateCommits
        | Bug::EvidenceBeforeBound
        | Bug::PreparedForgotten
        | Bug::RowsInFlightIgnored
        | Bug::WindowTooShort => Some((Mode::Calm, &["I1", "I2"])),
        Bug::QuarantineNotKept
        | Bug::NamedCountedAsTaken
        | Bug::TooLargeCountedAsTaken
        | Bug::LagFailureCountedAsDone
        | Bug::LagDropped => Some((Mode::Chaos, &["I1"])),
        Bug::SegmentNotKept | Bug::HeadDropped => Some((Mode::Chaos, &["F6"])),
        Bug::TokenNotBumped => Some((Mode::Calm, &["I4", "I9"])),
        Bug::MarkerNotKept => Some((Mode::Chaos, &["I14"])),
        Bug::IdsPerProcess => Some((Mode::Chaos, &["I12"])),
        Bug::ReconciledBlindly => Some((Mode::Chaos, &["F5"])),
        Bug::RowFencesIgnored => Some((Mode::Chaos, &["C5"])),
        Bug::ShardsOverlap => Some((Mode::Chaos, &["I1"])),
        Bug::LeaseExpiryIgnored | Bug::UnknownTrusted => None,
    }
}

#[test]
fn every_planted_bug_is_found() {
    for bug in Bug::ALL {
        let Some((mode, invariants)) = shows(bug) else {
            continue;
        };
        let Some((invariant, _)) = found_by(bug, mode, 60) else {
            panic!("{bug:?} was not found");
        };
        let expected = invariants.contains(&invariant);
        assert!(expected, "{bug:?} was found by {invariant}");
    }
}

#[test]
fn the_lease_is_economy_and_not_safety() {
    for bug in Bug::ALL.into_iter().filter(|bug| shows(*bug).is_none()) {
        let plan = Plan {
            bug: Some(bug),
            ..CHAOS
        };
        hold(plan, 20);
    }
}

#[test]
fn a_lease_that_is_not_respected_shows_in_a_calm_world() {
    let (invariant, _) = found_by(Bug::LeaseExpiryIgnored, Mode::Calm, 20).unwrap();
    assert!(["I11", "calm"].contains(&invariant), "{invariant}");
}

/// Otherwise the promises above are about a world in which nothing happens.
#[test]
fn the_chaos_is_real() {
    let mut all = Summary::default();
    let mut idle = 0;
    for seed in 0..100 {
        let summary = run(seed, CHAOS).summary;
        idle += usize::from(summary.commits == 0 || summary.rows == 0);
        all.add(&summary);
    }
    assert!(idle <= 10, "{idle} of 100 worlds had nothing to do");
    let often = [
        all.takeovers,
        all.duplicates,
        all.crashes,
        all.failed_ticks,
        all.orders,
    ];
    assert!(often.iter().all(|times| *times >= 10), "{all}");
    let sometimes = [
        all.lags,
        all.quarantined,
        all.spoiled,
        all.backfills,
        all.range_commits,
        all.in_shards,
    ];
    assert!(sometimes.iter().all(|times| *times >= 5), "{all}");
    assert!(all.rounds > 0, "{all}");
}

#[test]
fn a_violation_is_brought_into_a_world_of_a_few_steps() {
    let plan = Plan {
        bug: Some(Bug::FailureCountedAsDone),
        ..CHAOS
    };
    let (name, seed) = found_by(Bug::FailureCountedAsDone, Mode::Chaos, 60).unwrap();
    let (small, seed) = shrink(plan, seed, name, 8);
    let again = run(seed, small);
    assert_eq!(again.violation.unwrap().name, name);
    assert!(again.summary.rows < 20, "{}", again.summary);
    let left_out = small.size.left_out.names().count();
    assert!(left_out >= Odds::NAMES.len() - 4, "{:?}", small.size);
}
