//! A door for fuzzing: values as they come over the wire, without a server.

use super::catalogue::Described;
use super::kind::Kind;
use super::value::Value;
use crate::model::position::Scalar;

/// Of a column that was declared like this: the JSON, and the place in the order where there is one. `None`: the row is
/// refused.
#[must_use]
pub fn value(column_type: &str, bytes: &[u8]) -> Option<(Vec<u8>, Option<Scalar>)> {
    let (data_type, precision) = match column_type.split_once('(') {
        Some((name, precision)) => (name, precision.trim_end_matches(')').parse().ok()),
        None => (column_type.split(' ').next().unwrap_or_default(), None),
    };
    let kind = Kind::of(&Described {
        name: String::new(),
        column_type: column_type.to_owned(),
        data_type: data_type.to_owned(),
        nullable: true,
        collation: None,
        digits: None,
        precision,
        scale: None,
        is_json: false,
        default: None,
        extra: String::new(),
    });
    let value = Value::read(kind, Some(bytes)).ok()?;
    let mut json = Vec::new();
    value.write(kind, &mut json);
    value.is_set();
    Some((json, value.scalar(kind)))
}
