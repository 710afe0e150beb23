use serde_json::{Value, json};

use super::*;
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};

/// An upsert, a deletion with its row, a deletion of which only the key is left.
fn batch() -> Batch {
    let mut writer = PageWriter::new("orders", 10, 1 << 20);
    for (number, op, key, data) in [
        (
            1_i64,
            Op::Upsert,
            r#"{"id":"a\"é"}"#,
            r#"{"n": 1.10, "n": 12345678901234567890}"#,
        ),
        (2, Op::Delete, r#"{"id":2}"#, r#"{"id":2,"gone":true}"#),
        (3, Op::Delete, r#"{"id":3}"#, "null"),
    ] {
        let at = || vec![Scalar::Integer(number.into())];
        writer.push(
            op,
            Position::new(at(), at()),
            |out| out.extend_from_slice(number.to_string().as_bytes()),
            |out| out.extend_from_slice(key.as_bytes()),
            |out| out.extend_from_slice(data.as_bytes()),
        );
    }
    let fence = Fence {
        token: FencingToken::default().at_least(7),
        sequence: 3,
        shard: None,
    };
    Batch::assemble("orders", &[], &writer.finish(), fence, 1, None)
}

fn parsed(batch: &Batch, envelope: Envelope) -> Value {
    serde_json::from_slice(batch.body_in(envelope)).unwrap()
}

#[test]
fn cloudevents_carry_the_native_events() {
    let batch = batch();
    let native = parsed(&batch, Envelope::Native);
    let events = parsed(&batch, Envelope::CloudEvents);
    for (index, kind) in ["upsert", "delete", "delete"].iter().enumerate() {
        let event = &native["events"][index];
        assert_eq!(
            events[index],
            json!({
                "specversion": "1.0", "id": event["id"], "source": "/dbtick/orders",
                "type": format!("dbtick.row.{kind}"), "subject": event["key"].to_string(),
                "datacontenttype": "application/json", "poller": "orders",
                "batchid": batch.id.as_str(), "fencetoken": "7", "fencesequence": "3",
                "data": event
            })
        );
    }
    assert_eq!(events.as_array().unwrap().len(), 3);
}

#[test]
fn readers_of_debezium_find_what_a_poller_knows() {
    let batch = batch();
    let native = parsed(&batch, Envelope::Native);
    let found = parsed(&batch, Envelope::Debezium);
    let event = |index: usize, before: Value, after: Value, op: &str| {
        let native = &native["events"][index];
        json!({
            "id": native["id"], "key": native["key"],
            "payload": { "before": before, "after": after, "op": op,
                         "source": { "connector": "dbtick", "name": "orders" } }
        })
    };
    let row = native["events"][0]["data"].clone();
    assert_eq!(
        found,
        json!({
            "batch_id": batch.id.as_str(), "fence": { "token": 7, "sequence": 3 },
            "events": [
                event(0, Value::Null, row, "u"),
                event(1, json!({ "id": 2 }), Value::Null, "d"),
                event(2, json!({ "id": 3 }), Value::Null, "d"),
            ]
        })
    );
}

#[test]
fn every_envelope_holds_the_very_bytes_of_the_rows_and_is_made_once() {
    let batch = batch();
    for envelope in [Envelope::Native, Envelope::CloudEvents, Envelope::Debezium] {
        let body = batch.body_in(envelope);
        let text = std::str::from_utf8(body).unwrap();
        assert!(
            text.contains(r#"{"n": 1.10, "n": 12345678901234567890}"#),
            "{text}"
        );
        assert_eq!(body.as_ptr(), batch.body_in(envelope).as_ptr());
    }
}
