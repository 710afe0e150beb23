//! The last and the next run of a timer, kept in a file where the real host has a blob. Best
//! effort, as there: a status that cannot be read or written is as good as none.

use std::path::Path;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::schedule::Schedule;

/// What one timer remembers.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Status {
    pub(super) last: Option<DateTime<Utc>>,
    pub(super) next: DateTime<Utc>,
}

impl Status {
    /// Where a listener begins, and whether a run was missed meanwhile. A changed schedule never
    /// counts as missed.
    pub(super) fn resume(
        file: Option<&Path>,
        schedule: &Schedule,
        now: DateTime<Utc>,
    ) -> (Status, bool) {
        let fresh = Status {
            last: None,
            next: schedule.next_after(now),
        };
        let text = file.and_then(|file| std::fs::read_to_string(file).ok());
        let stored: Option<Status> = text.and_then(|text| serde_json::from_str(&text).ok());
        match stored {
            None => (fresh, false),
            Some(stored)
                if stored.last.map(|last| schedule.next_after(last)) != Some(stored.next) =>
            {
                (
                    Status {
                        last: stored.last,
                        ..fresh
                    },
                    false,
                )
            }
            Some(stored) => (stored, now > stored.next),
        }
    }

    /// Whether it could be written.
    pub(super) fn keep(&self, file: &Path) -> bool {
        let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
        let text = serde_json::to_string(self).unwrap_or_default();
        folder.and_then(|()| std::fs::write(file, text)).is_ok()
    }
}
