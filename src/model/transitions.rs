//! Every change of a state document, as a pure function of (document, action, now).
//!
//! What is not a legal successor is refused as a value (C7); repeating what has already happened
//! changes nothing. Because a change can be derived again from a newer document, a write that lost
//! its race, or whose answer was lost, is settled by reading and applying once more (C6).

use std::collections::BTreeMap;
use std::time::Duration;

use super::lease::{AgeEvidence, Held, WriteMark, to_delta};
use super::page::EventId;
use super::position::Position;
use super::state::{AuditEntry, CursorMark, Failure, StateDocument, Status};
use crate::clock::Timestamp;

/// Older entries of the audit trail are dropped beyond this.
const AUDIT_KEPT: usize = 50;

#[derive(Debug, Clone)]
pub enum Action {
    Claim(Claim),
    /// Something the holder of a lease does, in its own numbered write.
    Hold {
        mark: WriteMark,
        step: Step,
    },
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
    pub source_fingerprint: String,
    pub ttl: Duration,
    pub evidence: AgeEvidence,
}

#[derive(Debug, Clone)]
pub enum Step {
    Heartbeat {
        ttl: Duration,
    },
    Commit {
        advance: Advance,
        then: Then,
    },
    /// The delivery failed: say so, and give the lease back.
    RecordFailure(Failure),
    Release,
}

/// How far the checkpoint moves, and what was delivered above it.
#[derive(Debug, Clone, PartialEq)]
pub struct Advance {
    pub to: Option<CursorMark>,
    pub delivered: BTreeMap<EventId, Position>,
    pub batch_id: String,
    pub rows: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Go on, with the lease renewed.
    Renew {
        ttl: Duration,
    },
    Release,
}

#[derive(Debug, Clone)]
pub struct Operator {
    pub who: String,
    pub why: String,
}

#[derive(Debug, Clone)]
pub enum Order {
    /// Move the watermark without a lease held: what an idle tick may do once a fence has cleared.
    Settle {
        to: CursorMark,
    },
    /// To a position, or to the beginning. The only way back.
    Reset {
        to: Option<CursorMark>,
        evidence: AgeEvidence,
    },
    Pause,
    Resume,
    Fail,
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
}

pub fn apply(
    document: &StateDocument,
    action: &Action,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    match action {
        Action::Claim(claim) => apply_claim(document, claim, now),
        Action::Hold { mark, step } => apply_step(document, mark, step, now),
        Action::Operate { by, order } => apply_order(document, by, order, now),
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
    match document.status {
        Status::Active => {}
        Status::Paused => return Err(Refusal::Paused),
        Status::Failed => return Err(Refusal::Failed),
    }
    if document.source_fingerprint != claim.source_fingerprint {
        return Err(Refusal::Fingerprint {
            stored: document.source_fingerprint.clone(),
            configured: claim.source_fingerprint.clone(),
        });
    }
    refuse_if_held(document, claim.evidence)?;
    let mut next = document.clone();
    next.lease.token = document.lease.token.next();
    next.lease.held = Some(Held {
        owner_id: claim.owner_id.clone(),
        acquired_at: now,
        heartbeat_at: now,
        expires_at: now + to_delta(claim.ttl),
    });
    next.holder = Some(WriteMark {
        token: next.lease.token,
        nonce: claim.nonce.clone(),
        sequence: 0,
    });
    changed(next)
}

fn apply_step(
    document: &StateDocument,
    mark: &WriteMark,
    step: &Step,
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
    match step {
        Step::Heartbeat { ttl } => renew(&mut next, *ttl, now),
        Step::Commit { advance, then } => {
            commit(&mut next, advance, now)?;
            match then {
                Then::Renew { ttl } => renew(&mut next, *ttl, now),
                Then::Release => next.lease.held = None,
            }
        }
        Step::RecordFailure(failure) => {
            next.failure = Some(failure.clone());
            next.counters.failed_ticks += 1;
            next.lease.held = None;
        }
        Step::Release => next.lease.held = None,
    }
    changed(next)
}

fn apply_order(
    document: &StateDocument,
    by: &Operator,
    order: &Order,
    now: Timestamp,
) -> Result<Applied, Refusal> {
    let mut next = document.clone();
    let what = match order {
        Order::Settle { to } => {
            if let Some(held) = &document.lease.held {
                return Err(held_by(document, held));
            }
            if document.position() == Some(&to.position) {
                return Ok(Applied::Already);
            }
            next.lease.token = document.lease.token.next();
            move_to(&mut next, to)?;
            next.checkpoint.updated_at = Some(now);
            return changed(next);
        }
        Order::Reset { to, evidence } => {
            refuse_if_held(document, *evidence)?;
            // The token grows, so that a holder that only seemed dead is fenced off.
            next.lease.token = document.lease.token.next();
            next.lease.held = None;
            next.holder = None;
            next.delivered.clear();
            next.failure = None;
            next.status = Status::Active;
            next.checkpoint.cursor.clone_from(to);
            next.checkpoint.updated_at = Some(now);
            match to {
                Some(mark) => format!("reset to {}", mark.position),
                None => "reset to the beginning".to_owned(),
            }
        }
        Order::Pause => return set_status(document, Status::Paused, by, "pause", now),
        Order::Resume => return set_status(document, Status::Active, by, "resume", now),
        Order::Fail => return set_status(document, Status::Failed, by, "mark failed", now),
    };
    audit(&mut next, by, what, now);
    changed(next)
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

fn commit(next: &mut StateDocument, advance: &Advance, now: Timestamp) -> Result<(), Refusal> {
    next.delivered.extend(
        advance
            .delivered
            .iter()
            .map(|(id, position)| (*id, position.clone())),
    );
    if let Some(to) = &advance.to {
        move_to(next, to)?;
    }
    next.checkpoint.last_successful_batch_id = Some(advance.batch_id.clone());
    next.checkpoint.updated_at = Some(now);
    next.checkpoint
        .metadata
        .insert("row_count".to_owned(), advance.rows.into());
    next.counters.batches += 1;
    next.counters.rows += advance.rows;
    next.failure = None;
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
    next.checkpoint.cursor = Some(to.clone());
    Ok(())
}

fn renew(next: &mut StateDocument, ttl: Duration, now: Timestamp) {
    if let Some(held) = &mut next.lease.held {
        // A clock that jumped back must not make the document illegal.
        let now = now.max(held.heartbeat_at);
        held.heartbeat_at = now;
        held.expires_at = now + to_delta(ttl);
    }
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

fn audit(next: &mut StateDocument, by: &Operator, what: String, now: Timestamp) {
    next.audit.push(AuditEntry {
        at: now,
        who: by.who.clone(),
        what,
        why: by.why.clone(),
    });
    let surplus = next.audit.len().saturating_sub(AUDIT_KEPT);
    next.audit.drain(..surplus);
}

fn changed(next: StateDocument) -> Result<Applied, Refusal> {
    Ok(Applied::Changed(Box::new(next)))
}

#[cfg(test)]
mod tests;
