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

#[derive(Debug, Clone)]
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

/// What lies behind the page position.
#[derive(Debug, Clone, Default)]
struct Passed {
    last: Option<Position>,
    end: bool,
    /// The last place within the bound.
    covered: Option<Position>,
    /// Rows in flight among what was passed; surveyed before each page.
    in_flight: BTreeSet<Position>,
    /// The last place before all of them; `None` in front of the first place, or if there are none.
    before_flight: Option<Position>,
    /// The last place up to which they are known, where that is not everywhere.
    surveyed: Option<Option<Position>>,
}

/// What one page shows; true once it is delivered.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    pub first: Option<Position>,
    pub last: Option<Position>,
    /// Nothing is behind it.
    pub end: bool,
    /// The last place on it that is within the bound.
    covered: Option<Position>,
    /// The last place on it before the rows in flight.
    before_flight: Option<Position>,
    /// The last place on it that the survey has reached.
    surveyed: Option<Position>,
    survey: Survey,
}

/// Rows on the way to a page's places that somebody has written and not committed, looked for
/// before the page was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Somebody has looked.
    pub made: bool,
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
        let mut fences: Vec<_> = fences
            .iter()
            .filter(|fence| fence.witnesses.is_disjoint(&sight.unanswered))
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
        // What was hidden when a fence was made may show now, and this sweep looks behind its start only: for
        // the rows before it, whoever is waited for there stands for all.
        for (_, now) in &mut fences {
            if Some(&now.up_to) > start.as_ref() {
                now.witnesses.extend(base.iter().cloned());
            }
        }
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

    /// Whether a row of a page that was surveyed before it was read may go out in this sweep. If one
    /// may not, none behind it may. What belongs to the future is not asked here.
    #[must_use]
    pub fn admits(&self, position: &Position, survey: &Survey) -> bool {
        match self.ordering {
            Ordering::Visible => true,
            Ordering::Cursor => {
                self.is_settled(position) && survey.is_before(position) && survey.reaches(position)
            }
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
        let (mut first, mut last) = (None, None);
        let (mut covered, mut before_flight, mut surveyed) = (None, None, None);
        for place in places {
            first.get_or_insert(place);
            last = Some(place);
            let newest = |is: bool, so_far| if is { last } else { so_far };
            covered = newest(self.covers(place), covered);
            before_flight = newest(seen.survey.is_before(place), before_flight);
            surveyed = newest(seen.survey.reaches(place), surveyed);
        }
        seen.first = first.cloned();
        seen.last = last.cloned();
        seen.covered = covered.cloned();
        seen.before_flight = before_flight.cloned();
        seen.surveyed = surveyed.cloned();
        seen
    }

    /// The beginning of a page that was seen: these places only. What comes behind them is not passed,
    /// so nothing follows about the end.
    pub fn see_again<'a>(
        &self,
        seen: &Seen,
        places: impl IntoIterator<Item = &'a Position>,
    ) -> Seen {
        self.see(places, false, seen.survey.clone())
    }

    /// The next places of a page that was seen, for who passes it part by part; the last part is the page.
    pub fn see_part(&self, seen: &Seen, places: &[&Position]) -> Seen {
        let survey = match places.last() {
            Some(last) => seen.survey.up_to(last),
            None => seen.survey.clone(),
        };
        self.see(places.iter().copied(), false, survey)
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
        let gone = self.delivered.iter().rev().find(|place| {
            let inside = seen.end || to.is_some_and(|to| *place <= to);
            inside && Some(*place) > from.as_ref() && self.covers(place)
        });
        let covered = seen.covered.as_ref().max(gone).cloned();
        self.passed.covered = covered.max(self.passed.covered.take());
        let survey = &seen.survey;
        if self.passed.surveyed.is_none() && survey.up_to.is_some() {
            self.passed.surveyed = Some(seen.surveyed.clone().or(from.clone()));
        }
        let flying = &mut self.passed.in_flight;
        flying.extend(survey.in_flight.iter().cloned());
        let before = [
            &self.passed.before_flight,
            &from,
            &seen.before_flight,
            &seen.last,
        ];
        let before = before.into_iter().flatten();
        let before = before.filter(|place| flying.first().is_some_and(|first| *place < first));
        self.passed.before_flight = before.max().cloned();
    }

    /// What follows from all that was passed so far.
    #[must_use]
    pub fn known(&self) -> Known {
        if self.ordering == Ordering::Cursor {
            return self.known_in_order();
        }
        let mut facts = Vec::new();
        let mut ahead = Vec::new();
        for (then, now) in &self.fences {
            if self.passed.end
                || Some(&then.up_to) <= self.passed.last.as_ref().or(self.start.as_ref())
            {
                facts.extend(self.surveyed(now.clone()));
            } else {
                // What it says about the rows not yet passed is what it said before.
                ahead.push(then.clone());
                let passed = self.passed.last.clone().map(|up_to| Fence {
                    up_to,
                    ..now.clone()
                });
                facts.extend(passed.into_iter().flat_map(|fence| self.surveyed(fence)));
            }
        }
        let learned = self.passed.covered.clone().map(|up_to| self.fence(up_to));
        facts.extend(learned.into_iter().flat_map(|fence| self.surveyed(fence)));
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

    /// Everything that was admitted may be passed, and nothing else was. A fence that is clear stays
    /// for the rows behind one in flight.
    fn known_in_order(&self) -> Known {
        let low = self.passed.last.clone().max(self.low.clone());
        let fences = self.fences.iter().map(|(_, now)| now.clone());
        let disturbed = !self.passed.in_flight.is_empty();
        let fences = fences
            .filter(|fence| Some(&fence.up_to) > low.as_ref() && (disturbed || !fence.is_clear()));
        Known {
            fences: fences.collect(),
            low,
        }
    }

    /// What the sight of this sweep says about the rows up to a place within its bound.
    fn fence(&self, up_to: Position) -> Fence {
        Fence {
            up_to,
            witnesses: self.sight.writers.union(&self.base).cloned().collect(),
            until: self.sight.until(),
            since: self.sight.since(),
        }
    }

    /// What a fence comes to where rows in flight were surveyed: who was hidden when it was made may
    /// show now. Up to the first such row it is what it was; beyond, they are witnesses too.
    fn surveyed(&self, fence: Fence) -> Vec<Fence> {
        let Passed {
            in_flight,
            before_flight,
            surveyed,
            ..
        } = &self.passed;
        let limited = |limit: Option<&Position>| {
            limit.map(|limit| Fence {
                up_to: fence.up_to.clone().min(limit.clone()),
                ..fence.clone()
            })
        };
        let known = match surveyed {
            Some(surveyed) => limited(surveyed.as_ref()),
            None => Some(fence.clone()),
        };
        let met = in_flight.first().filter(|first| **first <= fence.up_to);
        let Some(_) = met else {
            return known.into_iter().collect();
        };
        let beyond = known.map(|fence| {
            let rows = in_flight.range(..=&fence.up_to).map(Witness::row);
            let witnesses = fence.witnesses.iter().cloned().chain(rows).collect();
            Fence { witnesses, ..fence }
        });
        limited(before_flight.as_ref())
            .into_iter()
            .chain(beyond)
            .collect()
    }

    /// The bound of this sweep is behind it, it has moved the checkpoint, and nobody stands in the way:
    /// a new sight may prove more, where this one cannot.
    #[must_use]
    pub fn is_exhausted(&self, next: &Seen) -> bool {
        let clear =
            self.sight_is_clear() && self.base.is_empty() && self.passed.in_flight.is_empty();
        clear && self.known().low > self.low && self.is_beyond(next)
    }

    /// Once all before it is passed, this sweep may be exhausted.
    #[must_use]
    pub fn may_be_exhausted(&self, next: &Seen) -> bool {
        self.sight_is_clear() && self.base.is_empty() && self.is_beyond(next)
    }

    /// A page of which this sweep can prove nothing. Where there are more and more of them, who stood in
    /// the way when it began may have gone, and rows may have come behind it.
    #[must_use]
    pub fn is_helpless(&self, next: &Seen) -> bool {
        !self.sight_is_clear() || !self.base.is_empty() || self.is_beyond(next)
    }

    fn is_beyond(&self, next: &Seen) -> bool {
        next.first.as_ref().is_some_and(|place| !self.covers(place))
    }

    /// Under [`Ordering::Cursor`], where nothing may go out yet: a fence that will let `last` and
    /// all before it go once it is clear. `last` is a row that is visible.
    #[must_use]
    pub fn awaited(&self, last: &Position) -> Option<Fence> {
        let is_news = self.ordering == Ordering::Cursor
            && self.fences.iter().all(|(_, now)| now.is_clear())
            && !self.sight_is_clear()
            && Some(last) > self.low.as_ref()
            && self.covers(last);
        is_news.then(|| self.fence(last.clone()))
    }
}

impl Survey {
    /// What it says about the places up to this one.
    fn up_to(&self, last: &Position) -> Self {
        let before = self.in_flight.iter();
        Self {
            made: self.made,
            in_flight: before.take_while(|row| *row <= last).cloned().collect(),
            up_to: self.up_to.clone().filter(|up_to| up_to < last),
        }
    }

    fn reaches(&self, place: &Position) -> bool {
        self.up_to.as_ref().is_none_or(|up_to| place <= up_to)
    }

    fn is_before(&self, place: &Position) -> bool {
        self.in_flight.first().is_none_or(|first| place < first)
    }
}

#[cfg(test)]
mod tests;
