//! The types of PostgreSQL: how each is selected, sent, and ordered.

use crate::model::position::{MomentKind, Scalar, ScalarType};

/// Types with a form of their own in JSON. Everything else is the database's own text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    /// `bit(1)`, selected as text.
    Bit,
    Int2,
    Int4,
    Int8,
    Oid,
    /// Selected as text: sqlx does not know its number.
    Xid8,
    Float4,
    Float8,
    Numeric,
    Text,
    /// `char(n)`.
    Padded,
    Bytea,
    Uuid,
    Timestamptz,
    Timestamp,
    Date,
    Time,
    Timetz,
    Interval,
    Json,
    Jsonb,
}

/// How a column comes over the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Form {
    pub(super) kind: Kind,
    pub(super) array: bool,
    /// Written behind the column where it is selected.
    pub(super) selected: &'static str,
    /// The type that the server then names in its answer.
    pub(super) answered: u32,
}

/// A type as the catalogue has it, domains replaced by what is below them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) oid: u32,
    pub(super) name: String,
    pub(super) modifier: i32,
    /// The name that SQL has for it, with its modifier.
    pub(super) shown: String,
    pub(super) is_enum: bool,
    /// Of an array, by number.
    pub(super) element: Option<u32>,
}

/// How columns of a type are compared, so that the order is that of positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) scalar: ScalarType,
    /// What parameters are cast to.
    pub(super) cast: &'static str,
    /// Ordered by collation.
    pub(super) is_text: bool,
    /// Written around the column where it is compared, when no index has it in this order.
    pub(super) converted: Option<(&'static str, &'static str)>,
}

const TEXT: u32 = 25;
const TEXT_ARRAY: u32 = 1009;
const NUMERIC: u32 = 1700;
const MONEY: u32 = 790;
const BIT: u32 = 1560;
const XID8: u32 = 5069;

/// Types from here on are made by users and extensions.
const FIRST_OF_USERS: u32 = 16_384;

/// Numbers of built-in types never change (`pg_type.dat`).
fn native(oid: u32) -> Option<Kind> {
    Some(match oid {
        16 => Kind::Bool,
        17 => Kind::Bytea,
        19 | TEXT | 1043 => Kind::Text,
        20 => Kind::Int8,
        21 => Kind::Int2,
        23 => Kind::Int4,
        26 => Kind::Oid,
        114 => Kind::Json,
        700 => Kind::Float4,
        701 => Kind::Float8,
        1042 => Kind::Padded,
        1082 => Kind::Date,
        1083 => Kind::Time,
        1114 => Kind::Timestamp,
        1184 => Kind::Timestamptz,
        1186 => Kind::Interval,
        1266 => Kind::Timetz,
        NUMERIC => Kind::Numeric,
        2950 => Kind::Uuid,
        3802 => Kind::Jsonb,
        _ => return None,
    })
}

impl Type {
    pub(super) fn form(&self) -> Form {
        let plain = |kind, selected, answered| Form {
            kind,
            array: false,
            selected,
            answered,
        };
        if let Some(element) = self.element {
            return match native(element) {
                Some(kind) if self.oid < FIRST_OF_USERS => Form {
                    array: true,
                    ..plain(kind, "", self.oid)
                },
                // An array of a domain. Its own type would have to be looked up by a statement in
                // between, which makes the server forget an unnamed one.
                Some(kind) => {
                    let (selected, answered) = kind.array();
                    Form {
                        array: true,
                        ..plain(kind, selected, answered)
                    }
                }
                None => Form {
                    array: true,
                    ..plain(Kind::Text, "::text[]", TEXT_ARRAY)
                },
            };
        }
        match (native(self.oid), self.oid) {
            (Some(kind), oid) => plain(kind, "", oid),
            // Its own text has the signs of the session's locale.
            (None, MONEY) => plain(Kind::Numeric, "::numeric", NUMERIC),
            (None, XID8) => plain(Kind::Xid8, "::text", TEXT),
            (None, BIT) if self.modifier == 1 => plain(Kind::Bit, "::text", TEXT),
            (None, _) => plain(Kind::Text, "::text", TEXT),
        }
    }

    /// `None`, and what to do instead, for types whose order is not that of positions.
    pub(super) fn ordered(&self) -> Result<Ordered, &'static str> {
        let of = |scalar, cast| Ordered {
            scalar,
            cast,
            is_text: false,
            converted: None,
        };
        let text = |cast| Ordered {
            is_text: true,
            ..of(ScalarType::Text, cast)
        };
        if self.name == "citext" {
            // Equal without regard to case: two rows could share a position.
            let converted = Some(("", "::text COLLATE \"C\""));
            return Ok(Ordered {
                converted,
                ..of(ScalarType::Text, "text")
            });
        }
        if self.is_enum {
            return Err(
                "an enum is ordered by declaration; cast it to text in source.query, or take \
                 another column",
            );
        }
        if self.element.is_some() {
            return Err("take a column with one value");
        }
        if self.oid == XID8 {
            return Ok(of(ScalarType::Integer, "xid8"));
        }
        let Some(kind) = native(self.oid) else {
            return Err("cast it in source.query to one of them, or take another column");
        };
        Ok(match kind {
            Kind::Int2 => of(ScalarType::Integer, "int2"),
            Kind::Int4 => of(ScalarType::Integer, "int4"),
            Kind::Int8 => of(ScalarType::Integer, "int8"),
            Kind::Oid => of(ScalarType::Integer, "oid"),
            Kind::Float4 => of(ScalarType::Float, "float4"),
            Kind::Float8 => of(ScalarType::Float, "float8"),
            Kind::Numeric => of(ScalarType::Decimal, "numeric"),
            Kind::Text if self.name == "name" => text("name"),
            Kind::Text => text("text"),
            Kind::Padded => text("bpchar"),
            Kind::Uuid => of(ScalarType::Text, "uuid"),
            Kind::Bytea => of(ScalarType::Bytes, "bytea"),
            Kind::Timestamptz => of(ScalarType::Moment(MomentKind::Instant), "timestamptz"),
            Kind::Timestamp => of(ScalarType::Moment(MomentKind::Local), "timestamp"),
            Kind::Date => of(ScalarType::Moment(MomentKind::Date), "date"),
            Kind::Bool
            | Kind::Bit
            | Kind::Xid8
            | Kind::Time
            | Kind::Timetz
            | Kind::Interval
            | Kind::Json
            | Kind::Jsonb => {
                return Err("cast it in source.query to one of them, or take another column");
            }
        })
    }
}

impl Kind {
    /// The cast to an array of it, and the number of that type.
    fn array(self) -> (&'static str, u32) {
        match self {
            Self::Bool => ("::bool[]", 1000),
            Self::Bytea => ("::bytea[]", 1001),
            Self::Int2 => ("::int2[]", 1005),
            Self::Int4 => ("::int4[]", 1007),
            Self::Int8 => ("::int8[]", 1016),
            Self::Oid => ("::oid[]", 1028),
            Self::Float4 => ("::float4[]", 1021),
            Self::Float8 => ("::float8[]", 1022),
            Self::Numeric => ("::numeric[]", 1231),
            Self::Padded => ("::bpchar[]", 1014),
            Self::Uuid => ("::uuid[]", 2951),
            Self::Timestamptz => ("::timestamptz[]", 1185),
            Self::Timestamp => ("::timestamp[]", 1115),
            Self::Date => ("::date[]", 1182),
            Self::Time => ("::time[]", 1183),
            Self::Timetz => ("::timetz[]", 1270),
            Self::Interval => ("::interval[]", 1187),
            Self::Json => ("::json[]", 199),
            Self::Jsonb => ("::jsonb[]", 3807),
            Self::Text | Self::Bit | Self::Xid8 => ("::text[]", TEXT_ARRAY),
        }
    }

    /// A scalar that the column can be compared with; one that came without a type is given the
    /// column's.
    pub(super) fn bindable(self, scalar: &Scalar, wanted: ScalarType) -> Option<Scalar> {
        let guessed = match scalar {
            Scalar::Text(_) => true,
            Scalar::Integer(_) => matches!(wanted, ScalarType::Decimal | ScalarType::Float),
            _ => false,
        };
        if scalar.scalar_type() != wanted && !guessed {
            return None;
        }
        let scalar = scalar.as_type(wanted)?;
        let fits = match (&scalar, self) {
            (Scalar::Integer(value), Self::Int2) => i16::try_from(*value).is_ok(),
            (Scalar::Integer(value), Self::Int4) => i32::try_from(*value).is_ok(),
            (Scalar::Integer(value), Self::Int8) => i64::try_from(*value).is_ok(),
            (Scalar::Integer(value), Self::Oid) => u32::try_from(*value).is_ok(),
            (Scalar::Integer(value), Self::Xid8) => u64::try_from(*value).is_ok(),
            (Scalar::Text(text), Self::Uuid) => is_uuid(text),
            // No text of PostgreSQL holds a NUL, and no parameter can.
            (Scalar::Text(text), _) => !text.contains('\0'),
            _ => true,
        };
        fits.then_some(scalar)
    }
}

fn is_uuid(text: &str) -> bool {
    let dashes = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match byte {
            b'-' => dashes(at),
            _ => byte.is_ascii_hexdigit() && !dashes(at),
        })
}

/// The parameter's text, as PostgreSQL reads it back to exactly the same value.
pub(super) fn parameter(scalar: &Scalar) -> String {
    match scalar {
        Scalar::Bytes(bytes) => {
            let hex = data_encoding::HEXLOWER.encode(bytes);
            format!("\\x{hex}")
        }
        Scalar::Moment(moment) => calendar(&moment.to_string()),
        other => other.to_string(),
    }
}

/// Years of PostgreSQL have no sign: `-0043` is `0044 … BC`, `+10000` is `10000`.
fn calendar(iso: &str) -> String {
    if let Some(rest) = iso.strip_prefix('+') {
        return rest.to_owned();
    }
    let before = |date: &str| -> Option<String> {
        let (year, rest) = date.split_once('-')?;
        let year: i32 = year.parse().ok()?;
        Some(format!("{:04}-{rest} BC", year + 1))
    };
    match iso.strip_prefix('-') {
        Some("infinity") | None if !iso.starts_with("0000-") => iso.to_owned(),
        Some(date) => before(date).unwrap_or_else(|| iso.to_owned()),
        None => before(iso).unwrap_or_else(|| iso.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::position::Moment;

    #[test]
    fn moments_are_bound_as_postgres_writes_them() {
        for (iso, expected) in [
            ("2026-04-07T01:23:45.123456Z", "2026-04-07T01:23:45.123456Z"),
            (
                "+294276-12-31T23:59:59.999999Z",
                "294276-12-31T23:59:59.999999Z",
            ),
            (
                "-0043-03-15T00:00:00.000000Z",
                "0044-03-15T00:00:00.000000Z BC",
            ),
            (
                "0000-03-15T00:00:00.000000Z",
                "0001-03-15T00:00:00.000000Z BC",
            ),
            ("infinity", "infinity"),
            ("-infinity", "-infinity"),
        ] {
            let moment = Moment::parse(MomentKind::Instant, iso).unwrap();
            assert_eq!(parameter(&Scalar::Moment(moment)), expected);
        }
    }

    #[test]
    fn a_position_without_types_takes_those_of_the_columns() {
        let text = |text: &str| Scalar::Text(text.to_owned());
        let moment = ScalarType::Moment(MomentKind::Instant);
        let bound = Kind::Timestamptz.bindable(&text("2026-04-07T01:23:45Z"), moment);
        assert_eq!(bound.unwrap().to_string(), "2026-04-07T01:23:45.000000Z");
        let integer = Scalar::Integer(40_000);
        let as_integer = |kind: Kind| kind.bindable(&integer, ScalarType::Integer);
        assert_eq!(as_integer(Kind::Int2), None);
        assert_eq!(as_integer(Kind::Int4), Some(integer.clone()));
        assert_eq!(Kind::Text.bindable(&integer, ScalarType::Text), None);
        assert_eq!(Kind::Text.bindable(&text("a\0"), ScalarType::Text), None);
        assert_eq!(Kind::Uuid.bindable(&text("x"), ScalarType::Text), None);
    }
}
