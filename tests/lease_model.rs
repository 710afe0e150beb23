//! The lease and the commits under it, in every order in which a few processes, a person, a receiver, a
//! store and its network can act, clocks that lie included. The decisions are those of the production code
//! (`transitions::apply`, `lease::answers::judge`, the evidence of age, documents as bytes); the rest is a
//! world of a few small numbers. Each rule that is broken on purpose is found.
//!
//! `DBTICK_MODEL=large cargo test --test lease_model -- --nocapture` goes further, and says how far.

#![allow(clippy::unwrap_used)]

#[path = "lease_model/decisions.rs"]
mod decisions;
#[path = "lease_model/explore.rs"]
mod explore;
#[path = "lease_model/invariants.rs"]
mod invariants;
#[path = "lease_model/person.rs"]
mod person;
#[path = "lease_model/process.rs"]
mod process;
#[path = "lease_model/setup.rs"]
mod setup;
#[path = "lease_model/world.rs"]
mod world;

use explore::{Explored, explore};
use setup::{Clocks, Mutant, Setup, Wish};

const LIE: Setup = Setup::new(Clocks::Lie);
const WISHES: &[Wish] = &[
    Wish::Pause,
    Wish::Resume,
    Wish::Reset,
    Wish::Rollback,
    Wish::Unlock,
    Wish::Fail,
];

/// Whether a few minutes are worth it.
#[allow(clippy::disallowed_methods)]
fn is_large() -> bool {
    match std::env::var("DBTICK_MODEL").ok().as_deref() {
        None => false,
        Some("large") => true,
        Some(other) => panic!("DBTICK_MODEL is {other:?}; it may be \"large\""),
    }
}

/// Small as it is tested always, large on demand.
fn bound(small: u8, large: u8) -> u8 {
    if is_large() { large } else { small }
}

/// Nothing goes wrong in any state, and all of `seen` has happened.
#[track_caller]
fn holds(what: &str, setup: &Setup, seen: &[&str]) -> Explored {
    let explored = explore(setup)
        .unwrap_or_else(|story| panic!("{:?}\n{:#?}\n{setup:?}", story.violation, story.steps));
    let Explored {
        states,
        steps,
        documents,
        questions,
        counts,
    } = &explored;
    println!(
        "{what}: {states} states, {steps} steps, {documents} documents, {questions} questions"
    );
    for name in seen {
        let times = counts
            .named()
            .iter()
            .find(|(known, _)| known == name)
            .unwrap()
            .1;
        assert!(times > 0, "{what}: no {name} in {states} states");
    }
    assert!(*states > 5000, "{what}: {states} states prove nothing");
    explored
}

#[test]
fn no_order_of_writes_that_are_lost_late_or_lied_about_breaks_the_lease() {
    let setup = Setup {
        faults: bound(2, 3),
        ticks: bound(3, 4),
        ..LIE
    };
    let seen = &[
        "takeovers",
        "renewals",
        "commits",
        "rejected",
        "answers_lost",
        "requests_lost",
        "success_told_as_loss",
        "landed_late",
        "too_late_after_a_takeover",
        "found_again",
        "repeated",
        "overtaken",
        "leases_lost",
        "second_deliveries",
    ];
    holds("two processes", &setup, seen);
    let three = Setup {
        processes: 3,
        rows: 1,
        faults: bound(1, 2),
        ..LIE
    };
    holds(
        "three processes",
        &three,
        &["takeovers", "landed_late", "overtaken"],
    );
}

#[test]
fn a_crash_or_a_restart_at_any_step_breaks_no_lease() {
    let setup = Setup {
        faults: 1,
        crashes: bound(1, 2),
        ..LIE
    };
    let seen = &[
        "crashes",
        "landed_late_after_the_sender_was_gone",
        "takeovers",
    ];
    holds("crashes", &setup, seen);
}

#[test]
fn deliveries_that_fail_or_are_remembered_break_no_lease() {
    let setup = Setup {
        faults: 1,
        refusals: bound(1, 2),
        rows: bound(2, 3),
        beats: 0,
        remembers: true,
        ..LIE
    };
    let seen = &[
        "refused_deliveries",
        "settlements",
        "releases",
        "landed_late",
    ];
    holds("failed deliveries", &setup, seen);
}

#[test]
fn orders_of_a_person_at_any_step_fence_and_lose_nothing() {
    let one = Setup {
        orders: 1,
        wishes: WISHES,
        faults: 1,
        ticks: bound(2, 3),
        beats: 0,
        ..LIE
    };
    let seen = &[
        "orders",
        "found_again",
        "leases_lost",
        "releases",
        "landed_late",
    ];
    holds("an order", &one, seen);
    let two = Setup {
        orders: 2,
        rows: bound(1, 2),
        faults: bound(0, 1),
        ..one
    };
    holds("two orders", &two, &["orders", "leases_lost"]);
}

#[test]
fn a_read_that_shows_what_stood_there_before_breaks_nothing() {
    let setup = Setup {
        stale_reads: bound(1, 2),
        faults: 1,
        ..LIE
    };
    holds(
        "stale reads",
        &setup,
        &["stale_reads", "found_again", "takeovers"],
    );
}

#[test]
fn a_birth_is_marked_and_a_deleted_document_is_not_begun_again() {
    let birth = Setup {
        born: false,
        faults: bound(1, 2),
        crashes: 1,
        rows: bound(1, 2),
        beats: 0,
        deletions: 1,
        ..LIE
    };
    let seen = &["created", "deletions", "alarms", "landed_late", "crashes"];
    holds("births and deletions", &birth, seen);
    let reset = Setup {
        orders: 1,
        wishes: &[Wish::Reset],
        faults: bound(0, 1),
        ..birth
    };
    holds(
        "a reset after a deletion",
        &reset,
        &["orders", "created", "alarms"],
    );
}

#[test]
fn where_clocks_agree_nobody_loses_a_lease_that_it_trusts() {
    let setup = Setup {
        faults: 1,
        rows: bound(1, 2),
        ..Setup::new(Clocks::Agree { until: bound(6, 8) })
    };
    let seen = &[
        "takeovers",
        "leases_lost",
        "renewals",
        "found_again",
        "landed_late",
    ];
    holds("clocks that agree", &setup, seen);
}

/// Longer than a lease, by heartbeats.
fn calm() -> Setup {
    Setup {
        processes: bound(2, 3),
        ..Setup::new(Clocks::Calm { until: 6 })
    }
}

#[test]
fn where_nothing_goes_wrong_no_row_is_sent_twice() {
    let explored = holds("calm", &calm(), &["renewals", "commits", "overtaken"]);
    let counts = explored.counts;
    let wrong = [
        counts.takeovers,
        counts.leases_lost,
        counts.second_deliveries,
    ];
    assert_eq!(wrong, [0; 3]);
}

/// Small worlds, in which each of them shows.
fn broken_rules() -> Vec<(Setup, &'static [&'static str])> {
    const FENCE: &[&str] = &["I3", "I4", "I5", "I9", "G3"];
    let faulty = Setup { faults: 1, ..LIE };
    let refused = Setup { refusals: 1, ..LIE };
    let ordered = Setup {
        orders: 1,
        wishes: WISHES,
        ..faulty.clone()
    };
    let agree = Setup {
        faults: 1,
        rows: 1,
        ..Setup::new(Clocks::Agree { until: 7 })
    };
    let unborn = Setup { born: false, ..LIE };
    let deleted = Setup {
        deletions: 1,
        orders: 1,
        wishes: &[Wish::Reset],
        ..unborn.clone()
    };
    [
        (Mutant::NoCondition, LIE, FENCE),
        (Mutant::NoCondition, faulty.clone(), FENCE),
        (Mutant::UnknownClaimTrusted, faulty.clone(), &["I8"]),
        (Mutant::UnknownCommitTrusted, faulty.clone(), &["I8"]),
        (Mutant::UnknownOrderTrusted, ordered.clone(), &["I8"]),
        (Mutant::UnknownTakenForFailed, faulty.clone(), &["I8"]),
        (Mutant::CommitBeforeDelivery, LIE, &["I1"]),
        (Mutant::FailureCountedAsDone, refused, &["I1"]),
        (Mutant::TokenNotBumped, LIE, &["I4"]),
        (Mutant::MarkNotCompared, faulty, &["I8"]),
        (Mutant::ClaimOutlasts, calm(), &["I11"]),
        (Mutant::LeaseRevived, LIE, FENCE),
        (Mutant::OrderDoesNotFence, ordered, &["I4"]),
        (Mutant::MarkerAfterCommit, unborn, &["I14"]),
        (Mutant::TokensCountedAgain, deleted, &["I4"]),
        (Mutant::TrustedFromAnswer, agree, &["C2"]),
        (Mutant::ExpiryIgnored, calm(), &["I11"]),
    ]
    .map(|(mutant, setup, names)| (Setup { mutant, ..setup }, names))
    .into()
}

#[test]
fn each_broken_rule_of_the_lease_is_found() {
    for (setup, expected) in broken_rules() {
        let mutant = setup.mutant;
        let Err(story) = explore(&setup) else {
            panic!("{mutant:?} was not found");
        };
        let name = story.violation.name;
        println!("{mutant:?}: {name} after {} steps", story.steps.len());
        assert!(expected.contains(&name), "{mutant:?}: {story:#?}");
    }
}

#[test]
fn a_lease_whose_age_is_ignored_costs_duplicates_and_no_row() {
    let setup = Setup {
        faults: 1,
        rows: 1,
        ticks: 2,
        mutant: Mutant::ExpiryIgnored,
        ..Setup::new(Clocks::Agree { until: 4 })
    };
    holds(
        "an ignored age",
        &setup,
        &["takeovers", "second_deliveries"],
    );
}
