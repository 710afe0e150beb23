use super::*;
use crate::model::state::{AuditEntry, StateDocument, Status};
use crate::overview::view::{
    BehindView, CheckpointView, CountersView, LagBasis, LagView, LateView, LeaseView,
    QuarantineView, SourceView, TroubleView,
};

fn at(second: i64) -> Timestamp {
    chrono::DateTime::from_timestamp(1_700_000_000 + second, 0).unwrap()
}

/// All is well, at second 100 000; ticks come every fifteen seconds.
fn view() -> PollerView {
    PollerView {
        poller: "orders".to_owned(),
        function: "Orders".to_owned(),
        health: Health::Ok,
        phase: Phase::Unknown,
        headline: String::new(),
        findings: Vec::new(),
        source: SourceView {
            connection: "postgres://shop:5432/shop".to_owned(),
            rows: "orders".to_owned(),
            cursor: vec!["updated_at".to_owned()],
            key: vec!["id".to_owned()],
            fingerprint: "sha256:aa".to_owned(),
        },
        checkpoint: Some(CheckpointView {
            place: Some("(5; 5)".to_owned()),
            version: Some(3),
            updated_at: Some(at(90_000)),
            batch_id: None,
            bytes: 900,
            schema: None,
        }),
        lag: Some(lag(0, 0)),
        lease: None,
        trouble: None,
        late: Some(LateView {
            grade: None,
            reason: None,
            remembered: 0,
            witnesses: 0,
            oldest_witness: None,
            oldest_witness_since: None,
            oldest_witness_is: None,
        }),
        sinks: vec![SinkView {
            name: "hook".to_owned(),
            required: true,
            rows: 5,
            failure: None,
            behind: None,
        }],
        quarantine: Some(QuarantineView {
            rows: 0,
            oldest: None,
            unreadable: 0,
        }),
        interval_s: Some(15),
        last_success: Some(at(90_000)),
        counters: CountersView::default(),
        pulse: Vec::new(),
        reviews: Vec::new(),
    }
}

fn lag(rows: u64, seconds: u64) -> LagView {
    LagView {
        rows,
        exact: true,
        seconds,
        basis: match rows {
            0 => LagBasis::Nothing,
            _ => LagBasis::Cursor,
        },
    }
}

fn lease(age_s: i64, expired: bool) -> LeaseView {
    LeaseView {
        owner: "app/one".to_owned(),
        token: 7,
        acquired_at: at(100_000 - age_s - 60),
        heartbeat_at: at(100_000 - age_s),
        expires_at: at(100_000 - age_s + 24),
        age_s: u64::try_from(age_s).unwrap(),
        expired,
    }
}

fn failure(attempts: u32, rejections: u32, not_before: Option<Timestamp>) -> FailureView {
    FailureView {
        event_id: "ab12".to_owned(),
        attempts,
        rejections,
        first_at: at(99_000),
        last_at: at(99_990),
        not_before,
        error: "HTTP 500: broken".to_owned(),
    }
}

fn evidence() -> Evidence {
    Evidence {
        now: at(100_000),
        state: State::Document,
        halt: None,
        refuses: None,
        source: None,
        is_slow: false,
        must_wait: false,
        tick_limit: Duration::from_secs(300),
        poison_after: 5,
        remedy: None,
    }
}

fn halted(status: Status, what: &str) -> Option<Halt> {
    let mut document = StateDocument::first("orders", "f", None);
    document.status = status;
    document.audit.push(AuditEntry {
        at: at(50_000),
        who: "ada@ship".to_owned(),
        what: what.to_owned(),
        why: "moving house".to_owned(),
        id: None,
    });
    Halt::of(&document)
}

/// Codes with their levels, the phase and the headline.
fn verdict(
    mut view: PollerView,
    evidence: &Evidence,
) -> (Vec<(&'static str, Health)>, Phase, String) {
    view.findings = judge(&view, evidence);
    view.phase = phase(&view, evidence);
    let codes = view.findings.iter();
    let codes = codes.map(|found| (found.code, found.level)).collect();
    for found in &view.findings {
        assert!(CODES.contains(&found.code), "{found:?}");
        assert!(
            !found.says.is_empty() && !found.next.is_empty(),
            "{found:?}"
        );
    }
    (codes, view.phase, headline(&view))
}

#[track_caller]
fn check(
    view: PollerView,
    evidence: &Evidence,
    codes: &[(&'static str, Health)],
    phase: Phase,
    says: &str,
) {
    let found = verdict(view, evidence);
    assert_eq!((found.0.as_slice(), found.1), (codes, phase));
    assert!(found.2.contains(says), "{:?} has no {says:?}", found.2);
}

#[test]
fn a_poller_that_works_has_no_finding() {
    let quiet = "everything visible is delivered";
    check(view(), &evidence(), &[], Phase::Idle, quiet);
    let due = PollerView {
        lag: Some(lag(3, 10)),
        ..view()
    };
    check(
        due,
        &evidence(),
        &[],
        Phase::Due,
        "3 rows wait, for 10 s for the next tick",
    );
    let mut working = PollerView {
        lag: Some(lag(3, 4000)),
        lease: Some(lease(2, false)),
        ..view()
    };
    working.checkpoint.as_mut().unwrap().updated_at = Some(at(99_900));
    check(
        working,
        &evidence(),
        &[],
        Phase::Working,
        "a tick is running; 3 rows to deliver",
    );
}

#[test]
fn what_stands_in_the_place_of_the_document_is_told() {
    let nothing = Evidence {
        state: State::Nothing,
        ..evidence()
    };
    let new = PollerView {
        checkpoint: None,
        ..view()
    };
    let empty = PollerView {
        lag: Some(lag(0, 0)),
        ..new.clone()
    };
    check(empty, &nothing, &[], Phase::New, "no row for it yet");
    let waits = PollerView {
        lag: Some(lag(3, 0)),
        ..new.clone()
    };
    let begins = [("not_begun", Health::Attention)];
    check(waits, &nothing, &begins, Phase::New, "has not run yet");
    let unknown = PollerView {
        lag: None,
        ..new.clone()
    };
    check(unknown, &nothing, &begins, Phase::New, "has not run yet");
    let gone = Evidence {
        state: State::Bad("document_gone", "the state document is gone".to_owned()),
        ..evidence()
    };
    check(
        new,
        &gone,
        &[("document_gone", Health::Stuck)],
        Phase::Unknown,
        "is gone",
    );
}

#[test]
fn a_halt_is_told_with_who_and_why() {
    let paused = Evidence {
        halt: halted(Status::Paused, "pause"),
        ..evidence()
    };
    check(
        view(),
        &paused,
        &[("paused", Health::Stopped)],
        Phase::Paused,
        "by ada@ship: moving house",
    );
    let failed = Evidence {
        halt: halted(Status::Failed, "mark failed"),
        ..evidence()
    };
    check(
        view(),
        &failed,
        &[("marked_failed", Health::Stuck)],
        Phase::Failed,
        "moving house",
    );
    // Rows that wait for a paused poller are no news.
    let waiting = PollerView {
        lag: Some(lag(9, 90_000)),
        ..view()
    };
    check(
        waiting,
        &paused,
        &[("paused", Health::Stopped)],
        Phase::Paused,
        "paused",
    );
}

#[test]
fn a_source_that_cannot_be_read_is_stuck_whoever_noticed() {
    let trouble = |outcome: &str| TroubleView {
        outcome: outcome.to_owned(),
        error: "password authentication failed".to_owned(),
        since: at(80_000),
        last_at: at(99_990),
    };
    let refused = Evidence {
        refuses: Some(("fingerprint_changed", "the source has changed".to_owned())),
        ..evidence()
    };
    check(
        view(),
        &refused,
        &[("fingerprint_changed", Health::Stuck)],
        Phase::Failing,
        "has changed",
    );
    let seen = Evidence {
        source: Some("password authentication failed".to_owned()),
        ..evidence()
    };
    let both = PollerView {
        trouble: Some(trouble("source_failed")),
        lag: None,
        ..view()
    };
    check(
        both.clone(),
        &seen,
        &[("source_failed", Health::Stuck)],
        Phase::Failing,
        "password",
    );
    assert_eq!(
        judge(&both, &seen)[0].since,
        Some(at(80_000)),
        "since the ticks say so"
    );
    // It can be reached from here, and the next tick may do so too.
    let told = PollerView {
        lag: Some(lag(9, 90_000)),
        ..both
    };
    check(
        told,
        &evidence(),
        &[("tick_failed", Health::Attention)],
        Phase::Failing,
        "answers now",
    );
    let columns = PollerView {
        trouble: Some(trouble("schema_changed")),
        ..view()
    };
    check(
        columns,
        &evidence(),
        &[("tick_failed", Health::Stuck)],
        Phase::Failing,
        "password",
    );
}

#[test]
fn the_lease_of_a_dead_owner_is_told_and_stuck_when_no_tick_takes_it_over() {
    let just = PollerView {
        lease: Some(lease(35, true)),
        ..view()
    };
    check(
        just,
        &evidence(),
        &[("lease_expired", Health::Attention)],
        Phase::Idle,
        "app/one",
    );
    let long = PollerView {
        lease: Some(lease(7200, true)),
        lag: Some(lag(5, 7300)),
        ..view()
    };
    check(
        long.clone(),
        &evidence(),
        &[("lease_expired", Health::Stuck)],
        Phase::Due,
        "for 2 h",
    );
    let paused = Evidence {
        halt: halted(Status::Paused, "pause"),
        ..evidence()
    };
    let codes = [
        ("paused", Health::Stopped),
        ("lease_expired", Health::Attention),
    ];
    check(long, &paused, &codes, Phase::Paused, "paused");
}

#[test]
fn a_receiver_that_fails_is_told_from_a_row_that_it_rejects() {
    let failing = |failure, behind| {
        let mut view = view();
        view.sinks[0].failure = Some(failure);
        view.sinks[0].behind = behind;
        view
    };
    let once = failing(failure(1, 0, None), None);
    check(
        once,
        &evidence(),
        &[("sink_failing", Health::Attention)],
        Phase::Failing,
        "failed once",
    );
    let often = failing(failure(4, 0, Some(at(100_030))), None);
    check(
        often,
        &evidence(),
        &[("sink_failing", Health::Stuck)],
        Phase::Waiting,
        "4 times: HTTP 500",
    );
    let poison = failing(failure(3, 3, None), None);
    check(
        poison.clone(),
        &evidence(),
        &[("row_rejected", Health::Stuck)],
        Phase::Failing,
        "hook has refused 3 times, at event ab12",
    );
    assert!(
        judge(&poison, &evidence())[0]
            .next
            .contains("after 5 failed ticks it is set aside")
    );
    let behind = BehindView {
        since: at(99_000),
        place: None,
    };
    let optional = failing(failure(9, 0, None), Some(behind));
    check(
        optional,
        &evidence(),
        &[("sink_behind", Health::Attention)],
        Phase::Idle,
        "hook has failed 9 times",
    );
}

#[test]
fn rows_that_nobody_takes_are_stuck_only_after_ticks_were_missed_and_without_another_cause() {
    let waiting = |seconds| PollerView {
        lag: Some(lag(8, seconds)),
        ..view()
    };
    check(waiting(60), &evidence(), &[], Phase::Due, "8 rows wait");
    check(
        waiting(61),
        &evidence(),
        &[("not_ticking", Health::Stuck)],
        Phase::Due,
        "no tick takes them",
    );
    // A table that is read for the first time has old rows, and commits.
    let mut busy = waiting(90_000);
    busy.checkpoint.as_mut().unwrap().updated_at = Some(at(99_970));
    check(busy, &evidence(), &[], Phase::Due, "8 rows wait");
    let hourly = PollerView {
        interval_s: Some(3600),
        ..waiting(10_000)
    };
    check(hourly, &evidence(), &[], Phase::Due, "8 rows wait");
}

#[test]
fn a_transaction_that_is_open_for_long_is_named_with_the_way_to_end_it() {
    let mut open = view();
    let late = open.late.as_mut().unwrap();
    late.oldest_witness = Some("3/77".to_owned());
    late.oldest_witness_since = Some(at(99_940));
    check(open.clone(), &evidence(), &[], Phase::Idle, "everything");
    open.late.as_mut().unwrap().oldest_witness_since = Some(at(96_400));
    check(
        open.clone(),
        &evidence(),
        &[("transaction_open", Health::Attention)],
        Phase::Idle,
        "(3/77;",
    );
    open.late.as_mut().unwrap().oldest_witness_is =
        Some("session 4711 of user app, idle in transaction".to_owned());
    let told = Evidence {
        remedy: Some("SELECT pg_terminate_backend(4711)".to_owned()),
        ..evidence()
    };
    check(
        open.clone(),
        &told,
        &[("transaction_open", Health::Attention)],
        Phase::Idle,
        "session 4711",
    );
    assert!(
        judge(&open, &told)[0]
            .next
            .contains("pg_terminate_backend(4711)")
    );
}

#[test]
fn rows_in_quarantine_are_told_with_their_age() {
    let kept = |rows, oldest| PollerView {
        quarantine: Some(QuarantineView {
            rows,
            oldest,
            unreadable: 0,
        }),
        ..view()
    };
    let one = kept(1, Some(at(99_000)));
    check(
        one,
        &evidence(),
        &[("quarantine", Health::Attention)],
        Phase::Idle,
        "1 row was set aside and not delivered",
    );
    let old = kept(3, Some(at(100_000 - 90_000)));
    check(
        old,
        &evidence(),
        &[("quarantine", Health::Attention)],
        Phase::Idle,
        "for 25 h already",
    );
}

#[test]
fn the_worst_comes_first() {
    let mut view = PollerView {
        quarantine: Some(QuarantineView {
            rows: 1,
            oldest: None,
            unreadable: 0,
        }),
        ..view()
    };
    view.sinks[0].failure = Some(failure(4, 0, None));
    let codes = [
        ("sink_failing", Health::Stuck),
        ("quarantine", Health::Attention),
    ];
    check(view, &evidence(), &codes, Phase::Failing, "hook has failed");
}

#[test]
fn ticks_that_run_or_die_and_commit_nothing_are_stuck() {
    let quiet = |seconds: i64, lease| {
        let mut view = PollerView {
            lag: Some(lag(3, 5)),
            lease: Some(lease),
            ..view()
        };
        view.checkpoint.as_mut().unwrap().updated_at = Some(at(100_000 - seconds));
        view
    };
    // The host ends a tick after five minutes.
    let first = verdict(quiet(300, lease(2, false)), &evidence());
    assert_eq!((first.0, first.1), (vec![], Phase::Working));
    let alive = verdict(quiet(500, lease(2, false)), &evidence());
    assert_eq!(alive.0, [("no_progress", Health::Stuck)]);
    let dying = verdict(quiet(500, lease(35, true)), &evidence());
    let both = [
        ("no_progress", Health::Stuck),
        ("lease_expired", Health::Attention),
    ];
    assert_eq!(dying.0, both);
}

#[test]
fn where_cursors_are_no_times_a_row_may_have_come_just_now() {
    let mut unknown = view();
    unknown.lag = Some(LagView {
        basis: LagBasis::LastCommit,
        ..lag(1, 10_000)
    });
    let found = verdict(unknown, &evidence());
    assert_eq!(found.0, [("not_ticking", Health::Attention)]);
}

#[test]
fn an_old_failure_explains_no_silence() {
    let waiting = || PollerView {
        lag: Some(lag(8, 9_000)),
        ..view()
    };
    let stuck = ("not_ticking", Health::Stuck);
    let mut failed = waiting();
    failed.sinks[0].failure = Some(FailureView {
        last_at: at(90_000),
        ..failure(1, 0, None)
    });
    assert_eq!(verdict(failed.clone(), &evidence()).0[0], stuck);
    failed.sinks[0].failure = Some(failure(1, 0, None));
    assert!(!verdict(failed.clone(), &evidence()).0.contains(&stuck));
    failed.sinks[0].behind = Some(BehindView {
        since: at(90_000),
        place: None,
    });
    assert_eq!(verdict(failed, &evidence()).0[0], stuck, "it blocks nobody");
    let troubled = |last_at| PollerView {
        trouble: Some(TroubleView {
            outcome: "source_failed".to_owned(),
            error: "no route".to_owned(),
            since: at(80_000),
            last_at,
        }),
        ..waiting()
    };
    assert_eq!(verdict(troubled(at(90_000)), &evidence()).0[0], stuck);
    assert!(
        !verdict(troubled(at(99_700)), &evidence())
            .0
            .contains(&stuck)
    );
}

#[test]
fn rows_that_must_wait_for_a_transaction_are_stuck_by_it_and_not_by_the_timer() {
    let mut open = PollerView {
        lag: Some(lag(8, 9_000)),
        ..view()
    };
    let late = open.late.as_mut().unwrap();
    late.oldest_witness = Some("3/77".to_owned());
    late.oldest_witness_since = Some(at(90_000));
    let strict = Evidence {
        must_wait: true,
        ..evidence()
    };
    let found = verdict(open, &strict);
    assert_eq!(found.0, [("transaction_open", Health::Stuck)]);
    assert!(found.2.contains("rows wait for it"), "{}", found.2);
}

#[test]
fn a_database_that_is_slow_is_not_called_broken_and_one_that_never_ran_not_late() {
    let slow = Evidence {
        is_slow: true,
        ..evidence()
    };
    let unknown = PollerView {
        lag: None,
        ..view()
    };
    assert_eq!(
        verdict(unknown, &slow).0,
        [("slow_source", Health::Attention)]
    );
    let new = Evidence {
        state: State::Nothing,
        ..evidence()
    };
    let waiting = PollerView {
        lag: Some(lag(8, 9_000)),
        checkpoint: None,
        ..view()
    };
    assert_eq!(verdict(waiting, &new).0, [("not_begun", Health::Attention)]);
}
