//! What a column is: how its values are written, and whether and how it can be ordered.

use sqlx::mysql::{MySql, MySqlTypeInfo};
use sqlx::{Type, TypeInfo};

use super::catalogue::Described;
use crate::model::position::{MomentKind, ScalarType};

/// Digits of a second that are always there where nothing says how many the column has.
const ALL_DIGITS: u8 = 6;

/// How the bytes of a value are read and written. One for a column, never one for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer {
        unsigned: bool,
    },
    /// Past what a double keeps exact: written as a string.
    Wide {
        unsigned: bool,
    },
    Decimal,
    Float,
    Double,
    /// `bit(1)`.
    Flag,
    Bits,
    /// More bits than a double keeps exact.
    WideBits,
    Date,
    /// With the number of digits of the second; `TIMESTAMP` is a point in time.
    DateTime {
        digits: u8,
        instant: bool,
    },
    Time {
        digits: u8,
    },
    Text,
    Json,
    Bytes,
}

/// Whether a column can be part of the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// An index has it in our order.
    Native,
    /// Only a conversion to bytes has: collations fold case, and pad with blanks.
    ByByte,
    /// With what to do instead.
    Refused(&'static str),
}

/// The collations of text whose order is that of its bytes in UTF-8, trailing blanks included.
const BY_BYTE: [&str; 2] = ["utf8mb4_nopad_bin", "utf8mb4_0900_bin"];

impl Kind {
    /// By the catalogue. What it does not know is sent as the server's own text.
    pub(super) fn of(column: &Described) -> Self {
        let unsigned = column.column_type.contains(" unsigned");
        let digits = column.digits.unwrap_or(ALL_DIGITS);
        match column.data_type.as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" => Self::Integer { unsigned },
            "year" => Self::Integer { unsigned: true },
            "bigint" => Self::Wide { unsigned },
            "decimal" => Self::Decimal,
            "float" => Self::Float,
            "double" => Self::Double,
            "bit" => match column.precision {
                Some(1) => Self::Flag,
                Some(..=53) => Self::Bits,
                _ => Self::WideBits,
            },
            "date" => Self::Date,
            "datetime" => Self::DateTime {
                digits,
                instant: false,
            },
            "timestamp" => Self::DateTime {
                digits,
                instant: true,
            },
            "time" => Self::Time { digits },
            "json" => Self::Json,
            _ if column.is_json => Self::Json,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Self::Bytes,
            _ => Self::Text,
        }
    }

    /// Whether what arrives can be read as this.
    pub(super) fn takes(self, wire: &MySqlTypeInfo) -> bool {
        let unsigned = <u64 as Type<MySql>>::compatible(wire);
        match (self, wire.name()) {
            (_, "NULL") => true,
            (Self::Integer { .. }, "YEAR") => true,
            // What an expression in a view arrives as may be wider than the catalogue says.
            (Self::Integer { unsigned: sign } | Self::Wide { unsigned: sign }, name) => {
                is_integer(name) && sign == unsigned
            }
            (Self::Decimal, "DECIMAL")
            | (Self::Float, "FLOAT")
            | (Self::Double, "DOUBLE")
            | (Self::Flag | Self::Bits | Self::WideBits, "BIT")
            | (Self::Date, "DATE")
            | (Self::DateTime { instant: false, .. }, "DATETIME")
            | (Self::DateTime { instant: true, .. }, "TIMESTAMP")
            | (Self::Time { .. }, "TIME")
            | (Self::Json, "JSON") => true,
            (Self::Text | Self::Json, _) => is_text(wire),
            (Self::Bytes, name) => is_string(name) && !is_text(wire),
            _ => false,
        }
    }

    pub(super) fn scalar_type(self) -> ScalarType {
        match self {
            Self::Integer { .. } | Self::Wide { .. } => ScalarType::Integer,
            Self::Flag | Self::Bits | Self::WideBits => ScalarType::Integer,
            Self::Decimal => ScalarType::Decimal,
            Self::Float | Self::Double => ScalarType::Float,
            Self::Date => ScalarType::Moment(MomentKind::Date),
            Self::DateTime { instant: true, .. } => ScalarType::Moment(MomentKind::Instant),
            Self::DateTime { instant: false, .. } => ScalarType::Moment(MomentKind::Local),
            Self::Time { .. } | Self::Text | Self::Json => ScalarType::Text,
            Self::Bytes => ScalarType::Bytes,
        }
    }
}

impl Order {
    pub(super) fn of(column: &Described, kind: Kind) -> Self {
        match (kind, column.data_type.as_str()) {
            (Kind::Float, _) => Self::Refused("make it DOUBLE or DECIMAL, which compare exactly"),
            (Kind::Time { .. }, _) => Self::Refused("use a DATETIME or TIMESTAMP column"),
            (Kind::Json, _) => Self::Refused("use a column with one value of it"),
            (_, "enum" | "set") => {
                Self::Refused("its order is that of its declaration: use another column")
            }
            (Kind::Text, "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext") => {
                match column.collation.as_deref() {
                    Some(name) if BY_BYTE.contains(&name) => Self::Native,
                    _ => Self::ByByte,
                }
            }
            // Their own order is not that of their text.
            (Kind::Text, "uuid" | "inet4" | "inet6") => Self::ByByte,
            (Kind::Text, _) => Self::Refused("use a column of another type"),
            _ => Self::Native,
        }
    }

    /// Around the name of the column where it is compared.
    pub(super) fn conversion(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::ByByte => Some(("CAST(CONVERT(", " USING utf8mb4) AS BINARY)")),
            Self::Native | Self::Refused(_) => None,
        }
    }
}

/// The type that a parameter must be for the comparison to be exact: text beside a number would be
/// compared as doubles, and beside a moment as the server's version likes.
pub(super) fn cast(column: &Described, kind: Kind) -> Option<String> {
    match kind {
        Kind::Decimal => Some(format!("DECIMAL(65,{})", parameter_scale(column))),
        Kind::Date => Some("DATE".to_owned()),
        Kind::DateTime { .. } => Some("DATETIME(6)".to_owned()),
        _ => None,
    }
}

/// As many digits behind the point as leave room for all that the column has before it.
fn parameter_scale(column: &Described) -> u32 {
    let scale = column.scale.unwrap_or(0);
    let whole = column.precision.unwrap_or(65).saturating_sub(scale);
    scale.max(30.min(65_u32.saturating_sub(whole)))
}

/// Whether the column can hold this text, and in one way only. In some character sets several codes
/// are one letter of Unicode, and a column that cannot hold a text refuses to be compared with it.
pub(super) fn keeps(column: &Described, text: &str) -> bool {
    if matches!(column.data_type.as_str(), "uuid" | "inet4" | "inet6") {
        return true;
    }
    let collation = column.collation.as_deref().unwrap_or_default();
    let mut letters = text.chars();
    match collation.split('_').next() {
        Some("utf8mb4") => true,
        Some("utf8mb3" | "utf8") => letters.all(|letter| letter <= '\u{ffff}'),
        // Between the two are other letters than in Unicode.
        Some("latin1") => {
            letters.all(|letter| matches!(letter, '\0'..='\x7f' | '\u{a0}'..='\u{ff}'))
        }
        Some("ascii") => text.is_ascii(),
        _ => false,
    }
}

/// Whether a column of a query, which arrives like this, is what the catalogue says of the column
/// that it comes from.
pub(super) fn describes(column: &Described, wire: &MySqlTypeInfo) -> bool {
    match wire.name() {
        "GEOMETRY" => is_geometry(&column.data_type),
        _ => Kind::of(column).takes(wire),
    }
}

/// What is written around the name where the column is selected.
pub(super) fn wrapping(column: &Described) -> (&'static str, &'static str) {
    match column.data_type.as_str() {
        geometry if is_geometry(geometry) => ("ST_AsText(", ")"),
        known if KNOWN.contains(&known) => ("", ""),
        _ => ("CAST(", " AS CHAR)"),
    }
}

/// Types of which we know what arrives.
const KNOWN: [&str; 34] = [
    "tinyint",
    "smallint",
    "mediumint",
    "int",
    "bigint",
    "year",
    "decimal",
    "float",
    "double",
    "bit",
    "date",
    "datetime",
    "timestamp",
    "time",
    "json",
    "char",
    "varchar",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "enum",
    "set",
    "binary",
    "varbinary",
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "uuid",
    "inet4",
    "inet6",
    "null",
    "boolean",
];

/// A column of a query by what the server says will arrive, where the catalogue says nothing.
pub(super) fn of_wire(name: &str, wire: &MySqlTypeInfo) -> Described {
    let unsigned = <u64 as Type<MySql>>::compatible(wire);
    let data_type = match wire.name() {
        "BOOLEAN" => "tinyint",
        name if is_string(name) && name != "ENUM" => match is_text(wire) {
            true => "varchar",
            false => "varbinary",
        },
        name => name.strip_suffix(" UNSIGNED").unwrap_or(name),
    }
    .to_ascii_lowercase();
    let sign = if unsigned { " unsigned" } else { "" };
    Described {
        name: name.to_owned(),
        column_type: format!("{data_type}{sign}"),
        data_type,
        nullable: true,
        collation: None,
        digits: None,
        precision: None,
        scale: None,
        is_json: false,
        default: None,
        extra: String::new(),
    }
}

fn is_geometry(data_type: &str) -> bool {
    matches!(
        data_type,
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
    ) || matches!(
        data_type,
        "multipolygon" | "geometrycollection" | "geomcollection"
    )
}

fn is_integer(name: &str) -> bool {
    let name = name.strip_suffix(" UNSIGNED").unwrap_or(name);
    matches!(
        name,
        "BOOLEAN" | "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT"
    )
}

/// The flag that sqlx names types by is set for text with a `_bin` collation, too.
fn is_text(wire: &MySqlTypeInfo) -> bool {
    <str as Type<MySql>>::compatible(wire)
}

fn is_string(name: &str) -> bool {
    matches!(
        name,
        "CHAR" | "VARCHAR" | "TINYTEXT" | "TEXT" | "MEDIUMTEXT" | "LONGTEXT" | "ENUM"
    ) || matches!(
        name,
        "BINARY" | "VARBINARY" | "TINYBLOB" | "BLOB" | "MEDIUMBLOB" | "LONGBLOB"
    )
}
