//! The server's clock, as columns have it.

use std::time::Duration;

use chrono::{NaiveDateTime, TimeDelta};
use sqlx::mysql::MySqlConnection;

use crate::clock::Timestamp;
use crate::config::LateCommits;
use crate::model::late::Epoch;
use crate::model::position::MomentKind;
use crate::source::SourceError;
use crate::source::late::{ClockBound, Plan, clock_bound};
use crate::source::mysql::catalogue::{status, text};
use crate::source::mysql::fault::Faults;

/// Uptime is told in whole seconds, and not at the moment of the clock.
const STARTED_WITHIN: u32 = 3;

pub(super) struct Clock {
    utc: NaiveDateTime,
    /// The same moment in the zones in which columns without one may be written, from the west to
    /// the east.
    local: (NaiveDateTime, NaiveDateTime),
    uptime: Option<i64>,
}

impl Clock {
    /// Where nothing is configured, writers may write in UTC or as the server is set up.
    pub(super) async fn read(
        connection: &mut MySqlConnection,
        late: &LateCommits,
        faults: Faults<'_>,
    ) -> Result<Self, SourceError> {
        let failed = |error| faults.of("reading the clock", error);
        let row = sqlx::query(
            "SELECT CAST(UTC_TIMESTAMP(6) AS CHAR), \
             CAST(CONVERT_TZ(UTC_TIMESTAMP(6), '+00:00', COALESCE(?, @@global.time_zone)) AS CHAR)",
        )
        .bind(late.time_zone.as_deref())
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
        let moment = |at| {
            let text = text(&row, at)?;
            NaiveDateTime::parse_from_str(&text, "%Y-%m-%d %H:%M:%S%.f").ok()
        };
        let utc = moment(0).ok_or_else(|| SourceError::Unreachable {
            context: "the server has told no time".to_owned(),
            cause: None,
        })?;
        let zone = late.time_zone.as_deref().unwrap_or("@@global.time_zone");
        let zoned = moment(1).ok_or_else(|| SourceError::Mismatch {
            what: format!("source.time_zone {zone} is not known to the server"),
            remedy: "an offset like \"+02:00\" always is; names are when the time zone tables are \
                     loaded (mariadb-tzinfo-to-sql, mysql_tzinfo_to_sql)"
                .to_owned(),
        })?;
        let local = match late.time_zone {
            Some(_) => (zoned, zoned),
            None => (zoned.min(utc), zoned.max(utc)),
        };
        let uptime = status(connection, "Uptime").await.map_err(failed)?;
        Ok(Self {
            utc,
            local,
            uptime: uptime.and_then(|seconds| seconds.parse().ok()),
        })
    }

    pub(super) fn now(&self) -> Timestamp {
        self.utc.and_utc()
    }

    pub(super) fn epoch(&self) -> Epoch {
        let ago = self.uptime.and_then(TimeDelta::try_seconds);
        Epoch {
            timeline: None,
            started: ago.and_then(|ago| self.now().checked_sub_signed(ago)),
            started_within: STARTED_WITHIN,
            transaction: None,
            written_down: None,
            now: self.now(),
        }
    }

    /// Below what is surely over in every zone, and a ceiling that no zone has reached.
    pub(super) fn bound(
        &self,
        kind: MomentKind,
        tick: Duration,
        plan: &Plan,
        late: &LateCommits,
    ) -> ClockBound {
        let (west, east) = match kind {
            MomentKind::Instant => (self.utc, self.utc),
            MomentKind::Local | MomentKind::Date => self.local,
        };
        ClockBound {
            below: clock_bound(kind, west, tick, plan, late).below,
            ceiling: clock_bound(kind, east, tick, plan, late).ceiling,
        }
    }
}

/// The resolution of a column; of one whose digits are not known, the coarsest.
pub(super) fn tick(digits: Option<u8>) -> Duration {
    let digits = u32::from(digits.unwrap_or(0).min(6));
    Duration::from_micros(10_u64.pow(6 - digits))
}
