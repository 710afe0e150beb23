//! The configuration, verified against the catalogue: from here on every name exists.

use std::sync::Arc;

use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::catalogue::{self, Declared, Table};
use super::fault::Faults;
use super::json;
use super::value::{Hint, Stored};
use crate::config::{NullPolicy, Rows, SourceConfig};
use crate::model::position::{Position, Scalar};
use crate::model::schema::Schema;
use crate::source::fragment::Fragment;
use crate::source::keyset::{Dialect, From, Keyset};
use crate::source::names;
use crate::source::{SourceError, Types};

/// How rows are selected and encoded, as of one version of the schema.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) schema_version: i64,
    pub(super) keyset: Keyset,
    /// In the order of the keyset's columns.
    pub(super) columns: Vec<Encoded>,
    /// How many of the columns are delivered as data; those behind them are only for the order.
    pub(super) delivered: usize,
    pub(super) cursor: Vec<usize>,
    pub(super) key: Vec<usize>,
    pub(super) table: Option<Table>,
    pub(super) types: Types,
    pub(super) schema: Arc<Schema>,
    /// Text in another encoding is ordered by that encoding's bytes.
    text_has_order: bool,
}

#[derive(Debug)]
pub(super) struct Encoded {
    pub(super) declared: Declared,
    pub(super) hint: Hint,
    /// `"name":`
    label: Vec<u8>,
}

/// Why a row has no position.
#[derive(Debug)]
pub(super) enum Unplaced {
    Null { column: usize },
    Unordered { column: usize },
    Unreadable(sqlx::Error),
}

impl Shape {
    pub(super) async fn load(
        config: &SourceConfig,
        connection: &mut SqliteConnection,
        schema_version: i64,
    ) -> Result<Self, SourceError> {
        let faults = Faults {
            setting: &config.connection_name,
        };
        let failed = |error| faults.of("reading the catalogue", error);
        let encoding: String = sqlx::query_scalar("PRAGMA encoding")
            .fetch_one(&mut *connection)
            .await
            .map_err(failed)?;
        let (from, table, known) = match &config.rows {
            Rows::Table { schema, table } => {
                let schema = schema.clone().unwrap_or_else(|| "main".to_owned());
                let found = catalogue::table(connection, &schema, table)
                    .await
                    .map_err(failed)?;
                let Some(found) = found else {
                    let others = catalogue::tables(connection, &schema)
                        .await
                        .map_err(failed)?;
                    return Err(names::missing("table", table, "the database", &others));
                };
                let columns = found.columns.clone();
                let table = table.clone();
                (From::Table { schema, table }, Some(found), columns)
            }
            Rows::Query(query) => {
                let query = fragment("source.query", query)?;
                let columns = catalogue::query_columns(connection, query.sql())
                    .await
                    .map_err(|error| faults.of("source.query", error))?;
                (From::Query(query), None, columns)
            }
        };
        let mut columns = Columns {
            known,
            taken: Vec::new(),
        };
        match &config.columns {
            Some(names) => {
                for name in names {
                    columns.take(name)?;
                }
            }
            None => columns.taken = columns.known.clone(),
        }
        let delivered = columns.taken.len();
        let cursor = columns.take_all(&config.cursor)?;
        let key = columns.take_all(&config.key)?;
        let mut order = cursor.clone();
        order.extend(key.iter().filter(|column| !cursor.contains(column)));
        let present = match config.nulls {
            NullPolicy::Fail => Vec::new(),
            NullPolicy::Ignore => {
                let nullable = |column: &usize| columns.taken[*column].nullable;
                order.iter().copied().filter(nullable).collect()
            }
        };
        let filter = config.filter.as_deref();
        Ok(Self {
            schema_version,
            keyset: Keyset {
                dialect: Dialect::Sqlite,
                from,
                filter: filter
                    .map(|text| fragment("source.filter", text))
                    .transpose()?,
                columns: columns
                    .taken
                    .iter()
                    .map(|column| column.name.clone())
                    .collect(),
                order,
                present,
            },
            types: columns.taken[..delivered]
                .iter()
                .map(|column| (column.name.clone(), column.declared.clone()))
                .collect(),
            schema: Arc::new(Schema::new(
                columns
                    .taken
                    .iter()
                    .map(|column| (column.name.clone(), column.declared.clone())),
                &config.cursor,
                &config.key,
            )),
            columns: columns.taken.into_iter().map(Encoded::new).collect(),
            delivered,
            cursor,
            key,
            table,
            text_has_order: encoding == "UTF-8",
        })
    }

    pub(super) fn position(&self, row: &SqliteRow) -> Result<Position, Unplaced> {
        Ok(Position::new(
            self.scalars(row, &self.cursor)?,
            self.scalars(row, &self.key)?,
        ))
    }

    fn scalars(&self, row: &SqliteRow, columns: &[usize]) -> Result<Vec<Scalar>, Unplaced> {
        columns
            .iter()
            .map(|&column| {
                let stored = stored(row, column).map_err(Unplaced::Unreadable)?;
                match stored.scalar() {
                    Some(Scalar::Text(_)) if !self.text_has_order => {
                        Err(Unplaced::Unordered { column })
                    }
                    Some(scalar) => Ok(scalar),
                    None if stored == Stored::Null => Err(Unplaced::Null { column }),
                    None => Err(Unplaced::Unordered { column }),
                }
            })
            .collect()
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
        let key = self.key.iter().zip(after.key());
        let rest = key.filter(|(column, _)| !self.cursor.contains(column));
        Ok(after
            .cursor()
            .iter()
            .chain(rest.map(|(_, scalar)| scalar))
            .cloned()
            .collect())
    }

    pub(super) fn write_cursor(&self, row: &SqliteRow, out: &mut Vec<u8>) {
        match self.cursor.as_slice() {
            [single] => self.write(row, *single, out),
            several => list(out, b"[]", several, |out, column| {
                self.write(row, *column, out)
            }),
        }
    }

    pub(super) fn write_key(&self, row: &SqliteRow, out: &mut Vec<u8>) {
        list(out, b"{}", &self.key, |out, column| {
            self.write_member(row, *column, out);
        });
    }

    pub(super) fn write_data(&self, row: &SqliteRow, out: &mut Vec<u8>) {
        list(out, b"{}", 0..self.delivered, |out, column| {
            self.write_member(row, column, out);
        });
    }

    fn write_member(&self, row: &SqliteRow, column: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.columns[column].label);
        self.write(row, column, out);
    }

    /// The row was checked by [`Shape::readable`]; nothing is left to fail.
    fn write(&self, row: &SqliteRow, column: usize, out: &mut Vec<u8>) {
        stored(row, column)
            .unwrap_or(Stored::Null)
            .write(self.columns[column].hint, out);
    }

    /// Every value can be decoded, so that none is ever replaced by NULL on its way out.
    pub(super) fn readable(&self, row: &SqliteRow) -> Result<(), sqlx::Error> {
        (0..self.columns.len()).try_for_each(|column| stored(row, column).map(drop))
    }

    pub(super) fn name(&self, column: usize) -> &str {
        &self.columns[column].declared.name
    }
}

impl Encoded {
    fn new(declared: Declared) -> Self {
        let mut label = Vec::new();
        json::string(&declared.name, &mut label);
        label.push(b':');
        Self {
            hint: Hint::from_declared(&declared.declared),
            declared,
            label,
        }
    }
}

/// Columns that exist, and those of them that are selected.
struct Columns {
    known: Vec<Declared>,
    taken: Vec<Declared>,
}

impl Columns {
    fn take(&mut self, name: &str) -> Result<usize, SourceError> {
        if let Some(at) = self.taken.iter().position(|column| column.name == name) {
            return Ok(at);
        }
        let Some(found) = self.known.iter().find(|column| column.name == name) else {
            let others: Vec<_> = self
                .known
                .iter()
                .map(|column| column.name.clone())
                .collect();
            return Err(names::missing("column", name, "the source", &others));
        };
        self.taken.push(found.clone());
        Ok(self.taken.len() - 1)
    }

    fn take_all(&mut self, names: &[String]) -> Result<Vec<usize>, SourceError> {
        names.iter().map(|name| self.take(name)).collect()
    }
}

pub(super) fn stored(row: &SqliteRow, column: usize) -> Result<Stored<'_>, sqlx::Error> {
    Stored::read(row.try_get_raw(column)?)
}

fn fragment(setting: &str, text: &str) -> Result<Fragment, SourceError> {
    Fragment::parse(text).map_err(|fault| SourceError::Mismatch {
        what: format!("{setting} {fault}"),
        remedy: "write one plain SELECT, or one condition".into(),
    })
}

fn list<T>(
    out: &mut Vec<u8>,
    brackets: &[u8; 2],
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(brackets[0]);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(brackets[1]);
}
