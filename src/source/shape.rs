//! A configuration that was verified against a catalogue, and how its rows become events. The same
//! for every database; what differs is a [`Codec`].

use super::json;
use super::keyset::Keyset;
use super::names;
use super::{SourceError, Types};
use crate::config::SourceConfig;
use crate::model::page::{Op, PageWriter, Taken};
use crate::model::position::{Position, Scalar};

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

    /// Whether a soft-delete column says so: neither NULL, nor false, nor zero.
    fn is_set(&self, row: &Self::Row, column: usize) -> bool;

    /// The scalar that a parameter of this column must be; a position without types may hold it as
    /// text.
    fn bindable(&self, column: usize, scalar: &Scalar) -> Option<Scalar>;
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
    pub(super) types: Types,
    /// `"name":`, column by column.
    labels: Vec<Vec<u8>>,
}

/// A column as a catalogue has it.
pub(super) trait Named {
    fn name(&self) -> &str;
}

/// Columns that exist, and those of them that are selected.
#[derive(Debug)]
pub(super) struct Selection<D> {
    pub(super) taken: Vec<D>,
    pub(super) delivered: usize,
    pub(super) cursor: Vec<usize>,
    pub(super) key: Vec<usize>,
    pub(super) soft_delete: Option<usize>,
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
        };
        match &config.columns {
            Some(names) => drop(selection.take_all(names, known)?),
            None => selection.taken = known.to_vec(),
        }
        selection.delivered = selection.taken.len();
        selection.cursor = selection.take_all(&config.cursor, known)?;
        selection.key = selection.take_all(&config.key, known)?;
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
    /// `types` are those of the delivered columns.
    pub(super) fn new<D: Named>(
        selection: &Selection<D>,
        keyset: Keyset,
        codec: C,
        types: Types,
    ) -> Self {
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
            types,
            labels: selection.taken.iter().map(label).collect(),
        }
    }

    pub(super) fn position(&self, row: &C::Row) -> Result<Position, Unplaced> {
        let scalars = |columns: &[usize]| -> Result<Vec<Scalar>, Unplaced> {
            let each = columns.iter();
            each.map(|&column| self.codec.scalar(row, column)).collect()
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

    pub(super) fn op(&self, row: &C::Row) -> Op {
        match self.soft_delete {
            Some(column) if self.codec.is_set(row, column) => Op::Delete,
            _ => Op::Upsert,
        }
    }

    pub(super) fn push(&self, writer: &mut PageWriter, position: Position, row: &C::Row) -> Taken {
        writer.push(
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
        json::list(out, b"{}", 0..self.delivered, |out, column| {
            self.write_member(row, column, out);
        });
    }

    fn write_member(&self, row: &C::Row, column: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.labels[column]);
        self.codec.write(row, column, out);
    }

    pub(super) fn name(&self, column: usize) -> &str {
        &self.keyset.columns[column].name
    }
}
