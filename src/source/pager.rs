//! One page: from a statement's rows into the buffer that is sent.

use std::cmp::Ordering;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, TryStreamExt};

use super::names::shown;
use super::shape::{Codec, Shape, Unplaced};
use super::{ReadPage, SourceError};
use crate::model::late::Survey;
use crate::model::page::{PageWriter, Room, Taken};
use crate::model::position::{Position, Scalar, ScalarType};

/// Why a page ended before its time.
pub(super) enum Stopped {
    /// A NULL where the order needs a value; how many there are is for the caller to find out.
    Null {
        column: usize,
    },
    Failed(SourceError),
}

/// What a database's error means while something is done.
pub(super) type Explain<'a> = &'a (dyn Fn(&'static str, sqlx::Error) -> SourceError + Send + Sync);

/// Fills the writer until it is full, the rows are at their end, or `max_wait` has passed.
///
/// A row is written once the one behind it is known: two rows of one position could be parted by
/// the end of a page, and the second would be lost. So the statement's limit is [`Shape::limit`].
pub(super) async fn fill<C: Codec>(
    shape: &Shape<C>,
    rows: impl Stream<Item = Result<C::Row, sqlx::Error>> + Send,
    mut writer: PageWriter,
    max_wait: Duration,
    explain: Explain<'_>,
) -> Result<ReadPage, Stopped> {
    let mut rows = pin!(rows);
    let mut deadline = pin!(tokio::time::sleep(max_wait));
    let mut held: Option<(Position, C::Row)> = None;
    // A row and its tombstone may share a position.
    let mut room = Room::Limited;
    loop {
        let next = tokio::select! {
            biased;
            () = &mut deadline, if !writer.is_empty() && room == Room::Limited => return Ok(closed(shape, writer, false)),
            next = rows.try_next() => next,
        };
        let next = next.map_err(|error| Stopped::Failed(explain("reading a page", error)))?;
        let next = match next {
            Some(row) => Some((placed(shape, &row, explain)?, row)),
            None => None,
        };
        let mut twin = false;
        if let Some((position, row)) = held.take() {
            if let Some((behind, other)) = &next {
                one_class(shape, &position, behind).map_err(Stopped::Failed)?;
                match behind.cmp(&position) {
                    Ordering::Greater => {}
                    Ordering::Equal if shape.is_tombstone(other) && !shape.is_tombstone(&row) => {
                        twin = true;
                    }
                    Ordering::Equal => return Err(Stopped::Failed(not_unique(&position))),
                    Ordering::Less => return Err(Stopped::Failed(out_of_order(&position, behind))),
                }
            }
            if shape.push(&mut writer, position, &row, room) == Taken::NoRoom {
                return Ok(closed(shape, writer, false));
            }
        }
        room = if twin { Room::Taken } else { Room::Limited };
        match next {
            None => return Ok(closed(shape, writer, true)),
            Some(_) if writer.is_full() && !twin => return Ok(closed(shape, writer, false)),
            Some(next) => held = Some(next),
        }
    }
}

/// The rows of a statement that asked for one position. A comparison may take for equal what is
/// somewhere else: SQLite finds the text `5` in a column of text by the integer.
pub(super) async fn found<C: Codec>(
    shape: &Shape<C>,
    rows: impl Stream<Item = Result<C::Row, sqlx::Error>> + Send,
    sought: &[Scalar],
    writer: PageWriter,
    explain: Explain<'_>,
) -> Result<ReadPage, Stopped> {
    let is_there = |row: &C::Row| match shape.position(row) {
        Ok(position) => shape.sought(&position).is_ok_and(|values| values == sought),
        // Which is said, not taken for a row that has gone.
        Err(_) => true,
    };
    let rows = rows.try_filter(|row| std::future::ready(is_there(row)));
    fill(shape, rows, writer, Duration::MAX, explain).await
}

/// The position of a row all of whose values can be sent.
pub(super) fn placed<C: Codec>(
    shape: &Shape<C>,
    row: &C::Row,
    explain: Explain<'_>,
) -> Result<Position, Stopped> {
    let unreadable = |error| Stopped::Failed(explain("decoding a row", error));
    let position = shape.position(row).map_err(|unplaced| match unplaced {
        Unplaced::Null { column } => Stopped::Null { column },
        Unplaced::Unreadable(error) => unreadable(error),
        Unplaced::Unordered { column } => Stopped::Failed(unordered(shape, row, column)),
    })?;
    shape.codec.readable(row).map_err(unreadable)?;
    Ok(position)
}

/// A column holds values of several types, between which the database's order is not ours.
pub(super) fn mixed<C: Codec>(shape: &Shape<C>, column: usize, class: ScalarType) -> SourceError {
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

fn closed<C>(shape: &Shape<C>, writer: PageWriter, end: bool) -> ReadPage {
    ReadPage {
        page: writer.finish(),
        end,
        types: Arc::clone(&shape.types),
        schema: Arc::clone(&shape.schema),
        server: None,
        survey: Survey::default(),
    }
}

/// Rows side by side have the same types in their positions, column by column.
fn one_class<C: Codec>(
    shape: &Shape<C>,
    one: &Position,
    next: &Position,
) -> Result<(), SourceError> {
    let columns = shape.cursor.iter().chain(&shape.key);
    let pairs = (one.cursor().iter().zip(next.cursor())).chain(one.key().iter().zip(next.key()));
    for (&column, (one, next)) in columns.zip(pairs) {
        if one.scalar_type() != next.scalar_type() {
            return Err(mixed(shape, column, one.scalar_type()));
        }
    }
    Ok(())
}

/// A value that no position can have.
pub(super) fn unordered<C: Codec>(shape: &Shape<C>, row: &C::Row, column: usize) -> SourceError {
    let mut value = Vec::new();
    shape.codec.write(row, column, &mut value);
    let mut key = Vec::new();
    shape.write_key(row, &mut key);
    SourceError::Mismatch {
        what: format!(
            "column {} holds {} in the row with key {}, which has no exact place in the order",
            shown(shape.name(column)),
            String::from_utf8_lossy(&value),
            String::from_utf8_lossy(&key)
        ),
        remedy: format!("a cursor or key is made of {}", C::ORDERED),
    }
}

/// The last defence: a row behind a greater one would never be read again.
fn out_of_order(position: &Position, behind: &Position) -> SourceError {
    SourceError::Mismatch {
        what: format!("the database put {behind} behind {position}, which is not their order"),
        remedy: "choose a cursor and key of other types, and report this".into(),
    }
}

fn not_unique(position: &Position) -> SourceError {
    SourceError::Mismatch {
        what: format!("more than one row is at {position}"),
        remedy: "name key columns that tell every two rows apart".into(),
    }
}
