use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::model::position::Scalar;

fn push(writer: &mut PageWriter, op: Op, id: i64, text: &str) -> Taken {
    let value = Value::from(text).to_string();
    writer.push(
        op,
        Position::new(
            vec![Scalar::Integer(id.into())],
            vec![Scalar::Integer(id.into())],
        ),
        |out| out.extend_from_slice(id.to_string().as_bytes()),
        |out| out.extend_from_slice(format!("{{\"id\":{id}}}").as_bytes()),
        |out| out.extend_from_slice(format!("{{\"text\":{value}}}").as_bytes()),
    )
}

fn id_of(events_as: &str, op: Op, id: i64, text: &str) -> EventId {
    let mut writer = PageWriter::new(events_as, 10, 1 << 20);
    push(&mut writer, op, id, text);
    writer.finish().events()[0].id
}

#[test]
fn an_event_carries_its_own_id_in_its_json() {
    let mut writer = PageWriter::new("orders", 10, 1 << 20);
    push(&mut writer, Op::Upsert, 7, "x");
    let page = writer.finish();
    let event = &page.events()[0];
    let value: Value = serde_json::from_slice(page.json(event)).unwrap();
    assert_eq!(
        value,
        json!({
            "id": event.id.to_string(), "op": "upsert", "cursor": 7,
            "key": { "id": 7 }, "data": { "text": "x" },
        })
    );
    assert_eq!(EventId::parse(&event.id.to_string()), Some(event.id));
}

#[test]
fn the_id_differs_with_poller_op_key_and_content() {
    let base = id_of("orders", Op::Upsert, 7, "x");
    for other in [
        id_of("invoices", Op::Upsert, 7, "x"),
        id_of("orders", Op::Delete, 7, "x"),
        id_of("orders", Op::Upsert, 8, "x"),
        id_of("orders", Op::Upsert, 7, "y"),
    ] {
        assert_ne!(base, other);
    }
}

proptest! {
    #[test]
    fn the_same_row_has_the_same_id_wherever_it_stands_in_a_page(
        rows in proptest::collection::vec((any::<i64>(), any::<String>()), 1..20),
    ) {
        let mut writer = PageWriter::new("orders", 100, 1 << 20);
        for (id, text) in &rows {
            push(&mut writer, Op::Upsert, *id, text);
        }
        let page = writer.finish();
        for (event, (id, text)) in page.events().iter().zip(&rows) {
            prop_assert_eq!(event.id, id_of("orders", Op::Upsert, *id, text));
        }
    }
}

#[test]
fn keys_that_look_alike_in_json_have_different_ids() {
    let id = |key: Scalar| {
        let mut writer = PageWriter::new("orders", 10, 1 << 20);
        writer.push(
            Op::Upsert,
            Position::new(vec![Scalar::Integer(1)], vec![key]),
            |out| out.push(b'1'),
            |out| out.extend_from_slice(b"{\"id\":\"MQ==\"}"),
            |out| out.extend_from_slice(b"{}"),
        );
        writer.finish().events()[0].id
    };
    assert_ne!(
        id(Scalar::Text("MQ==".to_owned())),
        id(Scalar::Bytes(b"1".to_vec()))
    );
}

#[test]
fn a_row_that_does_not_fit_waits_for_the_next_page() {
    let mut writer = PageWriter::new("orders", 10, 200);
    assert_eq!(push(&mut writer, Op::Upsert, 1, "short"), Taken::Yes);
    assert_eq!(
        push(&mut writer, Op::Upsert, 2, &"long".repeat(50)),
        Taken::NoRoom
    );
    let page = writer.finish();
    assert_eq!(page.len(), 1);
    assert_eq!(page.last_position().unwrap().key(), [Scalar::Integer(1)]);
}

#[test]
fn a_row_larger_than_a_page_gets_a_page_of_its_own() {
    let mut writer = PageWriter::new("orders", 10, 50);
    assert_eq!(
        push(&mut writer, Op::Upsert, 1, &"long".repeat(50)),
        Taken::Yes
    );
    assert!(writer.is_full());
}
