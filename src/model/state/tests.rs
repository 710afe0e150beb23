use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::lease::Held;
use crate::model::position::Scalar;

const PLAIN_VERSION_1: &str = include_str!("plain-version-1.json");

fn at(second: i64) -> Timestamp {
    chrono::DateTime::from_timestamp(1_775_000_000 + second, 0).unwrap()
}

fn mark(cursor: Vec<Scalar>, key: Vec<Scalar>) -> CursorMark {
    let key_columns = (0..key.len()).rev().map(|n| format!("k{n}")).collect();
    CursorMark {
        kind: CursorKind::Composite,
        position: Position::new(cursor, key),
        key_columns,
    }
}

fn load(bytes: &[u8]) -> Result<StateDocument, DocumentError> {
    StateDocument::from_bytes(bytes, "orders", &["id".to_owned()])
}

fn example() -> StateDocument {
    let mut document = StateDocument::first("orders", "sha256:00", None);
    document.checkpoint.cursor = Some(mark(
        vec![Scalar::Integer(1 << 60)],
        vec![
            Scalar::Text("9007199254740993".to_owned()),
            Scalar::Integer(5),
        ],
    ));
    document.lease.held = Some(Held {
        owner_id: "app/instance/worker".to_owned(),
        acquired_at: at(0),
        heartbeat_at: at(7),
        expires_at: at(31),
    });
    document
}

#[test]
fn a_plain_version_1_document_loads() {
    let document = load(PLAIN_VERSION_1.as_bytes()).unwrap();
    let position = document.position().unwrap();
    assert_eq!(
        position.cursor(),
        [Scalar::Text("2026-04-07T01:23:45.123456Z".to_owned())]
    );
    assert_eq!(position.key(), [Scalar::Integer(12093)]);
    assert_eq!(document.lease.token.get(), 42);
    assert_eq!(
        document.lease.held.unwrap().owner_id,
        "funcapp/instance-abc123"
    );
}

#[test]
fn a_document_survives_its_own_bytes_exactly() {
    let document = example();
    assert_eq!(load(&document.to_bytes()).unwrap(), document);
}

proptest! {
    #[test]
    fn any_position_survives_the_document(
        cursor in proptest::collection::vec(scalar(), 1..3),
        key in proptest::collection::vec(scalar(), 1..4),
        delivered in proptest::collection::vec((scalar(), scalar()), 0..4),
    ) {
        let mut document = example();
        document.checkpoint.cursor = Some(mark(cursor, key));
        for (index, (cursor, key)) in delivered.into_iter().enumerate() {
            let id = EventId::parse(&format!("{index:032x}")).unwrap();
            document.delivered.insert(id, Position::new(vec![cursor], vec![key]));
        }
        prop_assert_eq!(load(&document.to_bytes()).unwrap(), document);
    }

    #[test]
    fn a_truncated_document_is_refused(cut in any::<prop::sample::Index>()) {
        let bytes = example().to_bytes();
        let cut = cut.index(bytes.len());
        prop_assert!(load(&bytes[..cut]).is_err());
    }
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<i128>().prop_map(Scalar::Integer),
        any::<String>().prop_map(Scalar::Text),
        any::<Vec<u8>>().prop_map(Scalar::Bytes),
    ]
}

/// S13.
#[test]
fn every_hand_edit_of_a_checked_document_is_refused() {
    let original: Value = serde_json::from_slice(&example().to_bytes()).unwrap();
    for pointer in [
        "/checkpoint/cursor/value",
        "/lease/fencing_token",
        "/source_fingerprint",
        "/counters/rows",
    ] {
        let mut edited = original.clone();
        *edited.pointer_mut(pointer).unwrap() = json!(1);
        let error = load(edited.to_string().as_bytes()).unwrap_err();
        assert!(
            matches!(error, DocumentError::Tampered),
            "{pointer}: {error}"
        );
    }
}

/// The name of the check itself, too: without one it would pass for a plain version-1 document.
#[test]
fn every_flipped_bit_is_refused() {
    let original = example().to_bytes();
    for bit in 0..original.len() * 8 {
        let mut flipped = original.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(
            load(&flipped).is_err(),
            "bit {} of byte {}",
            bit % 8,
            bit / 8
        );
    }
}

#[test]
fn what_is_not_ours_to_read_is_refused_with_a_reason() {
    let plain: Value = serde_json::from_str(PLAIN_VERSION_1).unwrap();
    let with = |pointer: &str, value: Value| {
        let mut edited = plain.clone();
        *edited.pointer_mut(pointer).unwrap() = value;
        edited.to_string()
    };
    for (bytes, reason) in [
        (String::new(), "not complete JSON"),
        ("[]".to_owned(), "not an object"),
        ("{}".to_owned(), "version null"),
        (with("/version", json!(2)), "version 2"),
        (with("/poller_name", json!("invoices")), "\"invoices\""),
        (
            with("/lease/expires_at", json!("2020-01-01T00:00:00Z")),
            "out of order",
        ),
        (with("/checkpoint/cursor/tiebreaker", json!({})), "position"),
        (with("/checkpoint/cursor/kind", json!("guess")), "guess"),
        (with("/lease/fencing_token", json!(u64::MAX)), "no room"),
    ] {
        let error = load(bytes.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error} should say {reason:?}");
    }
}

#[test]
fn fields_of_a_newer_writer_survive_a_rewrite() {
    let mut value: Value = serde_json::from_str(PLAIN_VERSION_1).unwrap();
    value["from_the_future"] = json!({ "a": [1, 2.5] });
    let document = load(value.to_string().as_bytes()).unwrap();
    let rewritten: Value = serde_json::from_slice(&document.to_bytes()).unwrap();
    assert_eq!(rewritten["from_the_future"], value["from_the_future"]);
}

#[test]
fn what_is_known_about_late_commits_survives_the_document() {
    use crate::model::late::{Epoch, Fence, Segment, Witness};
    let place = |number: i128| {
        Position::new(
            vec![Scalar::Integer(number)],
            vec![Scalar::Text("ü\"".into())],
        )
    };
    let mut document = example();
    document.late = Late {
        fences: vec![Fence {
            up_to: place(7),
            witnesses: [Witness::new("3/17"), Witness::row(&place(5))].into(),
            until: Some(at(60)),
            since: at(0),
        }],
        epoch: Some(Epoch {
            timeline: Some("00000001".to_owned()),
            started: Some(at(-5)),
            started_within: 3,
            transaction: Some(u64::MAX),
            written_down: None,
            now: at(1),
        }),
        spilled: vec![Segment {
            name: "00ff".to_owned(),
            ids: 600,
            from: place(1),
            to: place(6),
        }],
        retired: vec!["aa".to_owned()],
    };
    assert_eq!(load(&document.to_bytes()).unwrap().late, document.late);
    let plain = load(&example().to_bytes()).unwrap();
    assert_eq!(plain.late, Late::default());
    assert!(
        !String::from_utf8(example().to_bytes())
            .unwrap()
            .contains("\"late\"")
    );
}

#[test]
fn a_version_that_is_there_twice_is_refused() {
    let entry = |version: u64| json!({ "version": version, "at": at(0) });
    for (versions, legal) in [([1, 2], true), ([2, 2], false), ([2, 1], false)] {
        let mut value: Value = serde_json::from_str(PLAIN_VERSION_1).unwrap();
        value["history"] = versions.map(entry).into_iter().collect();
        assert_eq!(load(value.to_string().as_bytes()).is_ok(), legal);
    }
}

#[test]
fn a_poller_is_newborn_until_its_first_commit() {
    let mut document = example();
    assert!(document.is_newborn());
    document.counters.batches = 1;
    assert!(!document.is_newborn());
}

#[test]
fn somebody_is_behind_where_a_sink_is() {
    use crate::model::sinks::Lag;
    let mut document = example();
    document
        .sinks
        .insert("hook".to_owned(), SinkState::default());
    assert!(!document.is_anybody_behind());
    let behind = SinkState {
        lag: Some(Lag::new(None, BTreeMap::new(), at(0))),
        ..SinkState::default()
    };
    document.sinks.insert("queue".to_owned(), behind);
    assert!(document.is_anybody_behind());
}

/// So that two versions can be compared by eye, and by tools that compare lines.
#[test]
fn a_document_has_a_line_for_each_member_and_each_item() {
    let mut document = StateDocument::first("orders", "sha256:00", None);
    document.pulse = vec![
        Beat {
            minute: 1,
            rows: 2,
            delay_ms: None,
        },
        Beat {
            minute: 3,
            rows: 4,
            delay_ms: Some(5),
        },
    ];
    document.unknown =
        serde_json::from_str(r#"{"z":{"a":[],"b":{},"c":[1,{"d":2}]},"y":[]}"#).unwrap();
    let text = String::from_utf8(document.to_bytes()).unwrap();
    let check = text
        .lines()
        .find(|line| line.contains("\"check\""))
        .unwrap();
    let expected = format!(
        r#"{{
{check}
  "checkpoint": {{
    "cursor": null,
    "last_successful_batch_id": null,
    "metadata": {{}},
    "updated_at": null
  }},
  "counters": {{
    "batches": 0,
    "bytes": 0,
    "commit": {{"count":0,"us":0}},
    "deliver": {{"count":0,"us":0}},
    "failed_commits": 0,
    "failed_ticks": 0,
    "quarantined": 0,
    "read": {{"count":0,"us":0}},
    "resent": 0,
    "rows": 0
  }},
  "lease": {{
    "acquired_at": null,
    "expires_at": null,
    "fencing_token": 0,
    "heartbeat_at": null,
    "owner_id": null
  }},
  "poller_name": "orders",
  "pulse": [
    [1,2,null],
    [3,4,5]
  ],
  "source_fingerprint": "sha256:00",
  "status": "active",
  "version": 1,
  "y": [],
  "z": {{
    "a": [],
    "b": {{}},
    "c": [1,{{"d":2}}]
  }}
}}"#
    );
    assert_eq!(text, expected);
}

#[test]
fn a_start_that_is_told_exactly_needs_no_word_for_it() {
    use crate::model::late::Epoch;
    let mut document = example();
    for (within, said) in [(0, false), (3, true)] {
        document.late.epoch = Some(Epoch {
            timeline: None,
            started: Some(at(0)),
            started_within: within,
            transaction: None,
            written_down: None,
            now: at(1),
        });
        let text = String::from_utf8(document.to_bytes()).unwrap();
        assert_eq!(text.contains("started_within"), said);
    }
}
