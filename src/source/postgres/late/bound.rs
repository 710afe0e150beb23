//! The first of the statements of a look: where clock, sequence and transactions stand, and who
//! answers. All of it is sampled before any writer is looked for.

use chrono::{DateTime, NaiveDateTime};
use sqlx::AssertSqlSafe;
use sqlx::postgres::PgConnection;

use super::facts::{Asked, Facts, Sequence};
use crate::clock::Timestamp;
use crate::model::late::Epoch;

/// What this user may call here, as expressions; `NULL` where it is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Allowed {
    timeline: &'static str,
    started: &'static str,
    written_down: &'static str,
    snapshot: &'static str,
    pub(super) subscriptions: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) now: Timestamp,
    pub(super) in_recovery: bool,
    pub(super) epoch: Epoch,
    /// All transactions below it have ended.
    pub(super) ended_below: Option<i64>,
    /// The sequence has given out nothing from here on.
    pub(super) next: Option<i128>,
    pub(super) wall: Wall,
    /// Of the facts that the judgement was made from.
    pub(super) version: Option<String>,
}

/// What clocks on the wall show. They go back once a year: nothing is stamped below `lowest` from now
/// on, and nothing was above `highest`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wall {
    pub(super) lowest: NaiveDateTime,
    pub(super) highest: NaiveDateTime,
}

/// How the sample is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sampling<'a> {
    pub(super) allowed: &'a Allowed,
    pub(super) asked: Option<&'a Asked>,
    pub(super) sequence: Option<&'a Sequence>,
    pub(super) zone: Option<&'a str>,
}

/// On a standby, that of its last restart point; a primary writes the files of its own.
const TIMELINE: &str = "CASE WHEN pg_is_in_recovery() \
     THEN (SELECT upper(lpad(to_hex(timeline_id), 8, '0')) FROM pg_control_checkpoint()) \
     ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END";
const TIMELINE_OF_PRIMARY: &str = "CASE WHEN pg_is_in_recovery() THEN NULL \
     ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END";
/// A crash of a session restarts all others and leaves the start time alone, but the counters of the
/// server begin anew.
const STARTED: &str = "(extract(epoch FROM greatest(pg_postmaster_start_time(), \
     (SELECT stats_reset FROM pg_catalog.pg_stat_bgwriter))) * 1000000)::int8";
const STARTED_WITHOUT_CRASHES: &str =
    "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::int8";
/// Nothing of a standby, which writes down what its primary has done; nor where [`STARTED`] is later
/// without a crash, because somebody has set the counters back. Times of checkpoints are whole seconds.
const WRITTEN_DOWN: &str = "SELECT CASE WHEN NOT pg_is_in_recovery() AND NOT \
         (b.stats_reset > pg_postmaster_start_time() \
          AND c.checkpoint_time + interval '1 second' < b.stats_reset) \
     THEN split_part(c.next_xid, ':', 1)::int8 * 4294967296 + split_part(c.next_xid, ':', 2)::int8 END \
     FROM pg_control_checkpoint() c, pg_catalog.pg_stat_bgwriter b";
const SNAPSHOT: &str = "txid_current_snapshot()";
const SUBSCRIPTIONS: &str = "(SELECT count(*) FROM pg_catalog.pg_subscription_rel)";

type Row = (
    i64,
    bool,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
    Option<i64>,
    Option<String>,
    Option<i64>,
);

impl Allowed {
    /// By trying: services refuse more than rights tell of.
    pub(super) async fn find(connection: &mut PgConnection) -> Self {
        let mut first = async |expressions: &[&'static str]| {
            for expression in expressions {
                let sql = format!("SELECT ({expression})::text");
                let tried = sqlx::query(AssertSqlSafe(sql)).persistent(false);
                if tried.execute(&mut *connection).await.is_ok() {
                    return *expression;
                }
            }
            "NULL"
        };
        Self {
            timeline: first(&[TIMELINE, TIMELINE_OF_PRIMARY]).await,
            started: first(&[STARTED, STARTED_WITHOUT_CRASHES]).await,
            written_down: first(&[WRITTEN_DOWN]).await,
            snapshot: first(&[SNAPSHOT]).await,
            subscriptions: first(&[SUBSCRIPTIONS]).await != "NULL",
        }
    }
}

impl Sampling<'_> {
    pub(super) async fn sample(self, connection: &mut PgConnection) -> Result<Sample, sqlx::Error> {
        let query = sqlx::query_as(AssertSqlSafe(self.sql()));
        let query = match self.asked {
            Some(asked) => asked.bind_as(query),
            None => query,
        };
        let query = match self.zone {
            Some(zone) => query.bind(zone.to_owned()),
            None => query,
        };
        let row: Row = query.fetch_one(connection).await?;
        let now = instant(row.0)?;
        let wall = |micros: Option<i64>| -> Result<NaiveDateTime, sqlx::Error> {
            Ok(instant(micros.unwrap_or(row.0))?.naive_utc())
        };
        Ok(Sample {
            now,
            in_recovery: row.1,
            epoch: Epoch {
                timeline: row.2,
                started: row.3.map(instant).transpose()?,
                started_within: 0,
                transaction: row.4.and_then(|number| u64::try_from(number).ok()),
                written_down: row.10.and_then(|number| u64::try_from(number).ok()),
                now,
            },
            ended_below: row.5,
            next: row.6.and_then(|number| number.parse().ok()),
            wall: Wall {
                lowest: wall(row.7)?,
                highest: wall(row.8)?,
            },
            version: row.9,
        })
    }

    fn sql(self) -> String {
        let Allowed {
            timeline,
            started,
            written_down,
            snapshot,
            subscriptions,
        } = self.allowed;
        let sequence = self.sequence.map_or_else(
            || "NULL".to_owned(),
            |Sequence { name, .. }| {
                let next = "CASE WHEN is_called THEN last_value::numeric + 1 ELSE last_value END";
                format!("(SELECT {next} FROM {name})")
            },
        );
        let place = if self.asked.is_some() { "$7" } else { "$1" };
        // At a change of clocks by two hours at most, all that they will show or have shown.
        let wall = |of: &str, one: &str, other: &str| {
            let shown = format!("(c.now {one} h) AT TIME ZONE {place}::text {other} h");
            format!(
                "(SELECT (extract(epoch FROM {of}({shown})) * 1000000)::int8 \
                 FROM unnest(ARRAY[interval '0', interval '1 hour', interval '2 hours']) AS h)"
            )
        };
        let (lowest, highest) = match self.zone {
            Some(_) => (wall("min", "+", "-"), wall("max", "-", "+")),
            None => ("NULL::int8".to_owned(), "NULL::int8".to_owned()),
        };
        let version = match self.asked {
            Some(_) => format!("md5({}::text)", Facts::sql(*subscriptions)),
            None => "NULL::text".to_owned(),
        };
        format!(
            "WITH c AS MATERIALIZED (SELECT clock_timestamp() AS now) \
             SELECT (extract(epoch FROM c.now) * 1000000)::int8, pg_is_in_recovery(), \
             ({timeline})::text, ({started})::int8, \
             txid_snapshot_xmax({snapshot})::int8, txid_snapshot_xmin({snapshot})::int8, \
             ({sequence})::text, {lowest}, {highest}, {version}, \
             ({written_down})::int8 FROM c"
        )
    }
}

fn instant(micros: i64) -> Result<Timestamp, sqlx::Error> {
    let out = || sqlx::Error::Decode("a time out of range".into());
    DateTime::from_timestamp_micros(micros).ok_or_else(out)
}
