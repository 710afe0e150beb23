//! How many rows, how far on, and where one is: asked of SQLite.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use super::page::{Reading, query};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::source::lookup::{self, MOST_LOCATED};
use crate::source::shape::Codec;
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
        let row = query(&statement, &values, lookup::limit(most))?
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
        let values = lookup::bounds(shape, after, None)?;
        let statement = shape.keyset.ahead(after.is_some());
        let faults = self.faults;
        let explain = |doing, error| faults.of(doing, error);
        let row = query(&statement, &values, lookup::far(rows))?
            .fetch_optional(&mut *self.connection)
            .await
            .map_err(|error| explain("looking ahead", error))?;
        row.map(|row| lookup::place(shape, &row, &explain))
            .transpose()
    }

    pub(super) async fn locate(
        &mut self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        let shape = &self.shape.shape;
        // An index of the key has its text in the order of the column's own collation.
        let statement = shape.keyset.with_key(&shape.key, |_| true);
        let faults = self.faults;
        let explain = |doing, error| faults.of(doing, error);
        let mut rows = Vec::new();
        for sought in lookup::meant(shape, key)? {
            let found = query(&statement, &sought, MOST_LOCATED)?
                .fetch_all(&mut *self.connection)
                .await
                .map_err(|error| explain("looking for a key", error))?;
            rows.extend(found.into_iter().filter(|row| self.has_key(row, &sought)));
        }
        lookup::located(shape, &rows, writer, &explain)
    }

    /// A column of text is compared with an integer by its digits; what was meant is asked for by
    /// itself.
    fn has_key(&self, row: &SqliteRow, sought: &[Scalar]) -> bool {
        let shape = &self.shape.shape;
        let mut pairs = shape.key.iter().zip(sought);
        pairs.all(|(&column, sought)| {
            let scalar = shape.codec.scalar(row, column);
            scalar.is_ok_and(|scalar| scalar == *sought)
        })
    }
}
