//! Every change of a state document, as a pure function of (document, action, now).
//!
//! What is not a legal successor is refused as a value (C7); repeating what has already happened
//! changes nothing. Because a change can be derived again from a newer document, a write that lost
//! its race, or whose answer was lost, is settled by reading and applying once more (C6).

pub mod orders;
mod receivers;
mod reports;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::counters::{Cost, Writes};
use super::definition::SourceIdentity;
use super::late::Late;
use super::lease::{AgeEvidence, Held, WriteMark, later};
use super::ledger::Ledger;
use super::page::EventId;
use super::position::Position;
use super::pulse;
use super::schema::Schema;
use super::sinks::{self, News, SinksDiffer};
use super::state::{CursorMark, StateDocument, Status};
use super::trouble::Trouble;
use crate::clock::Timestamp;

pub use orders::{Operator, Order};
pub use receivers::CatchUp;

use receivers::{catch_up, note, write_down};
use reports::report;
use versions::remember;

#[derive(Debug, Clone)]
pub enum Action {
    Claim(Claim),
    /// Something the holder of a lease does, in its own numbered write.
    Hold {
        mark: WriteMark,
        step: Step,
        /// Before this one, and not written down yet.
        writes: Writes,
    },
    /// Something an idle tick does without holding anything.
    Settle(Settlement),
    /// A tick that came to nothing says why; or that this is over.
    Report(Option<Trouble>),
    /// Something a person or a tool does from outside, audited.
    Operate {
        by: Operator,
        order: Order,
    },
}

#[derive(Debug, Clone)]
pub struct Claim {
    pub owner_id: String,
    pub nonce: String,
    pub source: SourceIdentity,
    /// The names of all sinks.
    pub sinks: Vec<String>,
    pub ttl: Duration,
    pub evidence: AgeEvidence,
}

#[derive(Debug, Clone)]
pub enum Step {
    Heartbeat {
        ttl: Duration,
    },
    Commit {
        advance: Box<Advance>,
        then: Then,
    },
    /// More is proven than at the last commit: say so, and give the lease back.
    Settle {
        to: Option<CursorMark>,
        late: Late,
    },
    /// Nothing was delivered: say so.
    RecordFailure {
        news: News,
        /// What has to be waited for, where that is news too; `None` leaves what is recorded.
        late: Option<Late>,
        then: Then,
    },
    /// A sink that is behind has taken rows below the checkpoint.
    CatchUp(CatchUp),
    /// Rows were sent again that the checkpoint had passed: the ledger has them.
    Record {
        ledger: Ledger,
        ttl: Duration,
    },
    Release,
}

/// The checkpoint moves over rows that were delivered before, because nobody is left who could commit
/// one among them; or what is waited for is written down.
#[derive(Debug, Clone)]
pub struct Settlement {
    pub nonce: String,
    pub to: Option<CursorMark>,
    pub late: Late,
    pub source: SourceIdentity,
    pub evidence: AgeEvidence,
}

/// How far the checkpoint moves, and what was delivered above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Advance {
    pub to: Option<CursorMark>,
    pub delivered: BTreeMap<EventId, Position>,
    /// The last one.
    pub batch_id: String,
    pub batches: u64,
    pub rows: u64,
    pub cost: Cost,
    /// The columns that were read; `None` leaves what is recorded.
    pub schema: Option<Arc<Schema>>,
    /// The server that was read; `None` leaves what is recorded.
    pub server: Option<Arc<str>>,
    /// What is known about late commits; `None` leaves what is recorded.
    pub late: Option<Late>,
    /// Everything that was delivered above the checkpoint is in the segments of `late`.
    pub shelved: bool,
    pub news: News,
    /// With the segment that tells of this batch; `None`: nobody wrote one.
    pub ledger: Option<Ledger>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Go on, with the lease renewed.
    Renew {
        ttl: Duration,
    },
    Release,
}

/// A legal successor, or the knowledge that there is nothing left to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Applied {
    Changed(Box<StateDocument>),
    Already,
}

/// Why an action is not legal now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("the lease is held by {owner_id} (token {token})")]
    Held { owner_id: String, token: u64 },
    #[error("the lease was lost: token {mine} is no longer the holder's")]
    LeaseLost { mine: u64 },
    #[error("the checkpoint would go back, from {from} to {to}")]
    Backwards { from: Position, to: Position },
    #[error("the poller is paused")]
    Paused,
    #[error("the poller is marked failed")]
    Failed,
    #[error(
        "the source definition has changed: the state was made for {stored}, the configuration is {configured}"
    )]
    Fingerprint { stored: String, configured: String },
    #[error("the receivers are not those that the state was made for")]
    Sinks(SinksDiffer),
    #[error("version {version} is not kept; kept are {}", list(kept))]
    NotKept { version: u64, kept: Vec<u64> },
    #[error(
        "version {version} is a place in another source than the configured one; put that definition back first, or reset to a cursor"
    )]
    OtherSource { version: u64 },
    #[error(
        "the checkpoint cannot be kept: it is a place in the order of {was}, and the source is now read in the order of {is}"
    )]
    OtherOrder { was: String, is: String },
    #[error(
        "the checkpoint cannot be kept: it is that of shard {was}, and the source is now shard \
         {is}; put the old column back, or go to another number of shards and from there to the new column, by `dbtick reshard`"
    )]
    OtherShard { was: String, is: String },
}

pub fn apply(
    document: &StateDocument,
    action: &Action,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    match action {
        Action::Claim(claim) => apply_claim(document, claim, now),
        Action::Hold { mark, step, writes } => apply_step(document, mark, step, writes, now),
        Action::Settle(settlement) => settle(document, settlement, now),
        Action::Report(trouble) => report(document, trouble.as_ref()),
        Action::Operate { by, order } => orders::apply(document, by, order, now),
    }
}

/// What a re-read says about a holder's write whose outcome is unknown (I8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Applied,
    NotApplied,
    /// Another claim stands there: stop.
    LeaseLost,
}

#[must_use]
pub fn fate_of(mark: &WriteMark, found: &StateDocument) -> Fate {
    match &found.holder {
        Some(last) if last.token == mark.token && last.nonce == mark.nonce => {
            if last.sequence >= mark.sequence {
                Fate::Applied
            } else if found.lease.held.is_some() {
                Fate::NotApplied
            } else {
                Fate::LeaseLost
            }
        }
        _ => Fate::LeaseLost,
    }
}

fn apply_claim(
    document: &StateDocument,
    claim: &Claim,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    if let Some(mark) = &document.holder
        && mark.nonce == claim.nonce
        && document.lease.held.is_some()
    {
        return Ok(Applied::Already);
    }
    refuse_unless_ready(document, &claim.source)?;
    sinks::compare(&document.sinks, &claim.sinks).map_err(Refusal::Sinks)?;
    refuse_if_held(document, claim.evidence)?;
    let mut next = document.clone();
    sinks::register(&mut next.sinks, &claim.sinks, None);
    // Documents of older versions do not say it; equal fingerprints are equal definitions.
    next.source
        .get_or_insert_with(|| claim.source.definition.clone());
    next.trouble = None;
    next.lease.token = document.lease.token.next();
    next.lease.held = Some(Held {
        owner_id: claim.owner_id.clone(),
        acquired_at: now,
        heartbeat_at: now,
        expires_at: later(now, claim.ttl),
    });
    next.holder = Some(WriteMark {
        token: next.lease.token,
        nonce: claim.nonce.clone(),
        sequence: 0,
    });
    changed(next)
}

fn settle(
    document: &StateDocument,
    settlement: &Settlement,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    let Settlement {
        nonce,
        to,
        late,
        source,
        evidence,
    } = settlement;
    if document
        .holder
        .as_ref()
        .is_some_and(|mark| mark.nonce == *nonce)
    {
        return Ok(Applied::Already);
    }
    refuse_unless_ready(document, source)?;
    refuse_if_held(document, *evidence)?;
    let mut next = document.clone();
    next.trouble = None;
    next.lease.token = document.lease.token.next();
    next.lease.held = None;
    next.holder = Some(WriteMark {
        token: next.lease.token,
        nonce: nonce.clone(),
        sequence: 0,
    });
    settled(document, &mut next, to.as_ref(), late, now)?;
    changed(next)
}

fn settled(
    document: &StateDocument,
    next: &mut StateDocument,
    to: Option<&CursorMark>,
    late: &Late,
    now: Timestamp,
) -> Result<(), Refusal> {
    next.late = late.clone();
    if let Some(to) = to {
        move_to(next, to)?;
        next.checkpoint.updated_at = Some(now);
        remember(document, next, None, now);
    }
    Ok(())
}

fn apply_step(
    document: &StateDocument,
    mark: &WriteMark,
    step: &Step,
    writes: &Writes,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    match fate_of(mark, document) {
        Fate::Applied => return Ok(Applied::Already),
        Fate::NotApplied => {}
        Fate::LeaseLost => {
            return Err(Refusal::LeaseLost {
                mine: mark.token.get(),
            });
        }
    }
    if document.status == Status::Failed {
        return Err(Refusal::Failed);
    }
    let mut next = document.clone();
    next.holder = Some(mark.clone());
    next.counters.wrote(writes);
    match step {
        Step::Heartbeat { ttl } => renew(&mut next, *ttl, now),
        Step::Commit { advance, then } => {
            commit(document, &mut next, advance, now)?;
            go_on(&mut next, *then, now);
        }
        Step::Settle { to, late } => {
            settled(document, &mut next, to.as_ref(), late, now)?;
            next.lease.held = None;
        }
        Step::RecordFailure { news, late, then } => {
            note(&mut next, news, now);
            if let Some(late) = late {
                next.late = late.clone();
            }
            next.counters.failed_tick();
            go_on(&mut next, *then, now);
        }
        Step::CatchUp(step) => {
            catch_up(&mut next, step, now);
            renew(&mut next, step.ttl, now);
        }
        Step::Record { ledger, ttl } => {
            next.ledger = Some(ledger.clone());
            renew(&mut next, *ttl, now);
        }
        Step::Release => next.lease.held = None,
    }
    changed(next)
}

fn commit(
    document: &StateDocument,
    next: &mut StateDocument,
    advance: &Advance,
    now: Timestamp,
) -> Result<(), Refusal> {
    if let Some(late) = &advance.late {
        next.late = late.clone();
    }
    next.delivered.extend(
        advance
            .delivered
            .iter()
            .map(|(id, position)| (*id, position.clone())),
    );
    if advance.shelved {
        next.delivered.clear();
    }
    if let Some(to) = &advance.to {
        move_to(next, to)?;
    }
    next.checkpoint.last_successful_batch_id = Some(advance.batch_id.clone());
    next.checkpoint.updated_at = Some(now);
    next.checkpoint
        .metadata
        .insert("row_count".to_owned(), advance.rows.into());
    next.counters
        .committed(advance.batches, advance.rows, &advance.cost);
    note(next, &advance.news, now);
    let last = advance.to.as_ref().map(|to| &to.position);
    let last = last.max(advance.delivered.values().max());
    pulse::beat(&mut next.pulse, advance.rows, last, now);
    write_down(next, advance.ledger.as_ref());
    if let Some(schema) = &advance.schema {
        next.schema = Some(Arc::clone(schema));
    }
    if let Some(server) = &advance.server {
        next.server = Some(Arc::clone(server));
    }
    remember(document, next, None, now);
    Ok(())
}

/// Forward only (A3), forgetting what the checkpoint now covers.
fn move_to(next: &mut StateDocument, to: &CursorMark) -> Result<(), Refusal> {
    if let Some(from) = next.position()
        && from.typed_like(&to.position).as_ref().unwrap_or(from) > &to.position
    {
        return Err(Refusal::Backwards {
            from: from.clone(),
            to: to.position.clone(),
        });
    }
    next.delivered.retain(|_, position| *position > to.position);
    next.late.pass(&to.position);
    next.checkpoint.cursor = Some(to.clone());
    Ok(())
}

fn go_on(next: &mut StateDocument, then: Then, now: Timestamp) {
    match then {
        Then::Renew { ttl } => renew(next, ttl, now),
        Then::Release => next.lease.held = None,
    }
}

fn renew(next: &mut StateDocument, ttl: Duration, now: Timestamp) {
    if let Some(held) = &mut next.lease.held {
        // A clock that jumped back must not make the document illegal.
        let now = now.max(held.heartbeat_at);
        held.heartbeat_at = now;
        held.expires_at = later(now, ttl);
    }
}

fn refuse_unless_ready(document: &StateDocument, source: &SourceIdentity) -> Result<(), Refusal> {
    match document.status {
        Status::Active => {}
        Status::Paused => return Err(Refusal::Paused),
        Status::Failed => return Err(Refusal::Failed),
    }
    if document.source_fingerprint != source.fingerprint {
        return Err(Refusal::Fingerprint {
            stored: document.source_fingerprint.clone(),
            configured: source.fingerprint.clone(),
        });
    }
    Ok(())
}

fn refuse_if_held(document: &StateDocument, evidence: AgeEvidence) -> Result<(), Refusal> {
    match &document.lease.held {
        Some(held) if !held.may_be_taken(evidence) => Err(held_by(document, held)),
        _ => Ok(()),
    }
}

fn held_by(document: &StateDocument, held: &Held) -> Refusal {
    Refusal::Held {
        owner_id: held.owner_id.clone(),
        token: document.lease.token.get(),
    }
}

fn list(versions: &[u64]) -> String {
    let versions: Vec<_> = versions.iter().map(ToString::to_string).collect();
    match versions.is_empty() {
        true => "none".to_owned(),
        false => versions.join(", "),
    }
}

fn changed(next: StateDocument) -> Result<Applied, Refusal> {
    Ok(Applied::Changed(Box::new(next)))
}

#[cfg(test)]
mod tests;
