//! Everybody who writes to a table, by metadata locks.
//!
//! A lock is asked for before the statement that needs it draws anything, and is held to the end of its
//! transaction, so that holders and those who wait are all who can write a row. What was PREPAREd for
//! a distributed transaction has no lock any more once its session has gone (MariaDB), or another one
//! (MySQL).

use std::collections::BTreeSet;

use sqlx::mysql::MySqlConnection;

use crate::model::late::Witness;
use crate::source::mysql::catalogue::{status, text};
use crate::source::mysql::fault::is_unanswered;
use crate::source::mysql::shape::MySqlShape;

/// Whether the locks can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Watch {
    /// All of them.
    All,
    /// The server does not record any since it was started, or they are of no use.
    Off,
    /// Nobody knows whose they would be.
    Unknown,
    /// The rights to see them are missing.
    Denied,
    /// Not all are recorded, or not so that two transactions of one session can be told apart.
    Partial,
}

impl Watch {
    pub(super) fn remedy(self) -> Option<&'static str> {
        match self {
            Self::All | Self::Unknown => None,
            Self::Off => Some("start the server with performance_schema=ON"),
            Self::Denied => Some(
                "GRANT SELECT ON performance_schema.metadata_locks, .setup_instruments and \
                 .setup_consumers to the user",
            ),
            Self::Partial => Some(
                "switch on performance-schema-instrument='wait/lock/metadata/sql/mdl=ON' and \
                 performance-schema-consumer-events-statements-current=ON, with \
                 performance_schema_max_metadata_locks high enough, and GRANT the user to see \
                 XA RECOVER where transactions are prepared",
            ),
        }
    }
}

pub(super) async fn watch(connection: &mut MySqlConnection) -> Result<Watch, sqlx::Error> {
    let readable = sqlx::query("SELECT 1 FROM performance_schema.metadata_locks LIMIT 0");
    let readable = answered(readable.fetch_optional(&mut *connection).await)?;
    let complete = answered(is_complete(connection).await)?;
    Ok(match (readable, complete) {
        (Some(_), Some(true)) if prepared(connection).await?.is_some() => Watch::All,
        (Some(_), Some(_)) => Watch::Partial,
        _ => Watch::Denied,
    })
}

/// `None` where the user may not ask.
fn answered<T>(asked: Result<T, sqlx::Error>) -> Result<Option<T>, sqlx::Error> {
    match asked {
        Err(error) if is_unanswered(&error) => Ok(None),
        other => other.map(Some),
    }
}

/// Without events a second transaction of one session would have the lock of the first by the same
/// name, and wait for itself for ever. Locks are lost where there is no room for them.
async fn is_complete(connection: &mut MySqlConnection) -> Result<bool, sqlx::Error> {
    let row = sqlx::query(
        "SELECT CAST(COUNT(*) AS CHAR) FROM \
         (SELECT name FROM performance_schema.setup_instruments \
          WHERE name = 'wait/lock/metadata/sql/mdl' AND enabled = 'YES' \
          UNION ALL SELECT name FROM performance_schema.setup_consumers \
          WHERE name IN ('global_instrumentation', 'thread_instrumentation', 'events_statements_current') \
          AND enabled = 'YES') AS s",
    )
    .fetch_one(&mut *connection)
    .await?;
    let lost = status(connection, "Performance_schema_metadata_lock_lost").await?;
    Ok(text(&row, 0).as_deref() == Some("4") && lost.as_deref() == Some("0"))
}

/// Those with a lock, and those that are prepared, looked for in this order because the first become
/// the second. `None` where not all are seen.
pub(super) async fn writers(
    connection: &mut MySqlConnection,
    shape: &MySqlShape,
) -> Result<Option<(BTreeSet<Witness>, BTreeSet<Witness>)>, sqlx::Error> {
    let Some(tables) = shape.tables() else {
        return Ok(None);
    };
    let mut holders = BTreeSet::new();
    for table in tables {
        let rows = sqlx::query(
            "SELECT CONCAT_WS('-', object_instance_begin, owner_thread_id, owner_event_id) \
             FROM performance_schema.metadata_locks WHERE object_type = 'TABLE' \
             AND LOWER(object_schema) = LOWER(?) AND LOWER(object_name) = LOWER(?) \
             AND (lock_type LIKE '%WRITE%' OR lock_type = 'EXCLUSIVE')",
        )
        .bind(&table.schema)
        .bind(&table.name)
        .fetch_all(&mut *connection)
        .await?;
        let names = rows.iter().filter_map(|row| text(row, 0));
        holders.extend(names.map(|name| Witness::new(format!("lock {name}"))));
    }
    let prepared = prepared(connection).await?;
    let complete = is_complete(connection).await?;
    Ok(prepared
        .filter(|_| complete)
        .map(|prepared| (holders, prepared)))
}

/// Whatever they write to. `None` where there may be some and the user may not see them.
async fn prepared(
    connection: &mut MySqlConnection,
) -> Result<Option<BTreeSet<Witness>>, sqlx::Error> {
    match sqlx::raw_sql("XA RECOVER")
        .fetch_all(&mut *connection)
        .await
    {
        Ok(rows) => {
            let named = |row| {
                let part = |at| text(row, at).unwrap_or_default();
                let name = [part(0), part(1), part(2), part(3)].join(" ");
                Witness::prepared(name)
            };
            Ok(Some(rows.iter().map(named).collect()))
        }
        Err(error) if is_unanswered(&error) => {
            let ever = status(connection, "Com_xa_prepare").await?;
            Ok((ever.as_deref() == Some("0")).then(BTreeSet::new))
        }
        Err(error) => Err(error),
    }
}
