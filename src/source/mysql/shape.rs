//! The configuration, verified against the catalogue: from here on every name exists.

use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Column as _, Row};

use super::catalogue::{self, Described, Index, Server, Table};
use super::fault::{Changed, Faults};
use super::kind::{self, Kind, Order};
use super::value::Value;
use crate::config::{Deletes, NullPolicy, Rows, SourceConfig};
use crate::model::position::{Moment, MomentKind, Scalar, ScalarType};
use crate::source::SourceError;
use crate::source::fragment::Fragment;
use crate::source::keyset::{Column, Dialect, From, Keyset, Tombstones};
use crate::source::names::{self, shown};
use crate::source::shape::{Codec, Named, Selection, Shape, Unplaced};

/// The server sorts by the beginning of a value (`max_sort_length`, pinned by the session); in the
/// widest form in which it compares text, this many bytes are within it.
const SORTED_BYTES: usize = 1000;

/// JSON readers that parse numbers as doubles keep integers exact up to here, so that documents
/// without types hold greater ones as text.
const EXACT_IN_JSON: u128 = 1 << 53;

/// A shape, and what only MySQL knows about it.
#[derive(Debug)]
pub(super) struct MySqlShape {
    pub(super) shape: Shape<MySqlCodec>,
    pub(super) server: Server,
    /// Of a table or view.
    pub(super) table: Option<(Table, Vec<Index>)>,
    /// What the catalogue said; while it says the same, the shape is true.
    pub(super) known: Vec<Described>,
    /// The tombstones, and what it said about them.
    tombstones: Option<(Table, Vec<Described>)>,
}

#[derive(Debug)]
pub(super) struct MySqlCodec {
    /// In the order of the keyset's columns.
    pub(super) columns: Vec<Typed>,
}

/// A column, and what its values are.
#[derive(Debug, Clone)]
pub(super) struct Typed {
    pub(super) described: Described,
    pub(super) kind: Kind,
    pub(super) order: Order,
}

impl MySqlShape {
    pub(super) async fn load(
        config: &SourceConfig,
        database: &str,
        connection: &mut MySqlConnection,
    ) -> Result<Self, SourceError> {
        let faults = Faults::of_source(config);
        let failed = |error| faults.of("reading the catalogue", error);
        let server = catalogue::server(connection).await.map_err(failed)?;
        let (from, table, known) = match &config.rows {
            Rows::Table { schema, table } => {
                let schema = schema.as_deref().unwrap_or(database);
                let found = catalogue::table(connection, &server, schema, table)
                    .await
                    .map_err(failed)?;
                let Some(found) = found else {
                    return Err(missing(connection, faults, schema, table).await);
                };
                let known = catalogue::columns(connection, &found)
                    .await
                    .map_err(failed)?;
                let indexes = catalogue::indexes(connection, &found)
                    .await
                    .map_err(failed)?;
                let from = From::Table {
                    schema: found.schema.clone(),
                    table: found.name.clone(),
                };
                (from, Some((found, indexes)), known)
            }
            Rows::Query(query) => {
                let query = Fragment::of_setting(Dialect::MySql, "source.query", query)?;
                let columns = catalogue::query_columns(connection, &server, query.sql())
                    .await
                    .map_err(|error| faults.of("source.query", error))?;
                (From::Query(query), None, columns)
            }
        };
        let mut columns = known.clone();
        if let Some((table, _)) = &table {
            catalogue::mark_json(connection, &server, table, &mut columns)
                .await
                .map_err(failed)?;
        }
        let columns: Vec<_> = columns.into_iter().map(Typed::of).collect();
        let selection = Selection::of(config, &columns)?;
        let mut keyset = keyset(config, from, &selection)?;
        let mut buried = None;
        if let Deletes::Tombstones(tombstones) = &config.deletes {
            let schema = tombstones.schema.as_deref().unwrap_or(database);
            let found = catalogue::table(connection, &server, schema, &tombstones.table).await;
            let Some(found) = found.map_err(failed)? else {
                return Err(missing(connection, faults, schema, &tombstones.table).await);
            };
            let columns = catalogue::columns(connection, &found)
                .await
                .map_err(failed)?;
            let typed: Vec<_> = columns.iter().cloned().map(Typed::of).collect();
            keyset.tombstones = Some(Tombstones {
                from: From::Table {
                    schema: found.schema.clone(),
                    table: found.name.clone(),
                },
                names: selection.tombstone_names(tombstones, &typed)?,
            });
            buried = Some((found, columns));
        }
        let codec = MySqlCodec {
            columns: selection.taken.clone(),
        };
        Ok(Self {
            shape: Shape::new(config, &selection, keyset, codec),
            server,
            table,
            known,
            tombstones: buried,
        })
    }

    /// Whether the catalogue still says what this was made from.
    pub(super) async fn is_true(
        &self,
        connection: &mut MySqlConnection,
    ) -> Result<bool, sqlx::Error> {
        if let Some((table, columns)) = &self.tombstones
            && catalogue::columns(connection, table).await? != *columns
        {
            return Ok(false);
        }
        let known = match (&self.table, &self.shape.keyset.from) {
            (Some((table, _)), _) => catalogue::columns(connection, table).await?,
            (None, From::Query(query)) => {
                catalogue::query_columns(connection, &self.server, query.sql()).await?
            }
            (None, From::Table { .. }) => return Ok(false),
        };
        Ok(known == self.known)
    }

    /// The tables that are read, where that is known: not behind a view or a query.
    pub(super) fn tables(&self) -> Option<Vec<&Table>> {
        let (table, _) = self.table.as_ref()?;
        let buried = self.tombstones.iter().map(|(table, _)| table);
        let tables: Vec<_> = std::iter::once(table).chain(buried).collect();
        let known = tables.iter().all(|table| !table.is_view);
        known.then_some(tables)
    }

    pub(super) fn typed(&self, column: usize) -> &Typed {
        &self.shape.codec.columns[column]
    }
}

fn keyset(
    config: &SourceConfig,
    from: From,
    selection: &Selection<Typed>,
) -> Result<Keyset, SourceError> {
    let order = selection.order();
    for column in &order {
        let column = &selection.taken[*column];
        if let Order::Refused(remedy) = column.order {
            return Err(SourceError::Mismatch {
                what: format!(
                    "column {} is {}, which has no exact place in the order of a cursor or key",
                    shown(&column.described.name),
                    column.described.column_type
                ),
                remedy: remedy.into(),
            });
        }
    }
    let present = match config.nulls {
        NullPolicy::Fail => Vec::new(),
        NullPolicy::Ignore => {
            let nullable = |column: &usize| selection.taken[*column].described.nullable;
            order.iter().copied().filter(nullable).collect()
        }
    };
    let filter = config.filter.as_deref();
    Ok(Keyset {
        dialect: Dialect::MySql,
        from,
        filter: filter
            .map(|text| Fragment::of_setting(Dialect::MySql, "source.filter", text))
            .transpose()?,
        columns: selection.taken.iter().map(Typed::column).collect(),
        order,
        present,
        tombstones: None,
    })
}

/// A table that cannot be seen may be there: only reading it tells.
pub(super) async fn missing(
    connection: &mut MySqlConnection,
    faults: Faults<'_>,
    schema: &str,
    table: &str,
) -> SourceError {
    let quote = |name| Dialect::MySql.quote(name);
    let sql = format!("SELECT 1 FROM {}.{} LIMIT 0", quote(schema), quote(table));
    let looked = sqlx::query(sqlx::AssertSqlSafe(sql))
        .execute(&mut *connection)
        .await;
    match looked {
        Err(error) if faults.is_forbidden(&error) => return faults.of("reading the table", error),
        _ => {}
    }
    match catalogue::tables(connection, schema).await {
        Ok(others) => {
            let place = if faults.database == schema {
                "the database".to_owned()
            } else {
                format!("the database {}", shown(schema))
            };
            names::missing("table", table, &place, &others)
        }
        Err(error) => faults.of("reading the catalogue", error),
    }
}

impl Typed {
    fn of(described: Described) -> Self {
        let kind = Kind::of(&described);
        let order = Order::of(&described, kind);
        Self {
            described,
            kind,
            order,
        }
    }

    /// Whether what arrives can be read as what was announced.
    pub(super) fn check(&self, row: &MySqlRow, at: usize) -> Result<(), sqlx::Error> {
        let arriving = row.try_column(at)?.type_info();
        if self.kind.takes(arriving) {
            return Ok(());
        }
        let Described {
            name, column_type, ..
        } = &self.described;
        let name = shown(name);
        let text = format!("column {name} is {column_type}, and {arriving} arrived");
        Err(sqlx::Error::Decode(Box::new(Changed(text))))
    }

    /// Whether every row with this text is among those that the column, compared as it is, takes for
    /// equal to it; asked of columns that are ordered by another form of theirs.
    pub(super) fn keeps(&self, text: &str) -> bool {
        self.order == Order::ByByte && kind::keeps(&self.described, text)
    }

    fn column(&self) -> Column {
        let described = &self.described;
        Column {
            wrapped: kind::wrapping(described),
            converted: self.order.conversion(),
            cast: kind::cast(described, self.kind),
            ..Column::plain(described.name.clone(), described.nullable)
        }
    }
}

impl Named for Typed {
    fn name(&self) -> &str {
        &self.described.name
    }

    fn type_name(&self) -> &str {
        &self.described.column_type
    }

    fn nullable(&self) -> bool {
        self.described.nullable
    }
}

impl MySqlCodec {
    /// The first row of an answer tells whether all of it is what the catalogue announced.
    pub(super) fn check(&self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        let mut columns = self.columns.iter().enumerate();
        columns.try_for_each(|(at, column)| column.check(row, at))
    }

    /// The value of a column that was selected at another place.
    pub(super) fn scalar_at(
        &self,
        row: &MySqlRow,
        at: usize,
        column: usize,
    ) -> Result<Scalar, Unplaced> {
        let &Typed { kind, order, .. } = &self.columns[column];
        match read(kind, row, at).map_err(Unplaced::Unreadable)? {
            Value::Null => Err(Unplaced::Null { column }),
            value => value
                .scalar(kind)
                .filter(|scalar| is_sorted(order, scalar))
                .ok_or(Unplaced::Unordered { column }),
        }
    }
}

/// Whether the server's sort, when no index serves, tells the value from all others. It pads text
/// with NUL even in collations that do not pad, so that it takes `'a'` and `'a\0'` for equal there.
fn is_sorted(order: Order, scalar: &Scalar) -> bool {
    match scalar {
        Scalar::Text(text) => {
            let padded = order == Order::Native && text.ends_with('\0');
            text.len() <= SORTED_BYTES && !padded
        }
        Scalar::Bytes(bytes) => bytes.len() <= SORTED_BYTES,
        _ => true,
    }
}

impl Codec for MySqlCodec {
    type Row = MySqlRow;

    const ORDERED: &'static str =
        "numbers (not FLOAT), dates with or without time, UTF-8 text or bytes of up to 1000 bytes";

    fn scalar(&self, row: &MySqlRow, column: usize) -> Result<Scalar, Unplaced> {
        self.scalar_at(row, column, column)
    }

    fn readable(&self, row: &MySqlRow) -> Result<(), sqlx::Error> {
        (0..self.columns.len())
            .try_for_each(|column| read(self.columns[column].kind, row, column).map(drop))
    }

    fn write(&self, row: &MySqlRow, column: usize, out: &mut Vec<u8>) {
        let kind = self.columns[column].kind;
        read(kind, row, column)
            .unwrap_or(Value::Null)
            .write(kind, out);
    }

    fn is_set(&self, row: &MySqlRow, column: usize) -> bool {
        match self.columns.get(column) {
            Some(typed) => read(typed.kind, row, column).is_ok_and(Value::is_set),
            None => {
                catalogue::bytes(row, column).is_some_and(|mark| mark.iter().any(|byte| *byte != 0))
            }
        }
    }

    /// A column that was made another type has another order, in which rows that were not read yet
    /// may stand before the position. So only what keeps the order passes, and what a document
    /// without types holds as text.
    fn bindable(&self, column: usize, scalar: &Scalar) -> Option<Scalar> {
        let wanted = self.columns[column].kind.scalar_type();
        match (scalar, wanted) {
            (same, wanted) if same.scalar_type() == wanted => Some(scalar.clone()),
            (Scalar::Integer(_), ScalarType::Decimal) => scalar.as_type(wanted),
            (Scalar::Text(_), ScalarType::Moment(_)) => scalar.as_type(wanted),
            (Scalar::Text(_), ScalarType::Integer) => scalar.as_type(wanted).filter(
                |scalar| matches!(scalar, Scalar::Integer(value) if value.unsigned_abs() > EXACT_IN_JSON),
            ),
            (Scalar::Moment(moment), ScalarType::Moment(MomentKind::Local))
                if moment.kind() == MomentKind::Date =>
            {
                scalar.as_type(wanted)
            }
            _ => None,
        }
    }

    fn meant(&self, column: usize, text: &str) -> Vec<Scalar> {
        let wanted = self.columns[column].kind.scalar_type();
        let meant = Scalar::Text(text.to_owned()).as_type(wanted);
        meant.into_iter().collect()
    }
}

/// A moment as the server reads it: the session is in UTC, and wants no `Z`.
pub(super) fn literal(moment: &Moment) -> String {
    let mut text = moment.to_string();
    text.truncate(text.trim_end_matches('Z').len());
    text
}

fn read(kind: Kind, row: &MySqlRow, column: usize) -> Result<Value<'_>, sqlx::Error> {
    Value::read(kind, catalogue::bytes(row, column))
        .map_err(|misfit| sqlx::Error::Decode(Box::new(misfit)))
}
