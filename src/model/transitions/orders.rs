//! What a person does to a poller from outside. Every order is audited, and found again by its id
//! when the answer to its write was lost.

mod parted;
mod stuck;

use std::sync::Arc;

use super::{Applied, Refusal, changed, held_by, refuse_if_held, remember};
use crate::clock::Timestamp;
use crate::model::definition::SourceIdentity;
use crate::model::history::short;
use crate::model::late::Epoch;
use crate::model::lease::AgeEvidence;
use crate::model::schema::Schema;
use crate::model::sinks::{self, Lag};
use crate::model::state::{AuditEntry, CursorMark, StateDocument, Status};

pub use parted::{Parting, Retirement, retirement, same_part};

/// Older entries of the audit trail are dropped beyond this.
const AUDIT_KEPT: usize = 50;

#[derive(Debug, Clone)]
pub struct Operator {
    pub who: String,
    pub why: String,
    /// Fresh per order; an order whose id is in the audit trail has happened (C6, C7).
    pub id: String,
}

#[derive(Debug, Clone)]
pub enum Order {
    /// To a position, or to the beginning.
    Reset {
        to: Option<CursorMark>,
        source: SourceIdentity,
        evidence: AgeEvidence,
    },
    /// To a kept version, its schema with it (G3).
    Rollback {
        version: u64,
        source: SourceIdentity,
        evidence: AgeEvidence,
    },
    /// The same rows under another definition or with other columns: the checkpoint stays (B7, B8).
    Adopt {
        source: SourceIdentity,
        schema: Option<Arc<Schema>>,
        /// The names of all sinks: a new one begins at the checkpoint.
        sinks: Vec<String>,
        evidence: AgeEvidence,
    },
    /// A saved document takes the place of this one.
    Import {
        saved: Box<StateDocument>,
        evidence: AgeEvidence,
    },
    /// Back to a kept version or, without one, to the beginning, because the database has gone back
    /// (B9). What was delivered above it is forgotten: where the database has lost a row, its place
    /// would stand for one that comes.
    Rewind {
        version: Option<u64>,
        epoch: Epoch,
        source: SourceIdentity,
        evidence: AgeEvidence,
    },
    /// Nothing about the poller itself: what was done beside its document is written down.
    Note {
        what: String,
    },
    /// Stuck work goes on from its checkpoint (F2).
    GoOn {
        evidence: AgeEvidence,
    },
    /// Stuck work is set aside for a person to look into (F2).
    Review {
        /// What is stuck.
        code: String,
        since: Timestamp,
    },
    /// The lease is taken from whoever has it, who can commit nothing from then on (C5).
    Unlock {
        /// That of the lease that was looked at: nobody who has taken it since is meant.
        token: u64,
        /// Also where it has not expired: its holder may be at work.
        even_if_alive: bool,
        evidence: AgeEvidence,
    },
    /// The rows of the poller are parted in another way, into other documents.
    Part {
        step: Parting,
        evidence: AgeEvidence,
    },
    Pause,
    Resume,
    Fail,
}

pub(super) fn apply(
    document: &StateDocument,
    by: &Operator,
    order: &Order,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    let done = |entry: &AuditEntry| entry.id.as_deref() == Some(&by.id);
    if document.audit.iter().any(done) {
        return Ok(Applied::Already);
    }
    let (mut next, what) = match order {
        Order::Reset {
            to,
            source,
            evidence,
        } => {
            refuse_if_held(document, *evidence)?;
            reset(document, to, source, now)
        }
        Order::Rollback {
            version,
            source,
            evidence,
        } => {
            refuse_if_held(document, *evidence)?;
            rollback(document, *version, source, now)?
        }
        Order::Adopt {
            source,
            schema,
            sinks,
            evidence,
        } => {
            refuse_if_held(document, *evidence)?;
            match adopt(document, source, schema.as_ref(), sinks, now)? {
                Some(adopted) => adopted,
                None => return Ok(Applied::Already),
            }
        }
        Order::Import { saved, evidence } => {
            refuse_if_held(document, *evidence)?;
            import(document, saved, now)
        }
        Order::Rewind {
            version,
            epoch,
            source,
            evidence,
        } => {
            refuse_if_held(document, *evidence)?;
            rewind(document, *version, epoch, source, now)?
        }
        Order::Unlock {
            token,
            even_if_alive,
            evidence,
        } => {
            let Some(held) = &document.lease.held else {
                return Ok(Applied::Already);
            };
            if document.lease.token.get() != *token {
                return Err(held_by(document, held));
            }
            if !even_if_alive {
                refuse_if_held(document, *evidence)?;
            }
            let what = format!(
                "unlock, was held by {} with token {}",
                held.owner_id,
                document.lease.token.get()
            );
            let mut next = document.clone();
            fence_off(&mut next);
            (next, what)
        }
        Order::Note { what } => (document.clone(), what.clone()),
        Order::GoOn { evidence } => match stuck::go_on(document, *evidence) {
            Some(gone_on) => gone_on,
            None => return Ok(Applied::Already),
        },
        Order::Review { code, since } => match stuck::review(document, code, *since, by, now) {
            Some(reviewed) => reviewed,
            None => return Ok(Applied::Already),
        },
        Order::Part { step, evidence } => {
            refuse_if_held(document, *evidence)?;
            match parted::apply(document, step, now) {
                Some(parted) => parted,
                None => return Ok(Applied::Already),
            }
        }
        Order::Pause => return set_status(document, Status::Paused, by, "pause", now),
        Order::Resume => return set_status(document, Status::Active, by, "resume", now),
        Order::Fail => return set_status(document, Status::Failed, by, "mark failed", now),
    };
    audit(&mut next, by, what, now);
    changed(next)
}

/// The document of a new poller that goes on from where another one stands. Ids of events are made
/// for the new name, so what the other one has delivered above its checkpoint says nothing here.
#[must_use]
pub fn clone_as(
    document: &StateDocument,
    name: &str,
    source: Option<&SourceIdentity>,
    by: &Operator,
    now: Timestamp,
) -> StateDocument {
    let mut copy = StateDocument::first(name, &document.source_fingerprint, None);
    copy.source.clone_from(&document.source);
    if let Some(source) = source {
        made_for(&mut copy, source);
    }
    copy.checkpoint.clone_from(&document.checkpoint);
    copy.schema.clone_from(&document.schema);
    let empty = StateDocument::first(name, &copy.source_fingerprint, None);
    remember(&empty, &mut copy, None, now);
    let what = format!("clone of {} {}", document.poller_name, standing(document));
    audit(&mut copy, by, what, now);
    copy
}

/// Whether the checkpoint is a place in the order in which `source` is read.
pub fn fits(document: &StateDocument, source: &SourceIdentity) -> Result<(), Refusal> {
    let Some(mark) = &document.checkpoint.cursor else {
        return Ok(());
    };
    let now = &source.definition;
    let cursor = match &document.source {
        Some(was) => was.cursor.clone(),
        // A document of an older version does not name its cursor; the count is what can be said.
        None if mark.position.cursor().len() == now.cursor.len() => now.cursor.clone(),
        None => vec!["?".to_owned(); mark.position.cursor().len()],
    };
    if cursor == now.cursor && mark.key_columns == now.key {
        return Ok(());
    }
    let order =
        |cursor: &[String], key: &[String]| format!("{}; {}", cursor.join(", "), key.join(", "));
    Err(Refusal::OtherOrder {
        was: order(&cursor, &mark.key_columns),
        is: order(&now.cursor, &now.key),
    })
}

fn reset(
    document: &StateDocument,
    to: &Option<CursorMark>,
    source: &SourceIdentity,
    now: Timestamp,
) -> (StateDocument, String) {
    let mut next = begun_again(document, source, now);
    next.checkpoint.cursor.clone_from(to);
    sinks::begin_at(&mut next.sinks, to.as_ref().map(|to| &to.position));
    // A place in another order is no place here.
    if fits(document, source).is_err() {
        next.sinks.values_mut().for_each(|sink| sink.lag = None);
    }
    next.checkpoint.last_successful_batch_id = None;
    next.checkpoint.metadata.remove("row_count");
    // What the columns are is written down again by the next commit.
    next.schema = None;
    next.server = None;
    remember(document, &mut next, Some("reset"), now);
    let what = format!("reset, {} → {}", standing(document), standing(&next));
    (next, what)
}

fn rollback(
    document: &StateDocument,
    version: u64,
    source: &SourceIdentity,
    now: Timestamp,
) -> Result<(StateDocument, String), Refusal> {
    let Some(kept) = document.kept(version) else {
        return Err(Refusal::NotKept {
            version,
            kept: document.history.iter().map(|entry| entry.version).collect(),
        });
    };
    if kept.source != short(&source.fingerprint) {
        return Err(Refusal::OtherSource { version });
    }
    let mut next = begun_again(document, source, now);
    next.checkpoint.cursor.clone_from(&kept.cursor);
    let place = kept.cursor.as_ref().map(|mark| &mark.position);
    sinks::begin_at(&mut next.sinks, place);
    sinks::again_behind(&mut next.sinks, &kept.behind, now);
    next.checkpoint
        .last_successful_batch_id
        .clone_from(&kept.batch_id);
    next.checkpoint
        .metadata
        .insert("row_count".to_owned(), kept.rows.into());
    next.schema = document.schema_of(kept).cloned();
    remember(document, &mut next, Some("rollback"), now);
    let what = format!(
        "rollback to version {version}, {} → {}",
        standing(document),
        standing(&next)
    );
    Ok((next, what))
}

fn rewind(
    document: &StateDocument,
    version: Option<u64>,
    epoch: &Epoch,
    source: &SourceIdentity,
    now: Timestamp,
) -> Result<(StateDocument, String), Refusal> {
    let (mut next, _) = match version {
        Some(version) => rollback(document, version, source, now)?,
        None => reset(document, &None, source, now),
    };
    next.status.clone_from(&document.status);
    next.schema.clone_from(&document.schema);
    next.server.clone_from(&document.server);
    next.late.epoch = Some(epoch.clone());
    if let Some(entry) = next.history.last_mut() {
        entry.by = Some("rewind".to_owned());
        entry.transaction = epoch.transaction;
    }
    let to = version.map_or_else(String::new, |version| format!(" to version {version}"));
    let what = format!("rewind{to}, {} → {}", standing(document), standing(&next));
    Ok((next, what))
}

/// `None`: there is nothing to adopt.
fn adopt(
    document: &StateDocument,
    source: &SourceIdentity,
    schema: Option<&Arc<Schema>>,
    configured: &[String],
    now: Timestamp,
) -> Result<Option<(StateDocument, String)>, Refusal> {
    fits(document, source)?;
    same_part(document, source)?;
    let same_columns = match (schema, &document.schema) {
        (Some(seen), Some(recorded)) => seen.hash() == recorded.hash(),
        _ => true,
    };
    let same_source = document.source_fingerprint == source.fingerprint;
    let same_sinks = sinks::compare(&document.sinks, configured).is_ok();
    if same_source && same_columns && same_sinks && document.server.is_none() {
        return Ok(None);
    }
    let mut next = document.clone();
    fence_off(&mut next);
    made_for(&mut next, source);
    let above = !document.delivered.is_empty() || !document.late.spilled.is_empty();
    let behind =
        above.then(|| Lag::new(document.checkpoint.cursor.clone(), Default::default(), now));
    sinks::register(&mut next.sinks, configured, behind.as_ref());
    // Whichever server answers next is the one.
    next.server = None;
    next.late.fences.clear();
    next.late.epoch = None;
    if let Some(schema) = schema {
        next.schema = Some(Arc::clone(schema));
    }
    // Places in the old definition are places in the new one: that is what adopting says.
    let (was, is) = (
        short(&document.source_fingerprint),
        short(&source.fingerprint),
    );
    for entry in next.history.iter_mut().filter(|entry| entry.source == was) {
        entry.source.clone_from(&is);
    }
    remember(document, &mut next, Some("adopt"), now);
    let what = format!("adopt the changed source {}", standing(document));
    Ok(Some((next, what)))
}

/// The trail of changes and the numbers of versions are this document's own, where it has any.
fn import(
    document: &StateDocument,
    saved: &StateDocument,
    now: Timestamp,
) -> (StateDocument, String) {
    let mut next = saved.clone();
    next.lease.token = document.lease.token.max(saved.lease.token);
    fence_off(&mut next);
    sinks::keep_behind(&mut next.sinks, &document.sinks);
    sinks::begin_at(&mut next.sinks, saved.position());
    // What somebody has paused stays paused.
    if document.status == Status::Paused {
        next.status = Status::Paused;
    }
    next.checkpoint.updated_at = Some(now);
    let empty = document.history.is_empty() && document.counters.batches == 0;
    if !empty {
        next.counters.clone_from(&document.counters);
        next.audit.clone_from(&document.audit);
        next.history.clone_from(&document.history);
        next.past_schemas.extend(document.past_schemas.clone());
        next.ledger.clone_from(&document.ledger);
    }
    let before = if empty { saved } else { document };
    remember(before, &mut next, Some("import"), now);
    // A number that the saved document has used is not given again either.
    if let (Some(newest), Some(used)) = (next.history.last_mut(), saved.version()) {
        newest.version = newest.version.max(used + 1);
    }
    let what = format!("import, {} → {}", standing(document), standing(saved));
    (next, what)
}

/// Forgets what belongs to the old place. A pause outlives a move; being marked failed ends by it.
fn begun_again(document: &StateDocument, source: &SourceIdentity, now: Timestamp) -> StateDocument {
    let mut next = document.clone();
    fence_off(&mut next);
    made_for(&mut next, source);
    next.delivered.clear();
    next.late.begin_again();
    if next.status == Status::Failed {
        next.status = Status::Active;
    }
    next.checkpoint.updated_at = Some(now);
    next
}

/// The token grows, so that a holder that only seemed dead can write nothing more.
fn fence_off(next: &mut StateDocument) {
    next.lease.token = next.lease.token.next();
    next.lease.held = None;
    next.holder = None;
}

fn made_for(next: &mut StateDocument, source: &SourceIdentity) {
    next.source_fingerprint.clone_from(&source.fingerprint);
    next.source = Some(source.definition.clone());
}

fn standing(document: &StateDocument) -> String {
    match document.position() {
        Some(position) => format!("at {position}"),
        None => "at the beginning".to_owned(),
    }
}

fn set_status(
    document: &StateDocument,
    status: Status,
    by: &Operator,
    what: &str,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    if document.status == status {
        return Ok(Applied::Already);
    }
    // A failed poller leaves that state by reset alone.
    if document.status == Status::Failed {
        return Err(Refusal::Failed);
    }
    let mut next = document.clone();
    next.status = status;
    audit(&mut next, by, what.to_owned(), now);
    changed(next)
}

/// What a tick does of itself is in the trail too.
pub(super) fn audit_own(next: &mut StateDocument, what: &str, why: &str, now: Timestamp) {
    let entry = AuditEntry {
        at: now,
        who: "dbtick".to_owned(),
        what: what.to_owned(),
        why: why.to_owned(),
        id: None,
    };
    push(next, entry);
}

fn audit(next: &mut StateDocument, by: &Operator, what: String, now: Timestamp) {
    let entry = AuditEntry {
        at: now,
        who: by.who.clone(),
        what,
        why: by.why.clone(),
        id: Some(by.id.clone()),
    };
    push(next, entry);
}

fn push(next: &mut StateDocument, entry: AuditEntry) {
    next.audit.push(entry);
    let surplus = next.audit.len().saturating_sub(AUDIT_KEPT);
    next.audit.drain(..surplus);
}

#[cfg(test)]
mod tests;
