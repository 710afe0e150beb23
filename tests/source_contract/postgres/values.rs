//! Values: what a literal of SQL looks like in JSON, and as a cursor.

use dbtick::model::position::Position;
use dbtick::source::open;
use serde_json::Value;

use crate::fixture::Engine;
use crate::fixture::{Fixture, MANY_BYTES, column, read, read_all};

/// Types, and pairs of a literal and the JSON that is sent for it.
type Cases = &'static [(&'static str, &'static [(&'static str, &'static str)])];

const NUMBERS: Cases = &[
    (
        "boolean",
        &[("true", "true"), ("false", "false"), ("NULL", "null")],
    ),
    ("smallint", &[("-32768", "-32768"), ("32767", "32767")]),
    ("integer", &[("-2147483648", "-2147483648")]),
    (
        "bigint",
        &[
            ("1", r#""1""#),
            ("9223372036854775807", r#""9223372036854775807""#),
        ],
    ),
    ("oid", &[("4294967295", "4294967295")]),
    (
        "xid8",
        &[("'18446744073709551615'", r#""18446744073709551615""#)],
    ),
    (
        "real",
        &[
            ("0.1", "0.1"),
            ("16777217", "16777216.0"),
            ("'NaN'", r#""NaN""#),
            ("'-Infinity'", r#""-Infinity""#),
        ],
    ),
    (
        "double precision",
        &[
            ("0.1", "0.1"),
            ("1e300", "1e+300"),
            ("5e-324", "5e-324"),
            ("'Infinity'", r#""Infinity""#),
        ],
    ),
    (
        "numeric",
        &[
            ("1.10", r#""1.10""#),
            ("0", r#""0""#),
            (
                "-0.00000000000000000000000012",
                r#""-0.00000000000000000000000012""#,
            ),
            (
                "1e131",
                r#""100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000""#,
            ),
            ("10000.0001", r#""10000.0001""#),
            ("'NaN'", r#""NaN""#),
            ("'Infinity'", r#""Infinity""#),
        ],
    ),
    (
        "numeric(10,2)",
        &[("1", r#""1.00""#), ("-1234.5", r#""-1234.50""#)],
    ),
    ("money", &[("1234.5", r#""1234.50""#)]),
];

const TEXTS: Cases = &[
    (
        "text",
        &[
            ("''", r#""""#),
            ("'it''s \"é\" \\ \u{1}'", r#""it's \"é\" \\ \u0001""#),
        ],
    ),
    ("varchar(5)", &[("'abc'", r#""abc""#)]),
    ("char(4)", &[("'ab'", r#""ab  ""#)]),
    ("name", &[("'x'", r#""x""#)]),
    ("\"char\"", &[("'x'", r#""x""#)]),
    ("citext", &[("'Ab'", r#""Ab""#)]),
    ("bytea", &[(r"'\x00ff'", r#""AP8=""#), ("''", r#""""#)]),
    (
        "uuid",
        &[(
            "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'",
            r#""a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11""#,
        )],
    ),
    (
        "json",
        &[
            (
                r#"' {"b": 1.0, "a": 12345678901234567890, "a": 2} '"#,
                r#"{"b": 1.0, "a": 12345678901234567890, "a": 2}"#,
            ),
            ("'1e999'", r#""1e999""#),
            (r#"'"\ud800"'"#, r#""\"\\ud800\"""#),
        ],
    ),
    (
        "jsonb",
        &[(r#"'{"b":1.0,"a":[null]}'"#, r#"{"a": [null], "b": 1.0}"#)],
    ),
    ("mood", &[("'sad'", r#""sad""#)]),
    ("email", &[("'a@b'", r#""a@b""#)]),
    ("cents", &[("7", r#""7""#)]),
    ("bit(1)", &[("B'1'", "true"), ("B'0'", "false")]),
    ("bit(3)", &[("B'101'", r#""101""#)]),
    ("bit varying", &[("B'1'", r#""1""#)]),
    ("inet", &[("'10.0.0.1/8'", r#""10.0.0.1/8""#)]),
    ("cidr", &[("'10.0.0.0/8'", r#""10.0.0.0/8""#)]),
    (
        "macaddr",
        &[("'08:00:2b:01:02:03'", r#""08:00:2b:01:02:03""#)],
    ),
    ("int4range", &[("'[1,5)'", r#""[1,5)""#)]),
    ("int4multirange", &[("'{[1,5)}'", r#""{[1,5)}""#)]),
    ("xml", &[("'<a/>'", r#""<a/>""#)]),
    ("point", &[("'(1,2)'", r#""(1,2)""#)]),
    ("tsvector", &[("'a b'", r#""'a' 'b'""#)]),
    ("hstore", &[("'a=>1'", r#""\"a\"=>\"1\"""#)]),
    ("pair", &[("ROW(1, 'x y')", r#""(1,\"x y\")""#)]),
    ("regclass", &[("'pg_class'", r#""pg_class""#)]),
    ("int2vector", &[("'1 2'", r#""1 2""#)]),
];

const TIMES: Cases = &[
    (
        "timestamptz",
        &[
            (
                "'2026-04-07 03:23:45.123456+02'",
                r#""2026-04-07T01:23:45.123456Z""#,
            ),
            ("'2026-04-07 00:00:00Z'", r#""2026-04-07T00:00:00.000000Z""#),
            ("'infinity'", r#""infinity""#),
            ("'-infinity'", r#""-infinity""#),
            (
                "'0044-03-15 12:00:00Z BC'",
                r#""-0043-03-15T12:00:00.000000Z""#,
            ),
            (
                "'20000-01-01 00:00:00Z'",
                r#""+20000-01-01T00:00:00.000000Z""#,
            ),
        ],
    ),
    (
        "timestamp",
        &[(
            "'1999-12-31 23:59:59.999999'",
            r#""1999-12-31T23:59:59.999999""#,
        )],
    ),
    (
        "date",
        &[
            ("'2000-02-29'", r#""2000-02-29""#),
            ("'infinity'", r#""infinity""#),
            ("'4713-01-01 BC'", r#""-4712-01-01""#),
        ],
    ),
    (
        "time",
        &[
            ("'23:59:59.5'", r#""23:59:59.500000""#),
            ("'24:00'", r#""24:00:00.000000""#),
        ],
    ),
    (
        "timetz",
        &[
            ("'12:00:00+05:30'", r#""12:00:00.000000+05:30""#),
            ("'12:00:00-01'", r#""12:00:00.000000-01:00""#),
        ],
    ),
    (
        "interval",
        &[
            (
                "'1 year 2 months 3 days 04:05:06.7'",
                r#""P1Y2M3DT4H5M6.7S""#,
            ),
            ("'-1 month 2 days -00:00:00.5'", r#""P-1M2DT-0.5S""#),
            ("'0'", r#""PT0S""#),
        ],
    ),
];

const ARRAYS: Cases = &[
    (
        "int[]",
        &[
            ("'{}'", "[]"),
            ("'{1,NULL,3}'", "[1,null,3]"),
            ("'{{1,2},{3,4}}'", "[[1,2],[3,4]]"),
            ("'[5:6]={7,8}'", "[7,8]"),
        ],
    ),
    ("bigint[]", &[("'{1}'", r#"["1"]"#)]),
    (
        "text[]",
        &[(r#"'{"a,b",NULL,"NULL"}'"#, r#"["a,b",null,"NULL"]"#)],
    ),
    ("numeric(5,2)[]", &[("'{1}'", r#"["1.00"]"#)]),
    (
        "timestamptz[]",
        &[(
            "'{2026-01-01 00:00:00Z}'",
            r#"["2026-01-01T00:00:00.000000Z"]"#,
        )],
    ),
    (
        "jsonb[]",
        &[(r#"ARRAY['{"a":1}'::jsonb]"#, r#"[{"a": 1}]"#)],
    ),
    ("mood[]", &[("'{sad,happy}'", r#"["sad","happy"]"#)]),
    ("inet[]", &[("'{10.0.0.1}'", r#"["10.0.0.1/32"]"#)]),
    ("cents[]", &[("'{7}'", r#"["7"]"#)]),
    ("pair[]", &[("ARRAY[ROW(1,'x')::pair]", r#"["(1,x)"]"#)]),
];

const TYPES: &str = "CREATE EXTENSION citext; CREATE EXTENSION hstore;
    CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE DOMAIN email AS text CHECK (value LIKE '%@%');
    CREATE DOMAIN cents AS bigint; CREATE TYPE pair AS (a int, b text);";

/// The bytes of the value in the first row's data.
async fn sent(fixture: &Fixture, literal_rows: usize) -> Vec<String> {
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let page = read(source.as_ref(), None, literal_rows, MANY_BYTES)
        .await
        .unwrap();
    let events = page.page.events().iter();
    events
        .map(|event| {
            let text = std::str::from_utf8(page.page.json(event)).unwrap();
            let _: Value = serde_json::from_str(text).unwrap();
            let value = text.split_once(r#""v":"#).unwrap().1;
            value.strip_suffix("}}").unwrap().to_owned()
        })
        .collect()
}

#[tokio::test]
async fn every_type_is_sent_as_the_table_of_types_says() {
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture(TYPES).await;
    for (sql_type, cases) in [NUMBERS, TEXTS, TIMES, ARRAYS].concat() {
        let literals: Vec<_> = cases.iter().map(|(literal, _)| *literal).collect();
        fixture.one_column(sql_type, &literals).await;
        let found = sent(&fixture, literals.len()).await;
        let expected: Vec<_> = cases.iter().map(|(_, json)| *json).collect();
        assert_eq!(found, expected, "{sql_type}");
        let query = fixture.query("SELECT id, v FROM t", &["id"], &["id"]);
        let queried = read(open(&query).as_ref(), None, 100, MANY_BYTES).await;
        match queried {
            Ok(page) => assert_eq!(page.page.len(), literals.len()),
            Err(error) => {
                assert_eq!(sql_type, "int4multirange", "{error}");
                assert!(error.to_string().contains("cast multiranges"), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn the_types_of_columns_are_named_as_sql_names_them() {
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture(TYPES).await;
    fixture
        .run("CREATE TABLE t (id int PRIMARY KEY, a numeric(10,2), b timestamptz(3), c email, d mood, e varchar(7)[])")
        .await;
    let expected = [
        ("id", "integer"),
        ("a", "numeric(10,2)"),
        ("b", "timestamp(3) with time zone"),
        ("c", "text"),
        ("d", "mood"),
        ("e", "character varying(7)[]"),
    ];
    for config in [
        fixture.table("t", &["id"], &["id"]),
        fixture.query("SELECT * FROM t", &["id"], &["id"]),
    ] {
        let read = read(open(&config).as_ref(), None, 1, MANY_BYTES)
            .await
            .unwrap();
        let types: Vec<_> = read
            .types
            .iter()
            .map(|(n, t)| (n.as_str(), t.as_str()))
            .collect();
        assert_eq!(types, expected);
    }
}

/// Each in ascending order.
const CURSORS: &[(&str, &[&str])] = &[
    ("smallint", &["-32768", "0", "32767"]),
    (
        "bigint",
        &[
            "-9223372036854775808",
            "9007199254740993",
            "9223372036854775807",
        ],
    ),
    ("oid", &["0", "4294967295"]),
    ("xid8", &["'0'", "'18446744073709551615'"]),
    (
        "numeric",
        &[
            "'-Infinity'",
            "-1e50",
            "0.1",
            "0.10000000000000000000000000001",
            "123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890.1",
            "'Infinity'",
            "'NaN'",
        ],
    ),
    (
        "real",
        &[
            "'-Infinity'",
            "-0.1",
            "0",
            "0.1",
            "0.10000001",
            "3.4e38",
            "'Infinity'",
            "'NaN'",
        ],
    ),
    (
        "double precision",
        &[
            "'-Infinity'",
            "0.1",
            "0.10000000000000002",
            "5e300",
            "'NaN'",
        ],
    ),
    (
        "timestamptz",
        &[
            "'-infinity'",
            "'4713-01-01 00:00:00Z BC'",
            "'0001-12-31 23:59:59.999999Z BC'",
            "'0001-01-01 00:00:00Z'",
            "'2026-04-07 01:23:45.123456Z'",
            "'2026-04-07 01:23:45.123457Z'",
            "'294276-12-31 23:59:59.999999Z'",
            "'infinity'",
        ],
    ),
    (
        "timestamp",
        &[
            "'-infinity'",
            "'0044-03-15 BC'",
            "'2026-04-07 01:23:45.123456'",
            "'12026-01-01'",
            "'infinity'",
        ],
    ),
    (
        "date",
        &[
            "'-infinity'",
            "'0001-02-03 BC'",
            "'2026-04-07'",
            "'12026-01-01'",
            "'infinity'",
        ],
    ),
    (
        "text",
        &[
            "''",
            "'A'",
            "'B'",
            "'a'",
            "'a b'",
            "'a''\"\\'",
            "'é'",
            "'😀'",
        ],
    ),
    (
        "text COLLATE \"und-x-icu\"",
        &["'A'", "'B'", "'a'", "'b'", "'é'"],
    ),
    ("text COLLATE \"C\"", &["'A'", "'B'", "'a'"]),
    ("varchar(9)", &["'A'", "'B '", "'a'"]),
    ("char(4)", &["'A'", "'B'", "'a'", "'a b'"]),
    ("name", &["'A'", "'a'"]),
    ("citext", &["'A'", "'B'", "'a'", "'b'"]),
    ("email", &["'A@'", "'a@'"]),
    (
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'0fffffff-9c0b-4ef8-bb6d-6bb9bd380a11'",
            "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
        ],
    ),
    (
        "bytea",
        &["''", r"'\x00'", r"'\x0000'", r"'\x5c'", r"'\xff'"],
    ),
];

/// What is bound is what was read: with pages of one row every value is bound once.
#[tokio::test]
async fn a_cursor_of_every_ordered_type_makes_the_round_trip() {
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture(TYPES).await;
    for (sql_type, literals) in CURSORS {
        let mut twice: Vec<_> = literals.to_vec();
        twice.reverse();
        twice.extend(*literals);
        fixture.one_column(sql_type, &twice).await;
        let count = literals.len();
        let expected: Vec<_> = (0..count)
            .flat_map(|at| [count - at, count + 1 + at])
            .map(Value::from)
            .collect();
        for config in [
            fixture.table("t", &["v"], &["id"]),
            fixture.query("SELECT * FROM t", &["v"], &["id"]),
        ] {
            let mut pages = config.clone();
            pages.nulls = dbtick::config::NullPolicy::Ignore;
            assert_eq!(column(&pages, 1, "id").await, expected, "{sql_type}");
            assert_eq!(column(&config, 3, "id").await, expected, "{sql_type}");
            let source = open(&config);
            let all = read_all(source.as_ref(), 100, MANY_BYTES).await;
            let last = source.last().await.unwrap();
            assert_eq!(last.as_ref(), all.last().map(|(position, _)| position));
        }
    }
}

#[tokio::test]
async fn types_without_an_order_of_ours_are_refused_with_a_way_out() {
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture(TYPES).await;
    for (sql_type, expect) in [
        ("mood", "an enum is ordered by declaration; cast it to text"),
        ("boolean", "cast it in source.query"),
        ("interval", "cast it in source.query"),
        ("jsonb", "cast it in source.query"),
        ("inet", "cast it in source.query"),
        ("int[]", "take a column with one value"),
    ] {
        fixture.one_column(sql_type, &[]).await;
        let config = fixture.table("t", &["v"], &["id"]);
        let error = crate::fixture::failure(&config).await;
        assert!(error.contains(expect), "{error}");
        assert!(error.contains("\"v\" is of type"), "{error}");
    }
    // The way out is one.
    fixture.one_column("mood", &["'sad'", "'happy'"]).await;
    let query = fixture.query("SELECT id, v::text AS v FROM t", &["v"], &["id"]);
    assert_eq!(column(&query, 1, "id").await, [2, 1].map(Value::from));
}

/// A document of version 1 has no types: text stands for moments and large numbers.
#[tokio::test]
async fn a_position_without_types_is_understood() {
    use dbtick::model::position::Scalar;
    let engine = Engine::postgres().await;
    let mut fixture = engine.fixture("").await;
    for (sql_type, literals, text) in [
        (
            "timestamptz",
            ["'2026-01-01Z'", "'2026-01-02Z'"],
            "2026-01-01T00:00:00Z",
        ),
        (
            "bigint",
            ["9007199254740993", "9007199254740994"],
            "9007199254740993",
        ),
        ("numeric", ["1.1", "1.2"], "1.10"),
    ] {
        fixture.one_column(sql_type, &literals).await;
        let source = open(&fixture.table("t", &["v"], &["id"]));
        let after = Position::new(vec![Scalar::Text(text.into())], vec![Scalar::Integer(1)]);
        let page = read(source.as_ref(), Some(&after), 10, MANY_BYTES)
            .await
            .unwrap();
        assert_eq!(page.page.len(), 1, "{sql_type}");
        let wrong = Position::new(vec![Scalar::Bytes(vec![1])], vec![Scalar::Integer(1)]);
        let error = read(source.as_ref(), Some(&wrong), 10, MANY_BYTES)
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("which cannot hold it"),
            "{error}"
        );
    }
}
