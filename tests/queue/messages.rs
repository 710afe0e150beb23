//! What lies in the queue.

use dbtick::azure::queue::LARGEST_MESSAGE;
use dbtick::config::{MessageEncoding, Per};
use dbtick::model::page::Op;
use dbtick::sink::Verdict;
use proptest::prelude::*;
use serde_json::Value;

use crate::{Row, Storage, batch, deliver, parsed, row, validate, wide};

/// What XML, JSON and base64 might each stumble over.
const AWKWARD: &str = r#"{"note":"<a href=\"x\"> & ]]> é 𝄞 \u0000 \r\n  ￾￿ end "}"#;

#[tokio::test]
async fn each_event_is_a_message_that_decodes_to_the_promised_bytes() {
    let storage = Storage::queues();
    let batch = batch([
        Row(1, Op::Upsert, AWKWARD.to_owned()),
        Row(2, Op::Delete, "null".to_owned()),
    ]);
    let verdict = deliver(&storage.sink(|_| {}), &batch).await;
    assert_eq!(verdict, Verdict::Acknowledged);
    let mut messages = storage.messages().await;
    messages.sort_by_key(|message| parsed(message)["event"]["key"]["id"].as_i64());
    let head = format!(
        r#"{{"version":1,"poller":"orders","batch_id":"{}","attempt":1,"fence":{{"token":1,"sequence":7}},"types":{{"id":"INTEGER"}}"#,
        batch.id
    );
    let [first, second] = [batch.event_ids[0], batch.event_ids[1]];
    let expected = [
        format!(
            r#"{head},"event":{{"id":"{first}","op":"upsert","cursor":1,"key":{{"id":1}},"data":{AWKWARD}}}}}"#
        ),
        format!(
            r#"{head},"event":{{"id":"{second}","op":"delete","cursor":2,"key":{{"id":2}},"data":null}}}}"#
        ),
    ];
    let texts: Vec<String> = messages
        .iter()
        .map(|message| String::from_utf8(message.clone()).unwrap())
        .collect();
    assert_eq!(texts, expected);
    for message in &messages {
        validate("message", &parsed(message));
    }
}

#[tokio::test]
async fn text_arrives_as_the_same_json_whatever_it_holds() {
    let storage = Storage::queues();
    let batch = batch([Row(1, Op::Upsert, AWKWARD.to_owned())]);
    let sink = storage.sink(|config| config.encoding = MessageEncoding::Text);
    assert_eq!(deliver(&sink, &batch).await, Verdict::Acknowledged);
    let texts = storage.texts().await;
    let message: Value = serde_json::from_str(&texts[0]).unwrap();
    validate("message", &message);
    let data: Value = serde_json::from_str(AWKWARD).unwrap();
    assert_eq!(message["event"]["data"], data);
}

#[tokio::test]
async fn packed_messages_fit_are_batches_and_hold_every_event_once() {
    let storage = Storage::queues();
    for encoding in [MessageEncoding::Base64, MessageEncoding::Text] {
        let rows = (1..=300).map(|id| wide(id, usize::try_from(id % 7 * 300).unwrap()));
        let batch = batch(rows);
        let sink = storage.sink(|config| {
            config.per = Per::Packed;
            config.encoding = encoding;
        });
        assert_eq!(deliver(&sink, &batch).await, Verdict::Acknowledged);
        let texts = storage.texts().await;
        // Greedy: as few as there can be, and one for a bad end.
        let least = encoding_of(encoding, &batch.body) / LARGEST_MESSAGE;
        assert!(
            (least..=least + 2).contains(&texts.len()),
            "{}",
            texts.len()
        );
        let mut ids = Vec::new();
        for text in texts {
            assert!(text.len() <= LARGEST_MESSAGE, "{}", text.len());
            let json = match encoding {
                MessageEncoding::Base64 => data_encoding::BASE64.decode(text.as_bytes()).unwrap(),
                MessageEncoding::Text => text.into_bytes(),
            };
            let part = parsed(&json);
            validate("batch", &part);
            assert_eq!(part["fence"]["sequence"], 7);
            let events = part["events"].as_array().unwrap().clone();
            ids.extend(
                events
                    .iter()
                    .map(|event| event["id"].as_str().unwrap().to_owned()),
            );
        }
        ids.sort();
        let mut expected: Vec<String> = batch.event_ids.iter().map(ToString::to_string).collect();
        expected.sort();
        assert_eq!(ids, expected);
    }
}

fn encoding_of(encoding: MessageEncoding, json: &[u8]) -> usize {
    match encoding {
        MessageEncoding::Base64 => data_encoding::BASE64.encode_len(json.len()),
        MessageEncoding::Text => json.len(),
    }
}

/// One byte more or less around the limit of each form.
#[tokio::test]
async fn an_event_is_checked_in_exactly_when_it_would_not_fit() {
    let storage = Storage::queues_and_blobs();
    for (encoding, per) in [
        (MessageEncoding::Base64, Per::Event),
        (MessageEncoding::Base64, Per::Packed),
        (MessageEncoding::Text, Per::Event),
        (MessageEncoding::Text, Per::Packed),
    ] {
        let sink = storage.sink(|config| (config.encoding, config.per) = (encoding, per));
        let most = match encoding {
            MessageEncoding::Base64 => LARGEST_MESSAGE / 4 * 3,
            MessageEncoding::Text => LARGEST_MESSAGE,
        };
        let around = |bytes: usize| {
            let batch = batch([wide(1, bytes)]);
            match per {
                Per::Event => batch.message(0).len(),
                Per::Packed => batch.body.len(),
            }
        };
        let fits = most - around(0);
        for (bytes, claimed) in [(fits, false), (fits + 1, true)] {
            let batch = batch([wide(1, bytes)]);
            assert_eq!(deliver(&sink, &batch).await, Verdict::Acknowledged);
            let text = storage.texts().await.remove(0);
            assert_eq!(
                text.len() == LARGEST_MESSAGE,
                !claimed,
                "{encoding:?} {per:?}"
            );
        }
    }
}

#[tokio::test]
async fn two_versions_of_a_row_keep_their_order_while_others_overtake() {
    use crate::support::proxy::{Fault, Proxy};
    use crate::{queues_at, sink};

    let storage = Storage::queues();
    storage.queue().create().await.unwrap();
    let proxy = Proxy::before(&storage.queues);
    proxy.nth(1, "POST", "/messages", Fault::RequestHeld);
    let gone = Row(1, Op::Delete, "null".to_owned());
    let batch = batch([row(1), row(2), gone, row(3), row(4)]);
    let sink = sink(&queues_at(proxy.port), |_| {});
    let delivering = deliver(&sink, &batch);
    let meanwhile = async {
        let others = "row 2 is put, and what waits for row 1 is not";
        let done = |put: &[crate::support::proxy::Exchange]| {
            put.iter().filter(|put| put.status == Some(201)).count() == 1
        };
        proxy.until(others, done).await;
        assert_eq!(proxy.exchanges().len(), 2, "the tombstone waits");
        proxy.let_go();
    };
    let (verdict, ()) = tokio::join!(delivering, meanwhile);
    assert_eq!(verdict, Verdict::Acknowledged);
    let messages = storage.messages().await;
    let ops: Vec<String> = messages
        .iter()
        .map(|message| parsed(message)["event"].clone())
        .filter(|event| event["key"]["id"] == 1)
        .map(|event| event["op"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ops, ["upsert", "delete"]);
    assert_eq!(messages.len(), 5);
}

proptest! {
    /// The shape that the schema promises, over events of all sorts.
    #[test]
    fn every_message_is_valid_by_its_schema(notes in prop::collection::vec(".*", 1..5)) {
        let rows = notes.iter().zip(1..).map(|(note, id)| {
            let op = if id % 3 == 0 { Op::Delete } else { Op::Upsert };
            Row(id, op, serde_json::to_string(note).unwrap())
        });
        let batch = batch(rows);
        for (index, note) in notes.iter().enumerate() {
            let message = parsed(&batch.message(index));
            validate("message", &message);
            prop_assert_eq!(message["event"]["data"].as_str(), Some(note.as_str()));
        }
    }
}
