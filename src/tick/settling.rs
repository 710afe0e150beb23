//! How far the checkpoint may go, and what is remembered above it: the answers of `model::late`, put
//! into the document.

use std::collections::BTreeMap;

use super::birth::leave_birth_marker;
use super::budget::Budget;
use super::drain::Work;
use super::foreign::Foreign;
use super::keeper::{Moved, Standing, settle};
use super::memory::{self, MOST_INLINE, MOST_REMEMBERED, Memory};
use super::reading::read_last;
use super::report::{Outcome, TickError};
use super::sweeping::{self, Held, Next, Unsent, read_first};
use super::{Poller, Progress};
use crate::model::late::{Fence, Highest, Late, MOST_FENCES, Seen, Sweep};
use crate::model::page::EventId;
use crate::model::position::Position;
use crate::model::state::{CursorMark, StateDocument};

/// What goes into the document with a batch.
#[derive(Debug)]
pub(super) struct Remembering {
    pub(super) moved: Moved,
    /// No more can be remembered until somebody who is waited for has gone.
    pub(super) is_full: bool,
}

/// Where the checkpoint may stand after what the sweep has passed, and what is known above it.
pub(super) fn proven(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
) -> (Option<CursorMark>, Late) {
    let known = sweep.known();
    let mut late = document.late.clone();
    late.fences = known.fences;
    if sweep.sight().epoch.is_some() {
        late.epoch.clone_from(&sweep.sight().epoch);
    }
    let moved = known.low.filter(|low| document.position() != Some(low));
    let to = moved.map(|low| CursorMark::new(low, &poller.key_columns));
    (to, late)
}

/// `delivered` are events of this sweep, in order.
pub(super) async fn what_to_remember(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
    delivered: impl Iterator<Item = (EventId, &Position)>,
) -> Result<Remembering, TickError> {
    let (to, mut late) = proven(poller, document, sweep);
    let low = to
        .as_ref()
        .map(|mark| &mark.position)
        .or(document.position());
    let above = |place: &Position| Some(place) > low;
    let events = delivered.filter(|(_, place)| above(place));
    let mut delivered: BTreeMap<_, _> = events.map(|(id, place)| (id, place.clone())).collect();
    let mut inline = document.delivered.clone();
    inline.retain(|_, place| above(place));
    let shelved = inline.len() + delivered.len() > MOST_INLINE;
    if shelved {
        memory::shelve(poller, &inline, &delivered, &mut late).await?;
        delivered.clear();
    }
    let is_full = no_room(poller, sweep, low, &mut late);
    Ok(Remembering {
        moved: Moved {
            to,
            delivered,
            late,
            shelved,
        },
        is_full,
    })
}

/// Whether delivery must wait. It need not where the oldest may be forgotten: what is behind the
/// start of this sweep is not read again until a witness has gone.
fn no_room(poller: &Poller, sweep: &Sweep, low: Option<&Position>, late: &mut Late) -> bool {
    let remembered: u64 = late.spilled.iter().map(|segment| segment.ids).sum();
    if remembered <= MOST_REMEMBERED {
        return false;
    }
    let Some(start) = sweep.start().filter(|start| Some(*start) > low) else {
        return true;
    };
    let forgotten = memory::forget_below(late, start);
    if forgotten > 0 {
        tracing::warn!(
            poller = %poller.name,
            "a transaction is open for so long that {forgotten} delivered rows cannot be remembered any more: \
             they come again when it ends; end the session that holds it open"
        );
    }
    forgotten == 0
}

/// What another look in the middle of a tick leads to.
pub(super) enum Again {
    Work(Box<Work>),
    /// All that is visible was delivered.
    Nothing {
        sweep: Box<Sweep>,
        held: Held,
        foreign: Foreign,
    },
}

/// Another sweep from where the document stands now. It may begin further back than the one before, so
/// what is remembered is loaded again.
pub(super) async fn look_again(
    poller: &Poller,
    document: &StateDocument,
    budget: &Budget,
) -> Result<Again, TickError> {
    let looked = poller.clock.monotonic();
    let mut sweep = sweeping::begin_again(poller, document, budget).await?;
    let memory = Memory::load(poller, document, sweep.start()).await?;
    let next = read_first(poller, document, &sweep, &memory, budget).await?;
    Ok(match next {
        Next::Rows(unsent) => Again::Work(Box::new(Work {
            looked,
            sweep,
            memory,
            unsent: *unsent,
        })),
        Next::End {
            seen,
            held,
            foreign,
        } => {
            seen.iter().for_each(|seen| sweep.pass(seen));
            Again::Nothing {
                sweep: Box::new(sweep),
                held,
                foreign,
            }
        }
    })
}

/// What an idle tick has read.
pub(super) struct Passed<'a> {
    pub(super) seen: &'a [Seen],
    pub(super) held: Held,
    pub(super) foreign: Foreign,
}

/// Nothing is to be delivered. What was proven since the last write is written down, by one write and
/// without a lease, where it is worth one.
pub(super) async fn settle_idle(
    poller: &Poller,
    standing: Standing,
    mut sweep: Sweep,
    passed: Passed<'_>,
    budget: &Budget,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let Passed {
        seen,
        held,
        foreign,
    } = passed;
    seen.iter().for_each(|seen| sweep.pass(seen));
    let document = &standing.document;
    let (to, mut late) = proven(poller, document, &sweep);
    let awaited = match held.waiting {
        0 => None,
        _ => awaited(poller, &sweep, budget).await?,
    };
    // Of a holder who has died: where nothing new comes, nobody else takes it from him. A backfill keeps below
    // what somebody who holds a lease may be sending.
    let is_left_behind = document.lease.held.is_some();
    let writes = is_left_behind
        || awaited.is_some()
        || is_worth_a_write(document, to.as_ref(), &late)
        || foreign.is_worth_a_write(document, to.as_ref(), &late);
    if !writes {
        return Ok(Outcome::Idle);
    }
    late.fences.extend(awaited);
    progress.tally.writes += 1;
    let Some(document) = settle(poller, standing, to, late).await? else {
        return Ok(Outcome::Idle);
    };
    if document.is_newborn() {
        leave_birth_marker(poller, &mut progress.tally.writes).await?;
    }
    progress.stands(&document, &sweep);
    progress.late.held(held);
    let mut late = document.late;
    memory::remove_retired(poller, &mut late).await;
    Ok(Outcome::Settled)
}

/// A delivery has failed, and rows behind it wait for transactions that could come before them. Nobody
/// would write down for whom as long as it fails, and they might show whose fault it is. What cannot be
/// learned now is not: the failure is what matters.
pub(super) async fn what_is_awaited(
    poller: &Poller,
    document: &StateDocument,
    sweep: &Sweep,
    unsent: &Unsent,
    budget: &Budget,
) -> Option<Late> {
    if unsent.held.waiting == 0 || document.late.fences.len() >= MOST_FENCES {
        return None;
    }
    let awaited = awaited(poller, sweep, budget).await.ok()??;
    let mut late = document.late.clone();
    late.fences.push(awaited);
    Some(late)
}

/// Rows are visible that may not go out before others: what has to be waited for.
async fn awaited(
    poller: &Poller,
    sweep: &Sweep,
    budget: &Budget,
) -> Result<Option<Fence>, TickError> {
    let bound = &sweep.sight().bound;
    let last = match (&bound.highest, bound.below.as_deref()) {
        (Highest::Visible(last), None) => last.clone(),
        (_, below) => read_last(poller, below.and_then(<[_]>::first), budget).await?,
    };
    Ok(last.and_then(|last| sweep.awaited(&last)))
}

/// A write for each fence that clears, not for each look: what only time holds back clears by itself
/// later, all at once.
fn is_worth_a_write(document: &StateDocument, to: Option<&CursorMark>, late: &Late) -> bool {
    let low = to.map(|mark| &mark.position).or(document.position());
    let inline = document.delivered.values();
    let spilled = document.late.spilled.iter().map(|segment| &segment.to);
    let Some(top) = inline.chain(spilled).max() else {
        return false;
    };
    let all = Some(top) <= low;
    let somebody = late.fences.iter().any(|fence| !fence.witnesses.is_empty());
    let reaches = |fences: &[Fence]| fences.iter().any(|fence| fence.up_to >= *top);
    let further = reaches(&late.fences) && !reaches(&document.late.fences);
    // Who goes on under another name must be known by it, or the next one that is prepared would be
    // taken for it too.
    let renamed = late.fences.iter().any(|now| {
        let same = document
            .late
            .fences
            .iter()
            .find(|then| then.up_to == now.up_to);
        same.is_some_and(|then| !now.witnesses.is_subset(&then.witnesses))
    });
    further || renamed || to.is_some() && (all || somebody || frees_many(document, low))
}

/// What is remembered is read again with every tick: half of very much is worth a write, and halving ends.
fn frees_many(document: &StateDocument, low: Option<&Position>) -> bool {
    const MANY: u64 = 100;
    let passed = |place: &Position| Some(place) <= low;
    let inline = document.delivered.values().filter(|place| passed(place));
    let spilled = document.late.spilled.iter();
    let spilled = spilled.filter(|segment| passed(&segment.to));
    let freed = inline.count() as u64 + spilled.map(|segment| segment.ids).sum::<u64>();
    freed >= MANY && 2 * freed >= memory::remembered(document)
}
