//! A value of every type, from an SQL literal to JSON.

use dbtick::source::open;
use serde_json::{Value, json};

use crate::fixture::{MANY_BYTES, read, read_all};

/// Type, literal, what is sent.
fn cases() -> Vec<(&'static str, &'static str, Value)> {
    vec![
        ("tinyint(4)", "-128", json!(-128)),
        ("tinyint(1)", "1", json!(1)),
        ("tinyint(1) unsigned", "200", json!(200)),
        ("tinyint(3) unsigned", "255", json!(255)),
        ("smallint(6)", "-32768", json!(-32768)),
        ("smallint(5) unsigned", "65535", json!(65535)),
        ("mediumint(9)", "-8388608", json!(-8_388_608)),
        ("mediumint(8) unsigned", "16777215", json!(16_777_215)),
        ("int(11)", "-2147483648", json!(-2_147_483_648_i64)),
        (
            "int(8) unsigned zerofill",
            "4294967295",
            json!(4_294_967_295_u32),
        ),
        ("bigint(20)", "1", json!("1")),
        (
            "bigint(20)",
            "-9223372036854775808",
            json!("-9223372036854775808"),
        ),
        (
            "bigint(20) unsigned",
            "18446744073709551615",
            json!("18446744073709551615"),
        ),
        ("decimal(10,3)", "1.10", json!("1.100")),
        ("decimal(10,0)", "-5", json!("-5")),
        (
            "decimal(65,30)",
            "12345678901234567890123456789012345.123456789012345678901234567890",
            json!("12345678901234567890123456789012345.123456789012345678901234567890"),
        ),
        ("float", "0.1", json!(0.1)),
        ("float", "16777217", json!(16_777_216.0)),
        ("double", "0.1", json!(0.1)),
        (
            "double",
            "1.7976931348623157e308",
            json!(1.797_693_134_862_315_7e308),
        ),
        ("double", "-0.0", json!(-0.0)),
        ("bit(1)", "b'1'", json!(true)),
        ("bit(1)", "b'0'", json!(false)),
        ("bit(12)", "b'100000000001'", json!(2049)),
        (
            "bit(53)",
            "9007199254740991",
            json!(9_007_199_254_740_991_u64),
        ),
        (
            "bit(64)",
            "18446744073709551615",
            json!("18446744073709551615"),
        ),
        ("bit(54)", "1", json!("1")),
        ("year(4)", "2026", json!(2026)),
        ("year(4)", "0", json!(0)),
        ("date", "'2026-04-07'", json!("2026-04-07")),
        ("date", "'0000-00-00'", json!("0000-00-00")),
        ("date", "'2026-00-15'", json!("2026-00-15")),
        ("date", "'9999-12-31'", json!("9999-12-31")),
        (
            "datetime",
            "'2026-04-07 01:02:03'",
            json!("2026-04-07T01:02:03"),
        ),
        (
            "datetime",
            "'0000-00-00 00:00:00'",
            json!("0000-00-00T00:00:00"),
        ),
        (
            "datetime(3)",
            "'2026-04-07 01:02:03.120'",
            json!("2026-04-07T01:02:03.120"),
        ),
        (
            "datetime(6)",
            "'2026-04-07'",
            json!("2026-04-07T00:00:00.000000"),
        ),
        (
            "datetime(6)",
            "'2026-04-07 01:02:03.000001'",
            json!("2026-04-07T01:02:03.000001"),
        ),
        (
            "datetime(6)",
            "'0001-01-01 00:00:00'",
            json!("0001-01-01T00:00:00.000000"),
        ),
        (
            "timestamp",
            "'2026-04-07 01:02:03'",
            json!("2026-04-07T01:02:03Z"),
        ),
        (
            "timestamp(6)",
            "'2038-01-19 03:14:07.999999'",
            json!("2038-01-19T03:14:07.999999Z"),
        ),
        (
            "timestamp(2)",
            "'0000-00-00 00:00:00'",
            json!("0000-00-00T00:00:00.00Z"),
        ),
        ("time", "'01:02:03'", json!("01:02:03")),
        ("time", "'-838:59:59'", json!("-838:59:59")),
        ("time(6)", "'-838:59:58.000001'", json!("-838:59:58.000001")),
        ("time(2)", "'00:00:00'", json!("00:00:00.00")),
        ("time(2)", "'-00:00:00.5'", json!("-00:00:00.50")),
        ("char(5)", "'a  '", json!("a")),
        ("varchar(9)", "'a\\0 \"'", json!("a\0 \"")),
        ("varchar(9) character set latin1", "'é€'", json!("é€")),
        ("varchar(9) character set utf16", "'😀'", json!("😀")),
        (
            "varchar(9) character set utf8mb4 collate utf8mb4_bin",
            "'😀'",
            json!("😀"),
        ),
        ("text character set utf8mb4", "repeat('é', 3)", json!("ééé")),
        ("longtext", "'x'", json!("x")),
        ("binary(3)", "x'ff'", json!("/wAA")),
        ("varbinary(9)", "x'00ff'", json!("AP8=")),
        ("blob", "'abc'", json!("YWJj")),
        ("longblob", "''", json!("")),
        ("enum('a','b c')", "'b c'", json!("b c")),
        ("set('x','y')", "'x,y'", json!("x,y")),
        (
            "json",
            "'{\"b\": 1.10, \"a\": [12345678901234567890], \"b\": null}'",
            json!({"b": null, "a": [12_345_678_901_234_567_890_u64]}),
        ),
        (
            "uuid",
            "'123E4567-e89b-12d3-a456-426655440000'",
            json!("123e4567-e89b-12d3-a456-426655440000"),
        ),
        ("inet6", "'::FFFF:1.2.3.4'", json!("::ffff:1.2.3.4")),
        ("inet4", "'10.0.0.1'", json!("10.0.0.1")),
        (
            "point",
            "ST_GeomFromText('POINT(1 2.5)')",
            json!("POINT(1 2.5)"),
        ),
        (
            "geometry",
            "ST_GeomFromText('LINESTRING(0 0,1 1)')",
            json!("LINESTRING(0 0,1 1)"),
        ),
        ("int(11)", "NULL", Value::Null),
        ("datetime(6)", "NULL", Value::Null),
    ]
}

/// As a table, as a view of it, and as a query of it, which may know less about a column.
#[tokio::test]
async fn every_type_is_sent_without_loss() {
    let engine = super::engine().await;
    let cases = cases();
    let mut fixture = engine.fixture("CREATE TABLE t (id INT PRIMARY KEY)").await;
    let columns = cases.iter().enumerate().map(|(at, case)| {
        // Without a default, MariaDB gives the first timestamp one of its own.
        let nullable = if case.0.starts_with("timestamp") {
            " NULL"
        } else {
            ""
        };
        format!("ADD c{at} {}{nullable}", case.0)
    });
    let columns: Vec<_> = columns.collect();
    let literals: Vec<_> = cases.iter().map(|case| case.1).collect();
    fixture
        .run(&format!(
            "SET sql_mode = ''; SET NAMES utf8mb4; ALTER TABLE t {};
             INSERT INTO t VALUES (1, {}); CREATE VIEW v AS SELECT * FROM t",
            columns.join(", "),
            literals.join(", ")
        ))
        .await;
    for (name, config) in [
        ("table", fixture.table("t", &["id"], &["id"])),
        ("view", fixture.table("v", &["id"], &["id"])),
        (
            "query",
            fixture.query("SELECT * FROM t WHERE id = 1", &["id"], &["id"]),
        ),
        (
            "group",
            fixture.query("SELECT * FROM t LIMIT 1", &["id"], &["id"]),
        ),
    ] {
        let source = open(&config);
        let all = read_all(source.as_ref(), 10, MANY_BYTES).await;
        let types = read(source.as_ref(), None, 1, MANY_BYTES)
            .await
            .unwrap()
            .types;
        for (at, (declared, literal, expected)) in cases.iter().enumerate() {
            let mut expected = expected.clone();
            // JSON is text with a constraint, which no view has.
            if *declared == "json" && name == "view" {
                expected = json!("{\"b\": 1.10, \"a\": [12345678901234567890], \"b\": null}");
            }
            let found = &all[0].1["data"][format!("c{at}")];
            assert_eq!(*found, expected, "{name}: {declared} {literal}");
            let (_, sent) = &types[at + 1];
            let declared = match *declared {
                "json" => "longtext",
                declared => declared.split(" character set").next().unwrap(),
            };
            assert_eq!(sent, declared, "{name}: {literal}");
        }
    }
}

#[tokio::test]
async fn stored_json_and_broken_text_are_sent_as_they_are() {
    let engine = super::engine().await;
    let mut fixture = engine
        .fixture(
            "CREATE TABLE t (id INT PRIMARY KEY, j JSON, b VARCHAR(9) CHARACTER SET utf8mb4);
             INSERT INTO t VALUES (1, ' {\"b\": 1.10, \"a\":1e2, \"b\":2} ', 'x'), (2, '1e999', 'x');
             CREATE TABLE u (id INT PRIMARY KEY, b VARCHAR(9) CHARACTER SET utf8mb4);",
        )
        .await;
    let source = open(&fixture.table("t", &["id"], &["id"]));
    let page = read(source.as_ref(), None, 10, MANY_BYTES).await.unwrap();
    let texts: Vec<_> = page
        .page
        .events()
        .iter()
        .map(|event| String::from_utf8(page.page.json(event).to_vec()).unwrap())
        .collect();
    assert!(
        texts[0].contains(r#""j":{"b": 1.10, "a":1e2, "b":2},"#),
        "{}",
        texts[0]
    );
    assert!(texts[1].contains(r#""j":"1e999","#), "{}", texts[1]);
    // Text whose bytes were given another meaning, as old dumps do.
    fixture
        .run(
            "CREATE TABLE w (id INT PRIMARY KEY, b VARBINARY(9)); INSERT INTO w VALUES (1, x'61ff');
             SET sql_mode = ''; CREATE VIEW v AS SELECT id, CONVERT(b USING utf8mb4) AS b FROM w",
        )
        .await;
    let source = open(&fixture.table("v", &["id"], &["id"]));
    let all = read_all(source.as_ref(), 1, MANY_BYTES).await;
    assert_eq!(all.len(), 1, "{all:?}");
}

/// What a query makes has no column in the catalogue.
#[tokio::test]
async fn values_that_a_query_makes_are_sent_by_what_arrives() {
    let engine = super::engine().await;
    let fixture = engine
        .fixture("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
        .await;
    for (expression, expected) in [
        ("id + 1", json!("2")),
        ("id > 0", json!(1)),
        ("count(*)", json!("1")),
        ("sum(id)", json!("1")),
        ("1.50 * 2", json!("3.00")),
        ("1e0 / 4", json!(0.25)),
        (
            "CAST('2026-01-01 00:00:00' AS DATETIME)",
            json!("2026-01-01T00:00:00.000000"),
        ),
        ("CAST('-01:00:00' AS TIME(1))", json!("-01:00:00.000000")),
        ("CAST('2026-01-01' AS DATE)", json!("2026-01-01")),
        ("x'ff'", json!("/w==")),
        ("CONVERT('é' USING utf8mb4)", json!("é")),
        ("CONVERT('é' USING latin1) COLLATE latin1_bin", json!("é")),
        ("NULL", Value::Null),
        ("b'101'", json!("BQ==")),
        ("ST_GeomFromText('POINT(1 2)')", json!("POINT(1 2)")),
    ] {
        let query = format!("SELECT max(id) AS id, {expression} AS x FROM t");
        let config = fixture.query(&query, &["id"], &["id"]);
        let all = read_all(open(&config).as_ref(), 10, MANY_BYTES).await;
        assert_eq!(all[0].1["data"]["x"], expected, "{expression}");
    }
}
