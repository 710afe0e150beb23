//! How the world of a seed is built: who is in it, under which policy, and how its rows become visible.

use std::num::NonZeroUsize;

use dbtick::model::late::Ordering;
use dbtick::model::ledger::LedgerMode;
use dbtick::model::policy::{CommitPolicy, PoisonPolicy};

use super::Plan;
use super::faults::{Bug, Mode};
use super::rng::Rng;
use super::table::Lateness;

pub(crate) const MOST_SINKS: usize = 3;

/// How this seed's world is built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) instances: u64,
    pub(crate) sinks: usize,
    /// Receivers have bad rows, moods and limits; nobody waits for some of them.
    pub(crate) has_manners: bool,
    pub(crate) optional: [bool; MOST_SINKS],
    pub(crate) commit: CommitPolicy,
    /// Failed ticks before a bad row is looked for.
    pub(crate) attempts: u32,
    pub(crate) max_rows: usize,
    pub(crate) max_inflight: usize,
    pub(crate) store_tells_time: bool,
    pub(crate) fences: Fences,
    pub(crate) lateness: Lateness,
    pub(crate) ledger: LedgerMode,
    pub(crate) ordering: Ordering,
    pub(crate) filling: Option<Filling>,
    /// One: none.
    pub(crate) shards: u16,
}

/// What receivers do with an attempt that is older than one they have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fences {
    Ignored,
    /// They reject it.
    PerPoller,
    /// They leave out each row of it of which they have seen a newer attempt.
    PerRow,
}

/// A backfill beside the poller.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling {
    pub(crate) ranges: NonZeroUsize,
    /// That work on it at once.
    pub(crate) processes: u64,
    /// Somebody does, while it runs.
    pub(crate) given_up: bool,
    /// Until everything heals its ranges do not see every row, so that the reconciliation has something to find.
    pub(crate) has_gaps: bool,
}

impl Layout {
    /// `apart`: so that worlds without a backfill are what they would be without this.
    pub(crate) fn drawn(rng: &mut Rng, apart: &mut Rng, plan: Plan) -> Self {
        let filling = Filling::drawn(apart, plan);
        let shards = shards(apart, plan, filling.is_some());
        let has_manners = match plan.bug {
            Some(bug) => bug.is_about_receivers(),
            None => rng.below(2) == 0,
        };
        let sinks = match plan.bug {
            Some(Bug::SecondSinkForgotten | Bug::LagDropped | Bug::LagFailureCountedAsDone) => 2,
            _ if has_manners => 1 + usize::try_from(rng.below(3)).unwrap(),
            _ => 1 + usize::from(rng.below(4) == 0),
        };
        let (commit, optional) = match plan.bug {
            Some(Bug::LagDropped | Bug::LagFailureCountedAsDone) => {
                (CommitPolicy::Required, [false, true, false])
            }
            _ if has_manners => policy(rng, sinks),
            _ => (CommitPolicy::Required, [false; MOST_SINKS]),
        };
        let lateness = match (plan.bug, rng.below(5)) {
            (Some(Bug::EvidenceBeforeBound | Bug::PreparedForgotten), _) => Lateness::Writers,
            (Some(Bug::RowsInFlightIgnored), _) => Lateness::Rows,
            (Some(Bug::WindowTooShort), _) => Lateness::Window,
            (Some(Bug::LateCommits), 0 | 1) => Lateness::Window,
            (Some(Bug::LateCommits), _) => Lateness::Writers,
            (Some(_), _) | (_, 0 | 1) => Lateness::InOrder,
            (_, 2) => Lateness::Writers,
            (_, 3) => Lateness::Rows,
            _ => Lateness::Window,
        };
        Self {
            instances: plan.size.instances.unwrap_or(2 + rng.below(2)),
            sinks,
            has_manners,
            optional,
            commit,
            attempts: match has_manners {
                true => 2 + u32::try_from(rng.below(4)).unwrap(),
                false => PoisonPolicy::default().attempts,
            },
            max_rows: usize::try_from(1 + u64::from(has_manners) + rng.below(5)).unwrap(),
            max_inflight: match rng.below(3) {
                0 => 2 + usize::try_from(rng.below(3)).unwrap(),
                _ => 1,
            },
            store_tells_time: rng.below(2) == 0 || plan.bug == Some(Bug::LeaseExpiryIgnored),
            fences: match (rng.below(2), filling) {
                _ if plan.bug == Some(Bug::RowFencesIgnored) => Fences::PerRow,
                (0, Some(filling)) if filling.ranges.get() > 1 => Fences::PerRow,
                (0, _) => Fences::PerPoller,
                _ => Fences::Ignored,
            },
            lateness,
            ordering: match rng.below(4) {
                0 => Ordering::Cursor,
                _ => Ordering::Visible,
            },
            // Other planted bugs are looked for by what they break, not by what is written down of it.
            ledger: match plan.bug {
                Some(Bug::SegmentNotKept | Bug::HeadDropped) => LedgerMode::Full,
                None if rng.below(2) == 0 => LedgerMode::Full,
                _ => LedgerMode::Off,
            },
            filling,
            shards,
        }
    }

    /// Rows go on without somebody.
    pub(crate) fn leaves_behind(self) -> bool {
        match self.commit {
            CommitPolicy::All => false,
            CommitPolicy::Required => self.optional.contains(&true),
            CommitPolicy::Quorum(quorum) => quorum.get() < self.sinks,
        }
    }

    /// Rows come out in the order of the cursor (A4).
    pub(crate) fn is_in_order(self) -> bool {
        let in_order = self.lateness == Lateness::InOrder || self.ordering == Ordering::Cursor;
        in_order && self.max_inflight == 1
    }
}

impl Filling {
    /// In one world of three.
    fn drawn(rng: &mut Rng, plan: Plan) -> Option<Self> {
        let wanted = match plan.bug {
            Some(bug) => bug.is_about_backfills(),
            None => plan.mode == Mode::Chaos && rng.below(3) == 0,
        };
        let ranges = 1 + usize::try_from(rng.below(3)).unwrap();
        let filling = Self {
            ranges: NonZeroUsize::new(ranges).unwrap(),
            processes: 1 + rng.below(2),
            given_up: rng.below(6) == 0 && plan.bug.is_none(),
            has_gaps: rng.below(3) == 0 && plan.bug.is_none(),
        };
        wanted.then_some(filling)
    }
}

/// Of every other world without a backfill.
fn shards(rng: &mut Rng, plan: Plan, has_filling: bool) -> u16 {
    let (wanted, more) = (rng.below(2) == 1, rng.below(2));
    let wanted = match plan.bug {
        Some(bug) => bug == Bug::ShardsOverlap,
        None => wanted && plan.mode == Mode::Chaos,
    };
    match wanted && !has_filling {
        true => 2 + u16::try_from(more).unwrap(),
        false => 1,
    }
}

/// At least one sink is required.
fn policy(rng: &mut Rng, sinks: usize) -> (CommitPolicy, [bool; MOST_SINKS]) {
    let mut optional = [false; MOST_SINKS];
    let commit = match rng.below(6) {
        0 => CommitPolicy::All,
        1 | 2 => {
            let quorum = 1 + usize::try_from(rng.below(sinks as u64)).unwrap();
            CommitPolicy::Quorum(NonZeroUsize::new(quorum).unwrap())
        }
        _ => {
            for sink in &mut optional[1..sinks] {
                *sink = rng.below(3) > 0;
            }
            CommitPolicy::Required
        }
    };
    (commit, optional)
}
