//! What is asked of PostgreSQL for one page.
//!
//! Every statement is a snapshot of its own, outside of any transaction: a session that is idle in
//! a transaction keeps the server from cleaning up. Statements are parsed anew each time, so that
//! no plan outlives the schema that it was made for.

use std::time::Duration;

use sqlx::postgres::{PgArguments, PgConnection};
use sqlx::{AssertSqlSafe, Postgres, Row};

use super::fault::Faults;
use super::kind::parameter;
use super::shape::PostgresShape;
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::source::keyset::{Parameter, Statement};
use crate::source::pager::{self, Stopped};
use crate::source::shape::{COUNTED_NULLS, MOST_AT_A_POSITION};
use crate::source::{ReadPage, SourceError};

/// One read, on a connection of its own.
pub(super) struct Reading<'a> {
    pub(super) connection: &'a mut PgConnection,
    pub(super) shape: &'a PostgresShape,
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
        let rows = prepared(&statement, &sought, MOST_AT_A_POSITION).fetch(&mut *self.connection);
        let faults = self.faults;
        let explain = |doing, error| faults.explain(doing, error);
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
        let row = prepared(&statement, below.as_slice(), 1)
            .fetch_optional(&mut *self.connection)
            .await
            .map_err(|error| self.faults.explain("reading the last row", error))?;
        let Some(row) = row else { return Ok(None) };
        let faults = self.faults;
        let explain = |doing, error| faults.explain(doing, error);
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
        let rows = prepared(&statement, bound.as_deref().unwrap_or_default(), limit)
            .fetch(&mut *self.connection);
        let faults = self.faults;
        pager::fill(
            &self.shape.shape,
            rows,
            writer,
            max_wait,
            &|doing, error| faults.explain(doing, error),
        )
        .await
    }

    /// A comparison with NULL is neither true nor false, so a page after a position never meets
    /// them; looking for them costs one step in the index that serves the page.
    async fn refuse_hidden_nulls(&mut self, bound: &[Scalar]) -> Result<(), SourceError> {
        let shape = &self.shape.shape;
        for (place, &column) in shape.keyset.order.iter().enumerate() {
            let ignored = shape.keyset.present.contains(&column);
            if ignored || !shape.keyset.columns[column].nullable {
                continue;
            }
            let row = prepared(&shape.keyset.hidden_null(place), bound, 1)
                .fetch_one(&mut *self.connection)
                .await;
            let hidden = row.and_then(|row| row.try_get(0));
            let looked = |error| self.faults.explain("looking for NULLs", error);
            if hidden.map_err(looked)? {
                return Err(self.null_cursor(column).await?);
            }
        }
        Ok(())
    }

    async fn null_cursor(&mut self, column: usize) -> Result<SourceError, SourceError> {
        let shape = &self.shape.shape;
        let row = prepared(&shape.keyset.count_nulls(column), &[], COUNTED_NULLS + 1)
            .fetch_one(&mut *self.connection)
            .await;
        let count: i64 = row
            .and_then(|row| row.try_get(0))
            .map_err(|error| self.faults.explain("counting NULL cursors", error))?;
        Ok(shape.null_cursor(column, count))
    }
}

pub(super) type Query<'q> = sqlx::query::Query<'q, Postgres, PgArguments>;

/// With the position's values, each as text that the statement casts to the column's type.
pub(super) fn prepared<'q>(statement: &Statement, bound: &[Scalar], limit: i64) -> Query<'q> {
    let query = sqlx::query(AssertSqlSafe(statement.sql.clone())).persistent(false);
    let parameters = statement.parameters.iter();
    parameters.fold(query, |query, written| match written {
        Parameter::Value(place) | Parameter::Native(place) => query.bind(parameter(&bound[*place])),
        Parameter::Limit => query.bind(limit),
        Parameter::Passed => query.bind(limit - 1),
    })
}
