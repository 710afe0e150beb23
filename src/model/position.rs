//! Where a poller stands: a cursor value and the key that breaks its ties.
//!
//! The order of positions is total and is **the** order of delivery: a source must read rows in
//! exactly this order (numbers by value, moments by time, text and bytes by byte, and in a column of
//! several types the types one after the other as they are listed here), or say that it cannot. Values are kept as they were read, so that what is bound in the
//! next query is what came out of the last one (B2).

mod decimal;
mod float;
mod moment;

use std::fmt;

use data_encoding::BASE64;
use serde_json::{Map, Value};

use super::plain::plain;
pub use decimal::Decimal;
pub use float::Float;
pub use moment::{MICROS_OF_DAY, Moment, MomentKind};

/// JSON readers that parse numbers as doubles keep integers exact up to here.
const EXACT_IN_JSON: i128 = 1 << 53;

/// One column's value inside a position.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    Integer(i128),
    Decimal(Decimal),
    Float(Float),
    Moment(Moment),
    Text(String),
    Bytes(Vec<u8>),
}

/// The type of a scalar, as the state document names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarType {
    Integer,
    Decimal,
    Float,
    Moment(MomentKind),
    Text,
    Bytes,
}

/// A row's place in the order: its cursor (one value, or several when composite), then its key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    cursor: Vec<Scalar>,
    key: Vec<Scalar>,
}

/// What the document says about how to read a cursor; informative for people and other readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub enum CursorKind {
    #[serde(rename = "integer+pk")]
    Integer,
    #[serde(rename = "timestamp+pk")]
    Timestamp,
    #[serde(rename = "local-timestamp+pk")]
    LocalTimestamp,
    #[serde(rename = "version+pk")]
    Version,
    #[serde(rename = "text+pk")]
    Text,
    #[serde(rename = "composite+pk")]
    Composite,
}

/// Why a JSON value is not the scalar or the position it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PositionError {
    #[error("expected {expected}, found {found}")]
    WrongType {
        expected: &'static str,
        found: String,
    },
    #[error("expected {expected} values, found {found}")]
    WrongCount { expected: usize, found: usize },
    #[error("unknown scalar type {0:?}")]
    UnknownType(String),
}

impl Position {
    #[must_use]
    pub fn new(cursor: Vec<Scalar>, key: Vec<Scalar>) -> Self {
        Self { cursor, key }
    }

    #[must_use]
    pub fn cursor(&self) -> &[Scalar] {
        &self.cursor
    }

    #[must_use]
    pub fn key(&self) -> &[Scalar] {
        &self.key
    }

    /// One line, typed value by value: `[["i:5"],["t:abc"]]`.
    #[must_use]
    pub fn to_tagged(&self) -> String {
        let tagged =
            |scalars: &[Scalar]| -> Value { scalars.iter().map(Scalar::to_tagged).collect() };
        Value::Array(vec![tagged(&self.cursor), tagged(&self.key)]).to_string()
    }

    pub fn from_tagged(text: &str) -> Result<Self, PositionError> {
        let wrong = || PositionError::WrongType {
            expected: "a position",
            found: text.to_owned(),
        };
        let (cursor, key): (Vec<String>, Vec<String>) =
            serde_json::from_str(text).map_err(|_| wrong())?;
        let scalars = |texts: &[String]| -> Result<Vec<Scalar>, PositionError> {
            texts.iter().map(|text| Scalar::from_tagged(text)).collect()
        };
        Ok(Self::new(scalars(&cursor)?, scalars(&key)?))
    }

    /// This position with the types of another one of the same source: a document that carries no
    /// types cannot tell a timestamp from text. `None` where the values do not allow it.
    #[must_use]
    pub fn typed_like(&self, other: &Self) -> Option<Self> {
        let typed = |mine: &[Scalar], theirs: &[Scalar]| -> Option<Vec<Scalar>> {
            (mine.len() == theirs.len()).then_some(())?;
            let pairs = mine.iter().zip(theirs);
            pairs
                .map(|(one, other)| one.as_type(other.scalar_type()))
                .collect()
        };
        Some(Self {
            cursor: typed(&self.cursor, &other.cursor)?,
            key: typed(&self.key, &other.key)?,
        })
    }
}

/// `2026-04-07 01:23:45 (12093)`: for people; the document has its own form.
/// For people: on one line, and without anything that a terminal would obey. Text comes from rows.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, &self.cursor)?;
        f.write_str(" (")?;
        list(f, &self.key)?;
        f.write_str(")")
    }
}

fn list(f: &mut fmt::Formatter<'_>, scalars: &[Scalar]) -> fmt::Result {
    for (index, scalar) in scalars.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        match scalar {
            Scalar::Text(text) => f.write_str(&plain(text))?,
            other => write!(f, "{other}")?,
        }
    }
    Ok(())
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Decimal(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Moment(value) => write!(f, "{value}"),
            Self::Text(value) => f.write_str(value),
            Self::Bytes(value) => f.write_str(&BASE64.encode(value)),
        }
    }
}

impl Scalar {
    #[must_use]
    pub fn scalar_type(&self) -> ScalarType {
        match self {
            Self::Integer(_) => ScalarType::Integer,
            Self::Decimal(_) => ScalarType::Decimal,
            Self::Float(_) => ScalarType::Float,
            Self::Moment(moment) => ScalarType::Moment(moment.kind()),
            Self::Text(_) => ScalarType::Text,
            Self::Bytes(_) => ScalarType::Bytes,
        }
    }

    /// Integers past ±2^53 become strings: a reader that parses doubles must not round them.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Integer(value) => match i64::try_from(*value) {
                Ok(small) if value.abs() <= EXACT_IN_JSON => Value::from(small),
                _ => Value::from(value.to_string()),
            },
            Self::Float(value) if value.get().is_finite() => Value::from(value.get()),
            Self::Decimal(_) | Self::Float(_) | Self::Moment(_) => Value::from(self.to_string()),
            Self::Text(value) => Value::from(value.as_str()),
            Self::Bytes(value) => Value::from(BASE64.encode(value)),
        }
    }

    /// The same value as another type, where it can be one.
    #[must_use]
    pub fn as_type(&self, other: ScalarType) -> Option<Self> {
        if self.scalar_type() == other {
            return Some(self.clone());
        }
        Self::from_json(&self.to_json(), other).ok()
    }

    pub fn from_json(value: &Value, as_type: ScalarType) -> Result<Self, PositionError> {
        let wrong = |expected| PositionError::WrongType {
            expected,
            found: value.to_string(),
        };
        match as_type {
            ScalarType::Integer => match value {
                Value::Number(number) => number
                    .as_i64()
                    .map(|value| Self::Integer(value.into()))
                    .ok_or_else(|| wrong("an integer")),
                Value::String(text) => text
                    .parse()
                    .map(Self::Integer)
                    .map_err(|_| wrong("an integer")),
                _ => Err(wrong("an integer")),
            },
            ScalarType::Decimal => match value {
                Value::Number(number) => Decimal::parse(&number.to_string()),
                Value::String(text) => Decimal::parse(text),
                _ => None,
            }
            .map(Self::Decimal)
            .ok_or_else(|| wrong("a decimal number")),
            ScalarType::Float => match value {
                Value::Number(number) => number.as_f64().map(Float::new),
                Value::String(text) => Float::parse(text),
                _ => None,
            }
            .map(Self::Float)
            .ok_or_else(|| wrong("a number")),
            ScalarType::Moment(kind) => value
                .as_str()
                .and_then(|text| Moment::parse(kind, text))
                .map(Self::Moment)
                .ok_or_else(|| wrong("a date or time")),
            ScalarType::Text => match value {
                Value::String(text) => Ok(Self::Text(text.clone())),
                _ => Err(wrong("text")),
            },
            ScalarType::Bytes => match value {
                Value::String(text) => BASE64
                    .decode(text.as_bytes())
                    .map(Self::Bytes)
                    .map_err(|_| wrong("base64 bytes")),
                _ => Err(wrong("base64 bytes")),
            },
        }
    }

    /// `i:5`, `t:text`, `b:base64`: short, and typed by itself.
    #[must_use]
    pub fn to_tagged(&self) -> String {
        match self {
            Self::Integer(value) => format!("i:{value}"),
            Self::Text(value) => format!("t:{value}"),
            Self::Bytes(value) => format!("b:{}", BASE64.encode(value)),
            other => format!("{}:{other}", other.scalar_type().name()),
        }
    }

    pub fn from_tagged(text: &str) -> Result<Self, PositionError> {
        let (tag, value) = text.split_once(':').unwrap_or(("", text));
        let as_type = match tag {
            "i" => ScalarType::Integer,
            "t" => ScalarType::Text,
            "b" => ScalarType::Bytes,
            name => ScalarType::from_name(name)?,
        };
        Self::from_json(&Value::from(value), as_type)
    }

    /// For documents that carry no types (plain version 1): a number is an integer, a string is
    /// text.
    pub fn guess_from_json(value: &Value) -> Result<Self, PositionError> {
        match value {
            Value::Number(_) => Self::from_json(value, ScalarType::Integer),
            _ => Self::from_json(value, ScalarType::Text),
        }
    }
}

impl ScalarType {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Decimal => "decimal",
            Self::Float => "float",
            Self::Moment(MomentKind::Instant) => "instant",
            Self::Moment(MomentKind::Local) => "local",
            Self::Moment(MomentKind::Date) => "date",
            Self::Text => "text",
            Self::Bytes => "bytes",
        }
    }

    pub fn from_name(name: &str) -> Result<Self, PositionError> {
        match name {
            "integer" => Ok(Self::Integer),
            "decimal" => Ok(Self::Decimal),
            "float" => Ok(Self::Float),
            "instant" => Ok(Self::Moment(MomentKind::Instant)),
            "local" => Ok(Self::Moment(MomentKind::Local)),
            "date" => Ok(Self::Moment(MomentKind::Date)),
            "text" => Ok(Self::Text),
            "bytes" => Ok(Self::Bytes),
            other => Err(PositionError::UnknownType(other.to_owned())),
        }
    }
}

/// The value of a cursor as documents and events carry it: bare, or an array when composite.
#[must_use]
pub fn cursor_to_json(cursor: &[Scalar]) -> Value {
    match cursor {
        [single] => single.to_json(),
        several => Value::Array(several.iter().map(Scalar::to_json).collect()),
    }
}

/// The key as an object, column by column.
#[must_use]
pub fn key_to_json(columns: &[String], key: &[Scalar]) -> Map<String, Value> {
    columns
        .iter()
        .cloned()
        .zip(key.iter().map(Scalar::to_json))
        .collect()
}

impl CursorKind {
    /// Told by the values themselves, so that a position alone says how to read it.
    #[must_use]
    pub fn of(cursor: &[Scalar]) -> Self {
        match cursor {
            [Scalar::Integer(_)] => Self::Integer,
            [Scalar::Decimal(_) | Scalar::Float(_)] => Self::Version,
            [Scalar::Moment(moment)] => match moment.kind() {
                MomentKind::Instant => Self::Timestamp,
                MomentKind::Local | MomentKind::Date => Self::LocalTimestamp,
            },
            [Scalar::Text(text)] => text_kind(text),
            [Scalar::Bytes(_)] => Self::Text,
            _ => Self::Composite,
        }
    }
}

/// `2026-04-07…`, with `Z` or an offset behind the time or without.
fn text_kind(text: &str) -> CursorKind {
    let shape: String = text
        .chars()
        .take(10)
        .map(|letter| if letter.is_ascii_digit() { '0' } else { letter })
        .collect();
    if shape != "0000-00-00" {
        return CursorKind::Text;
    }
    let time = &text[10..];
    if time.ends_with(['Z', 'z']) || time.contains(['+', '-']) {
        CursorKind::Timestamp
    } else {
        CursorKind::LocalTimestamp
    }
}

#[cfg(test)]
mod tests;
