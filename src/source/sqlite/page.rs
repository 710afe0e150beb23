//! One page: from the statement's rows into the buffer that is sent.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Sqlite};

use super::fault::Faults;
use super::shape::{Shape, Unplaced, stored};
use crate::model::page::{Op, PageWriter, Taken};
use crate::model::position::{Position, Scalar, ScalarType};
use crate::source::names::shown;
use crate::source::{ReadPage, SourceError};

/// NULLs are counted up to here for the message.
const COUNTED: i64 = 1000;

/// One read, inside its transaction.
pub(super) struct Reading<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) shape: &'a Shape,
    pub(super) faults: Faults<'a>,
}

enum Stopped {
    Null { column: usize },
    Failed(SourceError),
}

impl Reading<'_> {
    pub(super) async fn page(
        &mut self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let bound = after.map(|after| self.shape.bound(after)).transpose()?;
        if let Some(bound) = &bound {
            self.refuse_hidden_nulls(bound).await?;
            self.refuse_other_classes(bound).await?;
        }
        match self.stream(bound, writer, max_wait).await {
            Ok(page) => Ok(page),
            Err(Stopped::Null { column }) => Err(self.null_cursor(column).await?),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }

    pub(super) async fn last(&mut self) -> Result<Option<Position>, SourceError> {
        let row = sqlx::query(AssertSqlSafe(self.shape.keyset.last()))
            .fetch_optional(&mut *self.connection)
            .await
            .map_err(|error| self.faults.of("reading the last row", error))?;
        let Some(row) = row else { return Ok(None) };
        match self.shape.position(&row) {
            Ok(position) => Ok(Some(position)),
            Err(Unplaced::Null { column }) => Err(self.null_cursor(column).await?),
            Err(unplaced) => Err(self.unplaced(&row, unplaced)),
        }
    }

    /// A row is written once the one behind it is known: two rows of one position could be parted
    /// by the end of a page, and the second would be lost.
    async fn stream(
        &mut self,
        bound: Option<Vec<Scalar>>,
        mut writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, Stopped> {
        let limit = i64::try_from(writer.max_rows()).unwrap_or(i64::MAX - 1) + 1;
        let mut query = sqlx::query(AssertSqlSafe(self.shape.keyset.page(bound.is_some())));
        for scalar in bound.into_iter().flatten() {
            query = bind(query, scalar).map_err(Stopped::Failed)?;
        }
        let faults = self.faults;
        let mut rows = query.bind(limit).fetch(&mut *self.connection);
        let mut deadline = pin!(tokio::time::sleep(max_wait));
        let mut held: Option<(Position, SqliteRow)> = None;
        loop {
            let next = tokio::select! {
                biased;
                () = &mut deadline, if !writer.is_empty() => return Ok(closed(self.shape, writer, false)),
                next = rows.try_next() => next,
            };
            let next = next.map_err(|error| Stopped::Failed(faults.of("reading a page", error)))?;
            let next = match next {
                Some(row) => Some((placed(self.shape, faults, &row)?, row)),
                None => None,
            };
            if let Some((position, row)) = held.take() {
                if let Some((behind, _)) = &next {
                    one_class(self.shape, &position, behind).map_err(Stopped::Failed)?;
                    if *behind == position {
                        return Err(Stopped::Failed(not_unique(&position)));
                    }
                }
                if write(self.shape, &mut writer, position, &row) == Taken::NoRoom {
                    return Ok(closed(self.shape, writer, false));
                }
            }
            match next {
                None => return Ok(closed(self.shape, writer, true)),
                Some(_) if writer.is_full() => return Ok(closed(self.shape, writer, false)),
                Some(next) => held = Some(next),
            }
        }
    }

    /// NULLs sort before everything, so a page after a position never meets them; looking for
    /// them costs one step in the index that serves the page.
    async fn refuse_hidden_nulls(&mut self, bound: &[Scalar]) -> Result<(), SourceError> {
        let shape = self.shape;
        for (place, &column) in shape.keyset.order.iter().enumerate() {
            let ignored = shape.keyset.present.contains(&column);
            if ignored || !shape.columns[column].declared.nullable {
                continue;
            }
            if self
                .exists(shape.keyset.hidden_null(place), &bound[..place])
                .await?
            {
                return Err(self.null_cursor(column).await?);
            }
        }
        Ok(())
    }

    /// Values of another class sort before or behind all that were read so far, and a column of
    /// another affinity compares them differently than it orders them: rows would be passed over.
    async fn refuse_other_classes(&mut self, bound: &[Scalar]) -> Result<(), SourceError> {
        let shape = self.shape;
        for (place, &column) in shape.keyset.order.iter().enumerate() {
            let class = bound[place].scalar_type();
            if shape.columns[column].declared.is_rowid && class == ScalarType::Integer {
                continue;
            }
            if self
                .exists(shape.keyset.other_class(place, class), &bound[..place])
                .await?
            {
                return Err(mixed(shape, column, class));
            }
        }
        Ok(())
    }

    async fn exists(&mut self, sql: String, bound: &[Scalar]) -> Result<bool, SourceError> {
        let mut query = sqlx::query_scalar(AssertSqlSafe(sql));
        for scalar in bound {
            query = match scalar.clone() {
                Scalar::Integer(value) => query.bind(integer(value)?),
                Scalar::Text(value) => query.bind(value),
                Scalar::Bytes(value) => query.bind(value),
            };
        }
        query
            .fetch_one(&mut *self.connection)
            .await
            .map_err(|error| self.faults.of("looking at the cursor", error))
    }

    async fn null_cursor(&mut self, column: usize) -> Result<SourceError, SourceError> {
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(self.shape.keyset.count_nulls(column)))
            .bind(COUNTED + 1)
            .fetch_one(&mut *self.connection)
            .await
            .map_err(|error| self.faults.of("counting NULL cursors", error))?;
        Ok(SourceError::NullCursor {
            column: self.shape.name(column).to_owned(),
            count: match count {
                ..=COUNTED => count.to_string(),
                _ => format!("more than {COUNTED}"),
            },
        })
    }

    fn unplaced(&self, row: &SqliteRow, unplaced: Unplaced) -> SourceError {
        match refused(self.shape, self.faults, row, unplaced) {
            Stopped::Failed(error) => error,
            Stopped::Null { column } => SourceError::NullCursor {
                column: self.shape.name(column).to_owned(),
                count: "some".into(),
            },
        }
    }
}

fn placed(shape: &Shape, faults: Faults<'_>, row: &SqliteRow) -> Result<Position, Stopped> {
    let position = shape
        .position(row)
        .map_err(|unplaced| refused(shape, faults, row, unplaced))?;
    shape
        .readable(row)
        .map_err(|error| Stopped::Failed(faults.of("decoding a row", error)))?;
    Ok(position)
}

fn refused(shape: &Shape, faults: Faults<'_>, row: &SqliteRow, unplaced: Unplaced) -> Stopped {
    match unplaced {
        Unplaced::Null { column } => Stopped::Null { column },
        Unplaced::Unreadable(error) => Stopped::Failed(faults.of("decoding a row", error)),
        Unplaced::Unordered { column } => {
            let mut value = Vec::new();
            if let Ok(stored) = stored(row, column) {
                stored.write(shape.columns[column].hint, &mut value);
            }
            let mut key = Vec::new();
            shape.write_key(row, &mut key);
            Stopped::Failed(SourceError::Mismatch {
                what: format!(
                    "column {} holds {} in the row with key {}, which has no exact place in the order",
                    shown(shape.name(column)),
                    String::from_utf8_lossy(&value),
                    String::from_utf8_lossy(&key)
                ),
                remedy:
                    "a cursor or key is made of integers, UTF-8 text (in a UTF-8 database) or blobs"
                        .into(),
            })
        }
    }
}

fn write(shape: &Shape, writer: &mut PageWriter, position: Position, row: &SqliteRow) -> Taken {
    writer.push(
        Op::Upsert,
        position,
        |out| shape.write_cursor(row, out),
        |out| shape.write_key(row, out),
        |out| shape.write_data(row, out),
    )
}

fn closed(shape: &Shape, writer: PageWriter, end: bool) -> ReadPage {
    ReadPage {
        page: writer.finish(),
        end,
        types: Arc::clone(&shape.types),
        schema: Arc::clone(&shape.schema),
    }
}

/// Rows side by side have the same types in their positions, column by column.
fn one_class(shape: &Shape, one: &Position, next: &Position) -> Result<(), SourceError> {
    let columns = shape.cursor.iter().chain(&shape.key);
    let scalars = |position: &Position| -> Vec<ScalarType> {
        let all = position.cursor().iter().chain(position.key());
        all.map(Scalar::scalar_type).collect()
    };
    for ((&column, class), other) in columns.zip(scalars(one)).zip(scalars(next)) {
        if class != other {
            return Err(mixed(shape, column, class));
        }
    }
    Ok(())
}

fn mixed(shape: &Shape, column: usize, class: ScalarType) -> SourceError {
    SourceError::Mismatch {
        what: format!(
            "column {} holds {} values and values of another type",
            shown(shape.name(column)),
            class.name()
        ),
        remedy: "rows would be passed over: give the whole column one type (in a query, by CAST); \
                 if its type was changed on purpose, begin again with a new poller name"
            .into(),
    }
}

fn not_unique(position: &Position) -> SourceError {
    SourceError::Mismatch {
        what: format!("more than one row is at {position}"),
        remedy: "name key columns that tell every two rows apart".into(),
    }
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

fn bind(query: Query<'_>, scalar: Scalar) -> Result<Query<'_>, SourceError> {
    Ok(match scalar {
        Scalar::Integer(value) => query.bind(integer(value)?),
        Scalar::Text(value) => query.bind(value),
        Scalar::Bytes(value) => query.bind(value),
    })
}

fn integer(value: i128) -> Result<i64, SourceError> {
    i64::try_from(value).map_err(|_| SourceError::Mismatch {
        what: format!("the checkpoint holds {value}, which no SQLite integer can be"),
        remedy: "it was made from another source; reset the poller".into(),
    })
}
