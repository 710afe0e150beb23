//! What a poller has done lately, minute by minute: kept in its document, written with its commits.

use chrono::DateTime;
use serde::{Deserialize, Serialize};

use super::position::{MomentKind, Position, Scalar};
use crate::clock::Timestamp;

/// Minutes in which there was a commit; older ones are dropped.
const MOST_BEATS: usize = 60;
const SECONDS: i64 = 60;

/// One minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Short", into = "Short")]
pub struct Beat {
    /// Since 1970.
    pub minute: i64,
    pub rows: u64,
    /// How old the last row of a commit was, at the most; `None` where cursors are no moments.
    pub delay_ms: Option<u64>,
}

/// Sixty of them should not be more than the rest of the document.
type Short = (i64, u64, Option<u64>);

impl From<Short> for Beat {
    fn from((minute, rows, delay_ms): Short) -> Self {
        Self {
            minute,
            rows,
            delay_ms,
        }
    }
}

impl From<Beat> for Short {
    fn from(beat: Beat) -> Self {
        (beat.minute, beat.rows, beat.delay_ms)
    }
}

impl Beat {
    #[must_use]
    pub fn begins(&self) -> Timestamp {
        DateTime::from_timestamp(self.minute.saturating_mul(SECONDS), 0).unwrap_or_default()
    }
}

/// A commit of so many rows, of which `last` is the last one.
pub(super) fn beat(pulse: &mut Vec<Beat>, rows: u64, last: Option<&Position>, now: Timestamp) {
    let minute = now.timestamp().div_euclid(SECONDS);
    let delay = last.and_then(moment_of).map(|at| now - at);
    let delay_ms = delay.map(|delay| u64::try_from(delay.num_milliseconds()).unwrap_or(0));
    // A clock that went back goes on with the minute that is there.
    match pulse.last_mut().filter(|beat| beat.minute >= minute) {
        Some(beat) => {
            beat.rows = beat.rows.saturating_add(rows);
            beat.delay_ms = beat.delay_ms.max(delay_ms);
        }
        None => pulse.push(Beat {
            minute,
            rows,
            delay_ms,
        }),
    }
    let surplus = pulse.len().saturating_sub(MOST_BEATS);
    pulse.drain(..surplus);
}

/// When a row was changed, where its cursor is a point in time.
#[must_use]
pub fn moment_of(position: &Position) -> Option<Timestamp> {
    match position.cursor().first()? {
        Scalar::Moment(moment) if moment.kind() == MomentKind::Instant => {
            moment.to_string().parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::position::Moment;

    fn at(second: i64) -> Timestamp {
        DateTime::from_timestamp(second, 0).unwrap()
    }

    fn place(cursor: Scalar) -> Position {
        Position::new(vec![cursor], vec![Scalar::Integer(1)])
    }

    #[test]
    fn commits_of_one_minute_are_one_beat_and_an_hour_of_them_is_kept() {
        let mut pulse = Vec::new();
        for second in 0..(70 * 60) {
            beat(&mut pulse, 2, None, at(second));
        }
        assert_eq!(pulse.len(), MOST_BEATS);
        assert!(pulse.iter().all(|beat| beat.rows == 120));
        assert_eq!(pulse.last().unwrap().begins(), at(69 * 60));
        // A clock that goes back makes no second beat of a minute that is over.
        beat(&mut pulse, 5, None, at(10));
        assert_eq!(pulse.last().unwrap().rows, 125);
    }

    #[test]
    fn the_delay_is_that_of_the_last_row_and_only_where_cursors_are_moments() {
        let mut pulse = Vec::new();
        let moment = Moment::at(MomentKind::Instant, at(100).naive_utc());
        beat(&mut pulse, 1, Some(&place(Scalar::Moment(moment))), at(103));
        assert_eq!(pulse[0].delay_ms, Some(3000));
        // From the future, by the clock here: no delay, and no overflow.
        let future = Moment::at(MomentKind::Instant, at(900).naive_utc());
        beat(&mut pulse, 1, Some(&place(Scalar::Moment(future))), at(103));
        assert_eq!(pulse[0].delay_ms, Some(3000));
        for cursor in [
            Scalar::Integer(100),
            Scalar::Moment(Moment::at(MomentKind::Local, at(100).naive_utc())),
            Scalar::Moment(Moment::infinity(MomentKind::Instant)),
        ] {
            let mut pulse = Vec::new();
            beat(&mut pulse, 1, Some(&place(cursor)), at(103));
            assert_eq!(pulse[0].delay_ms, None);
        }
    }
}
