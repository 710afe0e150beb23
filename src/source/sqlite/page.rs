//! What is asked of SQLite for one page.

use std::time::Duration;

use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{AssertSqlSafe, Row, Sqlite};

use super::fault::Faults;
use super::shape::SqliteShape;
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar, ScalarType};
use crate::source::keyset::{Parameter, Statement};
use crate::source::pager::{self, Stopped, mixed};
use crate::source::shape::{COUNTED_NULLS, MOST_AT_A_POSITION};
use crate::source::{ReadPage, SourceError};

/// One read, inside its transaction.
pub(super) struct Reading<'a> {
    pub(super) connection: &'a mut SqliteConnection,
    pub(super) shape: &'a SqliteShape,
    pub(super) faults: Faults<'a>,
}

impl Reading<'_> {
    pub(super) async fn page(
        &mut self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let bound = after
            .map(|after| self.shape.shape.bound(after))
            .transpose()?;
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

    pub(super) async fn find(
        &mut self,
        at: &Position,
        writer: PageWriter,
    ) -> Result<ReadPage, SourceError> {
        let shape = &self.shape.shape;
        let sought = shape.sought(at)?;
        let statement = shape.keyset.find(|_| false);
        let rows = query(&statement, &sought, MOST_AT_A_POSITION)?.fetch(&mut *self.connection);
        let faults = self.faults;
        let explain = |doing, error| faults.of(doing, error);
        match pager::found(shape, rows, &sought, writer, &explain).await {
            Ok(page) => Ok(page),
            Err(Stopped::Null { column }) => Err(self.null_cursor(column).await?),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }

    pub(super) async fn last(
        &mut self,
        below: Option<&Scalar>,
    ) -> Result<Option<Position>, SourceError> {
        let shape = &self.shape.shape;
        let below = below
            .map(|scalar| shape.bindable_cursor(scalar))
            .transpose()?;
        let statement = shape.keyset.last(below.is_some());
        let row = query(&statement, below.as_slice(), 1)?
            .fetch_optional(&mut *self.connection)
            .await
            .map_err(|error| self.faults.of("reading the last row", error))?;
        let Some(row) = row else { return Ok(None) };
        let faults = self.faults;
        let explain = |doing, error| faults.of(doing, error);
        match pager::placed(&self.shape.shape, &row, &explain) {
            Ok(position) => Ok(Some(position)),
            Err(Stopped::Null { column }) => Err(self.null_cursor(column).await?),
            Err(Stopped::Failed(error)) => Err(error),
        }
    }

    async fn stream(
        &mut self,
        bound: Option<Vec<Scalar>>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, Stopped> {
        let limit = self.shape.shape.limit(&writer);
        let statement = self.shape.shape.keyset.page(bound.is_some());
        let query = query(&statement, bound.as_deref().unwrap_or_default(), limit);
        let rows = query.map_err(Stopped::Failed)?.fetch(&mut *self.connection);
        let faults = self.faults;
        pager::fill(
            &self.shape.shape,
            rows,
            writer,
            max_wait,
            &|doing, error| faults.of(doing, error),
        )
        .await
    }

    /// NULLs sort before everything, so a page after a position never meets them; looking for
    /// them costs one step in the index that serves the page.
    async fn refuse_hidden_nulls(&mut self, bound: &[Scalar]) -> Result<(), SourceError> {
        let shape = &self.shape.shape;
        for (place, &column) in shape.keyset.order.iter().enumerate() {
            let ignored = shape.keyset.present.contains(&column);
            if ignored || !shape.keyset.columns[column].nullable {
                continue;
            }
            if self.exists(&shape.keyset.hidden_null(place), bound).await? {
                return Err(self.null_cursor(column).await?);
            }
        }
        Ok(())
    }

    /// Values of another class sort before or behind all that were read so far, and a column of
    /// another affinity compares them differently than it orders them: rows would be passed over.
    async fn refuse_other_classes(&mut self, bound: &[Scalar]) -> Result<(), SourceError> {
        let shape = &self.shape.shape;
        for (place, &column) in shape.keyset.order.iter().enumerate() {
            let class = bound[place].scalar_type();
            if self.shape.declared(column).is_rowid && class == ScalarType::Integer {
                continue;
            }
            if self
                .exists(&shape.keyset.other_class(place, class), bound)
                .await?
            {
                return Err(mixed(shape, column, class));
            }
        }
        Ok(())
    }

    async fn exists(
        &mut self,
        statement: &Statement,
        bound: &[Scalar],
    ) -> Result<bool, SourceError> {
        let looked = |error| self.faults.of("looking at the cursor", error);
        let row = query(statement, bound, 1)?
            .fetch_one(&mut *self.connection)
            .await;
        row.and_then(|row| row.try_get(0)).map_err(looked)
    }

    async fn null_cursor(&mut self, column: usize) -> Result<SourceError, SourceError> {
        let shape = &self.shape.shape;
        let count: i64 = sqlx::query_scalar(AssertSqlSafe(shape.keyset.count_nulls(column).sql))
            .bind(COUNTED_NULLS + 1)
            .fetch_one(&mut *self.connection)
            .await
            .map_err(|error| self.faults.of("counting NULL cursors", error))?;
        Ok(shape.null_cursor(column, count))
    }
}

type Query<'q> = sqlx::query::Query<'q, Sqlite, SqliteArguments>;

/// The statement with its parameters: values of a position, and how many rows at most.
pub(super) fn query<'q>(
    statement: &Statement,
    bound: &[Scalar],
    limit: i64,
) -> Result<Query<'q>, SourceError> {
    let mut query = sqlx::query(AssertSqlSafe(statement.sql.clone()));
    for parameter in &statement.parameters {
        query = match parameter {
            Parameter::Limit => query.bind(limit),
            Parameter::Passed => query.bind(limit - 1),
            Parameter::Value(place) | Parameter::Native(place) => match &bound[*place] {
                Scalar::Integer(value) => query.bind(integer(*value)?),
                Scalar::Bytes(value) => query.bind(value.clone()),
                other => query.bind(other.to_string()),
            },
        };
    }
    Ok(query)
}

fn integer(value: i128) -> Result<i64, SourceError> {
    i64::try_from(value).map_err(|_| SourceError::Mismatch {
        what: format!("the checkpoint holds {value}, which no SQLite integer can be"),
        remedy: "it was made from another source; reset the poller".into(),
    })
}
