use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn parsed(out: &[u8]) -> Value {
    serde_json::from_slice(out).unwrap()
}

/// What breaks who writes JSON by hand, and letters of all kinds between.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("\\u0000\\ud800".to_owned()),
        Just("\"}],\"events\":[{\"id\":\"forged\"".to_owned()),
        Just("\u{0}\u{1f}\u{7f}".to_owned()),
        Just("\r\n\t".to_owned()),
        Just("\u{2028}\u{2029}\u{feff}\u{fffe}".to_owned()),
        Just("</script>".to_owned()),
        any::<char>().prop_map(String::from),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        hostile().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(hostile(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    /// B10.
    #[test]
    fn any_text_is_one_string_that_reads_back(text in hostile()) {
        let out = written(|out| string(&text, out));
        prop_assert_eq!(parsed(&out), json!(text));
        // Ids are made of these bytes, so they are those of everybody else.
        prop_assert_eq!(&out, &serde_json::to_vec(&text).unwrap());
        // A line of a log or of a queue stays one.
        prop_assert!(out.iter().all(|byte| *byte >= b' '));
    }

    #[test]
    fn any_bytes_are_one_string_that_reads_back(bytes: Vec<u8>) {
        let out = written(|out| base64(&bytes, out));
        let text = parsed(&out);
        prop_assert_eq!(BASE64.decode(text.as_str().unwrap().as_bytes()).unwrap(), bytes.clone());
        let out = written(|out| broken_text(&bytes, out));
        prop_assert_eq!(parsed(&out), json!({ "base64": text }));
    }

    /// B2: to the last bit.
    #[test]
    fn any_number_reads_back_exactly(double: f64, single_bits: u32, long: i64, wide: i128) {
        let text = |out: Vec<u8>| String::from_utf8(out).unwrap();
        if double.is_finite() {
            let back: f64 = text(written(|out| float(double, out))).parse().unwrap();
            prop_assert_eq!(back.to_bits(), double.to_bits());
        }
        let value = f32::from_bits(single_bits);
        if value.is_finite() {
            let back: f32 = text(written(|out| single(value, out))).parse().unwrap();
            prop_assert_eq!(back.to_bits(), single_bits);
        }
        prop_assert_eq!(text(written(|out| integer(long, out))), long.to_string());
        let quoted = parsed(&written(|out| quoted_integer(wide, out)));
        prop_assert_eq!(quoted, json!(wide.to_string()));
    }

    #[test]
    fn lists_of_any_texts_read_back(texts in prop::collection::vec(hostile(), 0..5)) {
        let out = written(|out| list(out, b"[]", &texts, |out, text| string(text, out)));
        prop_assert_eq!(parsed(&out), json!(texts));
    }

    #[test]
    fn stored_json_is_embedded_if_and_only_if_it_is_json(value in json_value(), text in hostile()) {
        prop_assert!(is_embeddable(&value.to_string()));
        let read: Result<Value, _> = serde_json::from_str(&text);
        prop_assert_eq!(is_embeddable(&text), read.is_ok());
    }
}

#[test]
fn what_is_no_number_is_a_string() {
    for (value, text) in [
        (f64::NAN, "NaN"),
        (f64::INFINITY, "Infinity"),
        (f64::NEG_INFINITY, "-Infinity"),
    ] {
        assert_eq!(parsed(&written(|out| float(value, out))), json!(text));
        #[allow(clippy::cast_possible_truncation)] // they stay what they are
        let value = value as f32;
        assert_eq!(parsed(&written(|out| single(value, out))), json!(text));
    }
}

#[test]
fn json_that_some_reader_refuses_is_not_embedded() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for (text, expected) in [
        (nested(DEEPEST), true),
        (nested(DEEPEST + 1), false),
        (format!("{{\"a\":{}}}", nested(DEEPEST)), false),
        ("\"\\ud800\"".to_owned(), false),
        ("\"\\ud83d\\ude00\"".to_owned(), true),
        ("1e400".to_owned(), false),
        ("1e300".to_owned(), true),
        ("[1,]".to_owned(), false),
        ("{\"a\":1} {\"b\":2}".to_owned(), false),
        ("NaN".to_owned(), false),
        (String::new(), false),
    ] {
        assert_eq!(is_embeddable(&text), expected, "{text}");
    }
}
