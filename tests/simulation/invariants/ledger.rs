//! F6: what is committed was written down before, for each receiver.

use std::collections::BTreeSet;

use dbtick::model::ledger::{LedgerMode, Mark, Segment};
use dbtick::model::page::EventId;

use super::super::table::Place;
use super::passage::at;
use super::{Accepted, Held, Known, require};

/// What the ledger of the document says, read along.
#[derive(Debug, Default)]
pub(super) struct Written {
    head: Option<String>,
    /// Sink and event.
    events: BTreeSet<(&'static str, EventId)>,
}

/// The segment that a write names is there, follows the one before, and tells nothing that did not
/// happen.
pub(super) fn the_ledger_is_a_chain_of_what_happened(
    known: &mut Known,
    write: &Accepted<'_>,
) -> Held {
    let ledger = &mut known.ledger;
    let head = write.segment.as_ref().map(|(head, _)| head);
    let wanted = write.ledger == LedgerMode::Full;
    require(wanted || head.is_none(), || {
        "a ledger that nobody has asked for".to_owned()
    })?;
    let news = write.segment.as_ref();
    let Some((head, body)) = news.filter(|(head, _)| Some(head) != ledger.head.as_ref()) else {
        return require(head == ledger.head.as_ref(), || {
            format!("the ledger {:?} is forgotten", ledger.head)
        });
    };
    let segment = body
        .as_ref()
        .and_then(|body| Segment::decode(head, body).ok());
    let Some(segment) = segment else {
        return Err(format!("{head} is named, and not kept"));
    };
    require(segment.previous == ledger.head, || {
        let follows = &segment.previous;
        format!("{head} follows {follows:?}, not {:?}", ledger.head)
    })?;
    let held = write.after.ledger.as_ref().is_some_and(|it| !it.closed);
    require(held, || format!("{head} closes the ledger"))?;
    for (name, receiver) in write.receivers.all() {
        let marks = segment.sinks.get(name).cloned().unwrap_or_default();
        for mark in [Mark::Taken, Mark::Quarantined] {
            for at in marks.all(mark) {
                let id = segment.ids[at];
                let row = write.receivers.version_of(id);
                let is_so = row.is_some_and(|row| match mark {
                    Mark::Taken if write.span.is_some() => receiver.has_again(row),
                    Mark::Taken => receiver.stored(row),
                    Mark::Quarantined => receiver.is_aside(row),
                });
                require(is_so, || {
                    format!("{row:?} is recorded as {mark:?} for {name}, and is not")
                })?;
                ledger.events.insert((name, id));
            }
        }
    }
    ledger.head = Some(head.clone());
    Ok(())
}

/// What was committed as delivered, for whomever.
pub(super) fn what_is_passed_is_in_the_ledger(known: &mut Known, write: &Accepted<'_>) -> Held {
    if write.ledger == LedgerMode::Off {
        return Ok(());
    }
    let checkpoint = Place::of(write.after);
    for (place, version) in write.table.rows() {
        let Some(id) = write.receivers.id_of((place.key, version)) else {
            continue;
        };
        if Some(place) > checkpoint && !write.after.delivered.contains_key(&id) {
            continue;
        }
        if !write.answers_for(place) {
            continue;
        }
        for (name, _) in write.receivers.all() {
            let recorded = known.ledger.events.contains(&(name, id));
            let comes = || {
                let lag = write.lag(name);
                lag.is_some_and(|lag| at(lag) < Some(place) && !lag.delivered.contains_key(&id))
            };
            require(recorded || comes(), || {
                format!("row {place} is passed, and the ledger does not have it for {name}")
            })?;
        }
    }
    Ok(())
}
