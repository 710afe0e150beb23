//! The body of a tick that has found something to do: deliver → commit, until nothing is left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join;
use tokio::time::Instant;

use super::birth::leave_birth_marker;
use super::budget::Budget;
use super::clean_up::clean_up;
use super::deliver::{Delivered, NotDelivered, deliver};
use super::hand_over::Dispatch;
use super::keeper::{Keeper, Lease};
use super::ledger::record;
use super::memory::{self, Memory};
use super::report::{Behind, Outcome, TickError};
use super::settling::{Again, Remembering, look_again, proven, what_is_awaited, what_to_remember};
use super::sweeping::{Next, Unsent, read_after};
use super::{Call, Poller, Progress, catch_up};
use crate::model::envelope::Batch;
use crate::model::late::Sweep;
use crate::model::page::Page;
use crate::model::position::Position;
use crate::model::schema::SchemaChange;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::Then;

/// At the least, between two looks at the writers in one tick.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// For each row that another look makes the tick read once more.
const READ_AGAIN: Duration = Duration::from_micros(20);

/// What a tick has found to do.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) looked: Instant,
    pub(super) sweep: Sweep,
    pub(super) memory: Memory,
    pub(super) unsent: Unsent,
}

/// Delivers and commits batch after batch, reading the next one while this one is delivered.
pub(super) async fn drain(
    poller: &Poller,
    keeper: Box<Keeper<'_>>,
    mut work: Work,
    call: &Call,
    progress: &mut Progress,
) -> Result<Outcome, TickError> {
    let budget = &call.budget;
    let mut document = keeper.document().clone();
    let mut marker_writes = 0;
    let mut writes = 0;
    let body = async |lease: Lease| {
        if document.is_newborn() {
            let marked = leave_birth_marker(poller, &mut marker_writes).await;
            or_release(&lease, marked).await?;
        }
        memory::remove_retired(poller, &mut document.late).await;
        loop {
            let Work {
                sweep,
                memory,
                unsent,
                ..
            } = &mut work;
            let dispatch = Dispatch::of(poller, call, &lease, &document);
            let batch = encode(dispatch, &document, unsent, call);
            let read_next = async {
                let next = read_after(poller, &document, sweep, memory, unsent, budget);
                Ok(next.await)
            };
            let delivery = deliver(dispatch, &document, &unsent.page, &batch);
            let (delivered, next) = match both(poller, delivery, read_next).await {
                Ok(both) => both,
                Err(part) => {
                    let blocked = Blocked { batch, part };
                    return Err(
                        stop_at(poller, call, &document, &lease, work, blocked, progress).await,
                    );
                }
            };
            pass(sweep, unsent, &next);
            memory.add(&unsent.page);
            let events = unsent.page.events().iter();
            let remembering = what_to_remember(poller, &document, sweep, events).await;
            let Remembering { moved, is_full } = or_release(&lease, remembering).await?;
            let outcome = match what_next(poller, &document, &next, budget) {
                None if is_full => Some(Outcome::Full),
                outcome => outcome,
            };
            let also_behind = catch_up::is_due(poller, &document);
            let then = match outcome {
                Some(_) if !also_behind => Then::Release,
                _ => Then::Renew {
                    ttl: poller.lease.ttl,
                },
            };
            let changes = changed_columns(&document, unsent);
            let seen = (Arc::clone(&unsent.schema), unsent.server.clone());
            let Delivered {
                receipt,
                news,
                aside,
                recording,
                ..
            } = delivered;
            let Some(receipt) = receipt else {
                unreachable!("a delivery that is not blocked has a receipt");
            };
            let receipt = receipt.was_read_in(unsent.took);
            let bytes = receipt.bytes();
            let written = record(poller, &document, Some(&batch), recording, progress).await;
            let ledger = or_release(&lease, written).await?;
            document = lease.commit(receipt, moved, seen, news, ledger, then).await;
            progress.schema_changes.extend(changes);
            progress.tally.quarantined += aside.len() as u64;
            progress.committed(&document, sweep, batch.len(), bytes);
            if poller.source.cleans_up() && !document.is_anybody_behind() {
                let cleaned = all_but(&unsent.page, &aside);
                progress.tally.left_behind += clean_up(poller, cleaned, budget).await;
            }
            let next = match next {
                Ok(next) => next,
                // The commit has given the lease back already, unless somebody is behind.
                Err(error) if !also_behind => return Err(error),
                Err(error) => return or_release(&lease, Err(error)).await,
            };
            work.unsent = match (outcome, next) {
                (None, Next::Rows(next)) if document.status == Status::Active => *next,
                (None, _) => {
                    lease.release().await;
                    return Ok(Outcome::Paused);
                }
                (Some(outcome), next) => {
                    progress.late.held(next.held());
                    if also_behind {
                        document = catch_up::all(poller, call, &lease, document, progress).await;
                        lease.release().await;
                        progress.behind = Behind::all(&document);
                    }
                    return Ok(outcome);
                }
            };
            if !is_worth_a_look(poller, &document, &work) {
                continue;
            }
            let again = look_again(poller, &document, budget).await;
            match or_release(&lease, again).await? {
                Again::Work(again) => work = *again,
                Again::Nothing { sweep, held } => {
                    let (to, known) = proven(poller, &document, &sweep);
                    document = lease.settle(to, known).await;
                    progress.stands(&document, &sweep);
                    progress.late.held(held);
                    return Ok(Outcome::Drained);
                }
            }
        }
    };
    let result = keeper.hold(&mut writes, body).await;
    progress.tally.writes += writes + marker_writes;
    result?
}

/// The next page is read while this one is delivered. Beside a live poller it is not, before it is its
/// turn: rows may change while others are sent.
async fn both<D, N, E>(
    poller: &Poller,
    delivery: impl Future<Output = Result<D, E>>,
    read_next: impl Future<Output = Result<N, E>>,
) -> Result<(D, N), E> {
    match poller.beside {
        None => try_join(delivery, read_next).await,
        Some(_) => Ok((delivery.await?, read_next.await?)),
    }
}

/// A batch that did not go out whole.
struct Blocked {
    batch: Batch,
    part: Delivered,
}

/// Writes down what was delivered of a batch and what stands in the way, and gives the lease back. The
/// checkpoint stops before the first event that comes again; those behind it that were taken are
/// remembered (A5).
async fn stop_at(
    poller: &Poller,
    call: &Call,
    document: &StateDocument,
    lease: &Lease,
    work: Work,
    Blocked { batch, part }: Blocked,
    progress: &mut Progress,
) -> TickError {
    let Work {
        mut sweep, unsent, ..
    } = work;
    let Delivered {
        receipt,
        done,
        aside,
        news,
        recording,
        blocked,
    } = part;
    let paused = news.gone.is_some();
    // Who is behind may be one of those that it takes.
    let also_behind = !paused && catch_up::is_due(poller, document);
    let then = match also_behind {
        true => Then::Renew {
            ttl: poller.lease.ttl,
        },
        false => Then::Release,
    };
    let events = || unsent.page.events().iter().zip(&done);
    let taken = || events().filter(|(_, done)| **done).map(|(event, _)| event);
    let document = if let Some(receipt) = receipt {
        let first = events().take_while(|(_, done)| **done).count();
        pass_part(&mut sweep, &unsent, first);
        let remembering = what_to_remember(poller, document, &sweep, taken()).await;
        let Remembering { moved, .. } = match or_release(lease, remembering).await {
            Ok(remembering) => remembering,
            Err(error) => return error,
        };
        let seen = (Arc::clone(&unsent.schema), unsent.server.clone());
        let receipt = receipt.was_read_in(unsent.took);
        let bytes = receipt.bytes();
        let written = record(poller, document, Some(&batch), recording, progress).await;
        let ledger = match or_release(lease, written).await {
            Ok(ledger) => ledger,
            Err(error) => return error,
        };
        let document = lease.commit(receipt, moved, seen, news, ledger, then).await;
        progress.tally.quarantined += aside.len() as u64;
        progress.committed(&document, &sweep, taken().count(), bytes);
        if poller.source.cleans_up() && !document.is_anybody_behind() {
            let pending = done.iter().enumerate().filter(|(_, done)| !**done);
            let stay = pending.map(|(at, _)| at).chain(aside).collect();
            let clean = all_but(&unsent.page, &stay);
            progress.tally.left_behind += clean_up(poller, clean, &call.budget).await;
        }
        document
    } else {
        let late = what_is_awaited(poller, document, &sweep, &unsent, &call.budget).await;
        lease.record_failure(news, late, then).await
    };
    if also_behind {
        let document = catch_up::all(poller, call, lease, document, progress).await;
        lease.release().await;
        progress.behind = Behind::all(&document);
    }
    let Some(NotDelivered {
        sink,
        attempts,
        failure,
    }) = blocked
    else {
        unreachable!("what is blocked says by whom");
    };
    TickError::Delivery {
        poller: poller.name.clone(),
        sink,
        attempts,
        paused,
        failure,
    }
}

/// Whoever ends a tick by an error gives the lease back first.
async fn or_release<T>(lease: &Lease, result: Result<T, TickError>) -> Result<T, TickError> {
    if result.is_err() {
        lease.release().await;
    }
    result
}

/// Whether another look at the writers may prove what this sweep cannot, about the rows that come next.
/// A tick that goes on delivering looks again in any case after a while: the more is remembered, the
/// longer, because that is read once more.
fn is_worth_a_look(poller: &Poller, document: &StateDocument, work: &Work) -> bool {
    let next = &work.unsent.seen[0];
    let remembered = u32::try_from(memory::remembered(document)).unwrap_or(u32::MAX);
    let patience = LOOK_AGAIN + READ_AGAIN * remembered;
    let waited = poller.clock.monotonic() - work.looked >= patience;
    waited && work.sweep.is_helpless(next) || work.sweep.is_exhausted(next)
}

/// A batch is delivered: it and, where nothing is left behind it, the pages up to the end are passed.
fn pass(sweep: &mut Sweep, unsent: &Unsent, next: &Result<Next, TickError>) {
    unsent.seen.iter().for_each(|seen| sweep.pass(seen));
    if let Ok(Next::End { seen, .. }) = next {
        seen.iter().for_each(|seen| sweep.pass(seen));
    }
}

/// Only the first events count. Of the page in which they end, only what is before.
fn pass_part(sweep: &mut Sweep, unsent: &Unsent, first: usize) {
    let events = unsent.page.events();
    let first = first_of_its_place(&unsent.page, first);
    let Some(pending) = events.get(first).map(|event| &event.position) else {
        return;
    };
    for seen in &unsent.seen {
        if seen.last.as_ref().is_none_or(|last| last < pending) {
            sweep.pass(seen);
            continue;
        }
        let places = events[..first].iter().map(|event| &event.position);
        let places: Vec<_> = places
            .filter(|place| Some(*place) >= seen.first.as_ref())
            .collect();
        if !places.is_empty() {
            let part = sweep.see_again(seen, places);
            sweep.pass(&part);
        }
        return;
    }
}

/// A row and its tombstone may be at one place: who goes on behind it would pass over the other.
pub(super) fn first_of_its_place(page: &Page, at: usize) -> usize {
    let events = page.events();
    let place = |at: usize| events.get(at).map(|event| &event.position);
    let mut first = at;
    while first > 0 && place(first - 1) == place(at) {
        first -= 1;
    }
    first
}

/// The places of a page, without those of some of its events.
pub(super) fn all_but(page: &Page, aside: &BTreeSet<usize>) -> Vec<Position> {
    let events = page.events().iter().enumerate();
    events
        .filter(|(at, _)| !aside.contains(at))
        .map(|(_, event)| event.position.clone())
        .collect()
}

/// `None`: go on with the next batch.
fn what_next(
    poller: &Poller,
    document: &StateDocument,
    next: &Result<Next, TickError>,
    budget: &Budget,
) -> Option<Outcome> {
    match next {
        Ok(Next::Rows(_)) if document.status != Status::Active => Some(Outcome::Paused),
        Ok(Next::Rows(_)) if budget.is_spent(poller.clock.monotonic()) => {
            Some(Outcome::BudgetSpent)
        }
        Ok(Next::Rows(_)) if budget.is_others_turn(poller.clock.monotonic()) => {
            Some(Outcome::Yielded)
        }
        Ok(Next::Rows(_)) => None,
        Ok(Next::End { .. }) | Err(_) => Some(Outcome::Drained),
    }
}

fn changed_columns(document: &StateDocument, unsent: &Unsent) -> Vec<SchemaChange> {
    match &document.schema {
        Some(known) if known.hash() != unsent.schema.hash() => known.changes_to(&unsent.schema),
        _ => Vec::new(),
    }
}

fn encode(dispatch: Dispatch<'_>, document: &StateDocument, unsent: &Unsent, call: &Call) -> Batch {
    let ids = unsent.page.events().iter().map(|event| event.id).collect();
    let failures = document.sinks.values().filter(|sink| sink.lag.is_none());
    let failed_before = failures
        .filter_map(|sink| sink.failure.as_ref())
        .filter(|failure| failure.concerns(&ids))
        .map(|failure| failure.attempts)
        .max();
    Batch::assemble(
        &dispatch.poller.events_as,
        &unsent.types,
        &unsent.page,
        dispatch.fences.next(),
        failed_before.unwrap_or(0) + 1,
        call.trace.clone(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::page::{Op, PageWriter, Room};
    use crate::model::position::Scalar;

    #[test]
    fn a_row_and_its_tombstone_at_one_place_are_never_parted() {
        let mut writer = PageWriter::new("orders", 10, 1 << 20);
        // Rows 1 and 2; then row 3 and its tombstone.
        for (place, op) in [
            (1, Op::Upsert),
            (2, Op::Upsert),
            (3, Op::Upsert),
            (3, Op::Delete),
        ] {
            let scalar = || vec![Scalar::Integer(place)];
            let json = |out: &mut Vec<u8>| out.extend_from_slice(b"{}");
            let position = Position::new(scalar(), scalar());
            writer.push_into(Room::Taken, op, position, json, json, json);
        }
        let page = writer.finish();
        // Whichever of the two is left, the checkpoint stops before both.
        let firsts: Vec<_> = (0..4).map(|at| first_of_its_place(&page, at)).collect();
        assert_eq!(firsts, [0, 1, 2, 2]);
    }
}
