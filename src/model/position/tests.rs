use proptest::prelude::*;

use super::*;

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<i64>().prop_map(|value| Scalar::Integer(value.into())),
        any::<i128>().prop_map(Scalar::Integer),
        any::<String>().prop_map(Scalar::Text),
        any::<Vec<u8>>().prop_map(Scalar::Bytes),
    ]
}

proptest! {
    #[test]
    fn a_scalar_survives_json_exactly(value in scalar()) {
        let json = value.to_json().to_string();
        let back = Scalar::from_json(&serde_json::from_str(&json).unwrap(), value.scalar_type());
        prop_assert_eq!(back.unwrap(), value);
    }

    #[test]
    fn positions_are_ordered_by_cursor_first_and_key_second(
        (a, b) in (any::<i64>(), any::<i64>()),
        (k, l) in (any::<String>(), any::<String>()),
    ) {
        let left = Position::new(vec![Scalar::Integer(a.into())], vec![Scalar::Text(k.clone())]);
        let right = Position::new(vec![Scalar::Integer(b.into())], vec![Scalar::Text(l.clone())]);
        prop_assert_eq!(left.cmp(&right), (a, k.as_bytes()).cmp(&(b, l.as_bytes())));
    }
}

#[test]
fn integers_past_two_to_the_53_are_strings_in_json() {
    let limit = 1_i128 << 53;
    for (value, expected) in [
        (limit, "9007199254740992"),
        (-limit, "-9007199254740992"),
        (limit + 1, "\"9007199254740993\""),
        (-limit - 1, "\"-9007199254740993\""),
        (u64::MAX.into(), "\"18446744073709551615\""),
    ] {
        assert_eq!(Scalar::Integer(value).to_json().to_string(), expected);
    }
}

#[test]
fn a_value_of_the_wrong_type_is_refused_and_named() {
    for (json, as_type) in [
        ("1.5", ScalarType::Integer),
        ("\"x\"", ScalarType::Integer),
        ("null", ScalarType::Text),
        ("7", ScalarType::Text),
        ("\"*\"", ScalarType::Bytes),
    ] {
        let value: Value = serde_json::from_str(json).unwrap();
        let error = Scalar::from_json(&value, as_type).unwrap_err().to_string();
        assert!(error.contains(json), "{error}");
    }
}
