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
fn a_page_takes_a_row_that_fits_to_the_byte() {
    let row = sizes(&page_of(&[(1, String::new())]))[0];
    for (bytes, expected) in [(2 * row, Taken::Yes), (2 * row - 1, Taken::NoRoom)] {
        let mut writer = PageWriter::new("orders", 10, bytes);
        let taken = [0, 1].map(|at| add(&mut writer, at, (1, "")));
        assert_eq!(taken, [Taken::Yes, expected]);
    }
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

fn add(writer: &mut PageWriter, at: usize, (place, text): (i64, &str)) -> Taken {
    let scalar = || vec![Scalar::Integer(place.into())];
    let text = Value::from(format!("{at} {text}")).to_string();
    writer.push(
        Op::Upsert,
        Position::new(scalar(), scalar()),
        |out| out.extend_from_slice(b"0"),
        |out| out.extend_from_slice(b"{}"),
        |out| out.extend_from_slice(text.as_bytes()),
    )
}

/// Rows at these places, in order; what is at one place stays together.
fn page_of(places: &[(i64, String)]) -> Page {
    let mut writer = PageWriter::new("orders", 1000, 1 << 20);
    for (at, (place, text)) in places.iter().enumerate() {
        add(&mut writer, at, (*place, text));
    }
    writer.finish()
}

fn sizes(page: &Page) -> Vec<usize> {
    let events = page.events().iter();
    events.map(|event| page.json(event).len()).collect()
}

proptest! {
    /// A5.
    #[test]
    fn batches_of_a_page_are_all_of_it_in_order_as_large_as_they_may_be(
        mut places in proptest::collection::vec((0_i64..12, "[a-z]{0,40}"), 1..25),
        max_rows in 1_usize..8,
        max_bytes in 1_usize..600,
    ) {
        places.sort();
        let whole = page_of(&places);
        let batches = whole.clone().into_batches(max_rows, max_bytes);
        prop_assert!(batches.len() <= places.len());
        let text = |page: &Page| -> Vec<Vec<u8>> {
            page.events().iter().map(|event| page.json(event).to_vec()).collect()
        };
        prop_assert_eq!(batches.iter().flat_map(text).collect::<Vec<_>>(), text(&whole));
        for (batch, next) in batches.iter().zip(batches.iter().skip(1).map(Some).chain([None])) {
            let first = &batch.events()[0].position;
            let last = batch.last_position().unwrap();
            // What makes it larger than it may be can only be one place.
            let without = batch.events().iter().take_while(|event| event.position != *last).count();
            prop_assert!(without <= max_rows.saturating_sub(1));
            prop_assert!(sizes(batch)[..without].iter().sum::<usize>() <= max_bytes);
            let fits = batch.len() <= max_rows && sizes(batch).iter().sum::<usize>() <= max_bytes;
            let begun = batch.events()[without..].len() > 1 || first == last;
            prop_assert!(fits || begun, "{} rows of {:?} bytes", batch.len(), sizes(batch));
            if let Some(next) = next {
                prop_assert!(last < &next.events()[0].position, "one place was parted");
                let one_more = sizes(batch).iter().sum::<usize>() + sizes(next)[0];
                prop_assert!(batch.len() + 1 > max_rows || one_more > max_bytes);
            }
        }
    }
}

#[test]
fn a_batch_has_as_many_rows_and_bytes_as_it_may_and_not_one_more() {
    let rows: Vec<_> = (1..=6).map(|place| (place, String::new())).collect();
    let row = sizes(&page_of(&rows))[0];
    for (max_rows, max_bytes, expected) in [
        (4, usize::MAX, 4),
        (6, usize::MAX, 6),
        (9, usize::MAX, 6),
        (6, 3 * row, 3),
        (6, 3 * row - 1, 2),
        (6, 1, 1),
    ] {
        let batches = page_of(&rows).into_batches(max_rows, max_bytes);
        let all: usize = batches.iter().map(Page::len).sum();
        assert_eq!((batches[0].len(), all), (expected, 6));
    }
}

#[test]
fn a_row_and_its_tombstone_are_one_batch_even_if_it_is_full() {
    let rows = [1, 2, 2, 2, 3].map(|place| (place, String::new()));
    let batches = page_of(&rows).into_batches(2, usize::MAX);
    assert_eq!(batches.iter().map(Page::len).collect::<Vec<_>>(), [4, 1]);
}

#[test]
fn a_page_takes_another_behind_it_up_to_its_limits_and_not_beyond() {
    let rows: Vec<_> = (1..=3).map(|place| (place, "x".to_owned())).collect();
    let row = sizes(&page_of(&rows))[0];
    let more: Vec<_> = (4..=5).map(|place| (place, "y".to_owned())).collect();
    for (max_rows, max_bytes, joined) in [
        (5, 5 * row, true),
        (4, 5 * row, false),
        (5, 5 * row - 1, false),
    ] {
        let (mut page, other) = (page_of(&rows), page_of(&more));
        let expected: Vec<_> = [&page, &other]
            .iter()
            .flat_map(|page| page.events().iter().map(|event| page.json(event).to_vec()))
            .collect();
        match page.append(other, max_rows, max_bytes) {
            Ok(()) => assert!(joined, "{max_rows} rows of {max_bytes} bytes"),
            Err(other) => {
                assert!(!joined, "{max_rows} rows of {max_bytes} bytes");
                page.join(other);
            }
        }
        let events = page.events().iter();
        let found: Vec<_> = events.map(|event| page.json(event).to_vec()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn what_is_cut_off_begins_with_the_first_that_does_not_pass() {
    let rows = [1, 2, 3, 4].map(|place| (place, String::new()));
    let mut page = page_of(&rows);
    let three = page.events()[2].position.clone();
    let last = page.events()[3].position.clone();
    let cut = page.cut(|place| *place != three);
    assert_eq!(cut, [three, last], "what is behind it goes with it");
    assert_eq!(page.len(), 2);
}

#[test]
fn what_is_at_one_place_stays_together_in_the_beginning_of_a_page() {
    let page = page_of(&[1, 1, 2, 3].map(|place| (place, String::new())));
    let lengths = [0, 1, 2, 3, 4, 5].map(|most| page.clone().beginning(most).len());
    assert_eq!(lengths, [0, 2, 2, 3, 4, 4]);
}

fn half() -> Shard {
    Shard::parse("orders.0of2").unwrap().1
}

/// The rows 1 to `rows` as one of two shards reads them, and which of them are its own.
fn page_of_a_shard(rows: i64) -> (Page, Vec<i64>) {
    let mut writer = PageWriter::new("orders", 100, 1 << 20).only(half());
    assert!(writer.is_empty());
    for row in 1..=rows {
        assert_eq!(push(&mut writer, Op::Upsert, row, "x"), Taken::Yes);
        assert!(!writer.is_empty(), "a row of another shard was read too");
    }
    let own = (1..=rows).filter(|row| half().holds(&[Scalar::Integer((*row).into())]));
    (writer.finish(), own.collect())
}

fn rows<'a>(places: impl IntoIterator<Item = &'a Position>) -> Vec<i64> {
    let row = |place: &Position| match place.key() {
        [Scalar::Integer(row)] => i64::try_from(*row).unwrap(),
        other => panic!("{other:?}"),
    };
    places.into_iter().map(row).collect()
}

fn own(page: &Page) -> Vec<i64> {
    rows(page.events().iter().map(|event| &event.position))
}

#[test]
fn a_page_of_a_shard_has_its_own_rows_and_knows_where_the_others_are() {
    let all: Vec<i64> = (1..=20).collect();
    let mut lasts = [false; 2];
    for end in 1..=20 {
        let (page, expected) = page_of_a_shard(end);
        assert_eq!(own(&page), expected);
        assert_eq!(page.foreign(), page.places().count() - expected.len());
        assert_eq!(rows(page.places()), all[..usize::try_from(end).unwrap()]);
        assert_eq!(rows(page.reached()), [end]);
        lasts[usize::from(expected.last() == Some(&end))] = true;
    }
    assert_eq!(lasts, [true; 2], "rows of both shards have been the last");
}

#[test]
fn a_page_of_a_shard_is_cut_at_a_row_of_any_shard() {
    for first in 1..=20 {
        let (mut page, expected) = page_of_a_shard(20);
        let mut cut = rows(&page.cut(|place| rows([place])[0] != first));
        cut.sort_unstable();
        assert_eq!(cut, (first..=20).collect::<Vec<_>>());
        assert_eq!(rows(page.places()), (1..first).collect::<Vec<_>>());
        let left = expected.into_iter().filter(|row| *row < first);
        assert_eq!(own(&page), left.collect::<Vec<_>>());
    }
}

#[test]
fn a_page_is_full_by_its_own_rows_or_by_what_was_read_for_it() {
    let mut whole = PageWriter::new("orders", 3, 1 << 20);
    let mut shard = PageWriter::new("orders", 3, 1 << 20).only(half());
    assert_eq!((whole.most_read(), shard.most_read()), (3, 6));
    let foreign = (1..).filter(|row| !half().holds(&[Scalar::Integer((*row).into())]));
    for (before, row) in foreign.take(6).enumerate() {
        assert_eq!(whole.is_full(), before >= 3, "{before} rows");
        assert!(!shard.is_full(), "{before} rows");
        push(&mut whole, Op::Upsert, row, "x");
        push(&mut shard, Op::Upsert, row, "x");
    }
    assert!(shard.is_full());
    assert!(shard.finish().is_empty());
}

#[test]
fn what_was_sent_is_left_out_and_the_rest_stays_as_it_was() {
    let page = page_of(&[1, 2, 3].map(|place| (place, String::new())));
    assert!(!page.is_empty());
    let [one, two, three] = [0, 1, 2].map(|at| page.events()[at].id);
    let left = page.clone().without(|id| *id == two).into_events();
    assert_eq!(
        left.iter().map(|event| event.id).collect::<Vec<_>>(),
        [one, three]
    );
    let nothing = page.without(|_| true);
    assert_eq!((nothing.is_empty(), nothing.len()), (true, 0));
}

#[test]
fn a_page_without_its_bytes_keeps_its_places_and_no_room() {
    let mut page = page_of(&[(1, "x".repeat(1000))]);
    page.drop_bytes();
    assert_eq!((own(&page), page.bytes.len()), (vec![1], 0));
}
