//! What SQLite lets be known of rows that commit late (B5).
//!
//! There is one writer at a time, and what the database stamps is drawn under its lock, so that the
//! order of stamps is that of commits. What is left are ties: until a row with a later cursor was
//! visible, the newest cursor may get company, with a smaller key, from a transaction that began long
//! ago.

mod trigger;

use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteConnection;

use super::catalogue::{Declared, Table};
use crate::clock::Timestamp;
use crate::config::SourceConfig;
use crate::model::late::{Bound, Highest};
use crate::model::position::Scalar;
use crate::source::SourceError;
use crate::source::late::{Evidence, Plan, Stamp};

/// `cursor` is the first column of it.
pub(super) fn plan(
    config: &SourceConfig,
    table: Option<&Table>,
    cursor: &Declared,
) -> Result<Plan, SourceError> {
    let stamp = match config.late.stamped_by {
        Some(by) => Stamp::declared_without_transactions(by, "SQLite")?,
        None => stamp(table, cursor),
    };
    Ok(Plan::of(&stamp, &Evidence::OneWriter, &config.late))
}

fn stamp(table: Option<&Table>, cursor: &Declared) -> Stamp {
    let is_stamped = |table: &Table| trigger::stamps(table, &cursor.name);
    if cursor.is_rowid || table.is_some_and(is_stamped) {
        return Stamp::Statement;
    }
    Stamp::Overridable(match &cursor.default {
        Some(_) => "writers may override the default of the cursor".to_owned(),
        None => "nothing in the schema says who gives rows their cursor".to_owned(),
    })
}

/// No two rows share a cursor, and neither do a row and a tombstone.
pub(super) fn is_unique(config: &SourceConfig, table: Option<&Table>, tombstones: bool) -> bool {
    let mut sets = table.into_iter().flat_map(|table| &table.unique);
    !tombstones && sets.any(|set| set.iter().all(|column| config.cursor.contains(column)))
}

pub(super) async fn now(connection: &mut SqliteConnection) -> Result<Timestamp, sqlx::Error> {
    let now: String = sqlx::query_scalar("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')")
        .fetch_one(connection)
        .await?;
    let parsed =
        DateTime::parse_from_rfc3339(&now).map_err(|error| sqlx::Error::Decode(error.into()));
    Ok(parsed?.with_timezone(&Utc))
}

/// The greatest cursor that was ever visible: ticks before it are closed. Rows of an outbox are gone
/// by the time of the next look, so what was read is remembered.
#[derive(Debug, Default)]
pub(super) struct Newest(Mutex<Option<Vec<Scalar>>>);

impl Newest {
    pub(super) fn saw(&self, cursor: &[Scalar]) {
        let mut newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_older = |known: &Vec<Scalar>| {
            let alike = |(one, other): (&Scalar, &Scalar)| one.scalar_type() == other.scalar_type();
            known.iter().zip(cursor).all(alike) && known.as_slice() >= cursor
        };
        if !newest.as_ref().is_some_and(is_older) {
            *newest = Some(cursor.to_vec());
        }
    }

    pub(super) fn bound(&self) -> Bound {
        let newest = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Bound {
            highest: Highest::Any,
            // Nothing is below an empty cursor.
            below: Some(newest.clone().unwrap_or_default()),
        }
    }
}
