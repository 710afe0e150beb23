//! Every ordered type as cursor and as key: pages of one row, positions through their document.

use dbtick::model::position::{Position, Scalar};
use serde_json::{Value, json};

use crate::fixture::{Fixture, MANY_BYTES, column, find, found_again, open, read};

/// In this order, none of them twice.
fn cases() -> Vec<(&'static str, Vec<&'static str>)> {
    vec![
        ("TINYINT", vec!["-128", "-1", "0", "127"]),
        ("INT UNSIGNED", vec!["0", "1", "4294967295"]),
        (
            "BIGINT",
            vec![
                "-9223372036854775808",
                "-1",
                "9007199254740993",
                "9223372036854775807",
            ],
        ),
        (
            "BIGINT UNSIGNED",
            vec![
                "0",
                "9223372036854775807",
                "9223372036854775808",
                "18446744073709551615",
            ],
        ),
        (
            "DECIMAL(10,3)",
            vec!["-1.001", "-1.000", "0", "0.001", "9", "10.000"],
        ),
        (
            "DECIMAL(65,30)",
            vec![
                "12345678901234567890123456789012345.123456789012345678901234567889",
                "12345678901234567890123456789012345.123456789012345678901234567890",
            ],
        ),
        (
            "DECIMAL(65,0)",
            vec![
                "-1",
                "99999999999999999999999999999999999999999999999999999999999999998",
                "99999999999999999999999999999999999999999999999999999999999999999",
            ],
        ),
        (
            "DOUBLE",
            vec![
                "-1e308",
                "-0.1",
                "0",
                "1e-300",
                "0.1",
                "0.30000000000000004",
            ],
        ),
        ("BIT(1)", vec!["0", "1"]),
        (
            "BIT(64)",
            vec!["0", "9223372036854775807", "18446744073709551615"],
        ),
        ("YEAR", vec!["0", "1901", "1970", "2069", "2070", "2155"]),
        (
            "DATE",
            vec![
                "'0000-00-00'",
                "'0001-01-01'",
                "'2026-00-15'",
                "'2026-01-00'",
                "'2026-01-01'",
                "'9999-12-31'",
            ],
        ),
        (
            "DATETIME",
            vec![
                "'0000-00-00 00:00:00'",
                "'2026-02-28 23:59:59'",
                "'2026-03-01 00:00:00'",
            ],
        ),
        (
            "DATETIME(3)",
            vec![
                "'2026-01-01 00:00:00.001'",
                "'2026-01-01 00:00:00.010'",
                "'2026-01-01 00:00:00.999'",
            ],
        ),
        (
            "DATETIME(6)",
            vec![
                "'2026-01-01 00:00:00'",
                "'2026-01-01 00:00:00.000001'",
                "'2026-01-01 00:00:00.999999'",
                "'2026-01-01 00:00:01'",
            ],
        ),
        (
            "TIMESTAMP",
            vec![
                "'0000-00-00 00:00:00'",
                "'1970-01-01 00:00:01'",
                "'2026-03-29 01:30:00'",
                "'2026-03-29 02:30:00'",
                "'2026-10-25 02:30:00'",
            ],
        ),
        (
            "TIMESTAMP(6)",
            vec![
                "'2026-01-01 00:00:00.000001'",
                "'2026-01-01 00:00:00.000002'",
                "'2038-01-19 03:14:07.999999'",
            ],
        ),
        (
            "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin",
            without_nul(),
        ),
        (
            "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
            TEXT.to_vec(),
        ),
        (
            "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            TEXT.to_vec(),
        ),
        (
            "VARCHAR(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
            TEXT.to_vec(),
        ),
        ("VARCHAR(9) CHARACTER SET utf16", TEXT.to_vec()),
        (
            "VARCHAR(9) CHARACTER SET latin1",
            vec!["''", "'A'", "'a'", "'é'", "'ÿ'", "'€'"],
        ),
        (
            "CHAR(4) CHARACTER SET ascii",
            vec!["''", "'10'", "'9'", "'A'", "'a'"],
        ),
        ("TEXT CHARACTER SET utf8mb4", TEXT.to_vec()),
        (
            "VARBINARY(9)",
            vec!["''", "x'00'", "x'0000'", "x'20'", "x'41'", "x'61'", "x'ff'"],
        ),
        (
            "BINARY(2)",
            vec!["x'0000'", "x'0001'", "x'2020'", "x'ff00'"],
        ),
        (
            "UUID",
            vec![
                "'00000000-ffff-1000-8000-000000000001'",
                "'00000000-ffff-1000-8000-000000000002'",
                "'ffffffff-0000-1000-8000-000000000001'",
            ],
        ),
        ("INET6", vec!["'1::'", "'::1'", "'::2'"]),
    ]
}

/// By byte; collations take many of them for equal, or in another order.
const TEXT: [&str; 14] = [
    "''", "'\\0'", "' '", "'A'", "'B'", "'a'", "'a\\t'", "'a '", "'aa'", "'b'", "'ß'", "'é'",
    "'😀'", "'😀 '",
];

/// The server sorts `''` and `'\0'` as equal in this collation.
fn without_nul() -> Vec<&'static str> {
    let texts = TEXT.into_iter();
    texts.filter(|text| *text != "'\\0'").collect()
}

#[tokio::test]
async fn every_ordered_type_is_read_in_order_over_pages_of_one() {
    let engine = super::engine().await;
    let mut fixture = engine.fixture("SET sql_mode = 'ALLOW_INVALID_DATES'").await;
    for (declared, literals) in cases() {
        let nullable = if declared.starts_with("TIMESTAMP") {
            "NOT NULL DEFAULT 0"
        } else {
            "NOT NULL"
        };
        // Neither the order of insertion nor that of the ids is the one that is asked for.
        let rows: Vec<_> = literals
            .iter()
            .enumerate()
            .rev()
            .map(|(at, literal)| format!("({}, {literal}, {literal}, 7)", 100 - at))
            .collect();
        fixture
            .run(&format!(
                "SET NAMES utf8mb4; DROP TABLE IF EXISTS t;
                 CREATE TABLE t (id INT PRIMARY KEY, c {declared} {nullable}, k {declared} {nullable}, s INT NOT NULL);
                 INSERT INTO t VALUES {}",
                rows.join(", ")
            ))
            .await;
        let expected: Vec<_> = (0..literals.len()).map(|at| json!(100 - at)).collect();
        for (cursor, key) in [("c", "id"), ("s", "k"), ("c", "k")] {
            let found = paged(&fixture, cursor, key).await;
            assert_eq!(found, expected, "{declared} as {cursor}, {key}");
        }
    }
}

/// Reads row by row; each position goes through its document, and a new source goes on behind it.
async fn paged(fixture: &Fixture, cursor: &str, key: &str) -> Vec<Value> {
    let config = fixture.table("t", &[cursor], &[key]);
    let source = open(&config);
    let mut after: Option<Position> = None;
    let mut found = Vec::new();
    loop {
        let page = read(source.as_ref(), after.as_ref(), 1, MANY_BYTES)
            .await
            .unwrap();
        found_again(source.as_ref(), &page).await;
        for event in page.page.events() {
            let json: Value = serde_json::from_slice(page.page.json(event)).unwrap();
            found.push(json["data"]["id"].clone());
            assert_eq!(event.position, stored(&event.position));
        }
        if page.end {
            break;
        }
        after = page.page.last_position().map(stored);
    }
    if let Some(last) = source.last(None).await.unwrap() {
        let behind = read(source.as_ref(), Some(&last), 1, MANY_BYTES)
            .await
            .unwrap();
        assert!(behind.end && behind.page.is_empty());
    }
    found
}

fn stored(position: &Position) -> Position {
    let through = |scalars: &[Scalar]| -> Vec<Scalar> {
        let each = scalars.iter();
        each.map(|scalar| Scalar::from_json(&scalar.to_json(), scalar.scalar_type()).unwrap())
            .collect()
    };
    Position::new(through(position.cursor()), through(position.key()))
}

#[tokio::test]
async fn ties_with_keys_of_text_are_neither_lost_nor_repeated() {
    let engine = super::engine().await;
    let fixture = engine
        .fixture(
            "CREATE TABLE t (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin PRIMARY KEY, c DATETIME(6) NOT NULL, u UUID NOT NULL, s VARCHAR(20) COLLATE latin1_swedish_ci NOT NULL, n INT NOT NULL, INDEX (c), INDEX (c, n));
             INSERT INTO t SELECT concat(if(seq % 2, 'K', 'k'), seq), '2026-01-01', uuid(), concat(if(seq % 3, 'K', 'k'), seq), seq DIV 100 FROM seq_1_to_1000;
             INSERT INTO t SELECT concat('x', seq), date_add('2026-01-01', INTERVAL seq DIV 3 SECOND), uuid(), concat('x', seq), 5 FROM seq_1_to_1000",
        )
        .await;
    for key in [&["k"] as &[&str], &["u"], &["s"], &["n", "s"]] {
        let mut config = fixture.table("t", &["c"], key);
        config.columns = Some(vec!["k".into()]);
        let found = column(&config, 70, "k").await;
        let mut once = found.clone();
        once.sort_by_key(Value::to_string);
        once.dedup();
        assert_eq!((found.len(), once.len()), (2000, 2000), "{key:?}");
    }
}

/// A server refuses to compare a column with letters that it cannot hold, and nothing else is there.
#[tokio::test]
async fn text_that_a_column_cannot_hold_is_nowhere() {
    let engine = super::engine().await;
    let mut fixture = engine.fixture("SET NAMES utf8mb4").await;
    for (set, stored) in [
        ("ascii", "a"),
        ("latin1", "é"),
        ("latin1", "€"),
        ("utf8mb3", "ж"),
        ("cp932", "ж"),
        ("utf16", "😀"),
        ("utf8mb4", "😀"),
    ] {
        fixture
            .run(&format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (k VARCHAR(9) CHARACTER SET {set} NOT NULL, n INT NOT NULL, PRIMARY KEY (k));
                 INSERT INTO t VALUES ('{stored}', 1)"
            ))
            .await;
        let source = open(&fixture.table("t", &["n"], &["k"]));
        for sought in ["a", "é", "€", "\u{80}", "ж", "😀", "?", "A"] {
            let key = vec![Scalar::Text(sought.to_owned())];
            let at = Position::new(vec![Scalar::Integer(1)], key);
            let found = find(source.as_ref(), &at).await.unwrap();
            let expected = usize::from(sought == stored);
            assert_eq!(found.page.len(), expected, "{sought} in {set} {stored}");
        }
    }
}
