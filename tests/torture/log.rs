//! What the writers have written, and what became of it: the truth that everything else is held to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;

use dbtick::clock::{Clock, SystemClock};
use serde_json::json;
use tokio::time::Instant;

/// One version of a row.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) table: &'static str,
    /// Of the row, through all of its versions.
    pub(crate) name: String,
    /// Of this version.
    pub(crate) label: String,
    pub(crate) amount: String,
    pub(crate) note: Option<String>,
    /// A receiver never takes it.
    pub(crate) poison: bool,
    /// Before its transaction.
    pub(crate) began: Instant,
    pub(crate) fate: Fate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Open,
    /// The answer to COMMIT had come by then.
    Committed(Instant),
    RolledBack,
    /// The connection was lost before the answer came: the database knows.
    Unknown,
}

/// Every version that was ever written, by its label.
pub(crate) struct Log {
    versions: Mutex<BTreeMap<String, Version>>,
    file: Mutex<File>,
    started: Instant,
}

impl Log {
    pub(crate) fn new(directory: &Path) -> Self {
        Self {
            versions: Mutex::default(),
            file: Mutex::new(File::create(directory.join("written.jsonl")).unwrap()),
            started: SystemClock.monotonic(),
        }
    }

    /// Before it is sent.
    pub(crate) fn begins(&self, version: Version) {
        let label = version.label.clone();
        self.versions.lock().unwrap().insert(label, version);
    }

    pub(crate) fn ended(&self, labels: &[String], fate: Fate) {
        let mut versions = self.versions.lock().unwrap();
        let mut lines = String::new();
        for label in labels {
            let version = versions.get_mut(label).unwrap();
            version.fate = fate;
            let after = |at: Instant| (at - self.started).as_millis() as u64;
            let line = json!({
                "table": version.table, "name": version.name, "label": label,
                "poison": version.poison, "began_ms": after(version.began),
                "ended_ms": after(SystemClock.monotonic()), "fate": fate.word(),
            });
            lines += &format!("{line}\n");
        }
        self.file
            .lock()
            .unwrap()
            .write_all(lines.as_bytes())
            .unwrap();
    }

    pub(crate) fn versions(&self) -> BTreeMap<String, Version> {
        self.versions.lock().unwrap().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.versions.lock().unwrap().len()
    }
}

impl Fate {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Committed(_) => "committed",
            Self::RolledBack => "rolled back",
            Self::Unknown => "unknown",
        }
    }

    pub(crate) fn committed_at(self) -> Option<Instant> {
        match self {
            Self::Committed(at) => Some(at),
            _ => None,
        }
    }
}
