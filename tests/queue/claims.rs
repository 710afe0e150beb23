//! Events that are too large for a message.

use data_encoding::HEXLOWER;
use dbtick::config::Per;
use dbtick::model::page::Op;
use dbtick::sink::{FailureKind, Verdict};
use dbtick::store::{Loaded, StateStore, StoreKey};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::proxy::{Fault, Proxy};
use crate::{Row, Storage, batch, deliver, ids, parsed, row, sink, validate, wide};

const LARGE: usize = 200_000;

/// What lies where a message says.
async fn claimed(storage: &Storage, message: &Value) -> Loaded {
    let part = |key: &str| message["claim_check"][key].as_str().unwrap();
    let blobs = storage.blobs.as_ref().unwrap().store(part("container"));
    let name = StoreKey::new(part("blob")).unwrap();
    blobs.load(&name).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_large_event_lies_in_a_blob_that_its_message_names() {
    let storage = Storage::queues_and_blobs();
    for per in [Per::Event, Per::Packed] {
        let batch = batch([row(1), wide(2, LARGE), row(3)]);
        let verdict = deliver(&storage.sink(|config| config.per = per), &batch).await;
        assert_eq!(verdict, Verdict::Acknowledged);
        let messages: Vec<Value> = storage.messages().await.iter().map(|m| parsed(m)).collect();
        assert_eq!(messages.len(), 3);
        let checks: Vec<&Value> = messages
            .iter()
            .filter(|message| message.get("claim_check").is_some())
            .collect();
        let [message] = checks.as_slice() else {
            panic!("{messages:#?}");
        };
        validate("message", message);
        let (event, check) = (&message["event"], &message["claim_check"]);
        assert_eq!(event["id"], batch.event_ids[1].to_string());
        assert_eq!(
            (&event["op"], &event["cursor"]),
            (&"upsert".into(), &2.into())
        );
        assert_eq!(event["key"]["id"], 2);
        assert_eq!(event.get("data"), None);
        let name = format!("shop/orders/queue/{}.json", batch.event_ids[1]);
        assert_eq!(check["blob"], name);
        let blob = claimed(&storage, message).await.body;
        assert_eq!(blob, batch.event_json(1), "byte for byte");
        assert_eq!(check["bytes"], blob.len());
        assert_eq!(check["sha256"], HEXLOWER.encode(&Sha256::digest(&blob)));
    }
}

#[tokio::test]
async fn an_event_that_comes_again_is_checked_in_again_and_is_young_again() {
    let storage = Storage::queues_and_blobs();
    let batch = batch([wide(1, LARGE)]);
    let sink = storage.sink(|_| {});
    deliver(&sink, &batch).await;
    let first = parsed(&storage.messages().await[0]);
    let before = claimed(&storage, &first).await;
    deliver(&sink, &batch).await;
    let second = parsed(&storage.messages().await[0]);
    assert_eq!(first, second);
    let after = claimed(&storage, &second).await;
    assert_eq!(before.body, after.body);
    assert_ne!(
        before.tag, after.tag,
        "a write of its own, so by age it is new"
    );
}

#[tokio::test]
async fn no_message_names_a_blob_that_is_not_there() {
    let storage = Storage::queues_and_blobs();
    let blobs = storage.blobs.as_ref().unwrap();
    let proxy = Proxy::before(blobs);
    let connection = format!(
        "{};BlobEndpoint=http://127.0.0.1:{}/{}",
        storage.queues.queue_connection_string(),
        proxy.port,
        crate::ACCOUNT
    );
    let sink = sink(&connection, |_| {});
    let batch = batch([row(1), wide(2, LARGE)]);
    for fault in [
        Fault::Reset,
        Fault::AnswerDropped,
        Fault::Say(500, &[]),
        Fault::Say(503, &[]),
    ] {
        proxy.every("PUT", "db-claims", fault.clone());
        let verdict = deliver(&sink, &batch).await;
        proxy.heal();
        let Verdict::Partly(unaccepted) = verdict else {
            panic!("{fault:?}: {verdict:?}");
        };
        let [event] = unaccepted.as_slice() else {
            panic!("{unaccepted:?}");
        };
        assert_eq!((event.id, event.never), (batch.event_ids[1], false));
        let subject = "claim checks in db-claims of STORAGE";
        assert!(event.reason.contains(subject), "{}", event.reason);
        assert_eq!(ids(&storage.messages().await), [1], "{fault:?}");
    }
    assert_eq!(deliver(&sink, &batch).await, Verdict::Acknowledged);
}

#[tokio::test]
async fn without_a_place_for_claim_checks_a_large_event_waits_for_a_person() {
    let storage = Storage::queues();
    let sink = storage.sink(|config| config.claims = None);
    let verdict = deliver(&sink, &batch([wide(1, LARGE)])).await;
    let Verdict::Failed(failure) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(failure.kind, FailureKind::Refused);
    let expected = "STORAGE has no blob endpoint where its claim check could lie";
    assert!(failure.reason.contains(expected), "{}", failure.reason);
}

#[tokio::test]
async fn an_event_that_is_too_large_even_without_its_data_is_named_for_good() {
    let storage = Storage::queues_and_blobs();
    let types = vec![("c".repeat(70_000), "TEXT".to_owned())];
    let many = crate::batch_of(types, [row(1)]);
    let verdict = deliver(&storage.sink(|_| {}), &many).await;
    let Verdict::Failed(failure) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(failure.kind, FailureKind::TooLarge);
    let gone = Row(1, Op::Delete, "null".to_owned());
    let verdict = deliver(&storage.sink(|_| {}), &batch([gone])).await;
    assert_eq!(verdict, Verdict::Acknowledged, "and nothing else is");
}

#[tokio::test]
async fn claim_checks_that_may_not_be_written_say_which_role_is_missing() {
    let storage = Storage::queues_and_blobs();
    let queues = storage.queues.queue_connection_string();
    let blobs = &storage.blobs.as_ref().unwrap().endpoint;
    let wrong = format!(
        "AccountName={};AccountKey=Y2FuYXJ5;BlobEndpoint={blobs};QueueEndpoint={}",
        crate::ACCOUNT,
        storage.queues.endpoint
    );
    let stranger = crate::config(&wrong, |_| {}).claims;
    let sink = sink(&queues, |config| config.claims = stranger);
    let verdict = deliver(&sink, &batch([wide(1, LARGE)])).await;
    let Verdict::Failed(failure) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(failure.kind, FailureKind::Refused);
    let expected = "the account key in STORAGE is not accepted";
    assert!(failure.reason.contains(expected), "{}", failure.reason);
}
