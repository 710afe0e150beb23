//! Where documents with other shards begin: at a place up to which no row is missing from any of those that
//! they take the place of, and with all that these know of their database.

use std::sync::Arc;
use std::time::Duration;

use super::late::{Continuity, Epoch, Rewind, rewind_target};
use super::lease::FencingToken;
use super::position::Position;
use super::schema::Schema;
use super::state::{CursorMark, StateDocument, Status};
use super::transitions::orders::retirement;
use crate::clock::Timestamp;

#[derive(Debug, Clone)]
pub struct Beginning {
    /// Nothing at or below it is missing, for any sink.
    pub at: Option<CursorMark>,
    /// When the last of them had passed it, and the database's next transaction then: what was committed
    /// later may be lost with a crash.
    pub since: Option<Timestamp>,
    pub transaction: Option<u64>,
    /// All fences so far were of it or less.
    pub token: FencingToken,
    pub paused: bool,
    pub epoch: Option<Epoch>,
    pub server: Option<Arc<str>>,
    pub schema: Option<Arc<Schema>>,
}

/// The documents do not speak of one database, or not of one order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Disagree {
    #[error("{one} has read another server than {other}")]
    Server { one: String, other: String },
    #[error("{one} and {other} have seen the cursor or key in different types")]
    Schema { one: String, other: String },
    #[error(
        "the database has gone back since {poller} has read it last, and nothing that is kept of it is old enough"
    )]
    Restored { poller: String },
}

impl Beginning {
    pub fn of(documents: &[StateDocument], recovery_point: Duration) -> Result<Self, Disagree> {
        agree(documents)?;
        let epochs = documents.iter().filter_map(|it| it.late.epoch.as_ref());
        let epoch = epochs.reduce(|one, other| match other.is_after(one) {
            true => other,
            false => one,
        });
        let mut places = Vec::new();
        for document in documents {
            let behind = document.sinks.values();
            let behind = behind.filter_map(|sink| Some(sink.lag.as_ref()?.position.clone()));
            places.extend(behind);
            places.push(stands(document, epoch, recovery_point)?);
        }
        // In front of all places is the beginning.
        let least = places
            .into_iter()
            .min_by(|one, other| place(one.as_ref()).cmp(&place(other.as_ref())));
        let at = least.flatten();
        let passed: Vec<_> = documents.iter().map(|it| passed(it, at.as_ref())).collect();
        let tokens = documents.iter().map(|document| document.lease.token);
        let newest = documents.iter().filter(|it| it.schema.is_some());
        let newest = newest.max_by_key(|it| it.checkpoint.updated_at);
        Ok(Self {
            since: passed.iter().filter_map(|(at, _)| *at).max(),
            // Of one nobody knows: then nothing is said.
            transaction: match passed.iter().all(|(_, seen)| seen.is_some()) {
                true => passed.iter().filter_map(|(_, seen)| *seen).max(),
                false => None,
            },
            at,
            token: tokens.max().unwrap_or_default(),
            paused: documents.iter().any(is_paused),
            epoch: epoch.cloned(),
            server: documents.iter().find_map(|it| it.server.clone()),
            schema: newest.and_then(|it| it.schema.clone()),
        })
    }
}

fn agree(documents: &[StateDocument]) -> Result<(), Disagree> {
    let mut known: Option<&StateDocument> = None;
    for document in documents.iter().filter(|it| it.server.is_some()) {
        let first = *known.get_or_insert(document);
        if first.server != document.server {
            return Err(Disagree::Server {
                one: document.poller_name.clone(),
                other: first.poller_name.clone(),
            });
        }
    }
    let mut known: Option<&StateDocument> = None;
    for document in documents {
        let Some(schema) = &document.schema else {
            continue;
        };
        let first = *known.get_or_insert(document);
        let changes = first.schema.iter().flat_map(|it| it.changes_to(schema));
        // Of columns that only carry data, one shard may have seen more than another.
        if changes.into_iter().any(|change| change.stops_the_poller()) {
            return Err(Disagree::Schema {
                one: document.poller_name.clone(),
                other: first.poller_name.clone(),
            });
        }
    }
    Ok(())
}

/// Where its next tick would go on: it may be the last to learn that the database was restarted, or that
/// another server has taken over.
fn stands(
    document: &StateDocument,
    epoch: Option<&Epoch>,
    recovery_point: Duration,
) -> Result<Option<CursorMark>, Disagree> {
    let stands = document.checkpoint.cursor.clone();
    let (Some(is), Some(was)) = (epoch, document.late.epoch.as_ref()) else {
        return Ok(stands);
    };
    let continuity = is.continues(was);
    if continuity == Continuity::Same {
        return Ok(stands);
    }
    match rewind_target(&document.history, was, is, &continuity, recovery_point) {
        Rewind::Nowhere => Ok(stands),
        Rewind::To { version } => Ok(document.kept(version).and_then(|kept| kept.cursor.clone())),
        Rewind::Beginning => Ok(None),
        Rewind::Unknown => Err(Disagree::Restored {
            poller: document.poller_name.clone(),
        }),
    }
}

/// When it had passed a place that it has passed, at the latest.
fn passed(document: &StateDocument, at: Option<&CursorMark>) -> (Option<Timestamp>, Option<u64>) {
    // Since it was in front of it the last time: what was there before a move back says nothing.
    let behind = document.history.iter().rev();
    let behind = behind.take_while(|entry| place(entry.cursor.as_ref()) >= place(at));
    match behind.last() {
        Some(entry) => (Some(entry.at), entry.transaction),
        None => (document.checkpoint.updated_at, None),
    }
}

fn place(mark: Option<&CursorMark>) -> Option<&Position> {
    mark.map(|mark| &mark.position)
}

/// What was paused stays paused under its new name.
fn is_paused(document: &StateDocument) -> bool {
    document.status == Status::Paused || retirement(document).is_some_and(|it| it.paused)
}

#[cfg(test)]
mod tests;
