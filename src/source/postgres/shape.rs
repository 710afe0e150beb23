//! A configuration that was verified against the catalogue.

use sqlx::postgres::{PgConnection, PgRow, PgValueFormat};
use sqlx::{Row, ValueRef};

use super::catalogue::{self, Declared, Relation};
use super::fault::{Changed, Faults};
use super::kind::{Form, Ordered};
use crate::config::{Deletes, NullPolicy, Rows, SourceConfig};
use crate::model::position::{Scalar, ScalarType};
use crate::source::SourceError;
use crate::source::fragment::Fragment;
use crate::source::keyset::{Column, Dialect, From, Keyset, Tombstones};
use crate::source::names;
use crate::source::shape::{Codec, Named, Selection, Shape, Unplaced};

/// A shape, and what only PostgreSQL knows about it.
#[derive(Debug)]
pub(super) struct PostgresShape {
    /// Of the catalogue that the shape was made from.
    pub(super) version: String,
    pub(super) shape: Shape<PostgresCodec>,
    /// `None` for a query.
    pub(super) relation: Option<Relation>,
    /// The tombstones, and the version of their part of the catalogue.
    tombstones: Option<(Relation, Option<String>)>,
    /// Text can be any bytes; a session that expects UTF-8 would fail at a row of others.
    pub(super) is_ascii: bool,
}

/// An encoding that is none.
const ANY_BYTES: &str = "SQL_ASCII";

#[derive(Debug)]
pub(super) struct PostgresCodec {
    /// In the order of the keyset's columns.
    pub(super) columns: Vec<(Declared, Form)>,
    /// Of the columns that are compared.
    ordered: Vec<Option<Ordered>>,
}

impl PostgresShape {
    pub(super) async fn load(
        config: &SourceConfig,
        connection: &mut PgConnection,
    ) -> Result<Self, SourceError> {
        let faults = Faults::of(config);
        let failed = |error| faults.explain("reading the catalogue", error);
        let encoding: String = sqlx::query_scalar("SELECT current_setting('server_encoding')")
            .fetch_one(&mut *connection)
            .await
            .map_err(failed)?;
        let (from, relation, version, known) = match &config.rows {
            Rows::Table { schema, table } => {
                let relation = relation(&faults, connection, schema.as_deref(), table).await?;
                // Before the columns: what changes after it makes the next read look again.
                let version = catalogue::version(connection, &relation)
                    .await
                    .map_err(failed)?;
                let columns = catalogue::columns(connection, &relation)
                    .await
                    .map_err(failed)?;
                let from = From::Table {
                    schema: relation.schema.clone(),
                    table: relation.name.clone(),
                };
                (from, Some(relation), version.unwrap_or_default(), columns)
            }
            Rows::Query(query) => {
                let query = Fragment::of_setting(Dialect::Postgres, "source.query", query)?;
                let failed = |error| faults.describing_query(error);
                let version = catalogue::query_version(connection, query.sql())
                    .await
                    .map_err(failed)?;
                let columns = catalogue::query_columns(connection, query.sql())
                    .await
                    .map_err(failed)?;
                one_name_each(&columns)?;
                (From::Query(query), None, version, columns)
            }
        };
        let selection = Selection::of(config, &known)?;
        let mut buried = None;
        let tombstones = match &config.deletes {
            Deletes::Tombstones(tombstones) => {
                let schema = tombstones.schema.as_deref();
                let found = self::relation(&faults, connection, schema, &tombstones.table).await?;
                let version = catalogue::version(connection, &found)
                    .await
                    .map_err(failed)?;
                let columns = catalogue::columns(connection, &found)
                    .await
                    .map_err(failed)?;
                let keyset = Tombstones {
                    names: selection.tombstone_names(tombstones, &columns)?,
                    from: From::Table {
                        schema: found.schema.clone(),
                        table: found.name.clone(),
                    },
                };
                buried = Some((found, version));
                Some(keyset)
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
        let ordered = (0..selection.taken.len())
            .map(|column| match order.contains(&column) {
                true => ordered(&selection.taken[column], &encoding).map(Some),
                false => Ok(None),
            })
            .collect::<Result<Vec<_>, _>>()?;
        let columns: Vec<_> = selection
            .taken
            .iter()
            .map(|declared| (declared.clone(), declared.typed.form()))
            .collect();
        let filter = config.filter.as_deref();
        let keyset = Keyset {
            dialect: Dialect::Postgres,
            from,
            filter: filter
                .map(|text| Fragment::of_setting(Dialect::Postgres, "source.filter", text))
                .transpose()?,
            columns: columns
                .iter()
                .zip(&ordered)
                .map(|((declared, form), ordered)| column(declared, *form, *ordered))
                .collect(),
            order,
            present,
            tombstones,
        };
        let codec = PostgresCodec { columns, ordered };
        Ok(Self {
            version,
            shape: Shape::new(config, &selection, keyset, codec),
            relation,
            tombstones: buried,
            is_ascii: encoding == ANY_BYTES,
        })
    }

    /// Whether the catalogue is still what this was made from.
    pub(super) async fn is_current(
        &self,
        connection: &mut PgConnection,
    ) -> Result<bool, sqlx::Error> {
        if let Some((relation, version)) = &self.tombstones
            && catalogue::version(connection, relation).await? != *version
        {
            return Ok(false);
        }
        match (&self.relation, &self.shape.keyset.from) {
            (Some(relation), _) => {
                let now = catalogue::version(connection, relation).await?;
                Ok(now.as_ref() == Some(&self.version))
            }
            (None, From::Query(query)) => {
                let described = catalogue::query_version(connection, query.sql()).await?;
                if described != self.version {
                    return Ok(false);
                }
                // What the connection remembers is true as long as the server runs it.
                let sql = sqlx::AssertSqlSafe(catalogue::description(query.sql()));
                Ok(sqlx::query(sql).execute(connection).await.is_ok())
            }
            (None, From::Table { .. }) => Ok(false),
        }
    }

    /// The type of a column's scalars, if it is compared.
    pub(super) fn ordered(&self, column: usize) -> Option<ScalarType> {
        self.shape.codec.ordered[column].map(|ordered| ordered.scalar)
    }

    pub(super) fn declared(&self, column: usize) -> &Declared {
        &self.shape.codec.columns[column].0
    }
}

pub(super) async fn relation(
    faults: &Faults<'_>,
    connection: &mut PgConnection,
    schema: Option<&str>,
    table: &str,
) -> Result<Relation, SourceError> {
    let failed = |error| faults.explain("reading the catalogue", error);
    let found = catalogue::relation(connection, schema, table)
        .await
        .map_err(failed)?;
    if let Some(found) = found {
        return Ok(found);
    }
    let others = catalogue::relations(connection, schema)
        .await
        .map_err(failed)?;
    let place = match schema {
        Some(schema) => format!("schema {}", names::shown(schema)),
        None => "the database".to_owned(),
    };
    Err(names::missing("table", table, &place, &others))
}

/// Text in another encoding is ordered by that encoding's bytes.
fn ordered(declared: &Declared, encoding: &str) -> Result<Ordered, SourceError> {
    let is_ours = |ordered: &Ordered| {
        let is_text = ordered.is_text || ordered.converted.is_some();
        !is_text || ["UTF8", "LATIN1", ANY_BYTES].contains(&encoding)
    };
    let found = match declared.typed.ordered() {
        Ok(ordered) if !is_ours(&ordered) => {
            Err("text in the encoding of this database has another order; take another column")
        }
        found => found,
    };
    found.map_err(|remedy| SourceError::Mismatch {
        what: format!(
            "column {} is of type {}, which cannot be a cursor or key; they are made of {}",
            names::shown(&declared.name),
            declared.typed.shown,
            PostgresCodec::ORDERED
        ),
        remedy: remedy.into(),
    })
}

fn column(declared: &Declared, form: Form, ordered: Option<Ordered>) -> Column {
    let plain = Column::plain(declared.name.clone(), declared.nullable);
    let Some(ordered) = ordered else {
        return Column {
            wrapped: ("", form.selected),
            ..plain
        };
    };
    Column {
        wrapped: ("", form.selected),
        collation: (ordered.is_text && !declared.by_byte).then_some("\"C\""),
        converted: ordered.converted,
        cast: Some(ordered.cast.to_owned()),
        ..plain
    }
}

fn one_name_each(columns: &[Declared]) -> Result<(), SourceError> {
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|other| other.name == column.name) {
            return Err(SourceError::Mismatch {
                what: format!(
                    "source.query has two columns named {}",
                    names::shown(&column.name)
                ),
                remedy: "give each a name of its own with AS".into(),
            });
        }
    }
    Ok(())
}

impl Named for Declared {
    fn name(&self) -> &str {
        &self.name
    }

    fn type_name(&self) -> &str {
        &self.typed.shown
    }

    fn nullable(&self) -> bool {
        self.nullable
    }
}

impl Codec for PostgresCodec {
    type Row = PgRow;

    const ORDERED: &'static str = "integers, numbers, timestamps, dates, text, uuids or bytea";

    fn scalar(&self, row: &PgRow, column: usize) -> Result<Scalar, Unplaced> {
        let form = self.columns[column].1;
        let bytes = bytes(row, column, form).map_err(Unplaced::Unreadable)?;
        let bytes = bytes.ok_or(Unplaced::Null { column })?;
        let scalar = form.kind.scalar(bytes).filter(|_| !form.array);
        scalar.ok_or(Unplaced::Unordered { column })
    }

    fn readable(&self, row: &PgRow) -> Result<(), sqlx::Error> {
        for (column, (_, form)) in self.columns.iter().enumerate() {
            bytes(row, column, *form)?;
        }
        Ok(())
    }

    fn write(&self, row: &PgRow, column: usize, out: &mut Vec<u8>) {
        let value = row.try_get_raw(column);
        match value.as_ref().map(|value| value.as_bytes()) {
            Ok(Ok(bytes)) => self.columns[column].1.write(bytes, out),
            _ => out.extend_from_slice(b"null"),
        }
    }

    fn is_set(&self, row: &PgRow, column: usize) -> bool {
        let Some((_, form)) = self.columns.get(column) else {
            return row.try_get(column).is_ok_and(|mark: i32| mark != 0);
        };
        match bytes(row, column, *form) {
            Ok(Some(bytes)) => form.array || form.kind.is_set(bytes),
            _ => false,
        }
    }

    fn bindable(&self, column: usize, scalar: &Scalar) -> Option<Scalar> {
        let wanted = self.ordered[column]?.scalar;
        self.columns[column].1.kind.bindable(scalar, wanted)
    }

    fn meant(&self, column: usize, text: &str) -> Vec<Scalar> {
        let meant = self.bindable(column, &Scalar::Text(text.to_owned()));
        meant.into_iter().collect()
    }
}

/// The value on the wire, `None` for NULL; of the type that the shape was made for.
fn bytes(row: &PgRow, column: usize, form: Form) -> Result<Option<&[u8]>, sqlx::Error> {
    let value = row.try_get_raw(column)?;
    let found = value.type_info().oid().map(|oid| oid.0);
    if found != Some(form.answered) || value.format() != PgValueFormat::Binary {
        return Err(sqlx::Error::Decode(Box::new(Changed)));
    }
    if value.is_null() {
        return Ok(None);
    }
    let bytes = value.as_bytes().map_err(sqlx::Error::Decode)?;
    match form.fits(bytes) {
        true => Ok(Some(bytes)),
        false => Err(sqlx::Error::Decode("a value of another length".into())),
    }
}
