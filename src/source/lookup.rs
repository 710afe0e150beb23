//! Questions about rows that are not for delivery: what they have in common in every database.

use super::names::shown;
use super::pager::{Explain, unordered};
use super::shape::{Codec, Shape, Unplaced};
use super::{Located, SourceError};
use crate::model::page::{PageWriter, Room};
use crate::model::position::{Position, Scalar};

/// A key is meant to be one row.
pub(super) const MOST_LOCATED: i64 = 100;

/// The values of two positions, one behind the other, as the parameters of a count.
pub(super) fn bounds<C: Codec>(
    shape: &Shape<C>,
    after: Option<&Position>,
    up_to: Option<&Position>,
) -> Result<Vec<Scalar>, SourceError> {
    let both = [after, up_to].into_iter().flatten();
    let bound: Result<Vec<_>, _> = both.map(|position| shape.bound(position)).collect();
    Ok(bound?.concat())
}

/// As a limit of a statement.
pub(super) fn limit(rows: u64) -> i64 {
    i64::try_from(rows).unwrap_or(i64::MAX)
}

/// As a limit whose last row is wanted; there is none before the first.
pub(super) fn far(rows: u64) -> i64 {
    limit(rows.max(1))
}

/// The place of a row of which nothing else was selected.
pub(super) fn place<C: Codec>(
    shape: &Shape<C>,
    row: &C::Row,
    explain: Explain<'_>,
) -> Result<Position, SourceError> {
    shape
        .position(row)
        .map_err(|unplaced| without_place(shape, row, unplaced, explain))
}

/// Every key that may be meant by these texts: one, but where columns have no type.
pub(super) fn meant<C: Codec>(
    shape: &Shape<C>,
    texts: &[String],
) -> Result<Vec<Vec<Scalar>>, SourceError> {
    let columns: Vec<_> = shape.key.iter().map(|at| shown(shape.name(*at))).collect();
    if texts.len() != columns.len() {
        return Err(SourceError::Mismatch {
            what: format!(
                "the key has {} column(s), {}, and {} value(s) were given",
                columns.len(),
                columns.join(", "),
                texts.len()
            ),
            remedy: "give one value for each, in this order".into(),
        });
    }
    let mut keys = vec![Vec::new()];
    for (&column, text) in shape.key.iter().zip(texts) {
        let values = shape.codec.meant(column, text);
        if values.is_empty() {
            let name = shape.name(column);
            let columns = shape.schema.columns().iter();
            let declared = columns.filter(|it| it.name == name).map(|it| &*it.declared);
            return Err(SourceError::Mismatch {
                what: format!(
                    "{text:?} is no value of the key column {}, which is {}",
                    shown(name),
                    declared.collect::<String>()
                ),
                remedy: "write it as events show it in \"key\"".into(),
            });
        }
        keys = keys
            .iter()
            .flat_map(|key| values.iter().map(move |value| (key, value)))
            .map(|(key, value): (&Vec<Scalar>, _)| {
                let mut key = key.clone();
                key.push(value.clone());
                key
            })
            .collect();
    }
    Ok(keys)
}

/// The rows of an answer to `Keyset::with_key`.
pub(super) fn located<C: Codec>(
    shape: &Shape<C>,
    rows: &[C::Row],
    mut writer: PageWriter,
    explain: Explain<'_>,
) -> Result<Vec<Located>, SourceError> {
    let mut all = Vec::new();
    for row in rows {
        let readable = shape.codec.readable(row);
        readable.map_err(|error| explain("decoding a row", error))?;
        let position = match shape.position(row) {
            Ok(position) => Some(position),
            Err(Unplaced::Null { .. }) => None,
            Err(unplaced) => return Err(without_place(shape, row, unplaced, explain)),
        };
        if let Some(position) = &position {
            shape.push(&mut writer, position.clone(), row, Room::Taken);
        }
        all.push(Located {
            position,
            op: shape.op(row),
            passes_filter: shape.passes_filter(row),
            id: None,
        });
    }
    let page = writer.finish();
    let placed = all.iter_mut().filter(|located| located.position.is_some());
    for (located, event) in placed.zip(page.events()) {
        located.id = Some(event.id);
    }
    Ok(all)
}

fn without_place<C: Codec>(
    shape: &Shape<C>,
    row: &C::Row,
    unplaced: Unplaced,
    explain: Explain<'_>,
) -> SourceError {
    match unplaced {
        Unplaced::Null { column } => shape.null_cursor(column, 1),
        Unplaced::Unordered { column } => unordered(shape, row, column),
        Unplaced::Unreadable(error) => explain("decoding a row", error),
    }
}
