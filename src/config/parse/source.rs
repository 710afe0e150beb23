//! Which rows, in which order.

use std::collections::BTreeSet;

use super::deletes::{self, Order};
use super::{Reader, connection, late};
use crate::config::fault::Place;
use crate::config::raw::{self, Names};
use crate::config::{Deletes, NullPolicy, Rows, SourceConfig, Start};
use crate::model::position::Scalar;

pub(super) fn source(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::Source,
) -> Option<SourceConfig> {
    let raw::Source {
        connection,
        table,
        query,
        cursor,
        key,
        columns,
        filter,
        start,
        nulls,
        deletes,
        outbox,
        late_commits,
        ordering,
        stamped_by,
        future,
        time_zone,
        recovery_point,
    } = raw;
    let late = late::late(
        reader,
        at,
        late::Raw {
            late_commits,
            ordering,
            stamped_by,
            future,
            time_zone,
            recovery_point,
        },
    );
    let connection = connection::connection(reader, &at.key("connection"), &connection);
    let rows = reader.rows(at, table, query);
    let cursor = reader.names(&at.key("cursor"), cursor);
    let key = reader.names(&at.key("key"), key);
    let columns = columns.map(|names| reader.names(&at.key("columns"), Names::Many(names)));
    let rows = if outbox.is_some() && matches!(rows, Some(Rows::Query(_))) {
        let hint = "name the outbox as table";
        let problem = "needs a table, and the source is a query";
        reader.faults.add(&at.key("outbox"), problem, hint);
        None
    } else {
        rows
    };
    let order = || {
        Some(Order {
            cursor: cursor.as_deref()?,
            key: key.as_deref()?,
        })
    };
    if let (Some(raw::Start::From(_)), Some([_, _, ..])) = (&start, cursor.as_deref()) {
        let hint = "use beginning or now, or reset the poller to a cursor and key";
        let problem = "is one value, and the cursor has several columns";
        reader
            .faults
            .add(&at.key("start").key("from"), problem, hint);
        return None;
    }
    let deletes = match deletes {
        Some(raw) => deletes::deletes(reader, &at.key("deletes"), raw, order()?),
        None => Some(Deletes::Unseen),
    };
    let connection = connection?;
    let outbox = match outbox {
        Some(raw) => {
            let at = at.key("outbox");
            Some(deletes::outbox(reader, &at, raw, &connection, order()?))
        }
        None => None,
    };
    Some(SourceConfig {
        connection_name: connection.name,
        connection_identity: connection.identity,
        connection: connection.connection,
        rows: rows?,
        cursor: cursor?,
        key: key?,
        columns: match columns {
            Some(columns) => Some(columns?),
            None => None,
        },
        filter,
        start: match start {
            None | Some(raw::Start::Word(raw::StartWord::Beginning)) => Start::Beginning,
            Some(raw::Start::Word(raw::StartWord::Now)) => Start::Now,
            Some(raw::Start::From(raw::StartFrom { from })) => Start::From(match from {
                raw::CursorValue::Integer(value) => Scalar::Integer(value.into()),
                raw::CursorValue::Text(value) => Scalar::Text(value),
            }),
        },
        nulls: match nulls {
            None | Some(raw::Nulls::Fail) => NullPolicy::Fail,
            Some(raw::Nulls::Ignore) => NullPolicy::Ignore,
        },
        deletes: deletes?,
        outbox: match outbox {
            Some(outbox) => Some(outbox?),
            None => None,
        },
        late: late?,
        shard: None,
    })
}

impl Reader<'_> {
    fn rows(&mut self, at: &Place, table: Option<String>, query: Option<String>) -> Option<Rows> {
        match (table, query) {
            (Some(table), None) => self.table(&at.key("table"), &table),
            (None, Some(query)) => Some(Rows::Query(query)),
            (Some(_), Some(_)) => {
                let problem = "stands beside table";
                self.faults
                    .add(&at.key("query"), problem, "keep one of the two");
                None
            }
            (None, None) => {
                let hint = "name the table, or write a SELECT as query";
                self.faults.add(&at.key("table"), "is missing", hint);
                None
            }
        }
    }

    pub(super) fn table(&mut self, at: &Place, written: &str) -> Option<Rows> {
        let rows = table_name(&self.text(at, written)?);
        if rows.is_none() {
            self.faults.add(
                at,
                format!("is not the name of a table: {written}"),
                "write table or schema.table; put a part with a dot in it into double quotes",
            );
        }
        rows
    }

    pub(super) fn names(&mut self, at: &Place, names: Names) -> Option<Vec<String>> {
        let (names, single) = match names {
            Names::One(name) => (vec![name], true),
            Names::Many(names) => (names, false),
        };
        let mut seen = BTreeSet::new();
        let names: Vec<Option<String>> = names
            .iter()
            .enumerate()
            .map(|(index, written)| {
                let at = if single { at.clone() } else { at.index(index) };
                let name = self.text(&at, written)?;
                if name.trim().is_empty() {
                    self.faults
                        .add(&at, "is empty", "write the name of a column");
                    return None;
                }
                if !seen.insert(name.clone()) {
                    let problem = format!("is named twice: {written}");
                    self.faults.add(&at, problem, "name each column once");
                    return None;
                }
                Some(name)
            })
            .collect();
        names.into_iter().collect()
    }
}

pub(super) fn table_name(written: &str) -> Option<Rows> {
    match identifiers(written)?.as_slice() {
        [table] => Some(Rows::Table {
            schema: None,
            table: table.clone(),
        }),
        [schema, table] => Some(Rows::Table {
            schema: Some(schema.clone()),
            table: table.clone(),
        }),
        _ => None,
    }
}

/// The parts of `a.b` or `"a.b".c`; `""` inside quotes is one quote. `None`: it is none.
pub(super) fn identifiers(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_identifier(quoted)?,
            None => {
                let end = rest.find(['.', '"']).unwrap_or(rest.len());
                let (part, after) = rest.split_at(end);
                (part.trim().to_owned(), after)
            }
        };
        if part.is_empty() || part.contains('\0') {
            return None;
        }
        parts.push(part);
        match after.strip_prefix('.') {
            Some(next) => rest = next,
            None => return after.is_empty().then_some(parts),
        }
    }
}

fn quoted_identifier(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        part.push_str(before);
        match after.strip_prefix('"') {
            Some(next) => {
                part.push('"');
                rest = next;
            }
            None => return Some((part, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_may_have_a_schema_and_quotes() {
        for (text, expected) in [
            ("orders", Some(vec!["orders"])),
            ("public.orders", Some(vec!["public", "orders"])),
            ("\"odd.name\"", Some(vec!["odd.name"])),
            ("main.\"a \"\"b\"\".c\"", Some(vec!["main", "a \"b\".c"])),
            ("order lines", Some(vec!["order lines"])),
            ("a.b.c", Some(vec!["a", "b", "c"])),
            ("", None),
            (".orders", None),
            ("main.", None),
            ("\"open", None),
            ("\"a\"b", None),
            ("a\"b\"", None),
            ("\"\"", None),
        ] {
            let expected = expected.map(|parts| parts.into_iter().map(str::to_owned).collect());
            assert_eq!(identifiers(text), expected, "{text}");
        }
    }
}
