//! Triggers that stamp every row with the time at which it is written.
//!
//! Only the plainest form is recognised, in which nothing can be overridden:
//!
//! ```sql
//! CREATE TRIGGER … AFTER INSERT ON t BEGIN
//!   UPDATE t SET changed = strftime('%Y-%m-%d %H:%M:%f', 'now') WHERE id = NEW.id;
//! END
//! ```
//!
//! and the same after UPDATE. Whatever else a trigger does, the owner can say what it is for by
//! `stamped_by`.

use super::super::catalogue::Table;
use crate::source::findings::words;

/// What a stamp may be made of beside numbers and strings.
const EXPRESSION: [&str; 11] = [
    "strftime",
    "datetime",
    "unixepoch",
    "julianday",
    "current_timestamp",
    "cast",
    "as",
    "integer",
    "real",
    "text",
    "round",
];

/// Whether inserts and updates are both stamped, so that no statement can give a cursor of its own.
pub(super) fn stamps(table: &Table, column: &str) -> bool {
    let stamped = |event: &str| {
        let mut triggers = table.triggers.iter();
        triggers.any(|sql| is_stamp(sql, event, table, column))
    };
    stamped("insert") && stamped("update")
}

fn is_stamp(sql: &str, event: &str, table: &Table, column: &str) -> bool {
    if sql.contains("--") || sql.contains("/*") {
        return false;
    }
    // Strings are the odd parts between quotes.
    let code: Vec<_> = sql.split('\'').step_by(2).collect();
    let strings: Vec<_> = sql.split('\'').skip(1).step_by(2).collect();
    let code = words(&code.join(" "));
    let name = |name: &str| name.to_ascii_lowercase();
    let (name, column) = (name(&table.name), name(column));
    let Some(begin) = code.iter().position(|word| word == "begin") else {
        return false;
    };
    let (header, body) = code.split_at(begin);
    let header = header
        .strip_suffix(["for", "each", "row"].map(str::to_owned).as_slice())
        .unwrap_or(header);
    let fires = header.ends_with(&["after", event, "on", name.as_str()].map(str::to_owned));
    let prefix = ["begin", "update", &name, "set", &column].map(str::to_owned);
    let Some(rest) = body.strip_prefix(prefix.as_slice()) else {
        return false;
    };
    let Some(condition) = rest.iter().position(|word| word == "where") else {
        return false;
    };
    let (expression, condition) = rest.split_at(condition);
    fires && is_time(expression, &strings) && is_this_row(&condition[1..], table)
}

/// A clock that does not go back: not the local one, and year first.
fn is_time(expression: &[String], strings: &[&str]) -> bool {
    let known = |word: &String| {
        EXPRESSION.contains(&word.as_str()) || word.bytes().all(|byte| byte.is_ascii_digit())
    };
    let rising = |text: &&str| match text.strip_prefix('%') {
        Some(format) => format.starts_with(['Y', 's', 'J']),
        None => !text.eq_ignore_ascii_case("localtime"),
    };
    let is_now = strings.iter().any(|text| text.eq_ignore_ascii_case("now"))
        || expression.iter().any(|word| word == "current_timestamp");
    is_now && expression.iter().all(known) && strings.iter().all(rising)
}

/// `id = NEW.id` and the end.
fn is_this_row(condition: &[String], table: &Table) -> bool {
    let [one, two, three, end] = condition else {
        return false;
    };
    let key = match (one.as_str(), two.as_str()) {
        ("new", _) if two == three => two,
        (_, "new") if one == three => one,
        _ => return false,
    };
    let is_primary = match table.primary_key.as_slice() {
        [primary] => primary.eq_ignore_ascii_case(key),
        _ => false,
    };
    end == "end" && (is_primary || key == "rowid")
}
