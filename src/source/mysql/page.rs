//! What is asked of MySQL for one page.

use std::time::Duration;

use futures_util::{Stream, TryStreamExt};
use sqlx::mysql::{MySql, MySqlArguments, MySqlConnection, MySqlRow};
use sqlx::{AssertSqlSafe, Row};

use super::fault::{Changed, Faults};
use super::kind::Order;
use super::shape::{MySqlCodec, MySqlShape, literal};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::source::keyset::{Keyset, Parameter, Statement};
use crate::source::pager::{self, Stopped};
use crate::source::shape::{COUNTED_NULLS, MOST_AT_A_POSITION, Unplaced};
use crate::source::{ReadPage, SourceError};

/// One read. Its rows come from one statement, and so from one snapshot.
pub(super) struct Reading<'a> {
    pub(super) connection: &'a mut MySqlConnection,
    pub(super) shape: &'a MySqlShape,
    pub(super) faults: Faults<'a>,
}

impl Reading<'_> {
    pub(super) async fn page(
        &mut self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
        surveys: bool,
    ) -> Result<ReadPage, SourceError> {
        let bound = after
            .map(|after| self.shape.shape.bound(after))
            .transpose()?;
        self.refuse_hidden_nulls(bound.as_deref()).await?;
        let surveyed = match surveys {
            true => {
                let limit = self.shape.shape.limit(&writer);
                Some(self.survey(bound.as_deref(), limit).await?)
            }
            false => None,
        };
        match self.stream(bound, writer, max_wait).await {
            Ok(mut page) => {
                page.survey = surveyed.map(|all| all.of(&page)).unwrap_or_default();
                Ok(page)
            }
            Err(stopped) => Err(self.explain(stopped).await),
        }
    }

    pub(super) async fn find(
        &mut self,
        at: &Position,
        writer: PageWriter,
    ) -> Result<ReadPage, SourceError> {
        let shape = &self.shape.shape;
        let sought = shape.sought(at)?;
        let is_table = self.shape.tables().is_some();
        let natively = |place: usize| match &sought[place] {
            Scalar::Text(text) => {
                is_table && self.shape.typed(shape.keyset.order[place]).keeps(text)
            }
            _ => false,
        };
        let statement = shape.keyset.find(natively);
        let query = self.bound(&statement, &sought, MOST_AT_A_POSITION);
        let rows = checked(&shape.codec, query.fetch(&mut *self.connection));
        let faults = self.faults;
        let explain = move |doing, error| faults.of(doing, error);
        match pager::found(shape, rows, &sought, writer, &explain).await {
            Ok(page) => Ok(page),
            Err(stopped) => Err(self.explain(stopped).await),
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
        match self.last_row(below.as_slice()).await {
            Ok(position) => Ok(position),
            Err(stopped) => Err(self.explain(stopped).await),
        }
    }

    async fn stream(
        &mut self,
        bound: Option<Vec<Scalar>>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, Stopped> {
        let limit = self.shape.shape.limit(&writer);
        let edge = self.edge(bound.as_deref(), limit - 1).await?;
        let keyset = &self.shape.shape.keyset;
        let statement = match &edge {
            Some(_) => keyset.page_to_edge(bound.is_some()),
            None => keyset.page(bound.is_some()),
        };
        let to_edge = edge.is_some();
        let values: Vec<_> = bound.into_iter().chain(edge).flatten().collect();
        let query = self.bound(&statement, &values, limit);
        let rows = checked(&self.shape.shape.codec, query.fetch(&mut *self.connection));
        let faults = self.faults;
        let explain = move |doing, error| faults.of(doing, error);
        let mut page = pager::fill(&self.shape.shape, rows, writer, max_wait, &explain).await?;
        // What is behind the edge was not looked at.
        page.end &= !to_edge;
        // One with rows of other shards only is as good as any.
        match to_edge && page.page.reached().is_none() {
            true => Err(Stopped::Failed(
                self.gone("all rows up to an edge are gone"),
            )),
            false => Ok(page),
        }
    }

    /// The leading values of the row that is this many rows further on, if there is one and the
    /// order needs it.
    pub(super) async fn edge(
        &mut self,
        bound: Option<&[Scalar]>,
        rows: i64,
    ) -> Result<Option<Vec<Scalar>>, Stopped> {
        let shape = self.shape;
        self.edge_in(&shape.shape.keyset, bound, rows).await
    }

    pub(super) async fn edge_in(
        &mut self,
        keyset: &Keyset,
        bound: Option<&[Scalar]>,
        rows: i64,
    ) -> Result<Option<Vec<Scalar>>, Stopped> {
        if !keyset.has_edge() {
            return Ok(None);
        }
        let statement = keyset.edge(bound.is_some());
        let query = self.bound(&statement, bound.unwrap_or_default(), rows);
        let row = query.fetch_optional(&mut *self.connection).await;
        self.leading(row)
    }

    fn leading(
        &self,
        row: Result<Option<MySqlRow>, sqlx::Error>,
    ) -> Result<Option<Vec<Scalar>>, Stopped> {
        let failed = |error| Stopped::Failed(self.faults.of("looking ahead", error));
        let Some(row) = row.map_err(failed)? else {
            return Ok(None);
        };
        let shape = &self.shape.shape;
        let order = shape.keyset.order.iter().take(shape.keyset.leading());
        order
            .enumerate()
            .map(|(at, &column)| {
                let typed = self.shape.typed(column);
                typed.check(&row, at).map_err(failed)?;
                let scalar = shape.codec.scalar_at(&row, at, column);
                scalar.map_err(|unplaced| match unplaced {
                    Unplaced::Null { column } => Stopped::Null { column },
                    Unplaced::Unreadable(error) => failed(error),
                    Unplaced::Unordered { column } => Stopped::Failed(too_long(shape.name(column))),
                })
            })
            .collect::<Result<_, _>>()
            .map(Some)
    }

    /// `below` is empty or one value of the cursor.
    async fn last_row(&mut self, below: &[Scalar]) -> Result<Option<Position>, Stopped> {
        let keyset = &self.shape.shape.keyset;
        let to_edge = keyset.has_edge();
        let (statement, values) = if to_edge {
            let statement = keyset.last_edge(!below.is_empty());
            let query = self.bound(&statement, below, 1);
            let row = query.fetch_optional(&mut *self.connection).await;
            match self.leading(row)? {
                Some(edge) => (keyset.last_at_edge(), edge),
                None => return Ok(None),
            }
        } else {
            (keyset.last(!below.is_empty()), below.to_vec())
        };
        let failed = |error| Stopped::Failed(self.faults.of("reading the last row", error));
        let row = self
            .bound(&statement, &values, 1)
            .fetch_optional(&mut *self.connection)
            .await
            .map_err(failed)?;
        let Some(row) = row else {
            return match to_edge {
                false => Ok(None),
                true => Err(Stopped::Failed(self.gone("the last row is gone"))),
            };
        };
        self.shape.shape.codec.check(&row).map_err(failed)?;
        let faults = self.faults;
        let explain = move |doing, error| faults.of(doing, error);
        pager::placed(&self.shape.shape, &row, &explain).map(Some)
    }

    /// NULLs sort before everything, so a page after a position never meets them, nor does one that
    /// ends at an edge; looking for them costs one step in the index that serves the page.
    async fn refuse_hidden_nulls(&mut self, bound: Option<&[Scalar]>) -> Result<(), SourceError> {
        let keyset = &self.shape.shape.keyset;
        let places = match bound {
            Some(_) => keyset.order.len(),
            None => usize::from(keyset.has_edge()),
        };
        for (place, &column) in keyset.order.iter().enumerate().take(places) {
            let ignored = keyset.present.contains(&column);
            if ignored || !keyset.columns[column].nullable {
                continue;
            }
            let statement = keyset.hidden_null(place);
            let query = self.bound(&statement, bound.unwrap_or_default(), 1);
            let row = query.fetch_one(&mut *self.connection).await;
            let found: i64 = row
                .and_then(|row| row.try_get(0))
                .map_err(|error| self.faults.of("looking at the cursor", error))?;
            if found != 0 {
                return Err(self.null_cursor(column).await);
            }
        }
        Ok(())
    }

    async fn explain(&mut self, stopped: Stopped) -> SourceError {
        match stopped {
            Stopped::Null { column } => self.null_cursor(column).await,
            Stopped::Failed(error) => error,
        }
    }

    async fn null_cursor(&mut self, column: usize) -> SourceError {
        let shape = &self.shape.shape;
        let count = sqlx::query_scalar(AssertSqlSafe(shape.keyset.count_nulls(column).sql))
            .bind(COUNTED_NULLS + 1)
            .fetch_one(&mut *self.connection)
            .await;
        let count: i64 = match count {
            Ok(count) => count,
            Err(error) => return self.faults.of("counting NULL cursors", error),
        };
        shape.null_cursor(column, count)
    }

    /// It was there a moment ago.
    pub(super) fn gone(&self, what: &str) -> SourceError {
        let gone = Changed(what.to_owned());
        self.faults
            .of("reading rows", sqlx::Error::Decode(Box::new(gone)))
    }

    pub(super) fn bound(&self, statement: &Statement, values: &[Scalar], limit: i64) -> Query {
        bound(self.shape, statement, values, limit)
    }
}

/// What arrives is what was announced, or an error.
fn checked<'a>(
    codec: &'a MySqlCodec,
    rows: impl Stream<Item = Result<MySqlRow, sqlx::Error>> + Send + 'a,
) -> impl Stream<Item = Result<MySqlRow, sqlx::Error>> + Send + 'a {
    let mut first = true;
    rows.and_then(move |row| {
        let checked = match std::mem::take(&mut first) {
            true => codec.check(&row),
            false => Ok(()),
        };
        std::future::ready(checked.map(|()| row))
    })
}

/// The statement with the values of a position, and of an edge or of further positions behind them.
pub(super) fn bound(
    shape: &MySqlShape,
    statement: &Statement,
    values: &[Scalar],
    limit: i64,
) -> Query {
    bound_to(shape, &shape.shape.keyset.order, statement, values, limit)
}

/// With values of these columns.
pub(super) fn bound_to(
    shape: &MySqlShape,
    columns: &[usize],
    statement: &Statement,
    values: &[Scalar],
    limit: i64,
) -> Query {
    let mut query = sqlx::query(AssertSqlSafe(statement.sql.clone()));
    for &parameter in &statement.parameters {
        query = match parameter {
            Parameter::Limit => query.bind(limit),
            Parameter::Passed => query.bind(limit - 1),
            Parameter::Value(place) => {
                // An edge has the leading places again.
                let column = columns[place % columns.len()];
                bind(query, shape.typed(column).order, &values[place])
            }
            Parameter::Native(place) => bind(query, Order::Native, &values[place]),
        };
    }
    query
}

pub(super) type Query = sqlx::query::Query<'static, MySql, MySqlArguments>;

fn bind(query: Query, order: Order, scalar: &Scalar) -> Query {
    match scalar {
        Scalar::Integer(value) => match i64::try_from(*value) {
            Ok(value) => query.bind(value),
            Err(_) => match u64::try_from(*value) {
                Ok(value) => query.bind(value),
                // Of a column that was wider once: a number all the same.
                Err(_) => query.bind(value.to_string()),
            },
        },
        Scalar::Decimal(value) => query.bind(value.to_string()),
        Scalar::Float(value) => query.bind(value.get()),
        Scalar::Moment(moment) => query.bind(literal(moment)),
        Scalar::Text(text) if order == Order::ByByte => query.bind(text.clone().into_bytes()),
        Scalar::Text(text) => query.bind(text.clone()),
        Scalar::Bytes(bytes) => query.bind(bytes.clone()),
    }
}

fn too_long(column: &str) -> SourceError {
    SourceError::Mismatch {
        what: format!("column \"{column}\" holds a value without an exact place in the order"),
        remedy: "a cursor or key is at most 1000 bytes long".into(),
    }
}
