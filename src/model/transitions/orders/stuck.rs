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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::model::lease::{FencingToken, Held};
    use crate::model::sinks::{Failure, SinkState};
    use crate::model::transitions::{Action, Applied, Order, Refusal, apply};

    fn at(second: i64) -> Timestamp {
        chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
    }

    fn evidence(second: i64) -> AgeEvidence {
        AgeEvidence {
            local_now: at(second),
            store: None,
            margin: Duration::from_secs(5),
        }
    }

    /// Held until second 20, and a receiver that is left alone until second 500.
    fn stuck() -> StateDocument {
        let mut document = StateDocument::first("orders", "sha256:aa", None);
        document.lease.token = FencingToken::default().at_least(7);
        document.lease.held = Some(Held {
            owner_id: "app/one".to_owned(),
            acquired_at: at(0),
            heartbeat_at: at(0),
            expires_at: at(20),
        });
        let failure = Failure {
            event_id: "ab".to_owned(),
            attempts: 9,
            rejections: 0,
            first_at: at(0),
            last_at: at(0),
            not_before: Some(at(500)),
            error: "503".to_owned(),
            named: std::collections::BTreeMap::new(),
        };
        let sink = SinkState {
            failure: Some(failure),
            ..SinkState::default()
        };
        document.sinks.insert("hook".to_owned(), sink);
        document
    }

    fn given(
        document: &StateDocument,
        id: &str,
        order: Order,
        second: i64,
    ) -> Result<Applied, Refusal> {
        let by = Operator {
            who: "ada@ship".to_owned(),
            why: "because".to_owned(),
            id: id.to_owned(),
        };
        apply(document, &Action::Operate { by, order }, at(second))
    }

    #[track_caller]
    fn changed(applied: Result<Applied, Refusal>) -> StateDocument {
        match applied.unwrap() {
            Applied::Changed(next) => *next,
            Applied::Already => panic!("nothing was changed"),
        }
    }

    #[test]
    fn stuck_work_goes_on_once_and_takes_nothing_from_the_living() {
        let go_on = |second| Order::GoOn {
            evidence: evidence(second),
        };
        // Its holder is alive: only the receiver is asked at once; what it has failed at is still counted.
        let alive = changed(given(&stuck(), "a", go_on(10), 10));
        assert_eq!(alive.lease, stuck().lease);
        let failure = alive.sink("hook").failure.unwrap();
        assert_eq!((failure.attempts, failure.not_before), (9, None));
        let dead = changed(given(&stuck(), "b", go_on(30), 30));
        assert_eq!((dead.lease.token.get(), &dead.lease.held), (8, &None));
        assert_eq!(dead.audit.len(), 1);
        let again = given(&dead, "c", go_on(30), 30).unwrap();
        assert!(matches!(again, Applied::Already));
    }

    #[test]
    fn a_review_holds_for_what_was_stuck_then() {
        let review = |since| Order::Review {
            code: "failure".to_owned(),
            since: at(since),
        };
        let reviewed = changed(given(&stuck(), "a", review(0), 10));
        assert_eq!(reviewed.reviews["failure"].who, "ada@ship");
        let again = given(&reviewed, "b", review(0), 11).unwrap();
        assert!(matches!(again, Applied::Already));
        let anew = changed(given(&reviewed, "c", review(400), 500));
        assert_eq!(anew.reviews["failure"].since, at(400));
        let bytes = anew.to_bytes();
        let read = StateDocument::from_bytes(&bytes, "orders", &[]).unwrap();
        assert_eq!(read.reviews, anew.reviews);
    }

    #[test]
    fn an_unlock_means_the_lease_that_was_looked_at() {
        let unlock = |token| Order::Unlock {
            token,
            even_if_alive: true,
            evidence: evidence(10),
        };
        let other = given(&stuck(), "a", unlock(6), 10);
        assert!(matches!(other, Err(Refusal::Held { .. })), "{other:?}");
        let freed = changed(given(&stuck(), "b", unlock(7), 10));
        assert_eq!((freed.lease.token.get(), freed.lease.held), (8, None));
    }
}
