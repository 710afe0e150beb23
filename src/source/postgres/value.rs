//! One value of PostgreSQL, from the binary form of the wire straight into JSON, and as part of a
//! position.
//!
//! What is written follows the column's type alone, never the value. Every form was checked with
//! [`Form::fits`] before it is written, so that nothing here has to invent a value.

mod array;
mod interval;
mod numeric;
mod time;

use super::kind::{Form, Kind};
use crate::model::position::{Decimal, Float, MomentKind, Scalar};
use crate::source::json;

impl Form {
    /// Whether the bytes are what this type looks like on the wire.
    pub(super) fn fits(self, bytes: &[u8]) -> bool {
        if self.array {
            array::fits(bytes, |element| self.kind.fits(element))
        } else {
            self.kind.fits(bytes)
        }
    }

    pub(super) fn write(self, bytes: &[u8], out: &mut Vec<u8>) {
        if self.array {
            array::write(bytes, out, |element, out| self.kind.write(element, out));
        } else {
            self.kind.write(bytes, out);
        }
    }
}

impl Kind {
    fn fits(self, bytes: &[u8]) -> bool {
        match self {
            Self::Bool => bytes.len() == 1,
            Self::Int2 => bytes.len() == 2,
            Self::Int4 | Self::Oid | Self::Float4 | Self::Date => bytes.len() == 4,
            Self::Int8 | Self::Float8 | Self::Time => bytes.len() == 8,
            Self::Timestamp | Self::Timestamptz => bytes.len() == 8,
            Self::Timetz => bytes.len() == 12,
            Self::Interval | Self::Uuid => bytes.len() == 16,
            Self::Xid8 => digits(bytes).is_some(),
            Self::Numeric => numeric::fits(bytes),
            Self::Jsonb => bytes.first() == Some(&JSONB_VERSION),
            Self::Text | Self::Padded | Self::Bytea | Self::Json | Self::Bit => true,
        }
    }

    fn write(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Bool => boolean(bytes != [0], out),
            Self::Bit => boolean(bytes == b"1", out),
            Self::Int2 => json::integer(i16::from_be_bytes(fixed(bytes)), out),
            Self::Int4 => json::integer(i32::from_be_bytes(fixed(bytes)), out),
            Self::Oid => json::integer(u32::from_be_bytes(fixed(bytes)), out),
            Self::Int8 => json::quoted_integer(i64::from_be_bytes(fixed(bytes)), out),
            Self::Xid8 => text(bytes, out),
            Self::Float4 => json::single(f32::from_be_bytes(fixed(bytes)), out),
            Self::Float8 => json::float(f64::from_be_bytes(fixed(bytes)), out),
            Self::Numeric => quoted(out, |out| numeric::write(bytes, out)),
            Self::Text | Self::Padded => text(bytes, out),
            Self::Bytea => json::base64(bytes, out),
            Self::Uuid => quoted(out, |out| uuid(bytes, out)),
            Self::Timestamptz => quoted(out, |out| {
                time::write(time::timestamp(MomentKind::Instant, fixed(bytes)), out);
            }),
            Self::Timestamp => quoted(out, |out| {
                time::write(time::timestamp(MomentKind::Local, fixed(bytes)), out);
            }),
            Self::Date => quoted(out, |out| time::write(time::date(fixed(bytes)), out)),
            Self::Time => quoted(out, |out| time::of_day(fixed(bytes), out)),
            Self::Timetz => quoted(out, |out| time::of_day_with_zone(bytes, out)),
            Self::Interval => quoted(out, |out| interval::write(bytes, out)),
            Self::Json => document(bytes, out),
            Self::Jsonb => document(bytes.get(1..).unwrap_or_default(), out),
        }
    }

    /// `None` where the order of positions has no place for the value.
    pub(super) fn scalar(self, bytes: &[u8]) -> Option<Scalar> {
        let utf8 = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some(match self {
            Self::Int2 => Scalar::Integer(i16::from_be_bytes(fixed(bytes)).into()),
            Self::Int4 => Scalar::Integer(i32::from_be_bytes(fixed(bytes)).into()),
            Self::Oid => Scalar::Integer(u32::from_be_bytes(fixed(bytes)).into()),
            Self::Int8 => Scalar::Integer(i64::from_be_bytes(fixed(bytes)).into()),
            Self::Xid8 => Scalar::Integer(digits(bytes)?.into()),
            Self::Float4 => Scalar::Float(Float::new(f32::from_be_bytes(fixed(bytes)).into())),
            Self::Float8 => Scalar::Float(Float::new(f64::from_be_bytes(fixed(bytes)))),
            Self::Numeric => {
                let mut digits = Vec::new();
                numeric::write(bytes, &mut digits);
                Scalar::Decimal(Decimal::parse(&utf8(&digits)?)?)
            }
            Self::Text => Scalar::Text(utf8(bytes)?),
            // Without the padding, which the database does not compare either.
            Self::Padded => Scalar::Text(utf8(bytes)?.trim_end_matches(' ').to_owned()),
            Self::Bytea => Scalar::Bytes(bytes.to_owned()),
            Self::Uuid => {
                let mut digits = Vec::with_capacity(36);
                uuid(bytes, &mut digits);
                Scalar::Text(utf8(&digits)?)
            }
            Self::Timestamptz => Scalar::Moment(time::timestamp(MomentKind::Instant, fixed(bytes))),
            Self::Timestamp => Scalar::Moment(time::timestamp(MomentKind::Local, fixed(bytes))),
            Self::Date => Scalar::Moment(time::date(fixed(bytes))),
            Self::Bool
            | Self::Bit
            | Self::Time
            | Self::Timetz
            | Self::Interval
            | Self::Json
            | Self::Jsonb => return None,
        })
    }

    /// Whether a soft-delete column with these bytes says so.
    pub(super) fn is_set(self, bytes: &[u8]) -> bool {
        match self {
            Self::Bit => bytes == b"1",
            Self::Text | Self::Padded => !bytes.is_empty(),
            Self::Xid8 => digits(bytes) != Some(0),
            Self::Numeric => numeric::is_not_zero(bytes),
            Self::Bool
            | Self::Int2
            | Self::Int4
            | Self::Int8
            | Self::Oid
            | Self::Float4
            | Self::Float8 => bytes.iter().any(|byte| *byte != 0),
            _ => true,
        }
    }
}

const JSONB_VERSION: u8 = 1;

/// The row was found readable: the length is right.
fn fixed<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut all = [0; N];
    let length = N.min(bytes.len());
    all[..length].copy_from_slice(&bytes[..length]);
    all
}

fn digits(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn quoted(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(b'"');
    write(out);
    out.push(b'"');
}

fn boolean(value: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// A database in SQL_ASCII holds whatever bytes were put into it.
fn text(bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => json::string(text, out),
        Err(_) => json::broken_text(bytes, out),
    }
}

fn document(bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) if json::is_embeddable(text) => out.extend_from_slice(bytes.trim_ascii()),
        _ => text(bytes, out),
    }
}

fn uuid(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    for (index, byte) in bytes.iter().enumerate() {
        if matches!(index, 4 | 6 | 8 | 10) {
            out.push(b'-');
        }
        out.push(HEX[usize::from(byte >> 4)]);
        out.push(HEX[usize::from(byte & 15)]);
    }
}

#[cfg(test)]
mod tests;
