//! A poller that stands still by order: paused or marked failed, and what its audit trail says of it.

use std::fmt;

use super::state::{AuditEntry, StateDocument, Status};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Halt {
    pub kind: HaltKind,
    /// Who did it, when and why; `None` where the trail does not reach back to it.
    pub entry: Option<AuditEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HaltKind {
    Paused,
    Failed,
}

impl Halt {
    /// `None`: it may run.
    #[must_use]
    pub fn of(document: &StateDocument) -> Option<Self> {
        let kind = match document.status {
            Status::Active => return None,
            Status::Paused => HaltKind::Paused,
            Status::Failed => HaltKind::Failed,
        };
        // An entry before one that ended such a halt is about an older one.
        let (halts, ends): (&str, &[&str]) = match kind {
            HaltKind::Paused => ("pause", &["resume"]),
            HaltKind::Failed => ("mark failed", &["reset", "rollback"]),
        };
        let begins = |entry: &AuditEntry, words: &str| entry.what.starts_with(words);
        let last =
            document.audit.iter().rev().find(|entry| {
                begins(entry, halts) || ends.iter().any(|words| begins(entry, words))
            });
        let entry = last.filter(|entry| begins(entry, halts)).cloned();
        Some(Self { kind, entry })
    }
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            HaltKind::Paused => "paused",
            HaltKind::Failed => "marked failed",
        })?;
        let Some(AuditEntry { at, who, why, .. }) = &self.entry else {
            return f.write_str("; the audit trail does not say since when or why");
        };
        write!(f, " since {} by {who}", at.format("%Y-%m-%d %H:%M:%S UTC"))?;
        match why.as_str() {
            "" => f.write_str(" (no reason given)"),
            why => write!(f, ": {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(status: Status, trail: &[(&str, &str)]) -> StateDocument {
        let entry = |(at, (what, why)): (i64, &(&str, &str))| AuditEntry {
            at: chrono::DateTime::from_timestamp(at, 0).unwrap(),
            who: "ada@ship".to_owned(),
            what: (*what).to_owned(),
            why: (*why).to_owned(),
            id: None,
        };
        let mut document = StateDocument::first("orders", "f", None);
        document.status = status;
        document.audit = (0..).zip(trail).map(entry).collect();
        document
    }

    #[track_caller]
    fn check(status: Status, trail: &[(&str, &str)], expect: Option<&str>) {
        let halt = Halt::of(&document(status, trail));
        assert_eq!(halt.map(|halt| halt.to_string()).as_deref(), expect);
    }

    #[test]
    fn the_last_entry_about_a_halt_tells_since_when_and_why() {
        const UNKNOWN: &str = "paused; the audit trail does not say since when or why";
        check(Status::Active, &[("pause", "x"), ("resume", "")], None);
        check(
            Status::Paused,
            &[
                ("pause", "old"),
                ("resume", ""),
                ("pause", "the receiver is moved"),
                ("reset, at 1 → at 2", ""),
            ],
            Some("paused since 1970-01-01 00:00:02 UTC by ada@ship: the receiver is moved"),
        );
        check(
            Status::Paused,
            &[("pause", "")],
            Some("paused since 1970-01-01 00:00:00 UTC by ada@ship (no reason given)"),
        );
        check(Status::Paused, &[], Some(UNKNOWN));
        // Paused by an import, long after that.
        let resumed = [
            ("pause", "old"),
            ("resume", ""),
            ("import, at 1 → at 2", ""),
        ];
        check(Status::Paused, &resumed, Some(UNKNOWN));
        check(
            Status::Failed,
            &[("pause", "x"), ("mark failed", "broken")],
            Some("marked failed since 1970-01-01 00:00:01 UTC by ada@ship: broken"),
        );
        check(
            Status::Failed,
            &[("mark failed", "old"), ("reset, at 1 → at 2", "")],
            Some("marked failed; the audit trail does not say since when or why"),
        );
    }
}
