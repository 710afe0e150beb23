use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::model::counters::{Cost, Writes};
use crate::model::definition::SourceDefinition;
use crate::model::lease::WriteMark;
use crate::model::page::EventId;
use crate::model::position::{Position, Scalar};
use crate::model::sinks::{Failure, News};
use crate::model::transitions::{Action, Advance, Claim, Step, Then, apply};

fn at(second: i64) -> Timestamp {
    chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn place(value: i128) -> CursorMark {
    let scalar = || vec![Scalar::Integer(value)];
    CursorMark::new(Position::new(scalar(), scalar()), &["id".to_owned()])
}

fn source(table: &str) -> SourceIdentity {
    SourceIdentity {
        fingerprint: format!("sha256:{table}"),
        definition: SourceDefinition {
            table: Some(table.to_owned()),
            cursor: vec!["seq".to_owned()],
            key: vec!["id".to_owned()],
            ..SourceDefinition::default()
        },
    }
}

fn evidence(second: i64) -> AgeEvidence {
    AgeEvidence {
        local_now: at(second),
        store: None,
        margin: Duration::from_secs(5),
    }
}

fn columns(declared: &str) -> Arc<Schema> {
    let column = |(name, declared): (&str, &str)| (name.to_owned(), declared.to_owned());
    let columns = [("id", "INTEGER"), ("seq", declared)].map(column);
    Arc::new(Schema::new(
        columns,
        &["seq".to_owned()],
        &["id".to_owned()],
    ))
}

fn by(id: &str) -> Operator {
    Operator {
        who: "ada@ship".to_owned(),
        why: "because".to_owned(),
        id: id.to_owned(),
    }
}

#[track_caller]
fn changed_by(document: &StateDocument, action: &Action, second: i64) -> StateDocument {
    match apply(document, action, at(second)).unwrap() {
        Applied::Changed(next) => *next,
        Applied::Already => panic!("{action:?} changes nothing"),
    }
}

fn order(id: &str, order: Order) -> Action {
    Action::Operate { by: by(id), order }
}

fn reset(to: Option<CursorMark>, source: SourceIdentity) -> Order {
    Order::Reset {
        to,
        source,
        evidence: evidence(1000),
    }
}

fn rollback(version: u64, source: SourceIdentity) -> Order {
    Order::Rollback {
        version,
        source,
        evidence: evidence(1000),
    }
}

fn committing(value: i128, schema: &Arc<Schema>, then: Then) -> Step {
    Step::Commit {
        advance: Box::new(Advance {
            cost: Cost::default(),
            ledger: None,
            to: Some(place(value)),
            delivered: BTreeMap::new(),
            batch_id: format!("batch_{value}"),
            batches: 1,
            rows: 10,
            schema: Some(Arc::clone(schema)),
            server: None,
            late: None,
            shelved: false,
            news: News::default(),
        }),
        then,
    }
}

/// Claims, commits each place in turn with this schema, releases.
fn commit(document: &StateDocument, places: &[i128], schema: &Arc<Schema>) -> StateDocument {
    let claim = Action::Claim(Claim {
        owner_id: "app/one".to_owned(),
        nonce: format!("{:?}", document.lease.token),
        source: SourceIdentity {
            fingerprint: document.source_fingerprint.clone(),
            definition: source("orders").definition,
        },
        sinks: vec!["hook".to_owned()],
        ttl: Duration::from_secs(24),
        evidence: evidence(0),
    });
    let mut document = changed_by(document, &claim, 0);
    for (sequence, value) in (1..).zip(places) {
        let mark = WriteMark {
            sequence,
            ..document.holder.clone().unwrap()
        };
        let last = sequence as usize == places.len();
        let then = match last {
            true => Then::Release,
            false => Then::Renew {
                ttl: Duration::from_secs(24),
            },
        };
        let step = committing(*value, schema, then);
        document = changed_by(
            &document,
            &Action::Hold {
                mark,
                step,
                writes: Writes::default(),
            },
            0,
        );
    }
    document
}

fn committed(places: &[i128]) -> StateDocument {
    let first = StateDocument::first("orders", "sha256:orders", None);
    commit(&first, places, &columns("INTEGER"))
}

fn versions(document: &StateDocument) -> Vec<u64> {
    document.history.iter().map(|entry| entry.version).collect()
}

#[track_caller]
fn check_survives(document: &StateDocument) {
    let read = StateDocument::from_bytes(&document.to_bytes(), "orders", &[]).unwrap();
    assert_eq!(read, *document);
}

#[test]
fn every_commit_is_a_version_with_its_checkpoint_size_batch_and_schema() {
    let document = committed(&[5, 9]);
    assert_eq!(versions(&document), [1, 2]);
    let last = document.history.last().unwrap();
    assert_eq!(last.cursor, Some(place(9)));
    assert_eq!((last.rows, last.total_rows), (10, 20));
    assert_eq!(last.batch_id.as_deref(), Some("batch_9"));
    assert_eq!(document.schema_of(last), Some(&columns("INTEGER")));
    assert!(document.past_schemas.is_empty(), "kept once");
    check_survives(&document);
}

#[test]
fn a_full_history_is_a_few_kib() {
    let places: Vec<i128> = (0..2_000).map(|n| n + (1 << 60)).collect();
    let bytes = committed(&places).to_bytes().len();
    assert!(bytes < 10 * 1024, "{bytes}");
}

#[test]
fn a_checkpoint_from_before_there_was_a_history_becomes_its_first_version() {
    let old = StateDocument::first("orders", "sha256:orders", Some(place(3)));
    let document = commit(&old, &[5], &columns("INTEGER"));
    assert_eq!(versions(&document), [1, 2]);
    assert_eq!(document.kept(1).unwrap().cursor, Some(place(3)));
}

#[test]
fn a_rollback_moves_checkpoint_and_schema_together_and_is_undone_by_one() {
    let document = commit(&committed(&[5, 9]), &[12], &columns("BIGINT"));
    assert_eq!(document.past_schemas.len(), 1);
    let back = changed_by(&document, &order("a", rollback(2, source("orders"))), 100);
    assert_eq!(back.checkpoint.cursor, Some(place(9)));
    assert_eq!(back.schema, Some(columns("INTEGER")));
    assert_eq!(
        back.checkpoint.last_successful_batch_id.as_deref(),
        Some("batch_9")
    );
    assert_eq!(back.version(), Some(4), "a number is never given twice");
    assert!(back.kept(3).unwrap().undo);
    assert!(back.lease.token > document.lease.token);
    assert!(back.audit[0].what.contains("rollback to version 2"));
    check_survives(&back);
    let undone = changed_by(&back, &order("b", rollback(3, source("orders"))), 101);
    assert_eq!(undone.checkpoint.cursor, Some(place(12)));
    assert_eq!(undone.schema, Some(columns("BIGINT")));
    check_survives(&undone);
}

#[test]
fn a_rollback_needs_a_kept_version_of_the_configured_source() {
    let document = committed(&[5, 9]);
    let refused = |version, source| {
        let action = order("a", rollback(version, source));
        apply(&document, &action, at(100)).unwrap_err()
    };
    assert_eq!(
        refused(7, source("orders")).to_string(),
        "version 7 is not kept; kept are 1, 2"
    );
    assert_eq!(
        refused(1, source("other")),
        Refusal::OtherSource { version: 1 }
    );
}

#[test]
fn a_reset_clears_what_belongs_to_the_old_place() {
    let mut document = committed(&[5]);
    let id = EventId::parse(&"0".repeat(32)).unwrap();
    document.delivered.insert(id, place(7).position);
    document.status = Status::Failed;
    document.sinks.get_mut("hook").unwrap().failure = Some(Failure {
        event_id: id.to_string(),
        attempts: 3,
        rejections: 0,
        first_at: at(0),
        last_at: at(0),
        not_before: None,
        error: "500".to_owned(),
        named: BTreeMap::new(),
    });
    let next = changed_by(&document, &order("a", reset(None, source("new"))), 100);
    assert!(next.delivered.is_empty() && next.failures().count() == 0 && next.schema.is_none());
    assert_eq!(next.status, Status::Active);
    assert_eq!(next.checkpoint.cursor, None);
    assert_eq!(next.checkpoint.last_successful_batch_id, None);
    assert_eq!(next.source_fingerprint, "sha256:new");
    assert_eq!(next.source, Some(source("new").definition));
    assert_eq!(next.audit[0].why, "because");
    check_survives(&next);
}

#[test]
fn a_paused_poller_stays_paused_when_it_is_moved() {
    let mut document = committed(&[5]);
    document.status = Status::Paused;
    let next = changed_by(&document, &order("a", reset(None, source("orders"))), 100);
    assert_eq!(next.status, Status::Paused);
}

#[test]
fn an_order_that_has_happened_is_known_by_its_id() {
    let document = committed(&[5, 9]);
    let action = order("a", reset(Some(place(5)), source("orders")));
    let moved = changed_by(&document, &action, 100);
    let later = commit(&moved, &[6], &columns("INTEGER"));
    assert_eq!(apply(&later, &action, at(101)).unwrap(), Applied::Already);
}

#[test]
fn adopting_keeps_the_checkpoint_and_every_kept_version() {
    let mut document = committed(&[5, 9]);
    document.source = Some(source("orders").definition);
    let adopt = |source: SourceIdentity, schema| Order::Adopt {
        sinks: vec!["hook".to_owned()],
        source,
        schema,
        evidence: evidence(1000),
    };
    let unchanged = order("a", adopt(source("orders"), Some(columns("INTEGER"))));
    assert_eq!(
        apply(&document, &unchanged, at(1)).unwrap(),
        Applied::Already
    );
    let action = order("a", adopt(source("new"), Some(columns("BIGINT"))));
    let adopted = changed_by(&document, &action, 100);
    assert_eq!(adopted.checkpoint.cursor, document.checkpoint.cursor);
    assert_eq!(adopted.source_fingerprint, "sha256:new");
    assert_eq!(adopted.schema, Some(columns("BIGINT")));
    check_survives(&adopted);
    let back = changed_by(&adopted, &order("b", rollback(1, source("new"))), 101);
    assert_eq!(back.checkpoint.cursor, Some(place(5)));

    let mut other = source("new");
    other.definition.key = vec!["id".to_owned(), "line".to_owned()];
    let refusal = apply(&document, &order("c", adopt(other, None)), at(1)).unwrap_err();
    assert!(matches!(refusal, Refusal::OtherOrder { .. }), "{refusal}");
}

#[test]
fn an_import_keeps_the_trail_and_never_lowers_a_token_or_a_version() {
    let saved = committed(&[5]);
    let document = commit(&saved, &[9, 12], &columns("BIGINT"));
    let import = |saved: &StateDocument| Order::Import {
        saved: Box::new(saved.clone()),
        evidence: evidence(1000),
    };
    let restored = changed_by(&document, &order("a", import(&saved)), 100);
    assert_eq!(restored.checkpoint.cursor, Some(place(5)));
    assert_eq!(restored.schema, Some(columns("INTEGER")));
    assert_eq!(versions(&restored), [1, 2, 3, 4]);
    assert!(restored.lease.token > document.lease.token);
    check_survives(&restored);

    let empty = StateDocument::first("orders", "sha256:orders", None);
    let restored = changed_by(&empty, &order("a", import(&document)), 100);
    assert_eq!(restored.checkpoint.cursor, Some(place(12)));
    assert_eq!(restored.version(), Some(4));
    assert!(restored.lease.token > document.lease.token);
    check_survives(&restored);
}

#[test]
fn a_clone_stands_where_the_original_stands_and_has_its_own_lease_and_past() {
    let document = committed(&[5, 9]);
    let copy = clone_as(&document, "copy", None, &by("a"), at(100));
    assert_eq!(copy.checkpoint.cursor, document.checkpoint.cursor);
    assert_eq!(copy.schema, document.schema);
    assert_eq!(copy.poller_name, "copy");
    assert_eq!(copy.lease.token.get(), 0);
    assert_eq!(versions(&copy), [1]);
    assert_eq!(copy.counters.batches, 0);
    assert!(copy.audit[0].what.starts_with("clone of orders"));
    let read = StateDocument::from_bytes(&copy.to_bytes(), "copy", &[]).unwrap();
    assert_eq!(read, copy);
}

#[test]
fn no_move_by_hand_is_made_while_somebody_holds_the_lease() {
    let document = committed(&[5]);
    let claim = Action::Claim(Claim {
        owner_id: "app/two".to_owned(),
        nonce: "n".to_owned(),
        source: source("orders"),
        sinks: vec!["hook".to_owned()],
        ttl: Duration::from_secs(24),
        evidence: evidence(0),
    });
    let held = changed_by(&document, &claim, 0);
    let early = evidence(28);
    for order_ in [
        Order::Reset {
            to: None,
            source: source("orders"),
            evidence: early,
        },
        Order::Rollback {
            version: 1,
            source: source("orders"),
            evidence: early,
        },
        Order::Adopt {
            sinks: vec!["hook".to_owned()],
            source: source("new"),
            schema: None,
            evidence: early,
        },
        Order::Import {
            saved: Box::new(document.clone()),
            evidence: early,
        },
    ] {
        let refusal = apply(&held, &order("a", order_), at(28)).unwrap_err();
        assert!(matches!(refusal, Refusal::Held { .. }), "{refusal}");
    }
}

fn unlock(token: u64, even_if_alive: bool, second: i64) -> Order {
    Order::Unlock {
        token,
        even_if_alive,
        evidence: evidence(second),
    }
}

/// C5: whoever had the lease can write nothing more, and the next claim has a greater token.
#[test]
fn after_an_unlock_a_stale_holder_commits_nothing() {
    let schema = columns("INTEGER");
    let free = commit(
        &StateDocument::first("orders", "sha256:orders", None),
        &[1],
        &schema,
    );
    let claim = Claim {
        owner_id: "app/one".to_owned(),
        nonce: "n2".to_owned(),
        source: source("orders"),
        sinks: vec!["hook".to_owned()],
        ttl: Duration::from_secs(20),
        evidence: evidence(100),
    };
    let held = changed_by(&free, &Action::Claim(claim.clone()), 100);
    let token = held.lease.token;

    let alive = apply(
        &held,
        &order("u1", unlock(token.get(), false, 110)),
        at(110),
    );
    assert!(matches!(alive, Err(Refusal::Held { .. })), "{alive:?}");
    let forced = changed_by(&held, &order("u1", unlock(token.get(), true, 110)), 110);
    let expired = changed_by(&held, &order("u1", unlock(token.get(), false, 125)), 125);
    for unlocked in [forced, expired] {
        assert_eq!(
            (unlocked.lease.token, &unlocked.lease.held),
            (token.next(), &None)
        );
        assert_eq!(unlocked.position(), held.position());
        let entry = unlocked.audit.last().unwrap();
        assert!(entry.what.contains("app/one"), "{entry:?}");
        let again = apply(
            &unlocked,
            &order("u1", unlock(token.get(), true, 126)),
            at(126),
        )
        .unwrap();
        assert!(matches!(again, Applied::Already));
        let free = apply(
            &unlocked,
            &order("u2", unlock(token.get(), true, 126)),
            at(126),
        )
        .unwrap();
        assert!(matches!(free, Applied::Already), "nobody has it");

        let mark = WriteMark {
            token,
            nonce: "n2".to_owned(),
            sequence: 1,
        };
        for step in [
            Step::Heartbeat {
                ttl: Duration::from_secs(20),
            },
            Step::Release,
        ] {
            let action = Action::Hold {
                writes: Writes::default(),
                mark: mark.clone(),
                step,
            };
            let refused = apply(&unlocked, &action, at(126));
            assert!(
                matches!(refused, Err(Refusal::LeaseLost { .. })),
                "{refused:?}"
            );
        }
        let commits = Action::Hold {
            writes: Writes::default(),
            mark,
            step: committing(2, &schema, Then::Release),
        };
        let refused = apply(&unlocked, &commits, at(126));
        assert!(
            matches!(refused, Err(Refusal::LeaseLost { .. })),
            "{refused:?}"
        );
        let next = changed_by(&unlocked, &Action::Claim(claim.clone()), 126);
        assert!(next.lease.token > token.next());
    }
}

#[test]
fn whether_a_place_fits_is_told_by_counting_where_a_document_names_no_cursor() {
    let mut document = committed(&[5]);
    document.source = None;
    assert_eq!(fits(&document, &source("orders")), Ok(()));
    let mut two = source("orders");
    two.definition.cursor = vec!["day".to_owned(), "seq".to_owned()];
    let Err(Refusal::OtherOrder { was, is }) = fits(&document, &two) else {
        panic!("a place of one value fits an order of two");
    };
    assert_eq!((was.as_str(), is.as_str()), ("?; id", "day, seq; id"));
}

#[test]
fn there_is_something_to_adopt_where_one_thing_differs() {
    let mut document = committed(&[5]);
    document.source = Some(source("orders").definition);
    let adopt = |table: &str, declared: &str, sinks: &[&str]| {
        let adopt = Order::Adopt {
            source: source(table),
            schema: Some(columns(declared)),
            sinks: sinks.iter().map(ToString::to_string).collect(),
            evidence: evidence(1000),
        };
        order("a", adopt)
    };
    let same = adopt("orders", "INTEGER", &["hook"]);
    assert_eq!(apply(&document, &same, at(9)).unwrap(), Applied::Already);
    changed_by(&document, &adopt("new", "INTEGER", &["hook"]), 9);
    let columns_differ = changed_by(&document, &adopt("orders", "BIGINT", &["hook"]), 9);
    assert_eq!(columns_differ.schema, Some(columns("BIGINT")));
    changed_by(&document, &adopt("orders", "INTEGER", &["hook", "more"]), 9);
    document.server = Some("7333".into());
    let other_server = changed_by(&document, &same, 9);
    assert_eq!(other_server.server, None);
    // Where nothing is known about columns, nothing differs.
    document.server = None;
    document.schema = None;
    assert_eq!(apply(&document, &same, at(9)).unwrap(), Applied::Already);
}

#[test]
fn a_new_sink_begins_behind_where_others_have_rows_above_the_checkpoint() {
    let spilled = crate::model::late::Segment {
        name: "00ff".to_owned(),
        ids: 1,
        from: place(6).position,
        to: place(6).position,
    };
    for (delivered, spilled, behind) in [
        (false, false, false),
        (true, false, true),
        (false, true, true),
        (true, true, true),
    ]
    .map(|(delivered, is_spilled, behind)| {
        let id = EventId::from_bytes(&[7; 16]).unwrap();
        let above = [(id, place(6).position)];
        let delivered: BTreeMap<_, _> = above.into_iter().filter(|_| delivered).collect();
        let segments: Vec<_> = [spilled.clone()]
            .into_iter()
            .filter(|_| is_spilled)
            .collect();
        (delivered, segments, behind)
    }) {
        let mut document = committed(&[5]);
        document.delivered = delivered;
        document.late.spilled = spilled;
        let adopt = Order::Adopt {
            source: source("orders"),
            schema: None,
            sinks: vec!["hook".to_owned(), "new".to_owned()],
            evidence: evidence(1000),
        };
        let adopted = changed_by(&document, &order("a", adopt), 9);
        let lag = adopted.sinks["new"].lag.as_ref();
        assert_eq!(lag.is_some(), behind);
        assert!(lag.is_none_or(|lag| lag.position == Some(place(5)) && lag.since == at(9)));
        assert_eq!(adopted.sinks["hook"].lag, None);
    }
}

fn importing(saved: &StateDocument) -> Action {
    let import = Order::Import {
        saved: Box::new(saved.clone()),
        evidence: evidence(1000),
    };
    order("a", import)
}

#[test]
fn an_import_gives_no_number_again_and_says_where_it_comes_from() {
    let saved = committed(&[1, 2, 3, 4, 5]);
    let document = committed(&[9]);
    let restored = changed_by(&document, &importing(&saved), 100);
    assert_eq!(saved.version(), Some(5));
    assert_eq!(restored.version(), Some(6));
    let what = &restored.audit.last().unwrap().what;
    assert_eq!(
        what,
        &format!(
            "import, at {} → at {}",
            place(9).position,
            place(5).position
        )
    );
    let begun = StateDocument::first("orders", "sha256:orders", None);
    let restored = changed_by(&begun, &importing(&saved), 100);
    let what = &restored.audit.last().unwrap().what;
    assert!(what.starts_with("import, at the beginning → at "), "{what}");
}

#[test]
fn an_import_leaves_a_poller_paused_and_wakes_none() {
    let saved = committed(&[5]);
    for (before, imported, expected) in [
        (Status::Active, Status::Active, Status::Active),
        (Status::Paused, Status::Active, Status::Paused),
        (Status::Active, Status::Paused, Status::Paused),
    ] {
        let mut document = committed(&[9]);
        document.status = before;
        let mut saved = saved.clone();
        saved.status = imported;
        let restored = changed_by(&document, &importing(&saved), 100);
        assert_eq!(restored.status, expected);
    }
}

#[test]
fn figures_are_kept_by_a_document_that_has_any() {
    let saved = committed(&[5, 6]);
    let begun = StateDocument::first("orders", "sha256:orders", None);
    let counted = StateDocument {
        counters: committed(&[9]).counters,
        ..begun.clone()
    };
    let remembered = StateDocument {
        history: committed(&[9]).history,
        ..begun.clone()
    };
    for (document, batches) in [(begun, 2), (counted, 1), (remembered, 0)] {
        let restored = changed_by(&document, &importing(&saved), 100);
        assert_eq!(restored.counters.batches, batches);
    }
}

#[test]
fn old_columns_are_kept_for_as_long_as_a_version_names_them() {
    let document = commit(&committed(&[5]), &[9], &columns("BIGINT"));
    let old = columns("INTEGER");
    let kept: Vec<_> = document.past_schemas.keys().cloned().collect();
    assert_eq!(kept, [old.hash().to_owned()]);
    assert_eq!(document.schema_of(&document.history[0]), Some(&old));
    let many: Vec<i128> = (10..200).collect();
    let later = commit(&document, &many, &columns("BIGINT"));
    let named =
        |entry: &crate::model::history::HistoryEntry| entry.schema.as_deref() == Some(old.hash());
    assert_eq!(
        later.past_schemas.contains_key(old.hash()),
        later.history.iter().any(named)
    );
}
