//! Counts and ages as people say them.

use chrono::TimeDelta;

use super::view::{LagBasis, LagView};

pub(super) fn seconds(count: u64) -> TimeDelta {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    TimeDelta::try_seconds(count).unwrap_or(TimeDelta::MAX)
}

pub(super) fn rows(lag: &LagView) -> String {
    let more = if lag.exact { "" } else { " or more" };
    match lag.rows {
        1 => format!("1 row{more}"),
        rows => format!("{rows} rows{more}"),
    }
}

pub(super) fn waiting(lag: &LagView) -> String {
    let verb = if lag.rows == 1 && lag.exact {
        "waits"
    } else {
        "wait"
    };
    match lag.basis {
        LagBasis::Cursor => format!("{} {verb}, for {}", rows(lag), ago(seconds(lag.seconds))),
        LagBasis::LastCommit | LagBasis::Nothing => format!("{} {verb}", rows(lag)),
    }
}

/// `3 days`, `5 h`, `12 min`, `40 s`
pub(crate) fn ago(age: TimeDelta) -> String {
    let seconds = age.num_seconds().max(0);
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} days", seconds / 86_400),
    }
}
