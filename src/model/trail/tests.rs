use super::*;
use crate::clock::Timestamp;
use crate::model::position::Scalar;

fn at(second: i64) -> Timestamp {
    chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn place(value: i128) -> Position {
    Position::new(vec![Scalar::Integer(value)], vec![Scalar::Integer(7)])
}

const ID: [u8; 16] = [1; 16];
const OTHER: [u8; 16] = [2; 16];

fn id(bytes: [u8; 16]) -> EventId {
    EventId::from_bytes(&bytes).unwrap()
}

fn row(cursor: i128) -> RowFacts {
    RowFacts {
        position: Some(place(cursor)),
        op: Op::Upsert,
        id: Some(id(ID)),
        passes_filter: true,
        is_future: false,
        is_remembered: false,
        ledger: None,
    }
}

/// A row at 50 of a poller that stands at `checkpoint`.
fn facts(checkpoint: i128) -> Facts {
    Facts {
        begun: true,
        checkpoint: Some(place(checkpoint)),
        rows: vec![row(50)],
        ..Facts::default()
    }
}

fn sink(name: &str) -> SinkFacts {
    SinkFacts {
        name: name.to_owned(),
        ..SinkFacts::default()
    }
}

fn failing(bytes: [u8; 16]) -> SinkFacts {
    SinkFacts {
        failure: Some(FailureFacts {
            event_id: id(bytes).to_string(),
            named: Vec::new(),
            attempts: 3,
            error: "answered 500".to_owned(),
        }),
        ..sink("hook")
    }
}

fn behind(position: i128, delivered: &[[u8; 16]]) -> SinkFacts {
    SinkFacts {
        behind: Some(Behind {
            since: at(0),
            position: Some(place(position)),
            delivered: delivered.iter().map(|bytes| id(*bytes)).collect(),
        }),
        ..sink("audit")
    }
}

fn set_aside(bytes: [u8; 16]) -> SetAside {
    SetAside {
        sink: "hook".to_owned(),
        id: Some(id(bytes)),
        at: at(0),
        error: "answered 422".to_owned(),
    }
}

/// What a ledger says that reaches to the row for these sinks.
fn ledger(lines: &[(&str, bool)], reaches: &[&str]) -> Option<LedgerFacts> {
    let line = |(sink, taken): &(&str, bool)| LedgerLine {
        sink: (*sink).to_owned(),
        at: at(9),
        taken: *taken,
    };
    Some(LedgerFacts {
        lines: lines.iter().map(line).collect(),
        reaches: reaches.iter().map(|&sink| sink.to_owned()).collect(),
    })
}

#[track_caller]
fn check(facts: &Facts, verdict: Verdict, evidence: Evidence, words: &str) {
    let trail = follow(facts);
    let conclusion = &trail.conclusion;
    assert_eq!(
        (conclusion.verdict, conclusion.evidence),
        (verdict, evidence),
        "{trail:#?}"
    );
    assert!(
        conclusion.text.contains(words),
        "{words}: {}",
        conclusion.text
    );
}

/// With one row changed.
fn with(mut facts: Facts, change: impl Fn(&mut RowFacts)) -> Facts {
    facts.rows.iter_mut().for_each(change);
    facts
}

use Evidence::{Inferred, Observed, Recorded};

#[test]
fn what_no_tick_reads_is_told_by_the_row_itself() {
    let none = Facts {
        rows: Vec::new(),
        ..facts(90)
    };
    check(
        &none,
        Verdict::Absent,
        Observed,
        "never committed, or was deleted",
    );
    let query = Facts {
        is_query: true,
        ..none.clone()
    };
    check(
        &query,
        Verdict::Absent,
        Observed,
        "the query does not show it",
    );
    let aside = Facts {
        set_aside: vec![set_aside(ID)],
        ..none
    };
    check(
        &aside,
        Verdict::Quarantined,
        Recorded,
        "gone from the table since",
    );
    let unplaced = with(facts(90), |row| {
        row.position = None;
        row.id = None;
    });
    check(
        &unplaced,
        Verdict::NoCursor,
        Observed,
        "while its cursor is NULL",
    );
    let filtered = with(facts(10), |row| row.passes_filter = false);
    check(
        &filtered,
        Verdict::Filtered,
        Observed,
        "the filter leaves it out",
    );
    let below = with(facts(90), |row| row.passes_filter = false);
    check(
        &below,
        Verdict::Filtered,
        Observed,
        "the filter leaves it out",
    );
}

#[test]
fn below_the_checkpoint_is_inferred_delivered_and_says_what_looks_the_same() {
    for checkpoint in [50, 90] {
        let text = "without a new cursor value looks the same";
        check(&facts(checkpoint), Verdict::Delivered, Inferred, text);
    }
    let started = Facts {
        starts_later: true,
        moved: Some("reset, at 10 (1) → at 60 (1)".to_owned()),
        ..facts(90)
    };
    check(
        &started,
        Verdict::Delivered,
        Inferred,
        "before the poller began",
    );
    check(
        &started,
        Verdict::Delivered,
        Inferred,
        "by hand (reset, at 10 (1)",
    );
    let trail = follow(&facts(90));
    let inferred = trail
        .statements
        .iter()
        .filter(|said| said.evidence == Inferred);
    assert_eq!(inferred.count(), 1, "{trail:#?}");
}

#[test]
fn what_is_written_down_is_recorded() {
    let remembered = with(facts(10), |row| row.is_remembered = true);
    check(&remembered, Verdict::Delivered, Recorded, "as it is now");
    let aside = Facts {
        set_aside: vec![set_aside(ID)],
        ..facts(90)
    };
    check(
        &aside,
        Verdict::Quarantined,
        Recorded,
        "hook did not take it",
    );
}

#[test]
fn an_older_version_in_quarantine_says_nothing_about_this_one() {
    let older = Facts {
        set_aside: vec![set_aside(OTHER)],
        ..facts(90)
    };
    check(&older, Verdict::Delivered, Inferred, "below the checkpoint");
    let said = follow(&older).statements;
    assert!(
        said.iter()
            .any(|said| said.text.contains("an older version of it")),
        "{said:#?}"
    );
}

#[test]
fn a_sink_that_fails_at_it_is_told_from_one_that_fails_at_another() {
    let at_it = Facts {
        sinks: vec![failing(ID)],
        ..facts(10)
    };
    check(
        &at_it,
        Verdict::Failing,
        Recorded,
        "hook was asked 3 time(s)",
    );
    let at_another = Facts {
        sinks: vec![failing(OTHER)],
        ..facts(10)
    };
    check(
        &at_another,
        Verdict::Blocked,
        Inferred,
        "waits behind another event",
    );
    let mut named = at_another.clone();
    named.sinks[0].failure.as_mut().unwrap().named = vec![id(ID).to_string()];
    check(&named, Verdict::Failing, Recorded, "answered 500");
}

#[test]
fn a_sink_that_is_behind_lacks_what_the_others_have() {
    let of = |checkpoint, sink| Facts {
        sinks: vec![sink],
        ..facts(checkpoint)
    };
    check(&of(90, behind(40, &[])), Verdict::Behind, Inferred, "audit");
    for has_it in [behind(50, &[]), behind(60, &[]), behind(40, &[ID])] {
        check(
            &of(90, has_it),
            Verdict::Delivered,
            Inferred,
            "below the checkpoint",
        );
    }
    check(
        &of(10, behind(5, &[])),
        Verdict::Pending,
        Inferred,
        "it is new",
    );
    let mut fails = behind(5, &[]);
    fails.failure = failing(OTHER).failure;
    check(&of(10, fails), Verdict::Pending, Inferred, "it is new");
}

#[test]
fn what_is_ahead_says_what_it_waits_for() {
    let new = facts(10);
    check(&new, Verdict::Pending, Inferred, "the next tick");
    let obstacle = |obstacle| Facts {
        obstacle: Some(obstacle),
        ..facts(10)
    };
    let fails = obstacle(Obstacle::Fails("the source has changed".to_owned()));
    check(&fails, Verdict::Stopped, Observed, "the source has changed");
    let elsewhere = Facts {
        checkpoint: None,
        elsewhere: Some("90 (1)".to_owned()),
        ..fails
    };
    check(
        &elsewhere,
        Verdict::Stopped,
        Observed,
        "the source has changed",
    );
    let waits = obstacle(Obstacle::Waits("waits until noon".to_owned()));
    check(&waits, Verdict::Waiting, Recorded, "waits until noon");
    let held = obstacle(Obstacle::Held("app/1".to_owned()));
    check(&held, Verdict::Pending, Inferred, "app/1 is at work");
    let future = with(facts(10), |row| row.is_future = true);
    check(&future, Verdict::Future, Observed, "held until");
    let in_order = Facts {
        waits_for: Some("transaction 9".to_owned()),
        ..facts(10)
    };
    check(&in_order, Verdict::Waiting, Inferred, "transaction 9");
    let paused = Facts {
        halt: Some("paused since noon".to_owned()),
        ..future
    };
    check(&paused, Verdict::Halted, Recorded, "paused since noon");
}

#[test]
fn before_the_first_tick_nothing_is_below_the_checkpoint() {
    let fresh = Facts {
        begun: false,
        checkpoint: None,
        ..facts(0)
    };
    check(&fresh, Verdict::Pending, Inferred, "the first tick");
    let later = Facts {
        starts_later: true,
        ..fresh
    };
    check(&later, Verdict::Pending, Inferred, "source.start");
}

/// A deletion above the row it deletes is the newest that is known of the key.
#[test]
fn the_newest_version_is_concluded_about() {
    let mut both = facts(50);
    let mut tombstone = row(60);
    tombstone.op = Op::Delete;
    tombstone.id = Some(id(OTHER));
    both.rows.push(tombstone);
    check(&both, Verdict::Pending, Inferred, "it is new");
    let said = follow(&both).statements;
    assert!(
        said.iter()
            .any(|said| said.text.starts_with("it is deleted")),
        "{said:#?}"
    );
}

#[test]
fn a_ledger_says_what_positions_cannot() {
    let of = |checkpoint, lines: &[(&str, bool)], reaches: &[&str]| {
        with(facts(checkpoint), |row| row.ledger = ledger(lines, reaches))
    };
    let taken = of(90, &[("hook", true)], &["hook"]);
    check(&taken, Verdict::Delivered, Recorded, "delivered to hook");
    let statements = follow(&taken).statements;
    assert!(
        statements.iter().all(|said| said.evidence != Inferred),
        "{statements:#?}"
    );
    let lost = of(90, &[], &["hook"]);
    check(
        &lost,
        Verdict::Missing,
        Recorded,
        "hook did not get it as it is now",
    );
    let half = of(90, &[("hook", true)], &["hook", "audit"]);
    check(&half, Verdict::Missing, Recorded, "audit did not get it");
    let too_old = of(90, &[], &[]);
    check(
        &too_old,
        Verdict::Delivered,
        Inferred,
        "as delivered rows do",
    );
    let new = of(10, &[], &["hook"]);
    check(&new, Verdict::Pending, Inferred, "it is new");
    let remembered = with(of(10, &[], &["hook"]), |row| row.is_remembered = true);
    check(&remembered, Verdict::Delivered, Recorded, "as it is now");
    let refused = of(90, &[("hook", false)], &["hook"]);
    check(
        &refused,
        Verdict::Quarantined,
        Recorded,
        "sent again or discarded",
    );
    let redriven = of(90, &[("hook", false), ("hook", true)], &["hook"]);
    check(&redriven, Verdict::Delivered, Recorded, "delivered to hook");
    let catching_up = Facts {
        sinks: vec![behind(40, &[])],
        ..of(90, &[("hook", true)], &["hook", "audit"])
    };
    check(&catching_up, Verdict::Behind, Inferred, "audit");
}

/// Whether anything that is said of the facts has these words.
#[track_caller]
fn said(facts: &Facts, words: &str, expected: bool) {
    let trail = follow(facts);
    let texts = trail.statements.iter().map(|said| &said.text);
    let mut all = texts.chain([&trail.conclusion.text]);
    let is = all.any(|text| text.contains(words));
    assert_eq!(is, expected, "{words}: {trail:#?}");
}

#[test]
fn what_is_in_quarantine_is_nowhere_said_not_to_be() {
    let of = |checkpoint, set_aside: &[SetAside], lines: &[(&str, bool)]| Facts {
        set_aside: set_aside.to_vec(),
        ..with(facts(checkpoint), |row| row.ledger = ledger(lines, &[]))
    };
    let (it, older) = ([set_aside(ID)], [set_aside(OTHER)]);
    for (facts, denied) in [
        (of(90, &it, &[]), false),
        (of(50, &it, &[]), false),
        (of(10, &it, &[]), false),
        (of(90, &it, &[("hook", false)]), false),
        (of(90, &[it.as_slice(), &older].concat(), &[]), false),
        (of(90, &older, &[]), true),
        (of(90, &[], &[]), true),
    ] {
        said(&facts, "is not in quarantine", denied);
        said(&facts, "it is in quarantine since", !denied);
        said(&facts, "is no longer in quarantine", false);
    }
}

#[test]
fn what_cannot_be_read_in_quarantine_is_not_said_to_be_something_else() {
    let of = |facts: Facts, unreadable| Facts {
        unreadable,
        ..facts
    };
    let gone = Facts {
        rows: Vec::new(),
        ..facts(90)
    };
    let refused = with(facts(90), |row| {
        row.ledger = ledger(&[("hook", false)], &[])
    });
    let (sure, below) = (
        "no version of it is in quarantine",
        "below the checkpoint and is not in quarantine",
    );
    let gone_sure = "no version of it, with the key as it is written here, is in quarantine";
    for (facts, words) in [
        (of(facts(90), 0), sure),
        (of(facts(90), 0), below),
        (of(facts(10), 0), sure),
        (of(gone.clone(), 0), gone_sure),
        (of(refused.clone(), 0), "it is no longer in quarantine"),
        (
            of(facts(90), 1),
            "no version of it is among what can be read in quarantine; 1 object cannot be",
        ),
        (
            of(facts(90), 2),
            "and is not among what can be read in quarantine (2 objects cannot be), as",
        ),
        (of(refused.clone(), 2), "or it is there still (2 objects"),
        (
            of(gone.clone(), 2),
            "here, is among what can be read in quarantine; 2 objects cannot be",
        ),
    ] {
        said(&facts, words, true);
    }
    for facts in [facts(90), facts(10), gone, refused] {
        let unsure = of(facts, 2);
        said(&unsure, " is in quarantine", false);
        said(&unsure, "is not in quarantine", false);
        said(&unsure, "is no longer in quarantine", false);
    }
}
