//! One pass over the rows behind the checkpoint, and what it proves.
//!
//! A sweep begins with a [`Sight`] and reads pages in order, each after the sight was taken. Once
//! everything in a page is delivered, [`Sweep::passed`] says how far the checkpoint may move and
//! which fences are true now. Nothing that is learned in the middle of a sweep counts for it: a row
//! that became visible behind the page position would be passed over.

use std::collections::BTreeSet;

use super::{Fence, Sight, Witness, worth_keeping};
use crate::model::position::Position;

/// How rows come out (A4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// As soon as they are visible.
    #[default]
    Visible,
    /// In the order of the cursor: nothing is delivered that a later row could come before.
    Cursor,
}

#[derive(Debug)]
pub struct Sweep {
    sight: Sight,
    ordering: Ordering,
    low: Option<Position>,
    /// As they stand in the document, and as they are for what this sweep has passed.
    fences: Vec<(Fence, Fence)>,
    /// The place behind which this sweep reads, and who may still commit below it.
    start: Option<Position>,
    base: BTreeSet<Witness>,
    /// Places that were delivered before this sweep, in order; their rows may be gone.
    delivered: Vec<Position>,
    passed: Passed,
}

#[derive(Debug, Default)]
struct Passed {
    last: Option<Position>,
    /// The last place within the bound.
    covered: Option<Position>,
    /// The last place within the bound that is before every row in flight.
    undisturbed: Option<Position>,
    in_flight: BTreeSet<Witness>,
    disturbed: bool,
    /// Beyond what the source has surveyed, nothing is known.
    blind: bool,
    end: bool,
}

/// What one page shows; true once it is delivered.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub first: Option<Position>,
    pub last: Option<Position>,
    /// Nothing is behind it.
    pub end: bool,
    /// The last place on it that is within the bound, and that the survey has reached.
    covered: Option<Position>,
    /// The last of those before every row in flight.
    undisturbed: Option<Position>,
    survey: Survey,
}

/// Rows on the way to a page's places that somebody has written and not committed, looked for
/// before the page was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// In order.
    pub in_flight: Vec<Position>,
    /// They are known up to here; `None`: for the whole page.
    pub up_to: Option<Position>,
}

/// What is known once a page has been passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Where the checkpoint may stand.
    pub low: Option<Position>,
    pub fences: Vec<Fence>,
}

impl Sweep {
    /// `delivered`: the places above `low` that were delivered already, in any order.
    #[must_use]
    pub fn begin(
        low: Option<&Position>,
        fences: &[Fence],
        delivered: impl IntoIterator<Item = Position>,
        sight: Sight,
        ordering: Ordering,
    ) -> Self {
        let fences: Vec<_> = fences
            .iter()
            .map(|fence| (fence.clone(), fence.at(&sight)))
            .collect();
        // Rows at or below it come from these witnesses alone, and all of them are still there.
        let standing = fences
            .iter()
            .filter(|(then, now)| {
                ordering == Ordering::Visible
                    && then.until.is_none()
                    && then.witnesses == now.witnesses
                    && Some(&then.up_to) > low
            })
            .max_by(|(one, _), (other, _)| one.up_to.cmp(&other.up_to));
        let (start, base) = match standing {
            Some((fence, _)) => (Some(fence.up_to.clone()), fence.witnesses.clone()),
            None => (low.cloned(), BTreeSet::new()),
        };
        let mut delivered: Vec<_> = delivered.into_iter().collect();
        delivered.sort();
        Self {
            sight,
            ordering,
            low: low.cloned(),
            fences,
            start,
            base,
            delivered,
            passed: Passed::default(),
        }
    }

    /// The first page is read behind this place.
    #[must_use]
    pub fn start(&self) -> Option<&Position> {
        self.start.as_ref()
    }

    #[must_use]
    pub fn sight(&self) -> &Sight {
        &self.sight
    }

    /// Whether a row may go out in this sweep. If one may not, none behind it may.
    #[must_use]
    pub fn admits(&self, position: &Position) -> bool {
        if self.sight.is_future(position) {
            return false;
        }
        match self.ordering {
            Ordering::Visible => true,
            Ordering::Cursor => self.is_settled(position),
        }
    }

    /// Everybody who could commit a row at or below this place had gone before the sweep began.
    fn is_settled(&self, position: &Position) -> bool {
        let by_fence = |(_, now): &(Fence, Fence)| now.is_clear() && *position <= now.up_to;
        let by_sight = self.sight_is_clear() && self.covers(position);
        by_sight || self.fences.iter().any(by_fence)
    }

    fn sight_is_clear(&self) -> bool {
        self.sight.writers.is_empty() && self.sight.window.is_none()
    }

    fn covers(&self, position: &Position) -> bool {
        self.sight.bound.covers(position, self.delivered.last())
    }

    /// A page of this sweep: its places in order, and what was surveyed before it was read.
    pub fn see<'a>(
        &self,
        places: impl IntoIterator<Item = &'a Position>,
        end: bool,
        survey: Survey,
    ) -> Seen {
        let mut seen = Seen {
            end,
            survey,
            ..Seen::default()
        };
        let (mut covered, mut undisturbed) = (None, None);
        for place in places {
            seen.first.get_or_insert_with(|| place.clone());
            if self.covers(place) && seen.survey.reaches(place) {
                covered = Some(place);
                if seen.survey.is_before(place) {
                    undisturbed = Some(place);
                }
            }
            seen.last = Some(place.clone());
        }
        seen.covered = covered.cloned();
        seen.undisturbed = undisturbed.cloned();
        seen
    }

    /// Everything on this page is delivered, and everything before it.
    pub fn pass(&mut self, seen: &Seen) {
        if let (Some(low), Some(first)) = (&mut self.low, &seen.first)
            && let Some(typed) = low.typed_like(first)
        {
            // A document of another writer does not say of which type its place is.
            *low = typed;
        }
        let from = self.passed.last.as_ref().or(self.start.as_ref()).cloned();
        if seen.last.is_some() {
            self.passed.last.clone_from(&seen.last);
        }
        self.passed.end |= seen.end;
        // Where rows have gone since they were delivered, their places stand for them.
        let to = self.passed.last.as_ref();
        let gone = self.delivered.iter().rev().filter(|place| {
            Some(*place) > from.as_ref() && (seen.end || to.is_some_and(|to| *place <= to))
        });
        let mut known = gone.filter(|place| self.covers(place) && seen.survey.reaches(place));
        let gone_covered = known.clone().next();
        let gone_undisturbed = known.find(|place| seen.survey.is_before(place));
        if !self.passed.blind {
            let covered = seen.covered.as_ref().max(gone_covered);
            let covered = covered.max(self.passed.covered.as_ref()).cloned();
            let undisturbed = seen.undisturbed.as_ref().max(gone_undisturbed);
            let undisturbed = undisturbed.max(self.passed.undisturbed.as_ref()).cloned();
            self.passed.covered = covered;
            if !self.passed.disturbed {
                self.passed.undisturbed = undisturbed;
            }
            let rows = seen.survey.in_flight.iter().map(Witness::row);
            self.passed.in_flight.extend(rows);
        }
        self.passed.disturbed |= !seen.survey.in_flight.is_empty();
        self.passed.blind |= seen.survey.up_to.is_some();
    }

    /// What follows from all that was passed so far.
    #[must_use]
    pub fn known(&self) -> Known {
        let mut facts = Vec::new();
        let mut ahead = Vec::new();
        let reached =
            |place: &Position| self.passed.end || Some(place) <= self.passed.last.as_ref();
        for (then, now) in &self.fences {
            if reached(&then.up_to) || Some(&then.up_to) <= self.start.as_ref() {
                facts.push(now.clone());
            } else {
                // What it says about the rows not yet passed is what it said before.
                ahead.push(then.clone());
                facts.extend(self.passed.last.clone().map(|up_to| Fence {
                    up_to,
                    ..now.clone()
                }));
            }
        }
        facts.extend(self.learned());
        let clear = facts.iter().filter(|fact| fact.is_clear());
        let low = clear
            .map(|fact| &fact.up_to)
            .chain(self.low.as_ref())
            .max()
            .cloned();
        facts.extend(ahead);
        Known {
            fences: worth_keeping(facts, low.as_ref()),
            low,
        }
    }

    /// What the sight of this sweep and its pages say together.
    fn learned(&self) -> impl Iterator<Item = Fence> {
        let writers: BTreeSet<_> = self.sight.writers.union(&self.base).cloned().collect();
        let fence = |up_to: &Position, witnesses: BTreeSet<Witness>| Fence {
            up_to: up_to.clone(),
            witnesses,
            until: self.sight.until(),
            since: self.sight.since(),
        };
        let undisturbed = self.passed.undisturbed.as_ref();
        let covered = self.passed.covered.as_ref();
        let below = undisturbed.map(|place| fence(place, writers.clone()));
        let above = covered.filter(|_| self.passed.disturbed).map(|place| {
            let both = writers.union(&self.passed.in_flight).cloned().collect();
            fence(place, both)
        });
        below.into_iter().chain(above)
    }

    /// The bound of this sweep is behind it and nobody stands in the way: a new sight may prove
    /// more, where this one cannot.
    #[must_use]
    pub fn is_exhausted(&self, next: &Seen) -> bool {
        let clear = self.sight_is_clear() && self.base.is_empty() && !self.passed.disturbed;
        clear && next.first.as_ref().is_some_and(|place| !self.covers(place))
    }

    /// Under [`Ordering::Cursor`], where nothing may go out yet: a fence that will let `last` and
    /// all before it go once it is clear. `last` is a row that is visible.
    #[must_use]
    pub fn awaited(&self, last: &Position) -> Option<Fence> {
        let is_news = self.ordering == Ordering::Cursor
            && self.fences.is_empty()
            && !self.sight_is_clear()
            && Some(last) > self.low.as_ref()
            && self.covers(last);
        is_news.then(|| Fence {
            up_to: last.clone(),
            witnesses: self.sight.writers.clone(),
            until: self.sight.until(),
            since: self.sight.since(),
        })
    }
}

impl Survey {
    fn reaches(&self, place: &Position) -> bool {
        self.up_to.as_ref().is_none_or(|up_to| place <= up_to)
    }

    fn is_before(&self, place: &Position) -> bool {
        self.in_flight.first().is_none_or(|first| place < first)
    }
}
