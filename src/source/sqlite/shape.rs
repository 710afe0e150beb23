//! The configuration, verified against SQLite's catalogue: from here on every name exists.

use sqlx::Row;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::catalogue::{self, Declared, Table};
use super::fault::Faults;
use super::late;
use super::value::{Hint, Stored};
use crate::config::{Deletes, NullPolicy, Rows, SourceConfig};
use crate::model::position::{Scalar, ScalarType};
use crate::source::SourceError;
use crate::source::fragment::Fragment;
use crate::source::keyset::{Column, Dialect, From, Keyset, Tombstones};
use crate::source::late::Plan;
use crate::source::names;
use crate::source::shape::{Codec, Named, Selection, Shape, Unplaced};

/// A shape, and what only SQLite knows about it.
#[derive(Debug)]
pub(super) struct SqliteShape {
    pub(super) schema_version: i64,
    pub(super) shape: Shape<SqliteCodec>,
    pub(super) table: Option<Table>,
    pub(super) plan: Plan,
    pub(super) cursor_is_unique: bool,
}

#[derive(Debug)]
pub(super) struct SqliteCodec {
    /// In the order of the keyset's columns.
    pub(super) columns: Vec<(Declared, Hint)>,
    /// Text in another encoding is ordered by that encoding's bytes.
    text_has_order: bool,
}

impl SqliteShape {
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
                let (from, found) = table_of(connection, schema.as_deref(), table, faults).await?;
                let columns = found.columns.clone();
                (from, Some(found), columns)
            }
            Rows::Query(query) => {
                let query = Fragment::of_setting(Dialect::Sqlite, "source.query", query)?;
                let columns = catalogue::query_columns(connection, query.sql())
                    .await
                    .map_err(|error| faults.of("source.query", error))?;
                (From::Query(query), None, columns)
            }
        };
        let selection = Selection::of(config, &known)?;
        let tombstones = match &config.deletes {
            Deletes::Tombstones(tombstones) => {
                let schema = tombstones.schema.as_deref();
                let (from, found) = table_of(connection, schema, &tombstones.table, faults).await?;
                let names = selection.tombstone_names(tombstones, &found.columns)?;
                Some(Tombstones { from, names })
            }
            Deletes::Unseen | Deletes::Soft(_) => None,
        };
        let order = selection.order();
        let present = match config.nulls {
            NullPolicy::Fail => Vec::new(),
            NullPolicy::Ignore => {
                let nullable = |column: &usize| selection.taken[*column].nullable;
                order.iter().copied().filter(nullable).collect()
            }
        };
        let filter = config.filter.as_deref();
        let column = |column: &Declared| Column {
            collation: Some("BINARY"),
            ..Column::plain(column.name.clone(), column.nullable)
        };
        let keyset = Keyset {
            dialect: Dialect::Sqlite,
            from,
            filter: filter
                .map(|text| Fragment::of_setting(Dialect::Sqlite, "source.filter", text))
                .transpose()?,
            columns: selection.taken.iter().map(column).collect(),
            order,
            present,
            tombstones,
        };
        let hinted = |column: &Declared| (column.clone(), Hint::from_declared(&column.declared));
        let codec = SqliteCodec {
            columns: selection.taken.iter().map(hinted).collect(),
            text_has_order: encoding == "UTF-8",
        };
        let cursor = &selection.taken[selection.cursor[0]];
        let buried = keyset.tombstones.is_some();
        Ok(Self {
            schema_version,
            plan: late::plan(config, table.as_ref(), cursor)?,
            cursor_is_unique: late::is_unique(config, table.as_ref(), buried),
            shape: Shape::new(config, &selection, keyset, codec),
            table,
        })
    }

    pub(super) fn declared(&self, column: usize) -> &Declared {
        &self.shape.codec.columns[column].0
    }
}

impl Named for Declared {
    fn name(&self) -> &str {
        &self.name
    }

    fn type_name(&self) -> &str {
        &self.declared
    }

    fn nullable(&self) -> bool {
        self.nullable
    }
}

impl Codec for SqliteCodec {
    type Row = SqliteRow;

    const ORDERED: &'static str = "integers, UTF-8 text (in a UTF-8 database) or blobs";

    fn scalar(&self, row: &SqliteRow, column: usize) -> Result<Scalar, Unplaced> {
        let stored = stored(row, column).map_err(Unplaced::Unreadable)?;
        match stored.scalar() {
            Some(Scalar::Text(_)) if !self.text_has_order => Err(Unplaced::Unordered { column }),
            Some(scalar) => Ok(scalar),
            None if stored == Stored::Null => Err(Unplaced::Null { column }),
            None => Err(Unplaced::Unordered { column }),
        }
    }

    fn readable(&self, row: &SqliteRow) -> Result<(), sqlx::Error> {
        (0..self.columns.len()).try_for_each(|column| stored(row, column).map(drop))
    }

    fn write(&self, row: &SqliteRow, column: usize, out: &mut Vec<u8>) {
        stored(row, column)
            .unwrap_or(Stored::Null)
            .write(self.columns[column].1, out);
    }

    fn is_set(&self, row: &SqliteRow, column: usize) -> bool {
        !matches!(
            stored(row, column),
            Ok(Stored::Null | Stored::Integer(0) | Stored::Text("")) | Err(_)
        )
    }

    /// SQLite has no types of columns, so a position is what was read; but for positions of other
    /// writers, whose moments are our text.
    fn bindable(&self, _: usize, scalar: &Scalar) -> Option<Scalar> {
        match scalar {
            Scalar::Integer(_) | Scalar::Text(_) | Scalar::Bytes(_) => Some(scalar.clone()),
            Scalar::Decimal(_) | Scalar::Float(_) | Scalar::Moment(_) => None,
        }
    }

    /// Whatever a value of these letters may be stored as; a rowid is an integer and nothing else.
    fn meant(&self, column: usize, text: &str) -> Vec<Scalar> {
        let number: Option<i64> = text.parse().ok();
        let integer = number.map(|number| Scalar::Integer(number.into()));
        if self.columns[column].0.is_rowid {
            return integer.into_iter().collect();
        }
        let declared = self.columns[column].0.declared.to_ascii_uppercase();
        let has = |names: &[&str]| names.iter().any(|name| declared.contains(name));
        let text = Scalar::Text(text.to_owned());
        let bytes = text.as_type(ScalarType::Bytes);
        // The affinity of a column makes text of integers, or integers of digits.
        let (integer, text) = match integer {
            Some(_) if !has(&["INT"]) && has(&["CHAR", "CLOB", "TEXT"]) => (None, Some(text)),
            Some(_) if declared.is_empty() || has(&["BLOB"]) => (integer, Some(text)),
            Some(_) => return integer.into_iter().collect(),
            None => (None, Some(text)),
        };
        integer.into_iter().chain(text).chain(bytes).collect()
    }
}

async fn table_of(
    connection: &mut SqliteConnection,
    schema: Option<&str>,
    table: &str,
    faults: Faults<'_>,
) -> Result<(From, Table), SourceError> {
    let failed = |error| faults.of("reading the catalogue", error);
    let place = match schema {
        Some(schema) => format!("schema {}", names::shown(schema)),
        None => "the database".to_owned(),
    };
    let schema = schema.unwrap_or("main");
    let found = catalogue::table(connection, schema, table).await;
    let Some(found) = found.map_err(failed)? else {
        let others = catalogue::tables(connection, schema)
            .await
            .map_err(failed)?;
        return Err(names::missing("table", table, &place, &others));
    };
    let from = From::Table {
        schema: schema.to_owned(),
        table: table.to_owned(),
    };
    Ok((from, found))
}

fn stored(row: &SqliteRow, column: usize) -> Result<Stored<'_>, sqlx::Error> {
    Stored::read(row.try_get_raw(column)?)
}
