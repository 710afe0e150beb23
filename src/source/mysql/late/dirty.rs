//! Rows that somebody has written and not committed.
//!
//! They are what READ UNCOMMITTED shows and READ COMMITTED, asked behind it, does not. A statement
//! that waits for a lock shows nothing.

use std::collections::BTreeSet;

use sqlx::mysql::MySqlRow;
use sqlx::{AssertSqlSafe, Executor};

use crate::model::late::{Survey, Witness};
use crate::model::position::{Position, Scalar};
use crate::source::keyset::Statement;
use crate::source::mysql::catalogue;
use crate::source::mysql::page::Reading;
use crate::source::pager::Stopped;
use crate::source::{ReadPage, SourceError};

/// A page has room for so many rows in flight between its own.
const AHEAD: i64 = 1000;
/// Places that are asked about in one statement.
const AT_ONCE: usize = 100;

/// A row or, where the mark is set, a tombstone: the two may share a place.
type Marked = (Position, bool);

/// What is behind a place, committed or not.
pub(in crate::source::mysql) struct Surveyed {
    all: Vec<Marked>,
    /// Beside tombstones: those of them that are committed.
    committed: Option<BTreeSet<Marked>>,
    /// Nothing else is.
    to_the_end: bool,
}

impl Reading<'_> {
    /// Before a page of at most `limit` rows is read behind the same place.
    pub(in crate::source::mysql) async fn survey(
        &mut self,
        bound: Option<&[Scalar]>,
        limit: i64,
    ) -> Result<Surveyed, SourceError> {
        let limit = limit.saturating_add(AHEAD);
        self.isolate("READ UNCOMMITTED").await?;
        let (all, to_the_end) = self.behind(bound, limit).await?;
        self.isolate("READ COMMITTED").await?;
        let committed = match self.shape.shape.keyset.tombstones {
            Some(_) => Some(self.behind(bound, limit).await?.0.into_iter().collect()),
            None => None,
        };
        Ok(Surveyed {
            all,
            committed,
            to_the_end,
        })
    }

    async fn behind(
        &mut self,
        bound: Option<&[Scalar]>,
        limit: i64,
    ) -> Result<(Vec<Marked>, bool), SourceError> {
        let edge = match self.edge(bound, limit - 1).await {
            Ok(edge) => edge,
            Err(Stopped::Failed(error)) => return Err(error),
            // The page meets it as well, if it is committed.
            Err(Stopped::Null { .. }) => None,
        };
        let keyset = self.shape.shape.keyset.places();
        let statement = match &edge {
            Some(_) => keyset.page_to_edge(bound.is_some()),
            None => keyset.page(bound.is_some()),
        };
        let to_edge = edge.is_some();
        let values: Vec<_> = bound.unwrap_or_default().to_vec();
        let values: Vec<_> = values
            .into_iter()
            .chain(edge.into_iter().flatten())
            .collect();
        let (mut places, rows) = self.places(&statement, &values, limit).await?;
        let cut = i64::try_from(rows).is_ok_and(|rows| rows >= limit);
        if cut && let Some((last, _)) = places.last().cloned() {
            // Its twin may be behind the cut.
            places.retain(|(place, _)| *place < last);
        }
        if places.is_empty() && (to_edge || cut) {
            return Err(self.gone("all rows up to an edge are gone"));
        }
        Ok((places, !to_edge && !cut))
    }

    /// Of witnesses that are rows, those that are still not committed.
    pub(super) async fn rows_in_flight(
        &mut self,
        known: &BTreeSet<Witness>,
    ) -> Result<BTreeSet<Witness>, SourceError> {
        let rows: Vec<_> = known.iter().filter_map(Witness::as_row).collect();
        if rows.is_empty() {
            return Ok(BTreeSet::new());
        }
        self.isolate("READ UNCOMMITTED").await?;
        let all = self.at(&rows).await?;
        self.isolate("READ COMMITTED").await?;
        let places: Vec<_> = all.iter().map(|(place, _)| place.clone()).collect();
        let committed = self.at(&places).await?;
        let in_flight = all.difference(&committed);
        Ok(in_flight.map(|(place, _)| Witness::row(place)).collect())
    }

    async fn at(&mut self, places: &[Position]) -> Result<BTreeSet<Marked>, SourceError> {
        let keyset = self.shape.shape.keyset.places();
        let mut found = BTreeSet::new();
        for some in places.chunks(AT_ONCE) {
            let statement = keyset.at_places(some.len());
            let mut values = Vec::new();
            for place in some {
                values.extend(self.shape.shape.bound(place)?);
            }
            found.extend(self.places(&statement, &values, 0).await?.0);
        }
        Ok(found)
    }

    /// In the order in which they come, and how many rows there were with those that have no place.
    async fn places(
        &mut self,
        statement: &Statement,
        values: &[Scalar],
        limit: i64,
    ) -> Result<(Vec<Marked>, usize), SourceError> {
        let failed = |error| self.faults.of("looking for uncommitted rows", error);
        let query = self.bound(statement, values, limit);
        let rows = query.fetch_all(&mut *self.connection).await;
        let rows = rows.map_err(failed)?;
        if let Some(row) = rows.first() {
            let order = self.shape.shape.keyset.order.iter().enumerate();
            for (at, &column) in order {
                self.shape.typed(column).check(row, at).map_err(failed)?;
            }
        }
        let places = rows.iter().filter_map(|row| self.marked(row)).collect();
        Ok((places, rows.len()))
    }

    /// `None` for what has no place: once it is committed, the page says so.
    fn marked(&self, row: &MySqlRow) -> Option<Marked> {
        let shape = &self.shape.shape;
        let order = &shape.keyset.order;
        let scalars = |columns: &[usize]| -> Option<Vec<Scalar>> {
            let each = columns.iter().map(|&column| {
                let at = order.iter().position(|other| *other == column)?;
                shape.codec.scalar_at(row, at, column).ok()
            });
            each.collect()
        };
        let place = Position::new(scalars(&shape.cursor)?, scalars(&shape.key)?);
        let mark = shape.keyset.tombstones.as_ref().is_some_and(|_| {
            let mark = catalogue::bytes(row, order.len());
            mark.is_some_and(|mark| mark.iter().any(|byte| *byte != 0))
        });
        Some((place, mark))
    }

    /// For the session, and to its end: the level of one transaction alone could be used up by
    /// what a driver does in between. A connection that fails before it is set back is not used again.
    async fn isolate(&mut self, level: &'static str) -> Result<(), SourceError> {
        let sql = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
        let set = self.connection.execute(AssertSqlSafe(sql)).await;
        set.map(drop)
            .map_err(|error| self.faults.of("looking for uncommitted rows", error))
    }
}

impl Surveyed {
    /// What it says about the page that was read behind it.
    pub(in crate::source::mysql) fn of(self, page: &ReadPage) -> Survey {
        // Rows of other shards are passed with the page: what is in flight among them, or behind the last
        // of its own, counts as well.
        let last = page.page.reached();
        let within = |place: &Position| page.end || Some(place) <= last;
        let reached = self.all.last().map(|(place, _)| place.clone());
        let suffices = self.to_the_end || (!page.end && reached.as_ref() >= last);
        let committed = self.committed.unwrap_or_else(|| {
            let places = page.page.places();
            places.map(|place| (place.clone(), false)).collect()
        });
        let in_flight: BTreeSet<_> = self
            .all
            .into_iter()
            .filter(|marked| within(&marked.0) && !committed.contains(marked))
            .map(|(place, _)| place)
            .collect();
        Survey {
            made: true,
            in_flight: in_flight.into_iter().collect(),
            up_to: reached.filter(|_| !suffices),
        }
    }
}
