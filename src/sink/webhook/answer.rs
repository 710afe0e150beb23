//! What the body of a 2xx answer says: nothing, or which events were not taken.
//!
//! A 2xx acknowledges, whatever its body is, unless the body is about `failed`. Then it is
//! understood to the letter or not at all: a receiver that tries to say that it lacks rows must
//! never be taken for one that has them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::super::{Stance, Unaccepted};
use crate::model::page::EventId;
use crate::model::plain::is_obeyed;

/// Answers are read to here.
pub(super) const LIMIT: usize = 64 * 1024;

const LONGEST_REASON: usize = 200;

/// The body of an answer, as far as it was read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) bytes: Vec<u8>,
    /// There was more than the limit.
    pub(super) is_cut: bool,
    /// In spite of what we ask for; answers are never decompressed.
    pub(super) is_encoded: bool,
}

/// Why an answer is no acknowledgement although its status is; in words that continue
/// "answered 200 OK, but".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotUnderstood {
    #[error("in a Content-Encoding, which dbtick does not read: answer without one")]
    Encoded,
    /// A smaller batch has a shorter answer.
    #[error(
        "its JSON is longer than 64 KiB and may name events that it has not taken: name fewer of \
         them, with shorter reasons"
    )]
    TooLong,
    #[error(
        "what it says about \"failed\" cannot be understood: it is a list of \
         {{\"id\": \"…\", \"reason\": \"…\", \"retry\": true}}"
    )]
    Shape,
    #[error("it names events as failed that are not in this batch: name those of this request")]
    Strangers,
}

/// Members that are not ours may be there. .NET writes names in capitals unless told.
#[derive(Deserialize)]
struct Statement {
    #[serde(default, alias = "Failed")]
    failed: Option<Vec<Named>>,
}

#[derive(Deserialize)]
struct Named {
    #[serde(alias = "Id")]
    id: String,
    #[serde(default, alias = "Reason")]
    reason: Lenient<String>,
    #[serde(default, alias = "Retry")]
    retry: Lenient<bool>,
}

/// What is of another type counts as not said: it is not worth an acknowledgement.
#[derive(Deserialize)]
#[serde(untagged)]
enum Lenient<T> {
    Said(T),
    Other(IgnoredAny),
}

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self::Other(IgnoredAny)
    }
}

/// The events of `batch` that were not taken, in its order and each once; none: all were taken.
pub(super) fn read(answer: &Answer, batch: &[EventId]) -> Result<Vec<Unaccepted>, NotUnderstood> {
    let text = answer.bytes.trim_ascii();
    if text.is_empty() && !answer.is_cut {
        return Ok(Vec::new());
    }
    if answer.is_encoded {
        return Err(NotUnderstood::Encoded);
    }
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    if !text.trim_ascii_start().starts_with(b"{") {
        return Ok(Vec::new());
    }
    if answer.is_cut {
        return Err(NotUnderstood::TooLong);
    }
    match serde_json::from_slice::<Statement>(text) {
        Ok(Statement { failed }) => pick(failed.unwrap_or_default(), batch),
        Err(error) if error.is_data() || mentions_failed(text) => Err(NotUnderstood::Shape),
        Err(_) => Ok(Vec::new()),
    }
}

fn pick(failed: Vec<Named>, batch: &[EventId]) -> Result<Vec<Unaccepted>, NotUnderstood> {
    let known: BTreeSet<_> = batch.iter().copied().collect();
    let mut found: BTreeMap<EventId, Unaccepted> = BTreeMap::new();
    for Named { id, reason, retry } in failed {
        let id = EventId::parse(&id)
            .filter(|id| known.contains(id))
            .ok_or(NotUnderstood::Strangers)?;
        let stance = match retry {
            Lenient::Said(false) => Stance::Never,
            _ => Stance::NotNow,
        };
        // Said twice, it is over only if both say so: to give an event up cannot be undone.
        let entry = found.entry(id).or_insert_with(|| Unaccepted {
            id,
            reason: one_line(reason),
            stance,
        });
        if stance == Stance::NotNow {
            entry.stance = stance;
        }
    }
    Ok(batch.iter().filter_map(|id| found.remove(id)).collect())
}

/// Python's `str` of a dict, or JSON that is cut short, is no JSON and still an attempt to speak.
fn mentions_failed(text: &[u8]) -> bool {
    text.windows(6)
        .any(|word| word.eq_ignore_ascii_case(b"failed"))
}

/// It goes into logs: it must not begin a line of its own.
fn one_line(reason: Lenient<String>) -> String {
    let Lenient::Said(reason) = reason else {
        return String::new();
    };
    let line = reason.replace(is_obeyed, " ");
    line.trim().chars().take(LONGEST_REASON).collect()
}

#[cfg(test)]
mod tests;
