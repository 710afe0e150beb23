//! How deletions are seen, and what an outbox is.

use super::connection::Named;
use super::{Reader, connection};
use crate::config::fault::Place;
use crate::config::{CleanUp, CleanUpHow, Deletes, Outbox, Rows, Tombstones, raw};

/// The order of the source, which its tombstones continue.
pub(super) struct Order<'a> {
    pub(super) cursor: &'a [String],
    pub(super) key: &'a [String],
}

pub(super) fn deletes(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::Deletes,
    order: Order<'_>,
) -> Option<Deletes> {
    match raw {
        raw::Deletes {
            soft: Some(column),
            tombstones: None,
        } => reader.text(&at.key("soft"), &column).map(Deletes::Soft),
        raw::Deletes {
            soft: None,
            tombstones: Some(tombstones),
        } => {
            let at = at.key("tombstones");
            self::tombstones(reader, &at, tombstones, order).map(Deletes::Tombstones)
        }
        raw::Deletes { soft: Some(_), .. } => {
            let hint = "keep one of the two; a row may be noticed by one way only";
            reader
                .faults
                .add(&at.key("tombstones"), "stands beside soft", hint);
            None
        }
        raw::Deletes { soft: None, .. } => {
            let hint = "name a column as soft, or a table as tombstones";
            reader.faults.add(at, "names no way", hint);
            None
        }
    }
}

fn tombstones(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::Tombstones,
    order: Order<'_>,
) -> Option<Tombstones> {
    let raw::Tombstones { table, cursor, key } = raw;
    let table = reader.table(&at.key("table"), &table);
    let mut names = |name: &str, written: Option<raw::Names>, of_source: &[String]| {
        let Some(written) = written else {
            return Some(of_source.to_vec());
        };
        let at = at.key(name);
        let names = reader.names(&at, written)?;
        if names.len() != of_source.len() {
            let problem = format!(
                "has {} column(s), and source.{name} has {}",
                names.len(),
                of_source.len()
            );
            let hint = "name one column of the tombstone table for each of the source";
            reader.faults.add(&at, problem, hint);
            return None;
        }
        Some(names)
    };
    let cursor = names("cursor", cursor, order.cursor);
    let key = names("key", key, order.key);
    let Rows::Table { schema, table } = table? else {
        return None;
    };
    Some(Tombstones {
        schema,
        table,
        cursor: cursor?,
        key: key?,
    })
}

pub(super) fn outbox(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::Outbox,
    source: &Named,
    order: Order<'_>,
) -> Option<Outbox> {
    let raw::Outbox {
        payload,
        clean_up,
        connection,
    } = raw;
    let payload = reader.text(&at.key("payload"), &payload);
    let how = match clean_up {
        None | Some(raw::CleanUp::Word(raw::CleanUpWord::Keep)) => None,
        Some(raw::CleanUp::Word(raw::CleanUpWord::Delete)) => Some(CleanUpHow::Delete),
        Some(raw::CleanUp::Mark(raw::Mark { mark })) => {
            let at = at.key("clean_up").key("mark");
            let column = reader.text(&at, &mark)?;
            if order.cursor.contains(&column) || order.key.contains(&column) {
                let hint = "name a column that is neither cursor nor key";
                reader
                    .faults
                    .add(&at, "would move the row in its own order", hint);
                return None;
            }
            Some(CleanUpHow::Mark(column))
        }
    };
    let Some(how) = how else {
        if connection.is_some() {
            let hint = "set clean_up to delete or to { \"mark\": COLUMN }, or remove the key";
            reader
                .faults
                .add(&at.key("connection"), "is used by clean_up alone", hint);
            return None;
        }
        return Some(Outbox {
            payload: payload?,
            clean_up: None,
        });
    };
    let (at, name) = match &connection {
        Some(name) => (at.key("connection"), name.as_str()),
        None => (at.clone(), source.name.as_str()),
    };
    let named = connection::connection(reader, &at, name)?;
    if named.identity != source.identity {
        let hint = "name a setting that leads to the database of source.connection";
        let problem = "is another database than the source";
        reader.faults.add(&at, problem, hint);
        return None;
    }
    Some(Outbox {
        payload: payload?,
        clean_up: Some(CleanUp {
            connection_name: named.name,
            connection: named.connection,
            how,
        }),
    })
}
