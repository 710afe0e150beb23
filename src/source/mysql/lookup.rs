//! How many rows, how far on, and where one is: asked of MySQL.

use sqlx::Row;

use super::page::{Reading, bound_to};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::source::lookup::{self, MOST_LOCATED};
use crate::source::pager::Stopped;
use crate::source::{Located, SourceError};

impl Reading<'_> {
    pub(super) async fn count(
        &mut self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        let shape = &self.shape.shape;
        let values = lookup::bounds(shape, after, up_to)?;
        let statement = shape.keyset.count(after.is_some(), up_to.is_some());
        let row = self
            .bound(&statement, &values, lookup::limit(most))
            .fetch_one(&mut *self.connection)
            .await;
        let count: i64 = row
            .and_then(|row| row.try_get(0))
            .map_err(|error| self.faults.of("counting rows", error))?;
        Ok(count.unsigned_abs())
    }

    pub(super) async fn ahead(
        &mut self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        let shape = &self.shape.shape;
        let mut values = lookup::bounds(shape, after, None)?;
        let limit = lookup::far(rows);
        let statement = match self.edge_of_places(&values, limit - 1).await? {
            Some(edge) => {
                values.extend(edge);
                shape.keyset.ahead_to_edge(after.is_some())
            }
            None => shape.keyset.ahead(after.is_some()),
        };
        let row = self
            .bound(&statement, &values, limit)
            .fetch_optional(&mut *self.connection)
            .await
            .map_err(|error| self.faults.of("looking ahead", error))?;
        let Some(row) = row else { return Ok(None) };
        let faults = self.faults;
        let explain = move |doing, error| faults.of(doing, error);
        for column in &shape.keyset.order {
            let checked = self.shape.typed(*column).check(&row, *column);
            checked.map_err(|error| explain("looking ahead", error))?;
        }
        lookup::place(shape, &row, &explain).map(Some)
    }

    async fn edge_of_places(
        &mut self,
        after: &[Scalar],
        rows: i64,
    ) -> Result<Option<Vec<Scalar>>, SourceError> {
        let placed = self.shape.shape.keyset.placed();
        let after = (!after.is_empty()).then_some(after);
        match self.edge_in(&placed, after, rows).await {
            Ok(edge) => Ok(edge),
            Err(Stopped::Failed(error)) => Err(error),
            Err(Stopped::Null { column }) => Err(self.shape.shape.null_cursor(column, 1)),
        }
    }

    pub(super) async fn locate(
        &mut self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        let shape = &self.shape.shape;
        let is_table = self.shape.tables().is_some();
        let faults = self.faults;
        let explain = move |doing, error| faults.of(doing, error);
        let mut rows = Vec::new();
        for sought in lookup::meant(shape, key)? {
            let natively = |place: usize| match &sought[place] {
                Scalar::Text(text) => is_table && self.shape.typed(shape.key[place]).keeps(text),
                _ => false,
            };
            let statement = shape.keyset.with_key(&shape.key, natively);
            let query = bound_to(self.shape, &shape.key, &statement, &sought, MOST_LOCATED);
            let found = query.fetch_all(&mut *self.connection).await;
            rows.extend(found.map_err(|error| explain("looking for a key", error))?);
        }
        if let Some(row) = rows.first() {
            let checked = shape.codec.check(row);
            checked.map_err(|error| explain("looking for a key", error))?;
        }
        lookup::located(shape, &rows, writer, &explain)
    }
}
