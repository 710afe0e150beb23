//! What is done about work that is stuck (F2): it goes on, or it is set aside for a person to look into.
//! Doing either twice changes nothing more.

use crate::clock::Timestamp;
use crate::model::lease::AgeEvidence;
use crate::model::state::{Review, StateDocument};
use crate::model::transitions::orders::{Operator, fence_off};

/// From its checkpoint, with the next tick: nobody holds it who is dead, and no receiver is waited for.
/// `None`: there is nothing to change.
pub(super) fn go_on(
    document: &StateDocument,
    evidence: AgeEvidence,
) -> Option<(StateDocument, String)> {
    let mut next = document.clone();
    let mut done = Vec::new();
    if let Some(held) = &document.lease.held
        && held.may_be_taken(evidence)
    {
        done.push(format!("the lease of {} is free", held.owner_id));
        fence_off(&mut next);
    }
    for (name, sink) in &mut next.sinks {
        let waits = sink.failure.as_mut();
        if let Some(failure) = waits.filter(|failure| failure.not_before.is_some()) {
            failure.not_before = None;
            done.push(format!("{name} is asked at once"));
        }
    }
    match done.is_empty() {
        true => None,
        false => Some((next, format!("go on: {}", done.join(", ")))),
    }
}

/// Somebody looks into it: it is not told of as stuck until it happens anew.
pub(super) fn review(
    document: &StateDocument,
    code: &str,
    since: Timestamp,
    by: &Operator,
    now: Timestamp,
) -> Option<(StateDocument, String)> {
    let known = document.reviews.get(code);
    if known.is_some_and(|known| known.since == since) {
        return None;
    }
    let mut next = document.clone();
    next.reviews.insert(
        code.to_owned(),
        Review {
            since,
            at: now,
            who: by.who.clone(),
            why: by.why.clone(),
        },
    );
    Some((next, format!("review {code}, stuck since {since}")))
}
