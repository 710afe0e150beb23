use proptest::prelude::*;

use super::*;

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<i64>().prop_map(|value| Scalar::Integer(value.into())),
        any::<i128>().prop_map(Scalar::Integer),
        any::<String>().prop_map(Scalar::Text),
        any::<Vec<u8>>().prop_map(Scalar::Bytes),
        "-?[0-9]{1,20}(\\.[0-9]{1,20})?"
            .prop_map(|text| Scalar::Decimal(Decimal::parse(&text).unwrap())),
        any::<f64>().prop_map(|value| Scalar::Float(Float::new(value))),
        moment().prop_map(Scalar::Moment),
    ]
}

fn moment() -> impl Strategy<Value = Moment> {
    let kind = prop_oneof![
        Just(MomentKind::Instant),
        Just(MomentKind::Local),
        Just(MomentKind::Date)
    ];
    // What PostgreSQL can hold: 4713 BC to 294276 AD.
    (kind, -2_440_588_i64..106_751_992, 0..MICROS_OF_DAY).prop_map(|(kind, days, micros)| {
        let micros = if kind == MomentKind::Date { 0 } else { micros };
        Moment::from_days(kind, days, micros)
    })
}

proptest! {
    #[test]
    fn a_scalar_survives_json_exactly(value in scalar()) {
        let json = value.to_json().to_string();
        let back = Scalar::from_json(&serde_json::from_str(&json).unwrap(), value.scalar_type());
        prop_assert_eq!(back.unwrap(), value);
    }

    #[test]
    fn moments_are_ordered_by_time((a, b) in (-2_440_588_i64..106_751_992, -2_440_588_i64..106_751_992)) {
        let at = |days| Moment::from_days(MomentKind::Local, days, 0);
        prop_assert_eq!(at(a).cmp(&at(b)), a.cmp(&b));
        prop_assert!(Moment::minus_infinity(MomentKind::Local) < at(a));
        prop_assert!(at(a) < Moment::infinity(MomentKind::Local));
    }

    #[test]
    fn decimals_are_ordered_by_value((a, b) in (any::<i64>(), any::<i64>()), scale in 0_usize..25) {
        let decimal = |value: i64| {
            let digits = format!("{:0>30}", value.unsigned_abs());
            let (whole, fraction) = digits.split_at(30 - scale);
            let sign = if value < 0 { "-" } else { "" };
            Decimal::parse(&format!("{sign}{whole}.{fraction}")).unwrap()
        };
        prop_assert_eq!(decimal(a).cmp(&decimal(b)), a.cmp(&b));
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

fn position(cursors: usize, keys: usize) -> impl Strategy<Value = Position> {
    // Few values, so that ties are common; of one type in each column, as a table has them.
    let column = || {
        prop_oneof![
            (-2_i128..3).prop_map(Scalar::Integer),
            any::<i128>().prop_map(Scalar::Integer)
        ]
    };
    let text = || "[aAé\"😀]{0,2}".prop_map(Scalar::Text);
    let cursor = proptest::collection::vec(column(), cursors);
    (cursor, proptest::collection::vec(text(), keys))
        .prop_map(|(cursor, key)| Position::new(cursor, key))
}

proptest! {
    /// A4: what the order of pages, of fences and of the checkpoint rests on.
    #[test]
    fn the_order_of_positions_is_total(
        (a, b, c) in (1_usize..3, 1_usize..3)
            .prop_flat_map(|(n, m)| (position(n, m), position(n, m), position(n, m))),
    ) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b, "equal means the same place");
        prop_assert_eq!(a.partial_cmp(&b), Some(a.cmp(&b)));
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }

    /// The order in which every database is asked for its rows: column after column, cursor before key.
    #[test]
    fn positions_come_in_the_order_of_their_columns(
        mut places in (1_usize..3, 1_usize..3)
            .prop_flat_map(|(n, m)| proptest::collection::vec(position(n, m), 2..12)),
    ) {
        places.sort();
        for pair in places.windows(2) {
            let columns = |at: usize| pair[at].cursor().iter().chain(pair[at].key()).collect::<Vec<_>>();
            let (one, other) = (columns(0), columns(1));
            let differs = one.iter().zip(&other).find(|(one, other)| one != other);
            if let Some((one, other)) = differs {
                prop_assert!(one < other, "{one} before {other}");
            }
        }
    }

    #[test]
    fn the_order_of_values_of_one_type_is_total((a, b, c) in (scalar(), scalar(), scalar())) {
        prop_assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
        prop_assert_eq!(a.cmp(&b).is_eq(), a == b);
        if a <= b && b <= c {
            prop_assert!(a <= c);
        }
    }

    #[test]
    fn a_position_survives_json_in_its_place(a in position(2, 2), b in position(2, 2)) {
        let again = |position: &Position| {
            let back = |scalars: &[Scalar]| scalars
                .iter()
                .map(|scalar| {
                    let json = scalar.to_json().to_string();
                    Scalar::from_json(&serde_json::from_str(&json).unwrap(), scalar.scalar_type()).unwrap()
                })
                .collect();
            Position::new(back(position.cursor()), back(position.key()))
        };
        prop_assert_eq!(again(&a).cmp(&again(&b)), a.cmp(&b));
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

#[test]
fn moments_are_read_as_they_are_written_everywhere() {
    for (kind, text, expected) in [
        (
            MomentKind::Instant,
            "2026-04-07T01:23:45.123456Z",
            "2026-04-07T01:23:45.123456Z",
        ),
        (
            MomentKind::Instant,
            "2026-04-07 01:23:45z",
            "2026-04-07T01:23:45.000000Z",
        ),
        (
            MomentKind::Instant,
            "2026-04-07T03:23:45.5+02:00",
            "2026-04-07T01:23:45.500000Z",
        ),
        (
            MomentKind::Local,
            "2026-04-07T01:23",
            "2026-04-07T01:23:00.000000",
        ),
        (
            MomentKind::Local,
            "2026-04-07",
            "2026-04-07T00:00:00.000000",
        ),
        (
            MomentKind::Local,
            "0000-00-00 00:00:00",
            "0000-00-00T00:00:00.000000",
        ),
        (MomentKind::Date, "-0043-03-15", "-0043-03-15"),
        (MomentKind::Date, "+10000-01-01", "+10000-01-01"),
        (MomentKind::Date, "infinity", "infinity"),
        (MomentKind::Instant, "-infinity", "-infinity"),
    ] {
        assert_eq!(Moment::parse(kind, text).unwrap().to_string(), expected);
    }
    for (kind, text) in [
        (MomentKind::Instant, "2026-04-07"),
        (MomentKind::Instant, "2026-04-07T01:23:45"),
        (MomentKind::Local, "2026-04-07T01:23:45Z"),
        (MomentKind::Date, "2026-04-07T01:23:45"),
        (MomentKind::Date, "2026-13-07"),
        (MomentKind::Date, "26-01-07"),
        (MomentKind::Local, "2026-04-07T01:23:45.1234567"),
        (MomentKind::Local, "2026-04-07T01:60"),
        (MomentKind::Local, "tomorrow"),
    ] {
        assert_eq!(Moment::parse(kind, text), None, "{text}");
    }
}

#[test]
fn what_stands_beside_the_numbers_has_its_place() {
    let order = [
        "-Infinity",
        "-10",
        "-1.5",
        "0",
        "0.09",
        "0.1",
        "1.10",
        "2",
        "10",
        "Infinity",
        "NaN",
    ];
    let decimals: Vec<_> = order
        .iter()
        .map(|text| Decimal::parse(text).unwrap())
        .collect();
    assert!(decimals.is_sorted());
    assert_eq!(Decimal::parse("1.10"), Decimal::parse("01.1"));
    assert_eq!(Decimal::parse("-0.0"), Decimal::parse("0"));
    for text in ["", "-", ".", "1e5", "0x1", "1.2.3", " 1"] {
        assert_eq!(Decimal::parse(text), None, "{text}");
    }
}

#[test]
fn a_position_without_types_takes_those_of_its_source() {
    let plain = Position::new(
        vec![Scalar::Text("2026-04-07T01:23:45.123456Z".into())],
        vec![Scalar::Integer(12093)],
    );
    let later = Moment::parse(MomentKind::Instant, "2026-04-08T00:00:00Z").unwrap();
    let typed = Position::new(vec![Scalar::Moment(later)], vec![Scalar::Integer(1)]);
    assert!(plain.typed_like(&typed).unwrap() < typed);
    let other = Position::new(vec![Scalar::Integer(1)], vec![Scalar::Integer(1)]);
    assert_eq!(plain.typed_like(&other), None);
}

/// S15.
#[test]
fn a_place_is_shown_on_one_line_that_no_terminal_obeys() {
    let text = |text: &str| vec![Scalar::Text(text.to_owned())];
    for (cursor, key, shown) in [
        ("plain é 😀 \\n", "it's", "plain é 😀 \\n (it's)"),
        ("a\r\nforged", "k", "a\\r\\nforged (k)"),
        (
            "\u{1b}[31mred",
            "\u{7f}\u{85}",
            "\\u{1b}[31mred (\\u{7f}\\u{85})",
        ),
        (
            "x\u{2028}y",
            "\u{202e}txt.exe",
            "x\\u{2028}y (\\u{202e}txt.exe)",
        ),
    ] {
        let position = Position::new(text(cursor), text(key));
        assert_eq!(position.to_string(), shown);
    }
}

#[test]
fn what_kind_of_cursor_it_is_follows_from_its_values() {
    let moment = |kind| Scalar::Moment(Moment::from_days(kind, 1, 0));
    let text = |text: &str| Scalar::Text(text.to_owned());
    let integer = || Scalar::Integer(7);
    for (cursor, expected) in [
        (vec![integer()], CursorKind::Integer),
        (
            vec![Scalar::Decimal(Decimal::parse("1.5").unwrap())],
            CursorKind::Version,
        ),
        (vec![Scalar::Float(Float::new(1.5))], CursorKind::Version),
        (vec![moment(MomentKind::Instant)], CursorKind::Timestamp),
        (vec![moment(MomentKind::Local)], CursorKind::LocalTimestamp),
        (vec![moment(MomentKind::Date)], CursorKind::LocalTimestamp),
        (vec![Scalar::Bytes(vec![1])], CursorKind::Text),
        (vec![text("abc")], CursorKind::Text),
        (vec![text("2026-04-0")], CursorKind::Text),
        (vec![text("2026-04-07")], CursorKind::LocalTimestamp),
        (vec![text("2026-04-07 01:02")], CursorKind::LocalTimestamp),
        (vec![text("2026-04-07 01:02Z")], CursorKind::Timestamp),
        (vec![text("2026-04-07 01:02+02:00")], CursorKind::Timestamp),
        (vec![text("2026-04-07 01:02-02:00")], CursorKind::Timestamp),
        (vec![integer(), integer()], CursorKind::Composite),
        (vec![], CursorKind::Composite),
    ] {
        assert_eq!(CursorKind::of(&cursor), expected, "{cursor:?}");
    }
}

#[test]
fn numbers_are_read_from_json_as_numbers_and_as_texts() {
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let float = |value| Scalar::Float(Float::new(value));
    let decimal = |text| Scalar::Decimal(Decimal::parse(text).unwrap());
    for (json, as_type, expected) in [
        ("7", ScalarType::Integer, Scalar::Integer(7)),
        ("\"7\"", ScalarType::Integer, Scalar::Integer(7)),
        ("1.5", ScalarType::Decimal, decimal("1.5")),
        ("\"1.5\"", ScalarType::Decimal, decimal("1.5")),
        ("1.5", ScalarType::Float, float(1.5)),
        ("\"1.5\"", ScalarType::Float, float(1.5)),
    ] {
        let read = Scalar::from_json(&number(json), as_type);
        assert_eq!(read.unwrap(), expected, "{json}");
    }
    assert_eq!(float(1.5).to_json(), number("1.5"));
    assert!(
        float(f64::INFINITY).to_json().is_string(),
        "JSON has no such number"
    );
}

/// Four hundred years are all that a calendar has to offer; the second time they are as the first.
#[test]
fn a_day_has_the_date_that_chrono_gives_it() {
    let epoch = chrono::NaiveDate::default();
    for days in -146_097..2 * 146_097 {
        let date = epoch + chrono::TimeDelta::days(days);
        let moment = Moment::from_days(MomentKind::Date, days, 0);
        assert_eq!(moment.to_string(), date.to_string(), "{days}");
    }
}

#[test]
fn the_time_of_a_day_is_written_to_the_microsecond() {
    for (micros, expected) in [
        (0, "00:00:00.000000"),
        (1, "00:00:00.000001"),
        (59_999_999, "00:00:59.999999"),
        (3_599_000_000, "00:59:59.000000"),
        (3_600_000_000, "01:00:00.000000"),
        (MICROS_OF_DAY - 1, "23:59:59.999999"),
    ] {
        let moment = Moment::from_days(MomentKind::Local, 0, micros);
        assert_eq!(moment.to_string(), format!("1970-01-01T{expected}"));
    }
}

#[test]
fn what_is_no_finite_number_survives_json_too_and_has_an_order() {
    let texts = ["-Infinity", "-1.5", "1.5", "Infinity", "NaN"];
    let floats = texts.map(|text| Float::parse(text).unwrap());
    assert_eq!(floats.map(|float| float.to_string()), texts);
    assert!(floats.is_sorted());
    assert!(floats[0] < floats[1]);
    for float in floats.map(Scalar::Float) {
        let back = Scalar::from_json(&float.to_json(), ScalarType::Float);
        assert_eq!(back.unwrap(), float);
    }
    assert_eq!(Float::parse("inf"), None);
}
