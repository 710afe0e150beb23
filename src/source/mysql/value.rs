//! One value of MySQL, from the bytes of the binary protocol to JSON and to part of a position.

use std::io::Write as _;

use super::kind::Kind;
use crate::model::position::{Decimal, Float, Moment, MomentKind, Scalar};
use crate::source::json;

/// A value of a known kind, borrowed from its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'r> {
    Null,
    Integer(i128),
    Float(f32),
    Double(f64),
    /// Digits as the server writes them, with the column's scale.
    Decimal(&'r str),
    Moment(Fields),
    Time {
        negative: bool,
        hours: u32,
        fields: Fields,
    },
    Text(&'r str),
    /// Meant to be text, but not UTF-8.
    BrokenText(&'r [u8]),
    Bytes(&'r [u8]),
}

/// Calendar and clock as they are stored, also where no calendar has such a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Fields {
    year: u16,
    month: u8,
    day: u8,
    hour: u8,
    minute: u8,
    second: u8,
    micros: u32,
}

/// The bytes are not what the kind of the column sends.
#[derive(Debug, thiserror::Error)]
#[error("{length} bytes cannot be a value of this type")]
pub(super) struct Misfit {
    length: usize,
}

impl<'r> Value<'r> {
    pub(super) fn read(kind: Kind, bytes: Option<&'r [u8]>) -> Result<Self, Misfit> {
        let Some(bytes) = bytes else {
            return Ok(Self::Null);
        };
        let value = match kind {
            Kind::Integer { unsigned } | Kind::Wide { unsigned } => {
                integer(bytes, unsigned).map(Self::Integer)
            }
            Kind::Flag | Kind::Bits | Kind::WideBits => bits(bytes).map(Self::Integer),
            Kind::Float => bytes
                .try_into()
                .ok()
                .map(|bytes| Self::Float(f32::from_le_bytes(bytes))),
            Kind::Double => bytes
                .try_into()
                .ok()
                .map(|bytes| Self::Double(f64::from_le_bytes(bytes))),
            Kind::Decimal => std::str::from_utf8(bytes).ok().map(Self::Decimal),
            Kind::Date | Kind::DateTime { .. } => Fields::date(bytes).map(Self::Moment),
            Kind::Time { .. } => time(bytes),
            Kind::Text | Kind::Json => {
                Some(std::str::from_utf8(bytes).map_or(Self::BrokenText(bytes), Self::Text))
            }
            Kind::Bytes => Some(Self::Bytes(bytes)),
        };
        value.ok_or(Misfit {
            length: bytes.len(),
        })
    }

    /// `None` where the order of positions has no place for the value.
    pub(super) fn scalar(self, kind: Kind) -> Option<Scalar> {
        match self {
            Self::Integer(value) => Some(Scalar::Integer(value)),
            Self::Decimal(digits) => Decimal::parse(digits).map(Scalar::Decimal),
            Self::Double(value) => Some(Scalar::Float(Float::new(value))),
            Self::Moment(fields) => Some(Scalar::Moment(fields.moment(match kind {
                Kind::Date => MomentKind::Date,
                Kind::DateTime { instant: true, .. } => MomentKind::Instant,
                _ => MomentKind::Local,
            }))),
            Self::Text(text) => Some(Scalar::Text(text.to_owned())),
            Self::Bytes(bytes) => Some(Scalar::Bytes(bytes.to_owned())),
            Self::Null | Self::Float(_) | Self::Time { .. } | Self::BrokenText(_) => None,
        }
    }

    pub(super) fn write(self, kind: Kind, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Integer(value) => match kind {
                Kind::Flag if value == 0 => out.extend_from_slice(b"false"),
                Kind::Flag => out.extend_from_slice(b"true"),
                Kind::Wide { .. } | Kind::WideBits => json::quoted_integer(value, out),
                _ => json::integer(value, out),
            },
            Self::Float(value) => json::single(value, out),
            Self::Double(value) => json::float(value, out),
            Self::Decimal(digits) => json::string(digits, out),
            Self::Moment(fields) => fields.write_moment(kind, out),
            Self::Time {
                negative,
                hours,
                fields,
            } => fields.write_time(negative, hours, kind, out),
            Self::Text(text) if kind == Kind::Json && json::is_embeddable(text) => {
                out.extend_from_slice(text.trim_ascii().as_bytes());
            }
            Self::Text(text) => json::string(text, out),
            Self::BrokenText(bytes) => json::broken_text(bytes, out),
            Self::Bytes(bytes) => json::base64(bytes, out),
        }
    }

    /// Neither NULL, nor false, zero or empty, nor the day that stands for none.
    pub(super) fn is_set(self) -> bool {
        match self {
            Self::Null => false,
            Self::Integer(value) => value != 0,
            Self::Float(value) => value != 0.0,
            Self::Double(value) => value != 0.0,
            Self::Decimal(digits) => digits.bytes().any(|digit| matches!(digit, b'1'..=b'9')),
            Self::Moment(fields) => fields != Fields::default(),
            Self::Text(text) => !text.is_empty(),
            Self::BrokenText(bytes) | Self::Bytes(bytes) => bytes.iter().any(|byte| *byte != 0),
            Self::Time { .. } => true,
        }
    }
}

impl Fields {
    /// A byte with the length, then as many fields as are not zero.
    fn date(bytes: &[u8]) -> Option<Self> {
        let (&length, rest) = bytes.split_first()?;
        if usize::from(length) != rest.len() {
            return None;
        }
        let mut fields = Self::default();
        if let [y0, y1, month, day, ..] = *rest {
            fields.year = u16::from_le_bytes([y0, y1]);
            (fields.month, fields.day) = (month, day);
            // A place that no document can hold would stop the poller when it is read back.
            if fields.year > 9999 || month > 12 || day > 31 {
                return None;
            }
        }
        if let [_, _, _, _, clock @ ..] = rest {
            fields.read_clock(clock)?;
        }
        matches!(length, 0 | 4 | 7 | 11).then_some(fields)
    }

    fn read_clock(&mut self, clock: &[u8]) -> Option<()> {
        match *clock {
            [] => {}
            [hour, minute, second] => {
                (self.hour, self.minute, self.second) = (hour, minute, second)
            }
            [hour, minute, second, m0, m1, m2, m3] => {
                (self.hour, self.minute, self.second) = (hour, minute, second);
                self.micros = u32::from_le_bytes([m0, m1, m2, m3]);
            }
            _ => return None,
        }
        let sound = self.hour < 24 && self.minute < 60 && self.second < 60;
        (sound && self.micros < 1_000_000).then_some(())
    }

    fn moment(self, kind: MomentKind) -> Moment {
        let seconds =
            u64::from(self.hour) * 3600 + u64::from(self.minute) * 60 + u64::from(self.second);
        let date = (i32::from(self.year), self.month, self.day);
        Moment::new(kind, date, seconds * 1_000_000 + u64::from(self.micros))
    }

    fn write_moment(self, kind: Kind, out: &mut Vec<u8>) {
        let Self {
            year, month, day, ..
        } = self;
        put(out, format_args!("\"{year:04}-{month:02}-{day:02}"));
        if let Kind::DateTime { digits, instant } = kind {
            put(out, format_args!("T{:02}", self.hour));
            self.write_minutes(digits, out);
            if instant {
                out.push(b'Z');
            }
        }
        out.push(b'"');
    }

    fn write_time(self, negative: bool, hours: u32, kind: Kind, out: &mut Vec<u8>) {
        let sign = if negative { "-" } else { "" };
        put(out, format_args!("\"{sign}{hours:02}"));
        let Kind::Time { digits } = kind else {
            unreachable!("only a TIME is read as a time");
        };
        self.write_minutes(digits, out);
        out.push(b'"');
    }

    /// With the column's digits of the second, and more where a value has more: the column may have
    /// been altered a moment ago.
    fn write_minutes(self, digits: u8, out: &mut Vec<u8>) {
        put(out, format_args!(":{:02}:{:02}", self.minute, self.second));
        let all = format!("{:06}", self.micros);
        let digits = usize::from(digits).max(all.trim_end_matches('0').len());
        if digits > 0 {
            put(out, format_args!(".{}", &all[..digits.min(all.len())]));
        }
    }
}

fn put(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a vector takes any text");
}

fn integer(bytes: &[u8], unsigned: bool) -> Option<i128> {
    Some(match (bytes, unsigned) {
        (&[byte], true) => byte.into(),
        (&[byte], false) => byte.cast_signed().into(),
        (&[a, b], true) => u16::from_le_bytes([a, b]).into(),
        (&[a, b], false) => i16::from_le_bytes([a, b]).into(),
        (&[a, b, c, d], true) => u32::from_le_bytes([a, b, c, d]).into(),
        (&[a, b, c, d], false) => i32::from_le_bytes([a, b, c, d]).into(),
        (bytes, true) => u64::from_le_bytes(bytes.try_into().ok()?).into(),
        (bytes, false) => i64::from_le_bytes(bytes.try_into().ok()?).into(),
    })
}

/// The first byte is the highest.
fn bits(bytes: &[u8]) -> Option<i128> {
    let join = |value: i128, byte: &u8| value << 8 | i128::from(*byte);
    (1..=8)
        .contains(&bytes.len())
        .then(|| bytes.iter().fold(0, join))
}

/// Like a date, with a sign and a count of days before the clock.
fn time(bytes: &[u8]) -> Option<Value<'_>> {
    let (&length, rest) = bytes.split_first()?;
    let mut fields = Fields::default();
    let (negative, hours) = match *rest {
        [] => (false, 0),
        [sign, d0, d1, d2, d3, ref clock @ ..] => {
            fields.read_clock(clock)?;
            let days = u32::from_le_bytes([d0, d1, d2, d3]);
            let hours = days.checked_mul(24)?.checked_add(fields.hour.into())?;
            (sign != 0, hours)
        }
        _ => return None,
    };
    (usize::from(length) == rest.len()).then_some(Value::Time {
        negative,
        hours,
        fields,
    })
}
