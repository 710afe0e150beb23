use proptest::prelude::*;

use super::*;
use crate::model::definition::SourceDefinition;
use crate::model::lease::StoreClock;
use crate::model::position::{CursorKind, Scalar};
use crate::model::sinks::{Failure, SinkNews};

const TTL: Duration = Duration::from_secs(24);
const MARGIN: Duration = Duration::from_secs(5);
const FINGERPRINT: &str = "sha256:aa";

fn at(second: i64) -> Timestamp {
    chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn place(value: i128) -> CursorMark {
    CursorMark {
        kind: CursorKind::Integer,
        position: Position::new(vec![Scalar::Integer(value)], vec![Scalar::Integer(value)]),
        key_columns: vec!["id".to_owned()],
    }
}

fn fresh() -> StateDocument {
    StateDocument::first("orders", FINGERPRINT, None)
}

fn evidence(local: i64) -> AgeEvidence {
    AgeEvidence {
        local_now: at(local),
        store: None,
        margin: MARGIN,
    }
}

fn claim(nonce: &str, now: i64) -> Action {
    Action::Claim(Claim {
        owner_id: format!("app/instance/{nonce}"),
        nonce: nonce.to_owned(),
        source: source(),
        sinks: vec!["hook".to_owned()],
        ttl: TTL,
        evidence: evidence(now),
    })
}

fn mark_of(document: &StateDocument, sequence: u64) -> WriteMark {
    WriteMark {
        sequence,
        ..document.holder.clone().unwrap()
    }
}

fn hold(mark: WriteMark, step: Step) -> Action {
    Action::Hold {
        mark,
        step,
        writes: Writes::default(),
    }
}

fn commit_to(value: i128, then: Then) -> Step {
    Step::Commit {
        advance: Box::new(Advance {
            cost: Cost::default(),
            to: Some(place(value)),
            delivered: BTreeMap::new(),
            batch_id: format!("batch_{value}"),
            batches: 1,
            rows: 1,
            schema: None,
            server: None,
            late: None,
            shelved: false,
            ledger: None,
            news: all_is_well(),
        }),
        then,
    }
}

const RENEW: Then = Then::Renew { ttl: TTL };

fn operate(order: Order) -> Action {
    Action::Operate {
        by: operator(),
        order,
    }
}

/// Each call is another order.
fn operator() -> Operator {
    use std::sync::atomic::{AtomicU64, Ordering};
    static ORDERS: AtomicU64 = AtomicU64::new(0);
    Operator {
        who: "ada".to_owned(),
        why: "test".to_owned(),
        id: ORDERS.fetch_add(1, Ordering::Relaxed).to_string(),
    }
}

fn source() -> SourceIdentity {
    SourceIdentity {
        fingerprint: FINGERPRINT.to_owned(),
        definition: SourceDefinition {
            table: Some("orders".to_owned()),
            cursor: vec!["seq".to_owned()],
            key: vec!["id".to_owned()],
            ..SourceDefinition::default()
        },
    }
}

fn reset(to: Option<CursorMark>, now: i64) -> Action {
    operate(Order::Reset {
        to,
        source: source(),
        evidence: evidence(now),
    })
}

#[track_caller]
fn next(document: &StateDocument, action: &Action, now: i64) -> StateDocument {
    match apply(document, action, at(now)).unwrap() {
        Applied::Changed(next) => *next,
        Applied::Already => panic!("expected a change by {action:?}"),
    }
}

#[track_caller]
fn refused(document: &StateDocument, action: &Action, now: i64) -> Refusal {
    apply(document, action, at(now)).unwrap_err()
}

fn news(failure: Option<Failure>) -> News {
    let sink = SinkNews {
        failure,
        ..SinkNews::default()
    };
    News {
        sinks: [("hook".to_owned(), sink)].into(),
        gone: None,
    }
}

fn all_is_well() -> News {
    news(None)
}

fn failure() -> News {
    news(Some(Failure {
        event_id: "0".repeat(32),
        attempts: 1,
        rejections: 0,
        first_at: at(0),
        last_at: at(0),
        not_before: None,
        error: "500".to_owned(),
        named: BTreeMap::new(),
    }))
}

#[test]
fn a_free_lease_is_claimed_and_the_token_grows_by_one() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    assert_eq!(claimed.lease.token.get(), 1);
    assert_eq!(claimed.lease.held.as_ref().unwrap().expires_at, at(24));
}

#[test]
fn an_unexpired_lease_is_never_taken_not_even_by_the_same_process() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    for second in [0, 23, 24, 28] {
        let refusal = refused(&claimed, &claim("b", second), second);
        assert!(matches!(refusal, Refusal::Held { .. }), "at {second}");
    }
    let taken = next(&claimed, &claim("b", 29), 29);
    assert_eq!(taken.lease.token.get(), 2);
}

#[test]
fn lease_age_is_the_stores_where_it_tells_the_time() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let held = claimed.lease.held.unwrap();
    for (skew, age, taken) in [
        (0, 28, false),
        (0, 29, true),
        (-3600, 29, true),
        (3600, 28, false),
    ] {
        let evidence = AgeEvidence {
            local_now: at(age + skew),
            store: Some(StoreClock {
                now: at(1000 + age),
                last_write: at(1000),
            }),
            margin: MARGIN,
        };
        assert_eq!(held.may_be_taken(evidence), taken, "skew {skew} age {age}");
    }
}

#[test]
fn a_stale_holder_cannot_commit_heartbeat_release_or_record_a_failure() {
    let first = next(&fresh(), &claim("a", 0), 0);
    let stale = mark_of(&first, 1);
    let second = next(&first, &claim("b", 29), 29);
    for step in [
        commit_to(1, RENEW),
        Step::Heartbeat { ttl: TTL },
        Step::Release,
        Step::RecordFailure {
            news: failure(),
            late: None,
            then: Then::Release,
        },
    ] {
        let refusal = refused(&second, &hold(stale.clone(), step), 30);
        assert_eq!(refusal, Refusal::LeaseLost { mine: 1 });
    }
}

#[test]
fn a_released_lease_is_claimed_at_once_and_the_token_survives() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let action = hold(mark_of(&claimed, 1), commit_to(1, Then::Release));
    let released = next(&claimed, &action, 1);
    assert_eq!(released.lease.held, None);
    assert_eq!(released.lease.token.get(), 1);
    assert_eq!(next(&released, &claim("b", 1), 1).lease.token.get(), 2);
}

#[test]
fn after_its_release_a_holder_writes_nothing_more() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let released = next(&claimed, &hold(mark_of(&claimed, 1), Step::Release), 1);
    let late = hold(mark_of(&claimed, 2), commit_to(5, RENEW));
    assert!(matches!(
        refused(&released, &late, 2),
        Refusal::LeaseLost { .. }
    ));
}

#[test]
fn the_checkpoint_only_moves_forward() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let moved = next(
        &claimed,
        &hold(mark_of(&claimed, 1), commit_to(5, RENEW)),
        1,
    );
    let back = hold(mark_of(&claimed, 2), commit_to(4, RENEW));
    assert!(matches!(
        refused(&moved, &back, 2),
        Refusal::Backwards { .. }
    ));
}

#[test]
fn repeating_a_write_that_has_happened_changes_nothing() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let again = apply(&claimed, &claim("a", 0), at(0)).unwrap();
    assert_eq!(again, Applied::Already);
    let action = hold(mark_of(&claimed, 1), commit_to(5, RENEW));
    let moved = next(&claimed, &action, 1);
    assert_eq!(apply(&moved, &action, at(2)).unwrap(), Applied::Already);
    let paused = next(&moved, &operate(Order::Pause), 3);
    let again = apply(&paused, &operate(Order::Pause), at(4)).unwrap();
    assert_eq!(again, Applied::Already);
}

#[test]
fn a_heartbeat_extends_the_lease_even_when_the_clock_jumped_back() {
    let claimed = next(&fresh(), &claim("a", 100), 100);
    let beat = hold(mark_of(&claimed, 1), Step::Heartbeat { ttl: TTL });
    let renewed = next(&claimed, &beat, 107).lease.held.unwrap();
    assert_eq!(
        (renewed.heartbeat_at, renewed.expires_at),
        (at(107), at(131))
    );
    let jumped = next(&claimed, &beat, 0);
    StateDocument::from_bytes(&jumped.to_bytes(), "orders", &[]).unwrap();
}

#[test]
fn an_operators_pause_lets_the_holder_finish_and_keeps_others_out() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let paused = next(&claimed, &operate(Order::Pause), 1);
    let action = hold(mark_of(&claimed, 1), commit_to(5, Then::Release));
    let finished = next(&paused, &action, 2);
    assert_eq!(refused(&finished, &claim("b", 3), 3), Refusal::Paused);
    let resumed = next(&finished, &operate(Order::Resume), 4);
    next(&resumed, &claim("b", 5), 5);
}

#[test]
fn a_failed_poller_accepts_nothing_until_it_is_reset() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let failed = next(&claimed, &operate(Order::Fail), 1);
    let commit = hold(mark_of(&claimed, 1), commit_to(5, RENEW));
    assert_eq!(refused(&failed, &commit, 2), Refusal::Failed);
    assert_eq!(refused(&failed, &claim("b", 99), 99), Refusal::Failed);
    assert_eq!(
        refused(&failed, &operate(Order::Resume), 99),
        Refusal::Failed
    );
    let reset = next(&failed, &reset(None, 99), 99);
    next(&reset, &claim("b", 100), 100);
}

#[test]
fn a_reset_is_refused_while_another_owner_works_and_fences_it_off_afterwards() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let moved = next(
        &claimed,
        &hold(mark_of(&claimed, 1), commit_to(9, RENEW)),
        0,
    );
    assert!(matches!(
        refused(&moved, &reset(None, 10), 10),
        Refusal::Held { .. }
    ));
    let back = next(&moved, &reset(Some(place(3)), 40), 40);
    assert_eq!(back.position(), Some(&place(3).position));
    assert_eq!(back.audit.len(), 1);
    let zombie = hold(mark_of(&claimed, 2), commit_to(10, RENEW));
    assert!(matches!(
        refused(&back, &zombie, 41),
        Refusal::LeaseLost { .. }
    ));
}

#[test]
fn a_changed_source_is_refused_before_anything_else() {
    let mut other = fresh();
    other.source_fingerprint = "sha256:bb".to_owned();
    assert!(matches!(
        refused(&other, &claim("a", 0), 0),
        Refusal::Fingerprint { .. }
    ));
}

#[test]
fn settling_needs_a_free_lease_and_grows_the_token() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let settle = Action::Settle(Settlement {
        nonce: "settling".to_owned(),
        to: Some(place(4)),
        late: Late::default(),
        source: source(),
        evidence: evidence(1),
    });
    assert!(matches!(
        refused(&claimed, &settle, 1),
        Refusal::Held { .. }
    ));
    let released = next(&claimed, &hold(mark_of(&claimed, 1), Step::Release), 1);
    let settled = next(&released, &settle, 2);
    assert_eq!(settled.lease.token.get(), 2);
    assert_eq!(settled.lease.held, None);
    assert_eq!(apply(&settled, &settle, at(3)).unwrap(), Applied::Already);
}

#[test]
fn what_was_delivered_above_the_checkpoint_is_kept_until_it_is_covered() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let id = |n: u32| EventId::parse(&format!("{n:032x}")).unwrap();
    let partial = Step::Commit {
        advance: Box::new(Advance {
            cost: Cost::default(),
            to: Some(place(2)),
            delivered: (1..=4).map(|n| (id(n), place(n.into()).position)).collect(),
            batch_id: "batch_x".to_owned(),
            batches: 1,
            rows: 4,
            schema: None,
            server: None,
            late: None,
            shelved: false,
            ledger: None,
            news: all_is_well(),
        }),
        then: RENEW,
    };
    let kept = next(&claimed, &hold(mark_of(&claimed, 1), partial), 1);
    assert_eq!(
        kept.delivered.keys().copied().collect::<Vec<_>>(),
        [id(3), id(4)]
    );
    let covered = next(&kept, &hold(mark_of(&claimed, 2), commit_to(3, RENEW)), 2);
    assert_eq!(
        covered.delivered.keys().copied().collect::<Vec<_>>(),
        [id(4)]
    );
}

#[test]
fn a_failure_is_kept_until_a_commit_clears_it() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let record = hold(
        mark_of(&claimed, 1),
        Step::RecordFailure {
            news: failure(),
            late: None,
            then: Then::Release,
        },
    );
    let failed = next(&claimed, &record, 1);
    assert!(failed.failures().count() == 1 && failed.lease.held.is_none());
    let again = next(&failed, &claim("b", 2), 2);
    let moved = next(&again, &hold(mark_of(&again, 1), commit_to(1, RENEW)), 3);
    assert_eq!(moved.failures().count(), 0);
}

#[derive(Debug, Clone)]
enum Move {
    Claim(u8),
    Commit(u8, i8),
    Heartbeat(u8),
    Release(u8),
    Reset(i8),
    Pause,
    Resume,
    Wait(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => (0..3_u8).prop_map(Move::Claim),
        6 => (0..3_u8, 0..40_i8).prop_map(|(who, to)| Move::Commit(who, to)),
        2 => (0..3_u8).prop_map(Move::Heartbeat),
        2 => (0..3_u8).prop_map(Move::Release),
        1 => (0..40_i8).prop_map(Move::Reset),
        1 => Just(Move::Pause),
        1 => Just(Move::Resume),
        4 => (0..40_u8).prop_map(Move::Wait),
    ];
    proptest::collection::vec(one, 0..60)
}

proptest! {
    /// I3, I4, I5 and I9 over every sequence of moves by three contenders and an operator.
    #[test]
    fn no_sequence_of_moves_breaks_the_rules(moves in moves()) {
        let mut document = fresh();
        let mut now = 0_i64;
        let mut marks: [Option<WriteMark>; 3] = [None, None, None];
        for (step, one) in moves.iter().enumerate() {
            let bump = |marks: &mut [Option<WriteMark>; 3], who: u8| {
                let mark = marks[usize::from(who)].as_mut()?;
                mark.sequence += 1;
                Some(mark.clone())
            };
            let action = match one {
                Move::Wait(seconds) => { now += i64::from(*seconds); continue; }
                Move::Claim(who) => claim(&format!("{who}-{step}"), now),
                Move::Commit(who, to) => match bump(&mut marks, *who) {
                    Some(mark) => hold(mark, commit_to((*to).into(), RENEW)),
                    None => continue,
                },
                Move::Heartbeat(who) => match bump(&mut marks, *who) {
                    Some(mark) => hold(mark, Step::Heartbeat { ttl: TTL }),
                    None => continue,
                },
                Move::Release(who) => match bump(&mut marks, *who) {
                    Some(mark) => hold(mark, Step::Release),
                    None => continue,
                },
                Move::Reset(to) => reset(Some(place((*to).into())), now),
                Move::Pause => operate(Order::Pause),
                Move::Resume => operate(Order::Resume),
            };
            let Ok(Applied::Changed(after)) = apply(&document, &action, at(now)) else { continue };
            prop_assert!(after.lease.token >= document.lease.token);
            match one {
                Move::Claim(who) => {
                    prop_assert_eq!(after.lease.token, document.lease.token.next());
                    marks[usize::from(*who)] = after.holder.clone();
                }
                Move::Commit(who, _) => {
                    let mark = marks[usize::from(*who)].clone().unwrap();
                    prop_assert_eq!(mark.token, document.lease.token);
                    prop_assert!(after.position() >= document.position());
                }
                Move::Reset(_) => prop_assert_eq!(after.audit.len().min(50), (document.audit.len() + 1).min(50)),
                _ => prop_assert_eq!(after.position(), document.position()),
            }
            StateDocument::from_bytes(&after.to_bytes(), "orders", &[]).unwrap();
            document = *after;
        }
    }
}

#[test]
fn a_write_is_ones_own_only_by_token_and_nonce() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let mine = mark_of(&claimed, 1);
    let other_nonce = WriteMark {
        nonce: "b".to_owned(),
        ..mine.clone()
    };
    let other_token = WriteMark {
        token: mine.token.next(),
        ..mine.clone()
    };
    assert_eq!(fate_of(&mine, &claimed), Fate::NotApplied);
    assert_eq!(fate_of(&other_nonce, &claimed), Fate::LeaseLost);
    assert_eq!(fate_of(&other_token, &claimed), Fate::LeaseLost);
}

#[test]
fn settling_moves_the_checkpoint_and_says_what_is_waited_for() {
    let late = Late {
        retired: vec!["00ff".to_owned()],
        ..Late::default()
    };
    let settle = |to: Option<CursorMark>| {
        Action::Settle(Settlement {
            nonce: "settling".to_owned(),
            to,
            late: late.clone(),
            source: source(),
            evidence: evidence(1),
        })
    };
    let settled = next(&fresh(), &settle(Some(place(4))), 2);
    assert_eq!(settled.checkpoint.cursor, Some(place(4)));
    assert_eq!(settled.checkpoint.updated_at, Some(at(2)));
    assert_eq!(settled.late, late);
    assert_eq!(settled.version(), Some(1));
    let waiting = next(&fresh(), &settle(None), 2);
    assert_eq!(waiting.checkpoint.cursor, None);
    assert_eq!((&waiting.late, waiting.version()), (&late, None));
}

#[test]
fn a_checkpoint_may_be_committed_once_more_where_it_stands() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let once = next(
        &claimed,
        &hold(mark_of(&claimed, 1), commit_to(5, RENEW)),
        1,
    );
    let twice = next(&once, &hold(mark_of(&claimed, 2), commit_to(5, RENEW)), 2);
    assert_eq!(twice.checkpoint.cursor, Some(place(5)));
    assert_eq!(twice.version(), Some(2));
}

#[test]
fn a_receiver_that_is_gone_pauses_the_poller_once_and_the_trail_says_why() {
    let gone = |nonce: &str, document: &StateDocument| {
        let claimed = next(document, &claim(nonce, 0), 0);
        let mut news = failure();
        news.gone = Some("hook answered 410".to_owned());
        let step = Step::RecordFailure {
            news,
            late: None,
            then: RENEW,
        };
        let once = next(&claimed, &hold(mark_of(&claimed, 1), step.clone()), 1);
        (next(&once, &hold(mark_of(&claimed, 2), step), 2), once)
    };
    let (twice, once) = gone("a", &fresh());
    assert_eq!(once.status, Status::Paused);
    let [entry] = once.audit.as_slice() else {
        panic!("{:?}", once.audit);
    };
    assert_eq!(
        (entry.who.as_str(), entry.what.as_str()),
        ("dbtick", "pause")
    );
    assert_eq!((entry.why.as_str(), entry.at), ("hook answered 410", at(1)));
    assert_eq!(twice.audit, once.audit);
}

fn ledger() -> Ledger {
    Ledger {
        head: "0000000001-00".to_owned(),
        segments: 1,
        rows: 1,
        bytes: 1,
        since: at(0),
        closed: false,
    }
}

#[test]
fn what_is_committed_without_the_ledger_ends_what_it_says_about_everything() {
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let commit = |value: i128, ledger: Option<Ledger>| match commit_to(value, RENEW) {
        Step::Commit { mut advance, then } => {
            advance.ledger = ledger;
            Step::Commit { advance, then }
        }
        other => other,
    };
    let without = next(&claimed, &hold(mark_of(&claimed, 1), commit(1, None)), 1);
    assert_eq!(without.ledger, None);
    let with = hold(mark_of(&claimed, 2), commit(2, Some(ledger())));
    let with = next(&without, &with, 2);
    assert_eq!(with.ledger, Some(ledger()));
    let ended = next(&with, &hold(mark_of(&claimed, 3), commit(3, None)), 3);
    assert!(ended.ledger.unwrap().closed);
}

#[test]
fn a_sink_that_catches_up_goes_no_further_than_the_checkpoint() {
    let id = |n: u32| EventId::parse(&format!("{n:032x}")).unwrap();
    let claimed = next(&fresh(), &claim("a", 0), 0);
    let mut behind = next(
        &claimed,
        &hold(mark_of(&claimed, 1), commit_to(5, RENEW)),
        1,
    );
    let lag = sinks::Lag::new(Some(place(1)), BTreeMap::new(), at(0));
    behind.sinks.get_mut("hook").unwrap().lag = Some(lag);
    let step = |to: Option<i128>, delivered: &[i128], arrived: bool| {
        let delivered = delivered.iter();
        Step::CatchUp(CatchUp {
            sink: "hook".to_owned(),
            to: to.map(place),
            delivered: delivered
                .map(|n| (id(*n as u32), place(*n).position))
                .collect(),
            arrived,
            news: all_is_well(),
            ledger: Some(ledger()),
            ttl: TTL,
        })
    };
    let stands = |document: &StateDocument| {
        let lag = document.sinks["hook"].lag.clone()?;
        let above: Vec<_> = lag.delivered.into_keys().collect();
        Some((lag.position, above))
    };
    for (to, expected) in [
        (None, (Some(place(1)), vec![id(2), id(3), id(4)])),
        (Some(3), (Some(place(3)), vec![id(4)])),
        (Some(5), (Some(place(5)), vec![])),
        (Some(6), (Some(place(1)), vec![id(2), id(3), id(4)])),
    ] {
        let action = hold(mark_of(&claimed, 2), step(to, &[2, 3, 4], false));
        let moved = next(&behind, &action, 9);
        assert_eq!(stands(&moved), Some(expected), "{to:?}");
        assert_eq!(moved.checkpoint.cursor, Some(place(5)));
        assert_eq!(moved.ledger, Some(ledger()));
        let held = moved.lease.held.unwrap();
        assert_eq!(held.heartbeat_at, at(9), "the lease is kept");
    }
    let arrived = hold(mark_of(&claimed, 2), step(None, &[], true));
    assert_eq!(stands(&next(&behind, &arrived, 9)), None);
}

#[test]
fn trouble_is_counted_when_it_is_said_and_taken_back_once() {
    let trouble = |second| Action::Report(Some(Trouble::new("source", "no route", at(second))));
    let over = Action::Report(None);
    assert_eq!(apply(&fresh(), &over, at(0)).unwrap(), Applied::Already);
    let told = next(&fresh(), &trouble(0), 0);
    assert_eq!(told.counters.failed_ticks, 1);
    assert!(told.trouble.is_some());
    assert_eq!(apply(&told, &trouble(1), at(1)).unwrap(), Applied::Already);
    let again = next(&told, &trouble(3600), 3600);
    assert_eq!(again.counters.failed_ticks, 2);
    let taken_back = next(&again, &over, 3601);
    assert_eq!(taken_back.trouble, None);
    assert_eq!(taken_back.counters.failed_ticks, 2);
}
