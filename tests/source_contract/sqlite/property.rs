//! Any rows, any page sizes: one order, nothing lost, nothing twice.

use data_encoding::BASE64;
use dbtick::model::position::{Position, Scalar};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::{Engine, MANY_BYTES, Writer, found_again, open, read};

fn integers() -> impl Strategy<Value = Scalar> {
    prop_oneof![-2_i64..3, any::<i64>()].prop_map(|value| Scalar::Integer(value.into()))
}

fn texts() -> impl Strategy<Value = Scalar> {
    "[aAbé\0\"]{0,2}".prop_map(Scalar::Text)
}

fn blobs() -> impl Strategy<Value = Scalar> {
    prop::collection::vec(any::<u8>(), 0..3).prop_map(Scalar::Bytes)
}

fn anything() -> impl Strategy<Value = Scalar> {
    prop_oneof![integers(), texts(), blobs()]
}

/// A cursor column has one type, the others have any.
fn rows() -> impl Strategy<Value = Vec<(Scalar, Scalar)>> {
    fn of(cursor: impl Strategy<Value = Scalar>) -> impl Strategy<Value = Vec<(Scalar, Scalar)>> {
        prop::collection::vec((cursor, anything()), 0..40)
    }
    prop_oneof![of(integers()), of(texts()), of(blobs())]
}

fn expected(scalar: &Scalar) -> Value {
    match scalar {
        Scalar::Integer(value) => json!(i64::try_from(*value).unwrap()),
        Scalar::Text(value) => json!(value),
        Scalar::Bytes(value) => json!(BASE64.encode(value)),
        other => unreachable!("{other} is not a value of SQLite"),
    }
}

async fn check(rows: Vec<(Scalar, Scalar)>, pages: Vec<usize>) {
    let mut fixture = Engine::Sqlite
        .fixture("CREATE TABLE t (id INTEGER PRIMARY KEY, c, d)")
        .await;
    let mut positions = Vec::new();
    for (id, (cursor, data)) in (1_i64..).zip(&rows) {
        let mut insert = sqlx::query("INSERT INTO t VALUES (?1, ?2, ?3)").bind(id);
        for scalar in [cursor, data] {
            insert = match scalar.clone() {
                Scalar::Integer(value) => insert.bind(i64::try_from(value).unwrap()),
                Scalar::Text(value) => insert.bind(value),
                Scalar::Bytes(value) => insert.bind(value),
                other => unreachable!("{other} is not a value of SQLite"),
            };
        }
        let Writer::Sqlite(writer) = &mut fixture.writer else {
            unreachable!("the fixture is one of SQLite");
        };
        insert.execute(writer).await.unwrap();
        let position = Position::new(vec![cursor.clone()], vec![Scalar::Integer(id.into())]);
        let data = json!({"id": id, "c": expected(cursor), "d": expected(data)});
        positions.push((position, data));
    }
    positions.sort_by(|one, other| one.0.cmp(&other.0));

    let source = open(&fixture.table("t", &["c"], &["id"]));
    let mut found: Vec<(Position, Value)> = Vec::new();
    for rows in pages.into_iter().cycle() {
        let after = found.last().map(|(position, _)| position.clone());
        let page = read(source.as_ref(), after.as_ref(), rows, MANY_BYTES)
            .await
            .unwrap();
        found_again(source.as_ref(), &page).await;
        for event in page.page.events() {
            let json: Value = serde_json::from_slice(page.page.json(event)).unwrap();
            assert_eq!(json["cursor"], json["data"]["c"]);
            assert_eq!(json["key"], json!({"id": json["data"]["id"]}));
            found.push((event.position.clone(), json["data"].clone()));
        }
        if page.end {
            break;
        }
    }
    assert_eq!(found, positions);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    #[test]
    fn any_rows_come_out_once_in_order_and_unchanged(
        rows in rows(),
        pages in prop::collection::vec(1_usize..9, 1..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(check(rows, pages));
    }
}
