//! Dates and times: counts from the year 2000 on the wire.

use std::io::Write as _;

use super::fixed;
use crate::model::position::{MICROS_OF_DAY, Moment, MomentKind};

/// From 1970-01-01 to 2000-01-01.
const EPOCH_IN_DAYS: i64 = 10_957;
const MICROS_OF_SECOND: u64 = 1_000_000;

pub(super) fn timestamp(kind: MomentKind, bytes: [u8; 8]) -> Moment {
    match i64::from_be_bytes(bytes) {
        i64::MAX => Moment::infinity(kind),
        i64::MIN => Moment::minus_infinity(kind),
        micros => {
            let day = MICROS_OF_DAY as i64;
            let of_day = micros.rem_euclid(day) as u64;
            Moment::from_days(kind, micros.div_euclid(day) + EPOCH_IN_DAYS, of_day)
        }
    }
}

pub(super) fn date(bytes: [u8; 4]) -> Moment {
    match i32::from_be_bytes(bytes) {
        i32::MAX => Moment::infinity(MomentKind::Date),
        i32::MIN => Moment::minus_infinity(MomentKind::Date),
        days => Moment::from_days(MomentKind::Date, i64::from(days) + EPOCH_IN_DAYS, 0),
    }
}

pub(super) fn write(moment: Moment, out: &mut Vec<u8>) {
    write!(out, "{moment}").expect("a vector takes any text");
}

/// Up to and with `24:00:00`.
pub(super) fn of_day(bytes: [u8; 8], out: &mut Vec<u8>) {
    let micros = u64::from_be_bytes(bytes);
    let (seconds, micros) = (micros / MICROS_OF_SECOND, micros % MICROS_OF_SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{hour:02}:{minute:02}:{second:02}.{micros:06}").expect("a vector takes any text");
}

/// The offset stands behind the time, as seconds west of Greenwich.
pub(super) fn of_day_with_zone(bytes: &[u8], out: &mut Vec<u8>) {
    of_day(fixed(bytes), out);
    let west = i32::from_be_bytes(fixed(bytes.get(8..).unwrap_or_default()));
    let sign = if west > 0 { '-' } else { '+' };
    let offset = west.unsigned_abs();
    let (hour, minute, second) = (offset / 3600, offset / 60 % 60, offset % 60);
    write!(out, "{sign}{hour:02}:{minute:02}").expect("a vector takes any text");
    if second > 0 {
        write!(out, ":{second:02}").expect("a vector takes any text");
    }
}
