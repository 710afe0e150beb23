//! One value of SQLite, as JSON and as part of a position.
//!
//! SQLite types values, not columns: what is written follows the value's storage class, and the
//! declared type is a hint. A hint is applied per column, so that a column's integers are always
//! numbers or always strings.

use sqlx::sqlite::SqliteValueRef;
use sqlx::{Decode, Sqlite, TypeInfo, ValueRef};

use crate::model::position::Scalar;
use crate::source::json;

/// What a declared type adds to the storage class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hint {
    Plain,
    /// Declared wider than a double is exact: integers are strings.
    WideInteger,
    Boolean,
    Json,
}

/// A value by storage class, borrowed from its row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stored<'r> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'r str),
    /// Declared text, but not UTF-8.
    BrokenText(&'r [u8]),
    Blob(&'r [u8]),
}

impl Hint {
    pub(super) fn from_declared(declared: &str) -> Self {
        let name = declared.split('(').next().unwrap_or_default();
        let name = name.trim().to_ascii_uppercase();
        match name.as_str() {
            "BIGINT" | "INT8" | "BIG INT" | "UNSIGNED BIG INT" | "BIGINT UNSIGNED"
            | "UNSIGNED BIGINT" => Self::WideInteger,
            "BOOLEAN" | "BOOL" => Self::Boolean,
            "JSON" | "JSONB" => Self::Json,
            _ => Self::Plain,
        }
    }
}

impl<'r> Stored<'r> {
    pub(super) fn read(value: SqliteValueRef<'r>) -> Result<Self, sqlx::Error> {
        if value.is_null() {
            return Ok(Self::Null);
        }
        let class = value.type_info();
        let stored = match class.name() {
            "INTEGER" => <i64 as Decode<Sqlite>>::decode(value).map(Self::Integer),
            "REAL" => <f64 as Decode<Sqlite>>::decode(value).map(Self::Real),
            "TEXT" => <&[u8] as Decode<Sqlite>>::decode(value).map(Self::text),
            _ => <&[u8] as Decode<Sqlite>>::decode(value).map(Self::Blob),
        };
        stored.map_err(sqlx::Error::Decode)
    }

    fn text(bytes: &'r [u8]) -> Self {
        std::str::from_utf8(bytes).map_or(Self::BrokenText(bytes), Self::Text)
    }

    /// `None` where the order of positions has no place for the value.
    pub(super) fn scalar(self) -> Option<Scalar> {
        match self {
            Self::Integer(value) => Some(Scalar::Integer(value.into())),
            Self::Text(value) => Some(Scalar::Text(value.to_owned())),
            Self::Blob(value) => Some(Scalar::Bytes(value.to_owned())),
            Self::Null | Self::Real(_) | Self::BrokenText(_) => None,
        }
    }

    pub(super) fn write(self, hint: Hint, out: &mut Vec<u8>) {
        match (self, hint) {
            (Self::Null, _) => out.extend_from_slice(b"null"),
            (Self::Integer(0), Hint::Boolean) => out.extend_from_slice(b"false"),
            (Self::Integer(1), Hint::Boolean) => out.extend_from_slice(b"true"),
            (Self::Integer(value), Hint::WideInteger) => {
                json::quoted_integer(value, out);
            }
            (Self::Integer(value), _) => json::integer(value, out),
            (Self::Real(value), _) => json::float(value, out),
            (Self::Text(value), Hint::Json) if json::is_embeddable(value) => {
                out.extend_from_slice(value.trim_ascii().as_bytes());
            }
            (Self::Text(value), _) => json::string(value, out),
            (Self::BrokenText(value), _) => {
                json::broken_text(value, out);
            }
            (Self::Blob(value), _) => json::base64(value, out),
        }
    }
}

#[cfg(test)]
mod tests;
