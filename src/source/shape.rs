//! A configuration that was verified against a catalogue, and how its rows become events. The same
//! for every database; what differs is a [`Codec`].

use std::sync::Arc;

use super::json;
use super::keyset::Keyset;
use super::names;
use super::{SourceError, Types};
use crate::config::{Deletes, SourceConfig, Tombstones};
use crate::model::page::{Op, PageWriter, Room, Taken};
use crate::model::position::{Position, Scalar};
use crate::model::schema::Schema;

/// A row, its tombstone, and one more that must not be there.
pub(super) const MOST_AT_A_POSITION: i64 = 3;

/// NULLs are counted up to here for the message.
pub(super) const COUNTED_NULLS: i64 = 1000;

/// Reads the values of one database's rows. Columns are numbered as they are selected.
pub(super) trait Codec: Send + Sync {
    type Row: Send;

    /// What a cursor or key may be made of, for an error.
    const ORDERED: &'static str;

    /// A value as part of a position.
    fn scalar(&self, row: &Self::Row, column: usize) -> Result<Scalar, Unplaced>;

    /// Every value can be decoded, so that none is ever replaced by NULL on its way out.
    fn readable(&self, row: &Self::Row) -> Result<(), sqlx::Error>;

    /// The value as JSON; the row was found readable.
    fn write(&self, row: &Self::Row, column: usize, out: &mut Vec<u8>);

    /// Whether a soft-delete column says so: neither NULL, nor false, nor zero. Also asked of the
    /// mark of tombstones, an integer behind all columns.
    fn is_set(&self, row: &Self::Row, column: usize) -> bool;

    /// The scalar that a parameter of this column must be; a position without types may hold it as
    /// text.
    fn bindable(&self, column: usize, scalar: &Scalar) -> Option<Scalar>;

    /// What somebody may mean who writes a value of this column as text: one value, or several where
    /// the column has no type, or none where it can hold no such thing.
    fn meant(&self, column: usize, text: &str) -> Vec<Scalar>;
}

/// Why a row has no position.
#[derive(Debug)]
pub(super) enum Unplaced {
    Null { column: usize },
    Unordered { column: usize },
    Unreadable(sqlx::Error),
}

/// How rows are selected and encoded, as of one version of the schema.
#[derive(Debug)]
pub(super) struct Shape<C> {
    pub(super) codec: C,
    pub(super) keyset: Keyset,
    /// How many of the columns are delivered as data; those behind them are only for the order.
    pub(super) delivered: usize,
    pub(super) cursor: Vec<usize>,
    pub(super) key: Vec<usize>,
    /// Rows in which this column is set are deletions.
    pub(super) soft_delete: Option<usize>,
    /// This column alone is the data, as it is.
    pub(super) payload: Option<usize>,
    pub(super) types: Types,
    pub(super) schema: Arc<Schema>,
    /// `"name":`, column by column.
    labels: Vec<Vec<u8>>,
}

/// A column as a catalogue has it.
pub(super) trait Named {
    fn name(&self) -> &str;

    /// As the catalogue spells it.
    fn type_name(&self) -> &str;

    fn nullable(&self) -> bool;
}

/// Columns that exist, and those of them that are selected.
#[derive(Debug)]
pub(super) struct Selection<D> {
    pub(super) taken: Vec<D>,
    pub(super) delivered: usize,
    pub(super) cursor: Vec<usize>,
    pub(super) key: Vec<usize>,
    pub(super) soft_delete: Option<usize>,
    pub(super) payload: Option<usize>,
}

impl<D: Named + Clone> Selection<D> {
    /// Every name of the configuration is among the known ones, exactly as it is written.
    pub(super) fn of(config: &SourceConfig, known: &[D]) -> Result<Self, SourceError> {
        let mut selection = Self {
            taken: Vec::new(),
            delivered: 0,
            cursor: Vec::new(),
            key: Vec::new(),
            soft_delete: None,
            payload: None,
        };
        match &config.columns {
            Some(names) => drop(selection.take_all(names, known)?),
            None => selection.taken = known.to_vec(),
        }
        selection.delivered = selection.taken.len();
        selection.cursor = selection.take_all(&config.cursor, known)?;
        selection.key = selection.take_all(&config.key, known)?;
        if let Deletes::Soft(column) = &config.deletes {
            selection.soft_delete = Some(selection.take(column, known)?);
        }
        if let Some(outbox) = &config.outbox {
            selection.payload = Some(selection.take(&outbox.payload, known)?);
        }
        Ok(selection)
    }

    /// The cursor, then the key columns that are not part of it.
    pub(super) fn order(&self) -> Vec<usize> {
        let mut order = self.cursor.clone();
        order.extend(
            self.key
                .iter()
                .filter(|column| !self.cursor.contains(column)),
        );
        order
    }

    /// What a tombstone table has for each selected column. Its cursor and key must be of the types of
    /// the source's, or the two could not be merged, and never NULL, or a deletion would be hidden.
    pub(super) fn tombstone_names(
        &self,
        tombstones: &Tombstones,
        known: &[D],
    ) -> Result<Vec<Option<String>>, SourceError> {
        let mut names = vec![None; self.taken.len()];
        let cursor = self.cursor.iter().zip(&tombstones.cursor);
        let key = self.key.iter().zip(&tombstones.key);
        for (&at, name) in cursor.chain(key) {
            let Some(found) = known.iter().find(|column| column.name() == name) else {
                let others: Vec<_> = known.iter().map(|other| other.name().to_owned()).collect();
                return Err(names::missing("column", name, "the tombstones", &others));
            };
            let wrong = |what: String| SourceError::Mismatch {
                what: format!("column {} of the tombstones {what}", names::shown(name)),
                remedy: "make the table as `dbtick init` prints it".into(),
            };
            let expected = self.taken[at].type_name();
            if found.type_name() != expected {
                let found = found.type_name();
                return Err(wrong(format!("is {found}, and the source's is {expected}")));
            }
            if found.nullable() {
                return Err(wrong("can be NULL".to_owned()));
            }
            names[at] = Some(name.clone());
        }
        Ok(names)
    }

    fn take_all(&mut self, names: &[String], known: &[D]) -> Result<Vec<usize>, SourceError> {
        names.iter().map(|name| self.take(name, known)).collect()
    }

    pub(super) fn take(&mut self, name: &str, known: &[D]) -> Result<usize, SourceError> {
        if let Some(at) = self.taken.iter().position(|column| column.name() == name) {
            return Ok(at);
        }
        let Some(found) = known.iter().find(|column| column.name() == name) else {
            let others: Vec<_> = known
                .iter()
                .map(|column| column.name().to_owned())
                .collect();
            return Err(names::missing("column", name, "the source", &others));
        };
        self.taken.push(found.clone());
        Ok(self.taken.len() - 1)
    }
}

impl<C: Codec> Shape<C> {
    pub(super) fn new<D: Named>(
        config: &SourceConfig,
        selection: &Selection<D>,
        keyset: Keyset,
        codec: C,
    ) -> Self {
        let typed = |column: &D| (column.name().to_owned(), column.type_name().to_owned());
        let columns = selection.taken.iter().map(typed);
        let label = |column: &D| {
            let mut label = Vec::new();
            json::string(column.name(), &mut label);
            label.push(b':');
            label
        };
        Self {
            codec,
            keyset,
            delivered: selection.delivered,
            cursor: selection.cursor.clone(),
            key: selection.key.clone(),
            soft_delete: selection.soft_delete,
            payload: selection.payload,
            types: columns.clone().take(selection.delivered).collect(),
            schema: Arc::new(Schema::new(columns, &config.cursor, &config.key)),
            labels: selection.taken.iter().map(label).collect(),
        }
    }

    pub(super) fn position(&self, row: &C::Row) -> Result<Position, Unplaced> {
        let scalars = |columns: &[usize]| -> Result<Vec<Scalar>, Unplaced> {
            // As many as there are, for each row that is kept: collecting would make room for four.
            let mut scalars = Vec::with_capacity(columns.len());
            for &column in columns {
                scalars.push(self.codec.scalar(row, column)?);
            }
            Ok(scalars)
        };
        Ok(Position::new(scalars(&self.cursor)?, scalars(&self.key)?))
    }

    /// The values of the order's columns, for the parameters of a page.
    pub(super) fn bound(&self, after: &Position) -> Result<Vec<Scalar>, SourceError> {
        let expected = (self.cursor.len(), self.key.len());
        if (after.cursor().len(), after.key().len()) != expected {
            return Err(SourceError::Mismatch {
                what: format!(
                    "the checkpoint {after} does not have {} cursor and {} key value(s)",
                    expected.0, expected.1
                ),
                remedy: "it was made with another cursor or key; reset the poller".into(),
            });
        }
        let cursor = self.cursor.iter().zip(after.cursor());
        let key = self.key.iter().zip(after.key());
        let rest = key.filter(|(column, _)| !self.cursor.contains(column));
        cursor
            .chain(rest)
            .map(|(&column, scalar)| {
                let bindable = self.codec.bindable(column, scalar);
                bindable.ok_or_else(|| SourceError::Mismatch {
                    what: format!(
                        "the checkpoint has {} {scalar} for column {}, which cannot hold it",
                        scalar.scalar_type().name(),
                        names::shown(self.name(column)),
                    ),
                    remedy: "the column's type has changed, or the checkpoint was made from \
                             another source: reset the poller"
                        .into(),
                })
            })
            .collect()
    }

    /// The same, of a position that was read some time ago and is looked for.
    pub(super) fn sought(&self, at: &Position) -> Result<Vec<Scalar>, SourceError> {
        self.bound(at).map_err(|_| SourceError::Mismatch {
            what: format!(
                "no row can be at {at}: the cursor or key has other columns or types now"
            ),
            remedy: "an event of that position was read from something else; give the columns and \
                     their types back, or give the event up"
                .into(),
        })
    }

    /// A value that somebody wrote down for the cursor.
    pub(super) fn bindable_cursor(&self, scalar: &Scalar) -> Result<Scalar, SourceError> {
        let column = self.cursor[0];
        let bindable = self.codec.bindable(column, scalar);
        bindable.ok_or_else(|| SourceError::Mismatch {
            what: format!(
                "{scalar} is no value of the cursor {}",
                names::shown(self.name(column))
            ),
            remedy: "write the cursor as events show it, for example 12093 or \
                     \"2026-04-07T01:23:45.123456Z\""
                .into(),
        })
    }

    /// The limit of a page's statement: one row more than the page takes shows whether there are
    /// more, and one more again where the last row may have a tombstone at its position.
    pub(super) fn limit(&self, writer: &PageWriter) -> i64 {
        let twin = i64::from(self.keyset.tombstones.is_some());
        i64::try_from(writer.most_read()).map_or(i64::MAX, |rows| rows.saturating_add(1 + twin))
    }

    pub(super) fn op(&self, row: &C::Row) -> Op {
        let deleted = match self.soft_delete {
            Some(column) => self.codec.is_set(row, column),
            None => self.is_tombstone(row),
        };
        if deleted { Op::Delete } else { Op::Upsert }
    }

    pub(super) fn is_tombstone(&self, row: &C::Row) -> bool {
        let mark = self.keyset.columns.len();
        self.keyset.tombstones.is_some() && self.codec.is_set(row, mark)
    }

    /// In the answer to [`Keyset::with_key`].
    pub(super) fn passes_filter(&self, row: &C::Row) -> bool {
        let marks = usize::from(self.keyset.tombstones.is_some());
        self.codec.is_set(row, self.keyset.columns.len() + marks)
    }

    pub(super) fn push(
        &self,
        writer: &mut PageWriter,
        position: Position,
        row: &C::Row,
        room: Room,
    ) -> Taken {
        writer.push_into(
            room,
            self.op(row),
            position,
            |out| self.write_cursor(row, out),
            |out| self.write_key(row, out),
            |out| self.write_data(row, out),
        )
    }

    fn write_cursor(&self, row: &C::Row, out: &mut Vec<u8>) {
        match self.cursor.as_slice() {
            [single] => self.codec.write(row, *single, out),
            several => json::list(out, b"[]", several, |out, column| {
                self.codec.write(row, *column, out);
            }),
        }
    }

    pub(super) fn write_key(&self, row: &C::Row, out: &mut Vec<u8>) {
        json::list(out, b"{}", &self.key, |out, column| {
            self.write_member(row, *column, out);
        });
    }

    fn write_data(&self, row: &C::Row, out: &mut Vec<u8>) {
        if self.is_tombstone(row) {
            return out.extend_from_slice(b"null");
        }
        if let Some(payload) = self.payload {
            return self.codec.write(row, payload, out);
        }
        json::list(out, b"{}", 0..self.delivered, |out, column| {
            self.write_member(row, column, out);
        });
    }

    fn write_member(&self, row: &C::Row, column: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.labels[column]);
        self.codec.write(row, column, out);
    }

    /// The error for a count of NULLs that went up to [`COUNTED_NULLS`] and one more.
    pub(super) fn null_cursor(&self, column: usize, count: i64) -> SourceError {
        SourceError::NullCursor {
            column: self.name(column).to_owned(),
            count: match count {
                ..=COUNTED_NULLS => count.to_string(),
                _ => format!("more than {COUNTED_NULLS}"),
            },
        }
    }

    pub(super) fn name(&self, column: usize) -> &str {
        &self.keyset.columns[column].name
    }
}
