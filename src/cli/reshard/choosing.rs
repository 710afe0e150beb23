//! What there is to do, by what stands there: a reshard may have been cut off anywhere, and function.json may
//! have been changed again since.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Timestamp;
use crate::model::shard::Layout;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::orders::retirement;

/// One document, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Missing,
    /// Active or paused.
    Lives(Orders),
    /// By a person.
    Failed,
    Retired {
        into: String,
        order: String,
        at: Timestamp,
        orders: Orders,
    },
}

/// The ids of the orders in a trail.
type Orders = BTreeSet<String>;

pub(super) type Layouts = BTreeMap<Layout, Vec<Part>>;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// All is as it should be.
    Nothing,
    /// These are shut out, and new ones begin.
    Part { was: Layout },
    /// These are shut out by that order already; not all new ones have begun.
    Finish {
        was: Layout,
        order: String,
        /// Some have.
        begun: bool,
    },
    /// A reshard into something else was cut off before anything began there.
    TakeBack,
    /// One was cut off when some had begun there: there it has to be finished first.
    Unfinished { into: Layout },
    /// There is state of several layouts.
    Many { live: Vec<Layout>, begun: usize },
    /// All that there is was left for shards that are gone.
    LeftBehind,
}

impl Part {
    pub(super) fn of(document: &StateDocument) -> Self {
        let ids = document.audit.iter().filter_map(|entry| entry.id.clone());
        let orders = ids.collect();
        match (retirement(document), &document.status) {
            (Some(retirement), _) => Self::Retired {
                into: retirement.into.to_owned(),
                order: retirement.order.to_owned(),
                at: retirement.at,
                orders,
            },
            (None, Status::Failed) => Self::Failed,
            (None, _) => Self::Lives(orders),
        }
    }

    fn lives(&self) -> bool {
        matches!(self, Self::Lives(_))
    }

    /// Whether that order has begun it, or done anything else to it.
    fn knows(&self, id: &str) -> bool {
        match self {
            Self::Lives(orders) | Self::Retired { orders, .. } => orders.contains(id),
            Self::Missing | Self::Failed => false,
        }
    }

    /// By which order, and when.
    fn retired_into(&self, layout: Layout) -> Option<(&str, Timestamp)> {
        match self {
            Self::Retired {
                into, order, at, ..
            } if *into == layout.to_string() => Some((order, *at)),
            _ => None,
        }
    }
}

/// `is`: as function.json has it; among `layouts`, if there is anything of it.
pub(super) fn choose(is: Layout, layouts: &Layouts) -> Choice {
    let nothing = Vec::new();
    let own = layouts.get(&is).unwrap_or(&nothing);
    let others = || layouts.iter().filter(|(layout, _)| **layout != is);
    let living = others().filter(|(_, parts)| parts.iter().any(Part::lives));
    let living: Vec<Layout> = living.map(|(layout, _)| *layout).collect();
    let begun = own.iter().filter(|part| part.lives()).count();
    match living[..] {
        [] => {}
        [was] if begun == 0 => {
            return match is_half_begun(was, layouts) {
                true => Choice::Unfinished { into: was },
                false => Choice::Part { was },
            };
        }
        _ => {
            return Choice::Many {
                live: living,
                begun,
            };
        }
    }
    if !own.is_empty() && begun == own.len() {
        return Choice::Nothing;
    }
    let cut_off = cut_off(is, layouts);
    let taken = taken_away(own, layouts);
    match (cut_off, taken) {
        (Some((at, ..)), Some(taken)) if taken > at => Choice::TakeBack,
        (None, Some(_)) => Choice::TakeBack,
        (Some((_, was, order)), _) => {
            // What lives there and was not begun by it was begun by hand.
            let strange = own.iter().any(|part| part.lives() && !part.knows(&order));
            match strange {
                true => Choice::Many {
                    live: vec![was],
                    begun,
                },
                false => Choice::Finish {
                    was,
                    order,
                    begun: begun > 0,
                },
            }
        }
        (None, None) if begun > 0 || others().next().is_none() => Choice::Nothing,
        (None, None) => {
            let mut failed = others().filter(|(_, parts)| parts.contains(&Part::Failed));
            match (failed.next(), own.contains(&Part::Failed)) {
                // Which is refused, and why.
                (Some((was, _)), false) => Choice::Part { was: *was },
                (_, true) => Choice::Nothing,
                (None, false) => Choice::LeftBehind,
            }
        }
    }
}

/// Some of it were begun by a reshard, and some were not.
fn is_half_begun(into: Layout, layouts: &Layouts) -> bool {
    let parts = &layouts[&into];
    let orders = layouts.values().flatten();
    let mut orders = orders.filter_map(|part| part.retired_into(into));
    orders.any(|(order, _)| {
        let is_there = |part: &Part| matches!(part, Part::Lives(_) | Part::Failed);
        let mut missing = parts.iter().filter(|part| !is_there(part));
        parts.iter().any(|part| part.knows(order)) && missing.any(|part| !part.knows(order))
    })
}

/// The last reshard into `is` that has shut out all that there was, and not begun all.
fn cut_off(is: Layout, layouts: &Layouts) -> Option<(Timestamp, Layout, String)> {
    let nothing = Vec::new();
    let own = layouts.get(&is).unwrap_or(&nothing);
    let complete = |order: &str| !own.is_empty() && own.iter().all(|part| part.knows(order));
    let others = layouts.iter().filter(|(layout, _)| **layout != is);
    let candidates = others.filter_map(|(layout, parts)| {
        let there = parts.iter().filter(|part| **part != Part::Missing);
        let retired = there.map(|part| part.retired_into(is));
        let retired: Vec<_> = retired.collect::<Option<_>>()?;
        let (order, at) = retired.into_iter().max_by_key(|(_, at)| *at)?;
        (!complete(order)).then(|| (at, *layout, order.to_owned()))
    });
    candidates.max()
}

/// When these were shut out for others of which nothing has begun.
fn taken_away(own: &[Part], layouts: &Layouts) -> Option<Timestamp> {
    let has_begun = |order: &str, into: &str| {
        let parts = layouts
            .iter()
            .filter(|(layout, _)| layout.to_string() == into);
        parts
            .flat_map(|(_, parts)| parts)
            .any(|part| part.knows(order))
    };
    let retired = own.iter().filter_map(|part| match part {
        Part::Retired {
            into, order, at, ..
        } if !has_begun(order, into) => Some(*at),
        _ => None,
    });
    retired.max()
}

#[cfg(test)]
mod tests;
