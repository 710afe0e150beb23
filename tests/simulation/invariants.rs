//! What must hold. The numbers are those of `docs/guarantees.md`, *Invariants*.
//!
//! A new promise is a line in one of the three tables below and the function that it names: the first is
//! asked at each accepted write of a state document, which is the one linearization point, of the poller and of
//! the ranges of its backfill; the second at each accepted write of the plan of that backfill; the third when
//! everything is over. I7 (every write is conditional) holds by construction: the seam has no other
//! write. I6 is in `sim`, I10 and I12 are in `receivers`, H1 and I14 are in `store`, H3 is in `world` too, where each is
//! seen.

mod backfill;
mod ending;
mod fencing;
mod ledger;
mod passage;

use std::collections::BTreeMap;
use std::fmt;

use dbtick::backfill::{Status, Stuck};
use dbtick::model::state::StateDocument;
use dbtick::store::StoreKey;
use dbtick::tick::report::{TickError, TickReport};

pub(crate) use backfill::{Planned, Span};
pub(crate) use ending::End;
pub(crate) use passage::Accepted;

use super::backfill::may_stop;
use super::faults::Mode;
use super::keys::{Kind, kind};
use super::table::Place;
use ledger::Written;

/// Why it does not hold.
type Held = Result<(), String>;

struct Promise<Seen> {
    name: &'static str,
    holds: Seen,
}

const fn promise<Seen>(name: &'static str, holds: Seen) -> Promise<Seen> {
    Promise { name, holds }
}

type AtAWrite = fn(&mut Known, &Accepted<'_>) -> Held;
type AtAPlan = fn(&Planned<'_>) -> Held;
type AtTheEnd = fn(&Invariants, &End<'_>) -> Held;

const AT_EACH_WRITE: &[Promise<AtAWrite>] = &[
    promise("I1", passage::nothing_is_passed_over),
    promise("I1", passage::whoever_is_behind_has_what_it_says),
    promise("G3", fencing::versions_are_given_once),
    promise("C7", fencing::an_order_happens_once),
    promise("I3", fencing::the_checkpoint_is_monotone),
    promise("I9", fencing::an_old_token_changes_nothing),
    promise("I4", fencing::each_acquisition_counts_one),
    promise("I5", fencing::a_token_has_one_owner),
    promise("I17", fencing::an_unexpired_lease_is_not_taken),
    promise("I14", fencing::whoever_has_begun_is_marked),
    promise("F6", ledger::the_ledger_is_a_chain_of_what_happened),
    promise("F6", ledger::what_is_passed_is_in_the_ledger),
];

const AT_A_PLAN: &[Promise<AtAPlan>] = &[
    promise("H2", backfill::what_has_ended_stays_ended),
    promise("H3", backfill::nothing_is_beyond_the_poller),
    promise("F5", backfill::the_report_adds_up),
    promise(
        "F5",
        backfill::complete_means_that_everything_was_sent_again,
    ),
];

const AT_THE_END: &[Promise<AtTheEnd>] = &[
    promise("I2", ending::everybody_has_everything),
    promise("C5", ending::whoever_compares_fences_has_the_newest),
    promise("I13", ending::only_bad_rows_are_aside),
    promise("I11", ending::a_calm_world_has_no_duplicates),
    promise("I20", ending::what_is_aside_is_counted),
    promise("I9", ending::a_claim_repeats_what_was_in_flight),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) name: &'static str,
    pub(crate) what: String,
}

macro_rules! summary {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// What a run was made of: a run in which nothing happened proves nothing.
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct Summary {
            $($(#[$doc])* pub(crate) $name: u64,)+
        }

        impl Summary {
            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }
        }

        impl fmt::Display for Summary {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let counts = [$((stringify!($name), self.$name)),+];
                let counts = counts.map(|(name, count)| format!("{count} {}", name.replace('_', " ")));
                f.write_str(&counts.join(", "))
            }
        }
    };
}

summary! {
    ticks,
    failed_ticks,
    crashes,
    commits,
    takeovers,
    duplicates,
    /// Moves by hand.
    orders,
    rows,
    /// Times that a sink fell behind.
    lags,
    quarantined,
    /// Times that the document was spoiled.
    spoiled,
    /// Those that were completed.
    backfills,
    /// Commits of their ranges.
    range_commits,
    /// Times that rows were missing when they were reconciled.
    rounds,
    /// Worlds whose poller has shards.
    in_shards,
}

#[derive(Debug, Default)]
pub(crate) struct Invariants {
    first: Option<Violation>,
    /// Of each state document.
    known: BTreeMap<StoreKey, Known>,
    pub(crate) summary: Summary,
}

/// What is remembered from one write of a state document to the next.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Who got each fencing token, by the nonce of the claim.
    claims: BTreeMap<u64, String>,
    /// Most events that were remembered above the checkpoint at once.
    most_delivered: u64,
    ledger: Written,
    /// Events that a sink had beyond the checkpoint when it came level: they come again.
    forgotten: u64,
    /// Moves by hand.
    orders: u64,
    furthest: Option<Place>,
}

pub(crate) fn violation<T>(name: &'static str, what: String) -> Result<T, Violation> {
    Err(Violation { name, what })
}

fn require(holds: bool, what: impl FnOnce() -> String) -> Held {
    if holds { Ok(()) } else { Err(what()) }
}

impl Invariants {
    /// Only the first counts: the others may follow from it.
    pub(crate) fn violated(&mut self, name: &'static str, what: String) {
        self.first.get_or_insert(Violation { name, what });
    }

    pub(crate) fn take_violation(&mut self) -> Option<Violation> {
        self.first.take()
    }

    /// Of the document at this place.
    pub(crate) fn check_write(
        &mut self,
        key: &StoreKey,
        write: &Accepted<'_>,
    ) -> Result<(), Violation> {
        self.count(key, write);
        let known = self.known.entry(key.clone()).or_default();
        known.furthest = known.furthest.max(Place::of(write.after));
        known.most_delivered = known.most_delivered.max(write.after.delivered.len() as u64);
        known.forgotten += passage::forgotten(write);
        for promise in AT_EACH_WRITE {
            (promise.holds)(known, write).or_else(|what| violation(promise.name, what))?;
        }
        known.remember_the_claim(write);
        Ok(())
    }

    pub(crate) fn check_plan(&mut self, plan: &Planned<'_>) -> Result<(), Violation> {
        self.summary.backfills += u64::from(plan.after.status == Status::Complete);
        self.summary.rounds += u64::from(plan.before.is_some_and(|it| it.round < plan.after.round));
        for promise in AT_A_PLAN {
            (promise.holds)(plan).or_else(|what| violation(promise.name, what))?;
        }
        Ok(())
    }

    fn of_the_poller(&self) -> impl Iterator<Item = &Known> {
        let known = self.known.iter();
        let known = known.filter(|(key, _)| kind(key) == Kind::State);
        known.map(|(_, known)| known)
    }

    fn most_delivered(&self) -> u64 {
        self.of_the_poller().map(|known| known.most_delivered).sum()
    }

    fn forgotten(&self) -> u64 {
        self.of_the_poller().map(|known| known.forgotten).sum()
    }

    pub(crate) fn orders(&self) -> u64 {
        self.of_the_poller().map(|known| known.orders).sum()
    }

    /// The furthest that the poller itself has been.
    pub(crate) fn furthest(&self) -> Option<Place> {
        self.of_the_poller()
            .filter_map(|known| known.furthest)
            .max()
    }

    pub(crate) fn check_end(&self, end: &End<'_>) -> Result<(), Violation> {
        for promise in AT_THE_END {
            (promise.holds)(self, end).or_else(|what| violation(promise.name, what))?;
        }
        Ok(())
    }

    fn count(&mut self, key: &StoreKey, write: &Accepted<'_>) {
        let after = write.after;
        if let Some(before) = write.before {
            let commits = |document: &StateDocument| document.counters.batches;
            let commits = commits(after).saturating_sub(commits(before));
            if kind(key) != Kind::State {
                self.summary.range_commits += commits;
                return;
            }
            self.summary.commits += commits;
            let taken = before.lease.held.is_some() && before.lease.token < after.lease.token;
            self.summary.takeovers += u64::from(taken);
            let falls = |name: &String| before.sinks.get(name).is_none_or(|it| it.lag.is_none());
            let behind = after.sinks.iter().filter(|(_, sink)| sink.lag.is_some());
            self.summary.lags += behind.filter(|(name, _)| falls(name)).count() as u64;
        }
    }

    /// A backfill may stop because the world does not let it go on.
    pub(crate) fn check_stuck(&self, stuck: &Stuck) -> Result<(), Violation> {
        match may_stop(stuck, self.summary.spoiled > 0) {
            true => Ok(()),
            false => violation("false alarm", stuck.to_string()),
        }
    }

    /// A tick may fail because the world does; it must not see damage where there is none.
    pub(crate) fn check_report(
        &mut self,
        report: &TickReport,
        mode: Mode,
    ) -> Result<(), Violation> {
        self.summary.ticks += 1;
        let Err(error) = &report.result else {
            return Ok(());
        };
        self.summary.failed_ticks += 1;
        let planned = match error {
            TickError::Delivery { .. }
            | TickError::LeaseLost { .. }
            | TickError::Source(_)
            | TickError::Store(_)
            | TickError::Contended { .. } => true,
            TickError::DocumentGone { .. } | TickError::Document { .. } => self.summary.spoiled > 0,
            TickError::MarkedFailed
            | TickError::Fingerprint { .. }
            | TickError::SinksChanged { .. }
            | TickError::SchemaChanged { .. }
            | TickError::OtherServer { .. }
            | TickError::Restored { .. }
            | TickError::Refused(_)
            | TickError::Crowded
            | TickError::Layout(_)
            | TickError::Bug { .. } => false,
        };
        let told = |name| match name {
            Some(name) => violation(name, report.sentence()),
            None => Ok(()),
        };
        told((!planned).then_some("false alarm"))?;
        told((mode != Mode::Chaos).then_some("calm"))
    }
}
