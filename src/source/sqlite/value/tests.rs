use super::*;

fn check(declared: &str, stored: Stored<'_>, expect: &str) {
    let mut out = Vec::new();
    stored.write(Hint::from_declared(declared), &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), expect, "{declared}");
}

#[test]
fn integers_keep_every_digit() {
    check("INTEGER", Stored::Integer(i64::MAX), "9223372036854775807");
    check("INT", Stored::Integer(i64::MIN), "-9223372036854775808");
}

#[test]
fn wide_integers_are_strings_for_every_value_of_the_column() {
    for declared in ["BIGINT", "bigint(20)", "INT8", "UNSIGNED BIG INT"] {
        check(declared, Stored::Integer(7), "\"7\"");
    }
}

#[test]
fn booleans_are_booleans_only_when_they_are() {
    check("BOOLEAN", Stored::Integer(0), "false");
    check("bool", Stored::Integer(1), "true");
    check("BOOLEAN", Stored::Integer(2), "2");
    check("INTEGER", Stored::Integer(1), "1");
}

#[test]
fn reals_read_back_as_the_same_double() {
    check("REAL", Stored::Real(1.0), "1.0");
    check("REAL", Stored::Real(0.1), "0.1");
    check("REAL", Stored::Real(-0.0), "-0.0");
    check("REAL", Stored::Real(f64::MAX), "1.7976931348623157e+308");
    check("REAL", Stored::Real(f64::INFINITY), "\"Infinity\"");
    check("REAL", Stored::Real(f64::NEG_INFINITY), "\"-Infinity\"");
}

#[test]
fn text_and_bytes_survive_whatever_they_hold() {
    check("TEXT", Stored::Text("a\"\\\n\0é"), r#""a\"\\\n\u0000é""#);
    check("TEXT", Stored::BrokenText(b"\xff"), r#"{"base64":"/w=="}"#);
    check("BLOB", Stored::Blob(b"\x00\x01"), r#""AAE=""#);
    check("BLOB", Stored::Blob(b""), r#""""#);
    check("TEXT", Stored::Null, "null");
}

#[test]
fn stored_json_is_embedded_as_it_was_written() {
    let document = r#"{"b":1, "a":123456789012345678901234567890, "a":1.10}"#;
    check("JSON", Stored::Text(document), document);
    check("jsonb", Stored::Text(" [1] \n"), "[1]");
    check("TEXT", Stored::Text("[1]"), "\"[1]\"");
}

#[test]
fn text_that_only_looks_like_json_stays_text() {
    check("JSON", Stored::Text("{\"a\":}"), r#""{\"a\":}""#);
    check("JSON", Stored::Text("1 2"), "\"1 2\"");
    check("JSON", Stored::Text(""), "\"\"");
    check("JSON", Stored::Text("1e999"), "\"1e999\"");
    check("JSON", Stored::Text(r#""\ud800""#), r#""\"\\ud800\"""#);
    let deep = "[".repeat(101) + &"]".repeat(101);
    check("JSON", Stored::Text(&deep), &format!("\"{deep}\""));
}
