//! How receivers behave beyond what the network does to them: rows that they never take, batches that
//! are too large for them, and times in which they answer everything in one way.

use std::collections::BTreeMap;
use std::time::Duration;

use dbtick::sink::FailureKind;

use super::Plan;
use super::faults::{Bug, Mode};
use super::layout::Layout;
use super::rng::Rng;

/// Versions are numbered from one; about so many are written.
const VERSIONS: u64 = 90;
const MOST_BAD: usize = 4;

#[derive(Debug, Clone, Default)]
pub(crate) struct Manners {
    /// Versions of rows that are never taken. Fewer than a full batch has, so that a good neighbour can
    /// show whose fault it is.
    pub(crate) bad: BTreeMap<u64, Bad>,
    /// More rows than these are too large.
    pub(crate) most_rows: Option<usize>,
    pub(crate) moods: Vec<Mood>,
}

/// How a receiver answers to a row that it never takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bad {
    /// With the whole batch.
    Rejects,
    /// With the whole batch.
    Breaks,
    NamesForGood,
    NamesAgain,
}

/// From one moment to another, nothing is taken: a bad deploy, a wrong key, nobody there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mood {
    from: Duration,
    to: Duration,
    kind: FailureKind,
}

impl Manners {
    pub(crate) fn drawn(rng: &mut Rng, plan: Plan, layout: Layout, sink: usize) -> Self {
        if !layout.has_manners {
            return Self::default();
        }
        let most_rows = match (plan.bug, rng.below(3)) {
            (Some(Bug::TooLargeCountedAsTaken), _) => Some(1),
            (None, 0) => Some(1 + usize::try_from(rng.below(3)).unwrap()),
            _ => None,
        };
        if plan.mode == Mode::Calm {
            return Self {
                most_rows,
                ..Self::default()
            };
        }
        Self {
            bad: bad_rows(rng, plan.bug, layout.max_rows),
            most_rows,
            moods: moods(rng, plan.bug, sink),
        }
    }

    pub(crate) fn mood(&self, at: Duration) -> Option<FailureKind> {
        let now = self
            .moods
            .iter()
            .find(|mood| mood.from <= at && at < mood.to);
        now.map(|mood| mood.kind)
    }

    /// Nobody is there: the poller pauses, and somebody has to resume it.
    pub(crate) fn leaves(&self) -> bool {
        self.moods.iter().any(|mood| mood.kind == FailureKind::Gone)
    }
}

fn bad_rows(rng: &mut Rng, bug: Option<Bug>, max_rows: usize) -> BTreeMap<u64, Bad> {
    let most = MOST_BAD.min(max_rows - 1);
    let count = match (bug, rng.below(4)) {
        (Some(Bug::QuarantineNotKept | Bug::NamedCountedAsTaken), _) => most,
        (Some(_), _) | (None, 0 | 1) => 0,
        (None, 2) => most.min(1),
        (None, _) => most,
    };
    let bad = (0..count).map(|_| {
        let how = match (bug, rng.below(4)) {
            (Some(Bug::NamedCountedAsTaken), 0 | 1) | (_, 0) => Bad::NamesForGood,
            (Some(Bug::NamedCountedAsTaken), _) | (_, 1) => Bad::NamesAgain,
            (_, 2) => Bad::Rejects,
            _ => Bad::Breaks,
        };
        (1 + rng.below(VERSIONS), how)
    });
    bad.collect()
}

fn moods(rng: &mut Rng, bug: Option<Bug>, sink: usize) -> Vec<Mood> {
    let count = match (bug, rng.below(4)) {
        (Some(Bug::LagDropped | Bug::LagFailureCountedAsDone), _) => u64::from(sink == 1) * 2,
        (Some(_), _) | (None, 0 | 1) => 0,
        (None, more) => more - 1,
    };
    let mood = |rng: &mut Rng| {
        let from = Duration::from_secs(rng.below(60));
        let kind = match rng.below(9) {
            0 | 1 => FailureKind::Passing,
            2 | 3 => FailureKind::Broken,
            4 | 5 => FailureKind::Rejected,
            6 | 7 => FailureKind::Refused,
            _ if bug.is_some() => FailureKind::Refused,
            _ => FailureKind::Gone,
        };
        let lasts = Duration::from_secs(3 + rng.below(40));
        Mood {
            from,
            to: from + lasts,
            kind,
        }
    };
    (0..count).map(|_| mood(rng)).collect()
}
