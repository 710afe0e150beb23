//! The columns of a source as they were seen at a checkpoint (B8): what was added passes, what
//! decides the order must stay as it is.

use std::collections::BTreeSet;
use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Columns with their declared types; equal ones have equal hashes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    hash: String,
    columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// As the database declares it; empty where it says nothing.
    pub declared: String,
    pub role: Role,
}

/// Whether the order of rows depends on a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Data,
    Cursor,
    Key,
    CursorAndKey,
}

/// One difference between two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaChange {
    Added(Column),
    Dropped(Column),
    Retyped { was: Column, is: Column },
}

impl Schema {
    /// Everything that is read, in order: delivered columns, and those that only give the order.
    #[must_use]
    pub fn new(
        columns: impl IntoIterator<Item = (String, String)>,
        cursor: &[String],
        key: &[String],
    ) -> Self {
        let columns = columns.into_iter().map(|(name, declared)| Column {
            role: Role::of(cursor.contains(&name), key.contains(&name)),
            name,
            declared,
        });
        let columns: Vec<Column> = columns.collect();
        Self {
            hash: hash(&columns),
            columns,
        }
    }

    /// As a document says it. Its hash stands: another version of dbtick may have made it otherwise.
    pub(super) fn recorded(hash: String, columns: Vec<Column>) -> Self {
        Self { hash, columns }
    }

    #[must_use]
    pub fn hash(&self) -> &str {
        &self.hash
    }

    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// What has changed from this schema to `now`.
    #[must_use]
    pub fn changes_to(&self, now: &Self) -> Vec<SchemaChange> {
        let mut changes = Vec::new();
        for was in &self.columns {
            match now.column(&was.name) {
                None => changes.push(SchemaChange::Dropped(was.clone())),
                Some(is) if is.declared != was.declared => changes.push(SchemaChange::Retyped {
                    was: was.clone(),
                    is: is.clone(),
                }),
                Some(_) => {}
            }
        }
        let added = now.columns.iter();
        let added = added.filter(|column| self.column(&column.name).is_none());
        changes.extend(added.cloned().map(SchemaChange::Added));
        changes
    }

    fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

impl SchemaChange {
    /// Whether the checkpoint may have lost its place in the order.
    #[must_use]
    pub fn stops_the_poller(&self) -> bool {
        match self {
            Self::Added(_) => false,
            Self::Dropped(column) => column.role != Role::Data,
            Self::Retyped { was, is } => {
                was.role != Role::Data && kind(&was.declared) != kind(&is.declared)
            }
        }
    }
}

impl fmt::Display for SchemaChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(column) => write!(f, "column {column} is new"),
            Self::Dropped(column) => write!(f, "column {column} is gone"),
            Self::Retyped { was, is } => {
                let declared = match is.declared.as_str() {
                    "" => "of no declared type",
                    declared => declared,
                };
                write!(f, "column {was} is now {declared}")
            }
        }
    }
}

/// `id INTEGER (key)`
impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.declared.is_empty() {
            write!(f, " {}", self.declared)?;
        }
        match self.role {
            Role::Data => Ok(()),
            role => write!(f, " ({})", role.name()),
        }
    }
}

impl Role {
    fn of(cursor: bool, key: bool) -> Self {
        match (cursor, key) {
            (false, false) => Self::Data,
            (true, false) => Self::Cursor,
            (false, true) => Self::Key,
            (true, true) => Self::CursorAndKey,
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Data => "",
            Self::Cursor => "cursor",
            Self::Key => "key",
            Self::CursorAndKey => "cursor and key",
        }
    }

    /// A role that this version does not know orders nothing as far as it can tell.
    #[must_use]
    pub(super) fn from_name(name: &str) -> Self {
        [Self::Cursor, Self::Key, Self::CursorAndKey]
            .into_iter()
            .find(|role| role.name() == name)
            .unwrap_or(Self::Data)
    }
}

/// A declared type by what it compares like: `varchar(20)` and `VARCHAR(40)` are one kind, as are
/// all precisions of a timestamp; the values of an enum stay, since their order counts. `None`
/// where nothing is declared, which is no evidence of a change.
fn kind(declared: &str) -> Kind {
    let mut rest = declared;
    let mut name = String::new();
    while let Some((before, behind)) = rest.split_once('(') {
        name.push_str(before);
        match behind.split_once(')') {
            Some((inside, after)) if is_size(inside) => rest = after,
            _ => {
                name.push('(');
                rest = behind;
            }
        }
    }
    name.push_str(rest);
    Kind(name.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[derive(Debug)]
struct Kind(String);

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_empty() || other.0.is_empty() || self.0.eq_ignore_ascii_case(&other.0)
    }
}

fn is_size(inside: &str) -> bool {
    let size = |letter: char| letter.is_ascii_digit() || matches!(letter, ',' | ' ');
    inside.chars().all(size)
}

/// Over the sorted columns: another order of them is no other schema.
fn hash(columns: &[Column]) -> String {
    let sorted: BTreeSet<_> = columns
        .iter()
        .map(|column| [&column.name, &column.declared, column.role.name()])
        .collect();
    let mut hash = Sha256::new();
    for text in sorted.into_iter().flatten() {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    HEXLOWER.encode(&hash.finalize()[..8])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(columns: &[(&str, &str)]) -> Schema {
        let columns = columns
            .iter()
            .map(|(name, declared)| ((*name).to_owned(), (*declared).to_owned()));
        Schema::new(columns, &["seq".to_owned()], &["id".to_owned()])
    }

    const BASE: &[(&str, &str)] = &[("id", "INTEGER"), ("seq", "BIGINT"), ("note", "TEXT")];

    #[track_caller]
    fn check(now: &[(&str, &str)], said: &[&str], stops: bool) {
        let changes = schema(BASE).changes_to(&schema(now));
        let texts: Vec<_> = changes.iter().map(ToString::to_string).collect();
        assert_eq!(texts, said);
        assert_eq!(changes.iter().any(SchemaChange::stops_the_poller), stops);
        let same = schema(BASE).hash() == schema(now).hash();
        assert_eq!(same, said.is_empty());
    }

    #[test]
    fn only_what_orders_rows_stops_a_poller() {
        check(BASE, &[], false);
        check(
            &[("note", "TEXT"), ("seq", "BIGINT"), ("id", "INTEGER")],
            &[],
            false,
        );
        check(
            &[
                ("id", "INTEGER"),
                ("seq", "BIGINT"),
                ("note", "TEXT"),
                ("x", ""),
            ],
            &["column x is new"],
            false,
        );
        check(
            &[("id", "INTEGER"), ("seq", "BIGINT")],
            &["column note TEXT is gone"],
            false,
        );
        check(
            &[("id", "INTEGER"), ("seq", "BIGINT"), ("note", "JSON")],
            &["column note TEXT is now JSON"],
            false,
        );
        check(
            &[("id", "TEXT"), ("seq", "BIGINT"), ("note", "TEXT")],
            &["column id INTEGER (key) is now TEXT"],
            true,
        );
        check(
            &[("id", "INTEGER"), ("note", "TEXT")],
            &["column seq BIGINT (cursor) is gone"],
            true,
        );
    }

    #[test]
    fn the_size_of_a_type_is_announced_and_stops_nothing() {
        for (was, is, same) in [
            ("varchar(20)", "VARCHAR(40)", true),
            (
                "timestamp(3) with time zone",
                "timestamp(6) with time zone",
                true,
            ),
            ("numeric(10, 2)", "numeric(12,4)", true),
            ("", "INTEGER", true),
            ("integer", "bigint", false),
            ("enum('a','b')", "enum('b','a')", false),
            ("timestamp", "timestamp with time zone", false),
        ] {
            assert_eq!(kind(was) == kind(is), same, "{was} → {is}");
        }
    }
}
