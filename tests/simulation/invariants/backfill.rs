//! H1 to H3, F5: what a backfill says of itself, at each accepted write of its plan.

use dbtick::backfill::{Plan, Range, Status};

use super::super::receivers::Receivers;
use super::super::table::{Place, Table};
use super::{Held, require};

/// An accepted write of the plan, seen against the truth.
pub(crate) struct Planned<'a> {
    pub(crate) before: Option<&'a Plan>,
    pub(crate) after: &'a Plan,
    /// The furthest that the poller itself has ever been.
    pub(crate) furthest: Option<Place>,
    pub(crate) table: &'a Table,
    pub(crate) receivers: &'a Receivers,
}

/// Rows behind the first place, up to and with the second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) after: Option<Place>,
    pub(crate) up_to: Place,
}

impl Span {
    pub(crate) fn holds(self, place: Place) -> bool {
        Some(place) > self.after && place <= self.up_to
    }
}

impl From<&Range> for Span {
    fn from(range: &Range) -> Self {
        Self {
            after: range.after().unwrap().as_ref().map(Place::from),
            up_to: Place::from(&range.up_to().unwrap()),
        }
    }
}

/// What is complete, or was given up, is not gone on with.
pub(super) fn what_has_ended_stays_ended(plan: &Planned<'_>) -> Held {
    let Planned { before, after, .. } = plan;
    let Some(before) = before else {
        return require(after.status == Status::Running, || {
            format!("it begins as {:?}", after.status)
        });
    };
    require(before.status == Status::Running, || {
        format!("{:?} is followed by {:?}", before.status, after.status)
    })?;
    require(before.ranges == after.ranges, || {
        "its ranges are not what they were".to_owned()
    })?;
    require(before.round <= after.round, || {
        format!("round {} is followed by {}", before.round, after.round)
    })
}

/// What the poller has not passed comes by itself, and a backfill must not overtake it.
pub(super) fn nothing_is_beyond_the_poller(plan: &Planned<'_>) -> Held {
    let spans = plan.after.ranges.iter().map(Span::from);
    let up_to = spans.map(|span| span.up_to).max();
    require(up_to <= plan.furthest, || {
        format!(
            "it goes up to {up_to:?}, and the poller to {:?}",
            plan.furthest
        )
    })
}

pub(super) fn the_report_adds_up(plan: &Planned<'_>) -> Held {
    let Some(report) = plan.after.report else {
        return require(plan.after.status != Status::Complete, || {
            "it is complete, and nobody has looked".to_owned()
        });
    };
    let parts = report.delivered + report.quarantined + report.missing;
    require(report.total == parts, || format!("{report:?}"))
}

/// Everything that is in the source now has come to everybody since it began, or is aside.
pub(super) fn complete_means_that_everything_was_sent_again(plan: &Planned<'_>) -> Held {
    if plan.after.status != Status::Complete {
        return Ok(());
    }
    let mut rows = 0;
    for span in plan.after.ranges.iter().map(Span::from) {
        let inside = plan.table.rows().filter(|(place, _)| span.holds(*place));
        for (place, version) in inside {
            rows += 1;
            for (name, receiver) in plan.receivers.all() {
                require(receiver.has_again((place.key, version)), || {
                    format!("it is complete, and row {place} never came to {name} again")
                })?;
            }
        }
    }
    let told = plan.after.report.map_or(0, |report| report.total);
    require(told >= rows, || {
        format!("{rows} rows are there, and {told} are told of")
    })
}
