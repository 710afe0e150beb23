//! The second of the statements: who could still commit. One statement, so that it is one look at the
//! server's locks.
//!
//! Locks are let go after a commit is visible, never before: who is not seen here has ended, and a
//! later read sees its rows.

use std::collections::BTreeSet;

use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

use super::stamp::Fence;
use super::tables::{FAMILY, Tables};
use crate::model::late::Witness;

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) writers: BTreeSet<Witness>,
    /// Prepared transactions: they have no session, and no virtual transaction that could be told from
    /// the one that they began as.
    pub(super) disguised: BTreeSet<Witness>,
}

/// All columns that tell of a lock, as they were at one moment.
const LOCKS: &str = "locks AS MATERIALIZED ( \
         SELECT l.*, d.oid AS here FROM pg_catalog.pg_locks l, pg_catalog.pg_database d \
         WHERE d.datname = current_database())";

/// Who waits is told from who does not by nothing: both have begun.
const WRITERS: &str = "SELECT l.virtualtransaction, l.pid IS NULL FROM locks l \
     WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.database = l.here \
     AND l.relation IN (SELECT oid FROM family)";

/// Marks those of [`TRANSACTIONS`].
pub(super) const BEGAN: &str = "began ";

/// Locks of this kind belong to no database. A session that is not known to be in another one counts;
/// what has no user (autovacuum) writes no rows.
const TRANSACTIONS: &str = "SELECT 'began ' || l.virtualtransaction, false FROM locks l \
     LEFT JOIN pg_catalog.pg_stat_activity s ON s.pid = l.pid \
     WHERE l.locktype = 'virtualxid' AND l.mode = 'ExclusiveLock' AND l.granted \
     AND l.pid <> pg_backend_pid() \
     AND (s.pid IS NULL OR s.usesysid IS NOT NULL AND (s.datid IS NULL OR s.datid = l.here))";

/// The witnesses of an earlier look that this kind of look has nothing to say about.
pub(super) fn unanswered(fence: Fence, known: &BTreeSet<Witness>) -> BTreeSet<Witness> {
    let is_beyond = |witness: &&Witness| match fence {
        Fence::Nobody => true,
        Fence::Writers => witness.as_str().starts_with(BEGAN),
        Fence::Transactions => false,
    };
    known.iter().filter(is_beyond).cloned().collect()
}

pub(super) async fn seen(
    connection: &mut PgConnection,
    fence: Fence,
    tables: &Tables,
) -> Result<Seen, sqlx::Error> {
    let who = match fence {
        Fence::Nobody => return Ok(Seen::default()),
        Fence::Writers => WRITERS.to_owned(),
        Fence::Transactions => format!("{WRITERS} UNION ALL {TRANSACTIONS}"),
    };
    let sql = format!("{FAMILY}, {LOCKS} {who}");
    let found: Vec<(String, bool)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(tables.schemas.clone())
        .bind(tables.names.clone())
        .bind(tables.with_siblings)
        .fetch_all(connection)
        .await?;
    let mut seen = Seen::default();
    for (name, is_prepared) in found {
        let witness = match is_prepared {
            true => Witness::prepared(name),
            false => Witness::new(name),
        };
        if is_prepared {
            seen.disguised.insert(witness.clone());
        }
        seen.writers.insert(witness);
    }
    Ok(seen)
}
