//! What `dbtick check` says in the same words about every database.

use super::names::shown;
use super::{Finding, Grade};
use crate::config::{LateMode, NullPolicy, Rows, SourceConfig, human};
use crate::model::late::{Protected, Protection};

pub(super) fn finding(grade: Grade, subject: &'static str, text: impl Into<String>) -> Finding {
    Finding {
        grade,
        subject,
        text: text.into(),
    }
}

pub(super) fn columns(delivered: usize) -> Finding {
    let text = format!("{delivered} delivered; all that are named exist");
    finding(Grade::Pass, "columns", text)
}

/// `nullable` are the columns of the order that may be NULL.
pub(super) fn nulls<'a>(
    policy: NullPolicy,
    nullable: impl IntoIterator<Item = &'a str>,
) -> Finding {
    let names: Vec<_> = nullable.into_iter().map(shown).collect();
    if names.is_empty() {
        return finding(Grade::Pass, "nulls", "cursor and key are never NULL");
    }
    let names = names.join(", ");
    let text = match policy {
        NullPolicy::Fail => format!("{names} can be NULL; a row with NULL there stops the poller"),
        NullPolicy::Ignore => format!("{names} can be NULL; rows with NULL there are left out"),
    };
    finding(Grade::Warn, "nulls", text)
}

/// How well the source is protected against rows that commit late. Without protection and without
/// the owner's word, nothing is read.
pub(super) fn late_commits(protection: &Protection, mode: LateMode) -> Finding {
    let reason = &protection.reason;
    let (grade, text) = match (protection.grade, mode) {
        (Protected::Proven, _) => (Grade::Pass, format!("PROVEN: {reason}")),
        (Protected::Bounded(window), _) => {
            let window = human::show_duration(window);
            (Grade::Warn, format!("BOUNDED({window}): {reason}"))
        }
        (Protected::Unsafe, LateMode::Auto) => (
            Grade::Fail,
            format!(
                "UNSAFE: {reason}; set source.late_commits to {{ \"window\": … }}, longer than the \
                 longest transaction, or to \"off\" to accept the loss"
            ),
        ),
        (Protected::Unsafe, _) => (
            Grade::Warn,
            format!("UNSAFE: {reason}; rows that commit late are lost"),
        ),
    };
    finding(grade, "late commits", text)
}

/// Whether the schema keeps two rows from sharing cursor and key.
pub(super) fn unique(is_proven: bool) -> Finding {
    if is_proven {
        return finding(Grade::Pass, "key", "no two rows share cursor and key");
    }
    finding(
        Grade::Warn,
        "key",
        "nothing in the schema keeps two rows from sharing cursor and key; the poller stops at the first two that do",
    )
}

pub(super) const TEXT_ORDER: &str = "text is ordered by its bytes, so '10' comes before '9' and 'B' before 'a'; a row whose cursor sorts below the checkpoint is not seen";

/// Words in a query that do not go with paging; a guess by the text alone, so never a failure.
pub(super) fn query_words(config: &SourceConfig) -> Vec<Finding> {
    let Rows::Query(query) = &config.rows else {
        return Vec::new();
    };
    let words = words(query);
    let has = |word: &str| words.iter().any(|found| found == word);
    let mut findings = Vec::new();
    if has("limit") {
        let text = "a LIMIT in the query applies before paging: rows beyond it are never seen";
        findings.push(finding(Grade::Warn, "query", text));
    }
    if has("union") {
        let text = "cursor and key must have one declared type in every part of a UNION; use CAST";
        findings.push(finding(Grade::Warn, "query", text));
    }
    findings
}

/// Lower-cased.
pub(super) fn words(sql: &str) -> Vec<String> {
    sql.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

/// A cursor that does not move when its row is updated, by its name.
pub(super) fn creation(cursor: &str) -> Option<Finding> {
    let lower = cursor.to_ascii_lowercase();
    let sounds = ["created", "inserted", "added"]
        .iter()
        .any(|word| lower.contains(word));
    sounds.then(|| {
        let name = shown(cursor);
        let text = format!("{name} sounds like a time of creation: updates of a row are not seen");
        finding(Grade::Warn, "updates", text)
    })
}
