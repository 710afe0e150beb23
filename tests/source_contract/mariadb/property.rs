//! Any columns, any rows, any page sizes: what a client wrote comes out once, in order, unchanged.

use data_encoding::BASE64;
use dbtick::model::position::{Decimal, Float, Position, Scalar};
use dbtick::source::open;
use proptest::prelude::*;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::fixture::{Engine, MANY_BYTES, read};

/// A type of columns, and values for it.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Int,
    Big,
    UnsignedBig,
    Decimal,
    Double,
    Text(&'static str),
    Bytes,
}

const KINDS: [Kind; 9] = [
    Kind::Int,
    Kind::Big,
    Kind::UnsignedBig,
    Kind::Decimal,
    Kind::Double,
    Kind::Text("utf8mb4 COLLATE utf8mb4_general_ci"),
    Kind::Text("utf8mb4 COLLATE utf8mb4_bin"),
    Kind::Text("utf16"),
    Kind::Bytes,
];

impl Kind {
    fn declared(self) -> String {
        match self {
            Self::Int => "INT".into(),
            Self::Big => "BIGINT".into(),
            Self::UnsignedBig => "BIGINT UNSIGNED".into(),
            Self::Decimal => "DECIMAL(38,4)".into(),
            Self::Double => "DOUBLE".into(),
            Self::Text(set) => format!("VARCHAR(8) CHARACTER SET {set}"),
            Self::Bytes => "VARBINARY(8)".into(),
        }
    }

    fn values(self) -> BoxedStrategy<Scalar> {
        match self {
            Self::Int => prop_oneof![-2_i32..3, any::<i32>()]
                .prop_map(|value| Scalar::Integer(value.into()))
                .boxed(),
            Self::Big => prop_oneof![-2_i64..3, any::<i64>()]
                .prop_map(|value| Scalar::Integer(value.into()))
                .boxed(),
            Self::UnsignedBig => prop_oneof![0_u64..3, any::<u64>()]
                .prop_map(|value| Scalar::Integer(value.into()))
                .boxed(),
            Self::Decimal => (any::<i64>(), 0_u32..10_000)
                .prop_map(|(whole, part)| {
                    Scalar::Decimal(Decimal::parse(&format!("{whole}.{part:04}")).unwrap())
                })
                .boxed(),
            Self::Double => prop_oneof![Just(0.1), Just(-0.1), -1e300..1e300_f64]
                .prop_map(|value| Scalar::Float(Float::new(value)))
                .boxed(),
            Self::Text(_) => "[aAbé\\x00\t 😀]{0,3}".prop_map(Scalar::Text).boxed(),
            Self::Bytes => prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..3)
                .prop_map(Scalar::Bytes)
                .boxed(),
        }
    }

    fn expected(self, scalar: &Scalar) -> Value {
        match (self, scalar) {
            (Self::Int, Scalar::Integer(value)) => json!(i64::try_from(*value).unwrap()),
            (_, Scalar::Integer(value)) => json!(value.to_string()),
            (_, Scalar::Decimal(value)) => {
                let text = value.to_string();
                let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
                json!(format!("{whole}.{part:0<4}"))
            }
            (_, Scalar::Float(value)) => json!(value.get()),
            (_, Scalar::Text(value)) => json!(value),
            (_, Scalar::Bytes(value)) => json!(BASE64.encode(value)),
            (_, Scalar::Moment(_)) => unreachable!("no kind makes moments"),
        }
    }
}

type Rows = Vec<(Scalar, Scalar)>;

fn tables() -> impl Strategy<Value = (Kind, Kind, Rows)> {
    let kind = || prop::sample::select(KINDS.to_vec());
    (kind(), kind()).prop_flat_map(|(cursor, data)| {
        let rows = prop::collection::vec((cursor.values(), data.values()), 0..40);
        (Just(cursor), Just(data), rows)
    })
}

async fn check(engine: &Engine, (cursor, data, rows): (Kind, Kind, Rows), pages: Vec<usize>) {
    let mut fixture = engine
        .fixture(&format!(
            "CREATE TABLE t (id INT PRIMARY KEY, c {} NOT NULL, d {}, INDEX (c, id))",
            cursor.declared(),
            data.declared()
        ))
        .await;
    let mut expected = Vec::new();
    for (id, (one, other)) in (1_i32..).zip(&rows) {
        let mut insert = sqlx::query(AssertSqlSafe("INSERT INTO t VALUES (?, ?, ?)")).bind(id);
        for scalar in [one, other] {
            insert = match scalar.clone() {
                Scalar::Bytes(value) => insert.bind(value),
                Scalar::Float(value) => insert.bind(value.get()),
                other => insert.bind(other.to_string()),
            };
        }
        insert.execute(fixture.mysql()).await.unwrap();
        let position = Position::new(vec![one.clone()], vec![Scalar::Integer(id.into())]);
        let row = json!({"id": id, "c": cursor.expected(one), "d": data.expected(other)});
        expected.push((position, row));
    }
    expected.sort_by(|one, other| one.0.cmp(&other.0));

    let source = open(&fixture.table("t", &["c"], &["id"]));
    let mut found: Vec<(Position, Value)> = Vec::new();
    for rows in pages.into_iter().cycle() {
        let after = found.last().map(|(position, _)| position.clone());
        let page = read(source.as_ref(), after.as_ref(), rows, MANY_BYTES)
            .await
            .unwrap();
        for event in page.page.events() {
            let json: Value = serde_json::from_slice(page.page.json(event)).unwrap();
            found.push((event.position.clone(), json["data"].clone()));
        }
        if page.end {
            break;
        }
    }
    assert_eq!(found, expected);
}

#[test]
fn any_rows_come_out_once_in_order_and_unchanged() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let engine = runtime.block_on(super::engine());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(40)
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let cases = (tables(), prop::collection::vec(1_usize..9, 1..4));
    runner
        .run(&cases, |(table, pages)| {
            runtime.block_on(check(&engine, table, pages));
            Ok(())
        })
        .unwrap();
}
