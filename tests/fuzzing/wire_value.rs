//! Values of PostgreSQL and MySQL as they come over the wire: refused, or one JSON value and one place in the order.

use dbtick::model::position::{Position, Scalar};
use dbtick::source::{mysql, postgres};
use serde_json::Value;

/// The numbers of PostgreSQL's types; in an array, those of its elements.
const POSTGRES: [u32; 24] = [
    16, 17, 19, 20, 21, 23, 25, 26, 114, 700, 701, 790, 1042, 1043, 1082, 1083, 1114, 1184, 1186,
    1266, 1560, 1700, 2950, 3802,
];
const MYSQL: [&str; 21] = [
    "tinyint",
    "int unsigned",
    "bigint",
    "bigint unsigned",
    "year",
    "decimal",
    "float",
    "double",
    "bit(1)",
    "bit(20)",
    "bit(64)",
    "date",
    "datetime",
    "timestamp",
    "time",
    "json",
    "varchar",
    "char",
    "blob",
    "varbinary",
    "geometry",
];

/// Which database, which type, and the value.
pub(crate) fn wire_value(input: &[u8]) {
    let [database, kind, bytes @ ..] = input else {
        return;
    };
    let kind = usize::from(*kind);
    let read = match database % 3 {
        0 => postgres::fuzzing::value(POSTGRES[kind % POSTGRES.len()], false, bytes),
        1 => postgres::fuzzing::value(POSTGRES[kind % POSTGRES.len()], true, bytes),
        _ => mysql::fuzzing::value(MYSQL[kind % MYSQL.len()], bytes),
    };
    let Some((json, scalar)) = read else {
        return;
    };
    // A number and a NUL take their place; nothing may take a hundred times its own.
    assert!(json.len() <= 200_000 + 8 * bytes.len(), "{}", json.len());
    let value: Value = serde_json::from_slice(&json).expect("a value is JSON");
    // JSON has a null of its own.
    let is_null = json == b"null" && !bytes.trim_ascii_end().ends_with(b"null");
    assert!(!is_null, "a value that is there is not NULL");
    if database % 3 == 1 {
        assert!(value.is_array());
    }
    if let Some(scalar) = scalar {
        placed(&scalar);
    }
}

/// A place survives each of the forms in which documents have it.
pub(crate) fn placed(scalar: &Scalar) {
    assert_eq!(&Scalar::from_tagged(&scalar.to_tagged()).unwrap(), scalar);
    let position = Position::new(vec![scalar.clone()], vec![scalar.clone()]);
    let again = Position::from_tagged(&position.to_tagged()).unwrap();
    assert_eq!(again, position);
    assert_eq!(again.cmp(&position), std::cmp::Ordering::Equal);
}
