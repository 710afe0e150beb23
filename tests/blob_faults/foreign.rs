//! Documents that are damaged, or not ours (C8, G7): refused, left alone, and the way out is said.

use dbtick::model::state::StateDocument;
use dbtick::tick::report::{Outcome, TickError};
use serde_json::{Value, json};

use crate::support::azurite::Azurite;
use crate::world::{BlobWorld, CALM, done, failed};

fn edited(document: &StateDocument, edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    let mut value: Value = serde_json::from_slice(&document.to_bytes()).unwrap();
    edit(&mut value);
    value.to_string().into_bytes()
}

/// By a person who knows how a plain version-1 document looks.
fn edited_without_check(document: &StateDocument, edit: impl FnOnce(&mut Value)) -> Vec<u8> {
    edited(document, |value| {
        let members = value.as_object_mut().unwrap();
        members.remove("check").unwrap();
        members.remove("counters").unwrap();
        edit(value);
    })
}

/// One server for all of them; each function is a promise of its own.
#[tokio::test]
async fn what_is_not_our_document_is_left_alone() {
    let azurite = Azurite::blob();
    a_damaged_or_foreign_document_is_refused_and_never_overwritten(&azurite).await;
    a_document_that_is_damaged_under_its_holder_is_left_as_it_is(&azurite).await;
    a_document_that_is_gone_is_not_begun_again(&azurite).await;
    a_plain_version_1_document_loads_and_its_poller_goes_on_behind_it(&azurite).await;
}

async fn a_damaged_or_foreign_document_is_refused_and_never_overwritten(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    world.insert(2).await;
    let sound = world.document().await;
    let bytes = sound.to_bytes();
    let mut with_garbage = bytes.clone();
    with_garbage.extend_from_slice(b"}");
    let mut of_invoices = sound.clone();
    of_invoices.poller_name = "invoices".to_owned();
    let cases = [
        ("nothing", Vec::new(), "cut short"),
        (
            "one byte less",
            bytes[..bytes.len() - 1].to_vec(),
            "cut short",
        ),
        ("half of it", bytes[..bytes.len() / 2].to_vec(), "cut short"),
        ("something behind it", with_garbage, ""),
        ("not text", vec![0xff, 0xfe, 0x00], ""),
        ("a list", b"[]".to_vec(), ""),
        ("null", b"null".to_vec(), ""),
        (
            "a later version",
            edited(&sound, |d| d["version"] = json!(2)),
            "version 2",
        ),
        (
            "a version as text",
            edited(&sound, |d| d["version"] = json!("1")),
            "version",
        ),
        (
            "no version",
            edited(&sound, |d| {
                d.as_object_mut().unwrap().remove("version");
            }),
            "version",
        ),
        ("another poller's", of_invoices.to_bytes(), "invoices"),
        (
            "another poller's, by hand",
            edited_without_check(&sound, |d| d["poller_name"] = json!("invoices")),
            "invoices",
        ),
        (
            "a moved checkpoint",
            edited(&sound, |d| d["checkpoint"]["cursor"]["value"] = json!(0)),
            "check",
        ),
        (
            "no check",
            edited(&sound, |d| {
                d.as_object_mut().unwrap().remove("check");
            }),
            "check",
        ),
        (
            "a lower token",
            edited(&sound, |d| d["lease"]["fencing_token"] = json!(0)),
            "check",
        ),
        (
            "a negative token",
            edited_without_check(&sound, |d| d["lease"]["fencing_token"] = json!(-1)),
            "not legal",
        ),
        (
            "an owner without times",
            edited_without_check(&sound, |d| d["lease"]["owner_id"] = json!("me")),
            "not legal",
        ),
        (
            "a lease that ends before it begins",
            edited_without_check(&sound, |d| {
                d["lease"]["owner_id"] = json!("me");
                d["lease"]["acquired_at"] = json!("2026-04-07T01:23:00Z");
                d["lease"]["heartbeat_at"] = json!("2026-04-07T01:23:20Z");
                d["lease"]["expires_at"] = json!("2026-04-07T01:22:00Z");
            }),
            "not legal",
        ),
        (
            "no checkpoint",
            edited_without_check(&sound, |d| {
                d.as_object_mut().unwrap().remove("checkpoint");
            }),
            "not legal",
        ),
        (
            "a status that is none",
            edited_without_check(&sound, |d| d["status"] = json!("asleep")),
            "not legal",
        ),
        (
            "a key that is not the key",
            edited_without_check(&sound, |d| {
                d["checkpoint"]["cursor"]["tiebreaker"] = json!({ "other": 1 })
            }),
            "",
        ),
    ];
    for (what, body, reason) in cases {
        world.put(body.clone()).await;
        let before = world.stored().await.unwrap();
        world.proxy.fresh();
        for _ in 0..2 {
            let report = world.tick().await;
            let sentence = report.sentence();
            let error = failed(report);
            assert!(
                matches!(error, TickError::Document { .. }),
                "{what}: {error:?}"
            );
            assert!(
                sentence.contains(world.key().as_str()),
                "{what}: names the blob: {sentence}"
            );
            assert!(sentence.contains(reason), "{what}: says why: {sentence}");
            assert!(
                sentence.contains("dbtick state import") && sentence.contains("dbtick reset"),
                "{what}: says the way out: {sentence}"
            );
        }
        let lines = world.proxy.fresh_lines();
        assert!(
            lines.iter().all(|line| line.starts_with("GET")),
            "{what}: {lines:#?}"
        );
        let after = world.stored().await.unwrap();
        assert_eq!(after.tag, before.tag, "{what}");
        assert_eq!(after.body, body, "{what}");
    }
    assert_eq!(world.sent(), [1], "nothing was sent");
    world.put(bytes).await;
    assert_eq!(done(world.tick().await), Outcome::Drained, "restored");
    assert_eq!(world.sent(), [1, 1, 1]);
}

/// It may become so between our read and our write.
async fn a_document_that_is_damaged_under_its_holder_is_left_as_it_is(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    world.insert(2).await;
    world
        .world
        .receiver
        .answer(|_, _| crate::support::receiver::Answer::WhenOpened);
    let vandal = async {
        world.world.receiver.arrived(2).await;
        world.put("{ \"version\": 1, ").await;
        world.world.receiver.open_gate();
    };
    let (report, ()) = tokio::join!(world.tick(), vandal);
    let error = failed(report);
    assert!(matches!(error, TickError::Document { .. }), "{error:?}");
    assert_eq!(world.stored().await.unwrap().body, "{ \"version\": 1, ");
}

async fn a_document_that_is_gone_is_not_begun_again(azurite: &Azurite) {
    let world = BlobWorld::born_on(azurite, CALM).await;
    let store = world.poller().store;
    let tag = world.stored().await.unwrap().tag;
    store.delete(&world.key(), &tag).await.unwrap();
    world.proxy.fresh();
    let report = world.tick().await;
    let sentence = report.sentence();
    let error = failed(report);
    assert!(matches!(error, TickError::DocumentGone { .. }), "{error:?}");
    assert!(sentence.contains("reset"), "{sentence}");
    let lines = world.proxy.fresh_lines();
    assert!(
        lines.iter().all(|line| line.starts_with("GET")),
        "{lines:#?}"
    );
    assert_eq!(world.sent(), [1]);
}

/// As other programs write it.
fn plain_version_1(fingerprint: &str) -> Value {
    json!({
        "version": 1,
        "poller_name": "orders",
        "source_fingerprint": fingerprint,
        "checkpoint": {
            "cursor": {
                "kind": "timestamp+pk",
                "value": "2026-04-07T01:23:45.123456Z",
                "tiebreaker": { "id": 12093 }
            },
            "last_successful_batch_id": "batch_20260407_012346_0001",
            "updated_at": "2026-04-07T01:23:46.020000Z",
            "metadata": { "row_count": 100 }
        },
        "lease": {
            "owner_id": "funcapp/instance-abc123",
            "fencing_token": 42,
            "acquired_at": "2026-04-07T01:23:00Z",
            "heartbeat_at": "2026-04-07T01:23:20Z",
            "expires_at": "2026-04-07T01:25:00Z"
        }
    })
}

async fn a_plain_version_1_document_loads_and_its_poller_goes_on_behind_it(azurite: &Azurite) {
    let source = json!({ "source": { "table": "events", "cursor": "updated_at" } });
    let world = BlobWorld::changed(azurite, CALM, source).await;
    let mut table = world.world.writer().await;
    table
        .sql("CREATE TABLE events (id INTEGER PRIMARY KEY, updated_at TEXT NOT NULL)")
        .await;
    table
        .sql("CREATE UNIQUE INDEX events_cursor ON events (updated_at, id)")
        .await;
    table
        .sql(
            "INSERT INTO events (id, updated_at) VALUES
             (1, '2026-04-07T01:23:45.123455Z'),
             (12093, '2026-04-07T01:23:45.123456Z'),
             (12094, '2026-04-07T01:23:45.123456Z'),
             (2, '2026-04-07T01:23:45.123457Z')",
        )
        .await;
    let mut document = plain_version_1(&world.poller().fingerprint);
    world.put(document.to_string()).await;
    let tag = world.stored().await.unwrap().tag;

    // By the server's clock it was written just now, and it lasts 100 s.
    let outcome = done(world.tick().await);
    let owner = "funcapp/instance-abc123".to_owned();
    assert_eq!(outcome, Outcome::HeldElsewhere { owner });
    assert_eq!(world.stored().await.unwrap().tag, tag);

    for member in ["owner_id", "acquired_at", "heartbeat_at", "expires_at"] {
        document["lease"][member] = Value::Null;
    }
    world.put(document.to_string()).await;
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let delivered = world.world.receiver.acknowledged_rows();
    assert_eq!(delivered.keys().copied().collect::<Vec<_>>(), [2, 12094]);
    let after = world.document().await;
    assert_eq!(after.lease.token.get(), 43, "the token goes on");
    assert_eq!(done(world.tick().await), Outcome::Idle);
}
