//! Points in time as databases order them: calendar fields, not a count of microseconds, because
//! MySQL has days that are on no calendar (`0000-00-00`) and PostgreSQL has `infinity` and years
//! before Christ.

use std::fmt;

use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};

/// What the column knows about time zones; part of the type, never of the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MomentKind {
    /// A point in time, in UTC.
    Instant,
    /// Date and time of day, in nobody knows which zone.
    Local,
    Date,
}

/// Ordered by time within one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment {
    kind: MomentKind,
    year: i32,
    month: u8,
    day: u8,
    micros: u64,
}

const MICROS_OF_SECOND: u64 = 1_000_000;
pub const MICROS_OF_DAY: u64 = 86_400 * MICROS_OF_SECOND;

impl Moment {
    /// The fields as the database has them; a day or month of zero is a value of its own.
    #[must_use]
    pub fn new(kind: MomentKind, (year, month, day): (i32, u8, u8), micros: u64) -> Self {
        Self {
            kind,
            year,
            month,
            day,
            micros,
        }
    }

    /// Later than every date.
    #[must_use]
    pub fn infinity(kind: MomentKind) -> Self {
        Self::new(kind, (i32::MAX, 0, 0), 0)
    }

    /// Earlier than every date.
    #[must_use]
    pub fn minus_infinity(kind: MomentKind) -> Self {
        Self::new(kind, (i32::MIN, 0, 0), 0)
    }

    /// From days since 1970-01-01 in the proleptic Gregorian calendar, and microseconds of the day.
    #[must_use]
    pub fn from_days(kind: MomentKind, days: i64, micros: u64) -> Self {
        Self::new(kind, civil(days), micros)
    }

    /// A calendar moment; of a date, the day it falls on.
    #[must_use]
    pub fn at(kind: MomentKind, at: NaiveDateTime) -> Self {
        let date = (at.year(), at.month() as u8, at.day() as u8);
        let micros = match kind {
            MomentKind::Date => 0,
            MomentKind::Instant | MomentKind::Local => micros_of(&at),
        };
        Self::new(kind, date, micros)
    }

    #[must_use]
    pub fn kind(&self) -> MomentKind {
        self.kind
    }

    /// The inverse of `Display`, and what other writers of such text leave out or add: a space for
    /// the `T`, fewer digits of the second, an offset in place of the `Z`.
    #[must_use]
    pub fn parse(kind: MomentKind, text: &str) -> Option<Self> {
        match text {
            "infinity" => return Some(Self::infinity(kind)),
            "-infinity" => return Some(Self::minus_infinity(kind)),
            _ => {}
        }
        let (date, time) = match text.find(['T', ' ']) {
            Some(at) => (&text[..at], Some(&text[at + 1..])),
            None => (text, None),
        };
        let date = parse_date(date)?;
        match (kind, time) {
            (MomentKind::Date, None) => Some(Self::new(kind, date, 0)),
            (MomentKind::Date, Some(_)) => None,
            (MomentKind::Local, time) => {
                Some(Self::new(kind, date, parse_time(time.unwrap_or("00:00"))?))
            }
            (MomentKind::Instant, Some(time)) => match time.strip_suffix(['Z', 'z']) {
                Some(time) => Some(Self::new(kind, date, parse_time(time)?)),
                None => from_offset(text),
            },
            (MomentKind::Instant, None) => None,
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            year,
            month,
            day,
            micros,
        } = *self;
        match year {
            i32::MAX => return f.write_str("infinity"),
            i32::MIN => return f.write_str("-infinity"),
            0..=9999 => {}
            // ISO 8601: years of more digits, or before the year 0, carry a sign.
            _ => write!(f, "{year:+05}")?,
        }
        // Every row has some of these, so they are written without the machinery of `write!`.
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        let (seconds, micros) = (micros / MICROS_OF_SECOND, micros % MICROS_OF_SECOND);
        put(&mut text[..4], u64::from(year.unsigned_abs()));
        put(&mut text[5..7], month.into());
        put(&mut text[8..10], day.into());
        put(&mut text[11..13], seconds / 3600);
        put(&mut text[14..16], seconds / 60 % 60);
        put(&mut text[17..19], seconds % 60);
        put(&mut text[20..26], micros);
        let from = match year {
            0..=9999 => 0,
            _ => 4,
        };
        let to = match kind {
            MomentKind::Date => 10,
            MomentKind::Local => 26,
            MomentKind::Instant => 27,
        };
        f.write_str(std::str::from_utf8(&text[from..to]).expect("digits and signs"))
    }
}

/// The last digits of a number, as many as there is room for.
fn put(room: &mut [u8], mut number: u64) {
    for digit in room.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Year, month and day of a day count (Howard Hinnant's `civil_from_days`).
fn civil(days: i64) -> (i32, u8, u8) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let fits = "a day count of a database is far from the end of the calendar";
    (
        i32::try_from(year).expect(fits),
        u8::try_from(month).expect(fits),
        u8::try_from(day).expect(fits),
    )
}

fn parse_date(text: &str) -> Option<(i32, u8, u8)> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        b'+' => (1, &text[1..]),
        _ => (1, text),
    };
    let mut parts = digits.split('-');
    let year: i32 = number(parts.next()?, 4..=9)?;
    let month = number(parts.next()?, 2..=2).filter(|month| *month <= 12)?;
    let day = number(parts.next()?, 2..=2).filter(|day| *day <= 31)?;
    parts.next().is_none().then_some((sign * year, month, day))
}

fn parse_time(text: &str) -> Option<u64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let mut parts = clock.split(':');
    let hour: u64 = number(parts.next()?, 2..=2).filter(|hour| *hour <= 24)?;
    let minute: u64 = number(parts.next()?, 2..=2).filter(|minute| *minute < 60)?;
    let second: u64 = match parts.next() {
        Some(second) => number(second, 2..=2).filter(|second| *second <= 60)?,
        None => 0,
    };
    let micros: u64 = number(&format!("{fraction:0<6}"), 6..=6)?;
    let seconds = hour * 3600 + minute * 60 + second;
    parts
        .next()
        .is_none()
        .then_some(seconds * MICROS_OF_SECOND + micros)
}

/// Digits alone, no sign.
fn number<T: std::str::FromStr>(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<T> {
    let digits = length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok())?
}

fn from_offset(text: &str) -> Option<Moment> {
    let utc = DateTime::parse_from_rfc3339(text).ok()?.to_utc();
    Some(Moment::at(MomentKind::Instant, utc.naive_utc()))
}

fn micros_of(time: &impl Timelike) -> u64 {
    let seconds = u64::from(time.num_seconds_from_midnight());
    seconds * MICROS_OF_SECOND + u64::from(time.nanosecond()) / 1000
}
