//! How rows that commit late are met.

use std::time::Duration;

use super::Reader;
use crate::config::fault::Place;
use crate::config::{FutureRows, LateCommits, LateMode, StampedBy, human, raw};
use crate::model::late::Ordering;

/// The keys of `source` that say it.
pub(super) struct Raw {
    pub(super) late_commits: Option<raw::LateCommits>,
    pub(super) ordering: Option<raw::Ordering>,
    pub(super) stamped_by: Option<raw::StampedBy>,
    pub(super) future: Option<raw::FutureRows>,
    pub(super) time_zone: Option<String>,
    pub(super) recovery_point: Option<String>,
}

/// A window of nothing waits for nobody.
const LEAST: Duration = Duration::from_millis(1);

pub(super) fn late(reader: &mut Reader<'_>, at: &Place, raw: Raw) -> Option<LateCommits> {
    let Raw {
        late_commits,
        ordering,
        stamped_by,
        future,
        time_zone,
        recovery_point,
    } = raw;
    let default = LateCommits::default();
    let mode = match late_commits {
        None => Some(default.mode),
        Some(raw) => mode(reader, &at.key("late_commits"), raw),
    };
    let ordering = match (&mode, ordering) {
        (Some(LateMode::Settle(_)), Some(raw::Ordering::Visible)) => {
            let problem = "is visible, and source.late_commits waits until rows have settled";
            let hint = "use { \"window\": … } in place of { \"settle\": … }, or leave ordering out";
            reader.faults.add(&at.key("ordering"), problem, hint);
            None
        }
        (Some(LateMode::Settle(_)), _) | (_, Some(raw::Ordering::Cursor)) => Some(Ordering::Cursor),
        (_, Some(raw::Ordering::Visible) | None) => Some(Ordering::Visible),
    };
    let time_zone = match time_zone {
        Some(written) => Some(reader.text(&at.key("time_zone"), &written)?),
        None => None,
    };
    let recovery_point = reader.duration(
        &at.key("recovery_point"),
        recovery_point.as_deref(),
        default.recovery_point,
    );
    Some(LateCommits {
        mode: mode?,
        ordering: ordering?,
        stamped_by: stamped_by.map(|by| match by {
            raw::StampedBy::Database => StampedBy::Database,
            raw::StampedBy::Transaction => StampedBy::Transaction,
            raw::StampedBy::TransactionId => StampedBy::TransactionId,
            raw::StampedBy::Application => StampedBy::Application,
        }),
        future: match future {
            None | Some(raw::FutureRows::Hold) => FutureRows::Hold,
            Some(raw::FutureRows::Deliver) => FutureRows::Deliver,
        },
        time_zone,
        recovery_point: recovery_point?,
    })
}

fn mode(reader: &mut Reader<'_>, at: &Place, raw: raw::LateCommits) -> Option<LateMode> {
    let raw::LateTimes { window, settle } = match raw {
        raw::LateCommits::Word(raw::LateWord::Auto) => return Some(LateMode::Auto),
        raw::LateCommits::Word(raw::LateWord::Off) => return Some(LateMode::Off),
        raw::LateCommits::Times(times) => times,
    };
    let mut time = |key: &str, written: &str| {
        let at = at.key(key);
        let time = reader.duration(&at, Some(written), LEAST)?;
        if time < LEAST {
            let hint = format!("write at least {}", human::show_duration(LEAST));
            reader.faults.add(&at, "is nothing", hint);
            return None;
        }
        Some(time)
    };
    match (window, settle) {
        (Some(window), None) => time("window", &window).map(LateMode::Window),
        (None, Some(settle)) => time("settle", &settle).map(LateMode::Settle),
        _ => {
            let hint = "write { \"window\": \"30s\" }, { \"settle\": \"2s\" }, auto or off";
            reader.faults.add(at, "needs either window or settle", hint);
            None
        }
    }
}
