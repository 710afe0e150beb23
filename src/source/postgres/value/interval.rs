//! `interval` in ISO 8601. Months, days and time have signs of their own, as in the database.

use std::io::Write as _;

use super::fixed;

const MICROS_OF_SECOND: i64 = 1_000_000;

pub(super) fn write(bytes: &[u8], out: &mut Vec<u8>) {
    let micros = i64::from_be_bytes(fixed(bytes));
    let days = i32::from_be_bytes(fixed(bytes.get(8..).unwrap_or_default()));
    let months = i32::from_be_bytes(fixed(bytes.get(12..).unwrap_or_default()));
    match (micros, days, months) {
        (0, 0, 0) => return out.extend_from_slice(b"PT0S"),
        (i64::MAX, i32::MAX, i32::MAX) => return out.extend_from_slice(b"infinity"),
        (i64::MIN, i32::MIN, i32::MIN) => return out.extend_from_slice(b"-infinity"),
        _ => {}
    }
    out.push(b'P');
    part(i64::from(months / 12), b'Y', out);
    part(i64::from(months % 12), b'M', out);
    part(i64::from(days), b'D', out);
    if micros == 0 {
        return;
    }
    out.push(b'T');
    let seconds = micros / MICROS_OF_SECOND;
    part(seconds / 3600, b'H', out);
    part(seconds / 60 % 60, b'M', out);
    let (second, fraction) = (seconds % 60, micros % MICROS_OF_SECOND);
    if fraction == 0 {
        return part(second, b'S', out);
    }
    let sign = if micros < 0 { "-" } else { "" };
    let digits = format!("{:06}", fraction.unsigned_abs());
    let digits = digits.trim_end_matches('0');
    write!(out, "{sign}{}.{digits}S", second.unsigned_abs()).expect("a vector takes any text");
}

fn part(value: i64, unit: u8, out: &mut Vec<u8>) {
    if value != 0 {
        out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        out.push(unit);
    }
}
