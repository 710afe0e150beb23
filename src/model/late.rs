//! Rows that become visible below a place that was already read: what is known about them (B5).
//!
//! A cursor is drawn before its transaction commits, so a row may appear *behind* rows that were
//! delivered long ago. The checkpoint may pass a place only when nobody is left who could still
//! commit a row at or below it. What is known about that is kept as [`Fence`]s, each a fact that is
//! true by itself:
//!
//! > every row at or below `up_to` that was not delivered yet will be committed by one of the
//! > `witnesses`, or, by somebody who shows nothing, before `until`.
//!
//! A fence with neither is the checkpoint. Because each fence stands alone, forgetting one is always
//! safe; so is forgetting that a row was delivered. What is never safe is to believe too much:
//! the order *bound, then evidence, then data* is what makes a fence true (see [`Sweep`]).
//!
//! Nothing in here asks a database; sources return a [`Sight`].

mod epoch;
mod sweep;

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use chrono::TimeDelta;

use super::position::{Position, Scalar};
use crate::clock::Timestamp;

pub use epoch::{Continuity, Epoch, Rewind, rewind_target};
pub use sweep::{Known, Ordering, Seen, Survey, Sweep};

/// No more fences are kept; the ones left out are those that the others stand for best.
pub const MOST_FENCES: usize = 8;
/// A fence with more witnesses is not worth its bytes; nor are more than two fences with more together.
pub const MOST_WITNESSES: usize = 1000;

const PREPARED: &str = "prepared ";

/// Somebody who may still commit: a transaction, or a row that is not committed. Compared, never
/// interpreted, except by the source that named it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Witness(String);

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    pub up_to: Position,
    pub witnesses: BTreeSet<Witness>,
    /// By the database's clock.
    pub until: Option<Timestamp>,
    /// When it was first known, by the database's clock.
    pub since: Timestamp,
}

/// What a source sees before a sweep: the bound was sampled first, the writers after it, and every
/// page is read after both.
#[derive(Debug, Clone, Default)]
pub struct Sight {
    /// Who is asked, and since when it runs; `None` where nothing is told.
    pub epoch: Option<Epoch>,
    /// The database's clock; `None` where no fence needs it.
    pub now: Option<Timestamp>,
    pub bound: Bound,
    /// Everybody who could commit a row within the bound.
    pub writers: BTreeSet<Witness>,
    /// Those of the writers that are [prepared](Witness::prepared): they may have been another witness
    /// before.
    pub disguised: BTreeSet<Witness>,
    /// Of the witnesses that the source was asked about, those of which nothing can be said any more;
    /// fences that name them are forgotten.
    pub unanswered: BTreeSet<Witness>,
    /// Of the witnesses that the source was asked about, the rows that are still not committed.
    pub rows_in_flight: BTreeSet<Witness>,
    /// The evidence is a survey before each page; a page without one proves nothing.
    pub surveys: bool,
    /// For so long after this moment a row within the bound may come from somebody who shows
    /// nothing: a number drawn in advance, a statement that waits for a lock.
    pub window: Option<Duration>,
    /// Rows whose cursor is at or above it belong to the future.
    pub ceiling: Option<Scalar>,
}

/// Up to where rows were drawn before the sample; nothing drawn later is within it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bound {
    pub highest: Highest,
    /// Cursors strictly below this one, column by column from the first.
    pub below: Option<Vec<Scalar>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Highest {
    /// The order of commits is the order of cursors.
    #[default]
    Any,
    /// The last row that was visible at the sample.
    Visible(Option<Position>),
}

/// What a document keeps about late commits, beside what was delivered above the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Late {
    /// By place; none of them at or below the checkpoint.
    pub fences: Vec<Fence>,
    /// The server as of the last write.
    pub epoch: Option<Epoch>,
    /// Ids delivered above the checkpoint that are kept beside the document.
    pub spilled: Vec<Segment>,
    /// Objects that nothing refers to any more, to be removed.
    pub retired: Vec<String>,
}

/// An immutable object with the ids of delivered events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// A hash of its content.
    pub name: String,
    pub ids: u64,
    /// The places of its first and last event.
    pub from: Position,
    pub to: Position,
}

/// How well a source is protected against rows that commit late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Protection {
    pub grade: Protected,
    /// In one sentence.
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protected {
    Proven,
    /// A row is missed only if it becomes visible later than this after it was drawn.
    Bounded(Duration),
    Unsafe,
}

impl Witness {
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// A transaction that outlives its session, and has had another name before.
    #[must_use]
    pub fn prepared(name: impl fmt::Display) -> Self {
        Self(format!("{PREPARED}{name}"))
    }

    #[must_use]
    pub fn is_prepared(&self) -> bool {
        self.0.starts_with(PREPARED)
    }

    /// A row that somebody has written and not committed.
    #[must_use]
    pub fn row(position: &Position) -> Self {
        Self(format!("row {}", position.to_tagged()))
    }

    /// The place of such a row.
    #[must_use]
    pub fn as_row(&self) -> Option<Position> {
        Position::from_tagged(self.0.strip_prefix("row ")?).ok()
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Fence {
    /// Nobody is left.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        self.witnesses.is_empty() && self.until.is_none()
    }

    /// Says nothing that the other one does not say.
    fn is_implied_by(&self, other: &Self) -> bool {
        self.up_to <= other.up_to
            && other.witnesses.is_subset(&self.witnesses)
            && other.until <= self.until
    }

    /// What it comes to at a moment: who has gone is left out. True of what was read since.
    fn at(&self, sight: &Sight) -> Self {
        let live = |witness: &&Witness| {
            sight.writers.contains(*witness) || sight.rows_in_flight.contains(*witness)
        };
        let gone = |witness: &&Witness| !live(witness);
        let mut witnesses: BTreeSet<_> = self.witnesses.iter().filter(live).cloned().collect();
        // One that is prepared already becomes nothing else; without that, a server that prepares
        // transactions all the time would never see a fence clear.
        if self
            .witnesses
            .iter()
            .filter(gone)
            .any(|witness| !witness.is_prepared())
        {
            witnesses.extend(sight.disguised.iter().cloned());
        }
        let until = self
            .until
            .filter(|until| sight.now.is_none_or(|now| now < *until));
        Self {
            up_to: self.up_to.clone(),
            witnesses,
            until,
            since: self.since,
        }
    }
}

impl Sight {
    /// Rows within the bound of this sample may come from nobody but the writers until then.
    fn until(&self) -> Option<Timestamp> {
        let window = TimeDelta::from_std(self.window?).unwrap_or(TimeDelta::MAX);
        Some(
            self.now?
                .checked_add_signed(window)
                .unwrap_or(Timestamp::MAX_UTC),
        )
    }

    fn since(&self) -> Timestamp {
        self.now.unwrap_or_default()
    }

    #[must_use]
    pub fn is_future(&self, position: &Position) -> bool {
        match (&self.ceiling, position.cursor().first()) {
            (Some(ceiling), Some(cursor)) => {
                cursor.scalar_type() == ceiling.scalar_type() && cursor >= ceiling
            }
            _ => false,
        }
    }
}

impl Late {
    /// The checkpoint has come to `low`: what is said about places below it is not needed.
    pub(super) fn pass(&mut self, low: &Position) {
        self.fences.retain(|fence| fence.up_to > *low);
        let (kept, passed) = std::mem::take(&mut self.spilled)
            .into_iter()
            .partition(|segment| segment.to > *low);
        self.spilled = kept;
        self.retire(passed);
    }

    /// The order of rows has begun anew.
    pub(super) fn begin_again(&mut self) {
        self.fences.clear();
        self.epoch = None;
        let spilled = std::mem::take(&mut self.spilled);
        self.retire(spilled);
    }

    fn retire(&mut self, segments: Vec<Segment>) {
        self.retired
            .extend(segments.into_iter().map(|segment| segment.name));
    }

    /// Everybody who is waited for.
    #[must_use]
    pub fn witnesses(&self) -> BTreeSet<Witness> {
        let fences = self.fences.iter();
        fences.flat_map(|fence| fence.witnesses.clone()).collect()
    }
}

impl Bound {
    /// Whatever a row within it is, it was drawn before the sample. `delivered` is the highest place
    /// that was delivered before: it was drawn before too, even if its row is gone.
    fn covers(&self, position: &Position, delivered: Option<&Position>) -> bool {
        let drawn = match &self.highest {
            Highest::Any => true,
            Highest::Visible(visible) => Some(position) <= visible.as_ref().max(delivered),
        };
        let closed = self.below.as_deref().is_none_or(|below| {
            let cursor = &position.cursor()[..below.len().min(position.cursor().len())];
            let alike = cursor.len() == below.len()
                && cursor
                    .iter()
                    .zip(below)
                    .all(|(one, other)| one.scalar_type() == other.scalar_type());
            alike && cursor < below
        });
        drawn && closed
    }
}

impl Protected {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Proven => "PROVEN",
            Self::Bounded(_) => "BOUNDED",
            Self::Unsafe => "UNSAFE",
        }
    }
}

/// `PROVEN`, `BOUNDED(5s)`, `UNSAFE`
impl fmt::Display for Protected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bounded(window) => write!(f, "BOUNDED({window:?})"),
            other => f.write_str(other.name()),
        }
    }
}

/// Keeps what is worth keeping: no fence at or below the checkpoint, none that another implies, and
/// of the rest those that are spread best over time.
#[must_use]
fn worth_keeping(mut fences: Vec<Fence>, low: Option<&Position>) -> Vec<Fence> {
    fences.retain(|fence| {
        Some(&fence.up_to) > low && !fence.is_clear() && fence.witnesses.len() <= MOST_WITNESSES
    });
    // Of two at one place, the one that says more is the last.
    fences.sort_by(|one, other| {
        let says_less = |fence: &Fence| (fence.until, fence.witnesses.len());
        let by_place = one.up_to.cmp(&other.up_to);
        by_place.then_with(|| says_less(other).cmp(&says_less(one)))
    });
    let mut kept: Vec<Fence> = Vec::new();
    // From the last on, so that what implies a fence is among those that are kept already.
    for fence in fences.into_iter().rev() {
        match kept.iter_mut().find(|other| fence.is_implied_by(other)) {
            // Whoever is waited for there was waited for here.
            Some(other) => other.since = other.since.min(fence.since),
            None => kept.push(fence),
        }
    }
    kept.reverse();
    let is_too_much = |kept: &[Fence]| {
        let witnesses: usize = kept.iter().map(|fence| fence.witnesses.len()).sum();
        kept.len() > MOST_FENCES || kept.len() > 2 && witnesses > MOST_WITNESSES
    };
    while is_too_much(&kept) {
        let gap = |at: usize| kept[at + 1].since - kept[at - 1].since;
        let closest = (1..kept.len() - 1).min_by_key(|at| gap(*at));
        kept.remove(closest.unwrap_or(1));
    }
    kept
}

#[cfg(test)]
mod tests;
