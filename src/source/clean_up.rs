//! Cleaning up behind a commit: an outbox's delivered rows are deleted or marked (B6), over a
//! connection of its own that may write. The source itself never can.

use super::SourceError;
use super::keyset::Statement;
use super::names::shown;
use super::shape::{Codec, Shape};
use crate::config::{CleanUp, CleanUpHow};
use crate::model::position::{Position, Scalar};

/// In one statement.
const MOST_ROWS: usize = 200;

/// The statements that clean up these rows, with their values.
pub(super) fn statements<C: Codec>(
    shape: &Shape<C>,
    how: &CleanUpHow,
    delivered: &[Position],
) -> Result<Vec<(Statement, Vec<Scalar>)>, SourceError> {
    let mut statements = Vec::new();
    for rows in delivered.chunks(MOST_ROWS) {
        let values: Vec<_> = rows
            .iter()
            .map(|position| shape.bound(position))
            .collect::<Result<_, _>>()?;
        if let Some(statement) = shape.keyset.clean_up(how, rows.len()) {
            statements.push((statement, values.concat()));
        }
    }
    Ok(statements)
}

pub(super) fn no_right(setting: &str, how: &CleanUpHow, error: &sqlx::Error) -> SourceError {
    let right = match how {
        CleanUpHow::Delete => "DELETE".to_owned(),
        CleanUpHow::Mark(column) => format!("UPDATE on the column {}", shown(column)),
    };
    SourceError::Mismatch {
        what: format!("the user of {setting} may not clean up the outbox: {error}"),
        remedy: format!("grant it SELECT and {right} on the table"),
    }
}

/// Who cleans up, if anybody does.
pub(super) fn of(config: &crate::config::SourceConfig) -> Option<&CleanUp> {
    config.outbox.as_ref()?.clean_up.as_ref()
}
