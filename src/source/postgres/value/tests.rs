use super::*;

fn check(kind: Kind, bytes: &[u8], expect: &str) {
    assert!(kind.fits(bytes), "{kind:?} {bytes:?}");
    let mut out = Vec::new();
    kind.write(bytes, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), expect);
}

/// Digits, weight, sign, decimals.
fn numeric(digits: &[u16], weight: i16, sign: u16, decimals: u16) -> Vec<u8> {
    let header = [digits.len() as u16, weight as u16, sign, decimals];
    header
        .iter()
        .chain(digits)
        .flat_map(|field| field.to_be_bytes())
        .collect()
}

#[test]
fn numbers_keep_their_decimals() {
    for (bytes, expect) in [
        (numeric(&[1, 1000], 0, 0, 2), "\"1.10\""),
        (numeric(&[], 0, 0, 0), "\"0\""),
        (numeric(&[], 0, 0, 3), "\"0.000\""),
        (numeric(&[1], 2, 0, 0), "\"100000000\""),
        (numeric(&[1], -2, 0x4000, 8), "\"-0.00000001\""),
        (numeric(&[12, 3456], 0, 0, 6), "\"12.345600\""),
        (numeric(&[], 0, 0xc000, 0), "\"NaN\""),
        (numeric(&[], 0, 0xf000, 0), "\"-Infinity\""),
    ] {
        check(Kind::Numeric, &bytes, expect);
    }
    assert!(!Kind::Numeric.fits(&[0, 1, 0, 0, 0, 0, 0, 0]));
}

#[test]
fn singles_have_the_digits_of_singles() {
    check(Kind::Float4, &0.1_f32.to_be_bytes(), "0.1");
    check(Kind::Float4, &f32::NAN.to_be_bytes(), "\"NaN\"");
}

#[test]
fn intervals_have_a_sign_in_every_part() {
    let interval = |micros: i64, days: i32, months: i32| {
        let mut bytes = micros.to_be_bytes().to_vec();
        bytes.extend(days.to_be_bytes());
        bytes.extend(months.to_be_bytes());
        bytes
    };
    for (bytes, expect) in [
        (interval(0, 0, 0), "\"PT0S\""),
        (interval(14_706_700_000, 3, 14), "\"P1Y2M3DT4H5M6.7S\""),
        (interval(-500_000, 0, 0), "\"PT-0.5S\""),
        (interval(-61_000_000, -1, 1), "\"P1M-1DT-1M-1S\""),
        (interval(i64::MAX, i32::MAX, i32::MAX), "\"infinity\""),
    ] {
        check(Kind::Interval, &bytes, expect);
    }
}

#[test]
fn a_value_cut_short_is_noticed() {
    let form = Form {
        kind: Kind::Int4,
        array: true,
        selected: "",
        answered: 0,
    };
    let array = [
        0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 7, 255,
        255, 255, 255,
    ];
    assert!(form.fits(&array));
    for length in 0..array.len() {
        assert!(!form.fits(&array[..length]), "{length}");
    }
    let mut out = Vec::new();
    form.write(&array, &mut out);
    assert_eq!(out, b"[7,null]");
}

#[test]
fn text_that_is_not_utf8_is_sent_as_its_bytes() {
    check(Kind::Text, b"\xff", "{\"base64\":\"/w==\"}");
    check(Kind::Json, b" {\"a\":1} ", "{\"a\":1}");
    check(Kind::Json, br#""\ud800""#, r#""\"\\ud800\"""#);
    check(Kind::Jsonb, b"\x01[1]", "[1]");
}
