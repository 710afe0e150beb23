//! Any columns, any rows, any page sizes: one order, nothing lost, nothing twice, every value equal
//! to what a client wrote.

use dbtick::source::open;
use proptest::prelude::*;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::fixture::{Engine, MANY_BYTES, read_all};

/// A column's type, and for each row the literal that is written and the JSON that is expected.
type Column = (&'static str, Vec<(String, Value)>);

fn text() -> impl Strategy<Value = (String, Value)> {
    "[aAbé\"\\\\' \u{1}-\u{9}😀]{0,5}"
        .prop_map(|text| (format!("'{}'", text.replace('\'', "''")), json!(text)))
}

fn number() -> impl Strategy<Value = (String, Value)> {
    "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?".prop_map(|digits| {
        let is_zero = !digits.contains(|digit: char| ('1'..='9').contains(&digit));
        let shown = if is_zero {
            digits.trim_start_matches('-').to_owned()
        } else {
            digits.clone()
        };
        (digits, json!(shown))
    })
}

fn moment() -> impl Strategy<Value = (String, Value)> {
    (
        1..=9999_u32,
        1..=12_u32,
        1..=28_u32,
        0..86_400_u32,
        0..1_000_000_u32,
    )
        .prop_map(|(year, month, day, second, micro)| {
            let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
            let text = format!(
                "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z"
            );
            (format!("'{text}'"), json!(text))
        })
}

fn double() -> impl Strategy<Value = (String, Value)> {
    any::<f64>()
        .prop_filter("JSON has no others", |value| value.is_finite())
        .prop_map(|value| (format!("'{value:e}'"), json!(value)))
}

fn single() -> impl Strategy<Value = (String, Value)> {
    any::<f32>()
        .prop_filter("JSON has no others", |value| value.is_finite())
        .prop_map(|value| (format!("'{value:e}'"), json!(format!("{value:e}"))))
}

fn nullable<S: Strategy<Value = (String, Value)>>(
    strategy: S,
) -> impl Strategy<Value = (String, Value)> {
    prop_oneof![1 => Just(("NULL".to_owned(), Value::Null)), 5 => strategy]
}

fn array() -> impl Strategy<Value = (String, Value)> {
    prop::collection::vec(
        nullable(any::<i32>().prop_map(|value| (value.to_string(), json!(value)))),
        0..4,
    )
    .prop_map(|items| {
        let (literals, values): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        (
            format!("ARRAY[{}]::int[]", literals.join(",")),
            json!(values),
        )
    })
}

fn values(of: usize, rows: usize) -> BoxedStrategy<Column> {
    fn column<S: Strategy<Value = (String, Value)> + 'static>(
        name: &'static str,
        rows: usize,
        strategy: S,
    ) -> BoxedStrategy<Column> {
        prop::collection::vec(nullable(strategy), rows)
            .prop_map(move |values| (name, values))
            .boxed()
    }
    match of {
        0 => column("text", rows, text()),
        1 => column("numeric", rows, number()),
        2 => column("timestamptz", rows, moment()),
        3 => column("float8", rows, double()),
        4 => column("float4", rows, single()),
        5 => column("int[]", rows, array()),
        6 => column(
            "int8",
            rows,
            any::<i64>().prop_map(|value| (format!("'{value}'"), json!(value.to_string()))),
        ),
        7 => column(
            "bool",
            rows,
            any::<bool>().prop_map(|value| (value.to_string(), json!(value))),
        ),
        _ => column(
            "bytea",
            rows,
            prop::collection::vec(any::<u8>(), 0..5).prop_map(|bytes| {
                let hex = data_encoding::HEXLOWER.encode(&bytes);
                (
                    format!("'\\x{hex}'"),
                    json!(data_encoding::BASE64.encode(&bytes)),
                )
            }),
        ),
    }
}

fn tables() -> impl Strategy<Value = (Vec<i64>, Vec<Column>)> {
    (0..30_usize, prop::collection::vec(0..9_usize, 1..6)).prop_flat_map(|(rows, kinds)| {
        let columns: Vec<_> = kinds.into_iter().map(|kind| values(kind, rows)).collect();
        (prop::collection::vec(-3..3_i64, rows), columns)
    })
}

async fn check(engine: &Engine, cursors: &[i64], columns: &[Column], page: usize) {
    let declared: Vec<_> = (0..)
        .zip(columns)
        .map(|(at, (sql_type, _))| format!(", \"v {at}\" {sql_type}"))
        .collect();
    let mut fixture = engine
        .fixture(&format!(
            "CREATE TABLE t (id int, c int8{})",
            declared.concat()
        ))
        .await;
    let mut expected = Vec::new();
    for (row, cursor) in cursors.iter().enumerate() {
        let mut data = json!({"id": row, "c": cursor.to_string()});
        let mut literals = String::new();
        for (at, (_, values)) in columns.iter().enumerate() {
            let (literal, value) = &values[row];
            literals += &format!(", {literal}");
            data[format!("v {at}")] = value.clone();
        }
        let sql = format!("INSERT INTO t VALUES ({row}, {cursor}{literals})");
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(fixture.postgres())
            .await
            .unwrap();
        expected.push((*cursor, row, data));
    }
    expected.sort_by_key(|(cursor, row, _)| (*cursor, *row));
    let source = open(&fixture.table("t", &["c"], &["id"]));
    let found = read_all(source.as_ref(), page, MANY_BYTES).await;
    assert_eq!(found.len(), expected.len());
    for ((_, json), (_, _, mut data)) in found.into_iter().zip(expected) {
        for (at, (sql_type, _)) in columns.iter().enumerate() {
            // A single is compared as one.
            let name = format!("v {at}");
            if *sql_type == "float4"
                && let Some(text) = data[&name].as_str()
            {
                let written: f32 = text.parse().unwrap();
                let read: f32 = json["data"][&name].to_string().parse().unwrap();
                assert_eq!(written.to_bits(), read.to_bits());
                data[&name] = json["data"][&name].clone();
            }
        }
        assert_eq!(json["data"], data);
    }
}

#[test]
fn any_columns_and_rows_come_out_as_they_were_written() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let engine = runtime.block_on(Engine::postgres());
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(25)
    };
    proptest!(config, |((cursors, columns) in tables(), page in 1_usize..9)| {
        runtime.block_on(check(&engine, &cursors, &columns, page));
    });
}
