//! A batch that did not go out whole ends the tick.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::flight::Landing;
use super::or_release;
use crate::model::late::Sweep;
use crate::model::page::{EventSpan, Page};
use crate::model::position::Position;
use crate::model::state::StateDocument;
use crate::model::transitions::Then;
use crate::tick::clean_up::clean_up;
use crate::tick::deliver::{Delivered, NotDelivered};
use crate::tick::keeper::{Lease, Receipt};
use crate::tick::ledger::record;
use crate::tick::report::{Behind, TickError};
use crate::tick::settling::{Remembering, what_is_awaited, what_to_remember};
use crate::tick::sweeping::Unsent;
use crate::tick::{Call, Poller, Progress, catch_up};

/// The batch, what became of it, and what was delivered of those that were on their way behind it.
pub(super) struct Blocked {
    pub(super) landing: Landing,
    pub(super) part: Delivered,
    pub(super) beyond: Vec<(Receipt, Vec<EventSpan>)>,
}

/// Writes down what was delivered of a batch and what stands in the way, and gives the lease back. The
/// checkpoint stops before the first event that comes again; those behind it that were taken are
/// remembered (A5).
pub(super) async fn stop_at(
    poller: &Poller,
    call: &Call,
    document: &StateDocument,
    lease: &Lease,
    mut sweep: Sweep,
    blocked: Blocked,
    progress: &mut Progress,
) -> TickError {
    let Blocked {
        landing: Landing { unsent, batch, .. },
        part,
        beyond,
    } = blocked;
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
    let (receipts, beyond): (Vec<_>, Vec<_>) = beyond.into_iter().unzip();
    let receipts = receipt.into_iter().chain(receipts);
    let events = || unsent.page.events().iter().zip(&done);
    let taken = events().filter(|(_, done)| **done).map(|(event, _)| event);
    let taken = || taken.clone().chain(beyond.iter().flatten());
    let document = if let Some(receipt) = receipts.reduce(Receipt::and) {
        let first = events().take_while(|(_, done)| **done).count();
        pass_part(&mut sweep, &unsent, first);
        let ids = taken().map(|event| (event.id, &event.position));
        let remembering = what_to_remember(poller, document, &sweep, ids).await;
        let Remembering { moved, .. } = match or_release(lease, remembering).await {
            Ok(remembering) => remembering,
            Err(error) => return error,
        };
        let seen = (Arc::clone(&unsent.schema), unsent.server.clone());
        let receipt = receipt.was_read_in(unsent.took);
        let (batches, bytes) = (receipt.batches(), receipt.bytes());
        let id = batch.id.to_string();
        let written = record(poller, document, Some(id), recording, progress).await;
        let ledger = match or_release(lease, written).await {
            Ok(ledger) => ledger,
            Err(error) => return error,
        };
        let document = lease.commit(receipt, moved, seen, news, ledger, then).await;
        progress.tally.quarantined += aside.len() as u64;
        let rows = taken().count() as u64;
        progress.committed(&document, &sweep, batches, rows, bytes);
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
pub(in crate::tick) fn first_of_its_place(page: &Page, at: usize) -> usize {
    let events = page.events();
    let place = |at: usize| events.get(at).map(|event| &event.position);
    let mut first = at;
    while first > 0 && place(first - 1) == place(at) {
        first -= 1;
    }
    first
}

/// The places of a page, without those of some of its events.
pub(in crate::tick) fn all_but(page: &Page, aside: &BTreeSet<usize>) -> Vec<Position> {
    let events = page.events().iter().enumerate();
    events
        .filter(|(at, _)| !aside.contains(at))
        .map(|(_, event)| event.position.clone())
        .collect()
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
