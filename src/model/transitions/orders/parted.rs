//! Documents with other shards take the place of those that are there. The old ones are shut out first, all
//! of them; the new ones begin where the last of the old ones stood. So a row may come twice, and none is
//! passed over.

use super::{begun_again, fence_off, standing};
use crate::clock::Timestamp;
use crate::model::definition::SourceIdentity;
use crate::model::lease::FencingToken;
use crate::model::shard::Layout;
use crate::model::state::{CursorMark, StateDocument, Status};
use crate::model::transitions::{Refusal, remember};

/// Begins what the audit trail says of a document that was left behind.
pub const RETIRED: &str = "mark failed: resharded into ";

#[derive(Debug, Clone)]
pub enum Parting {
    /// Documents with other shards take the place of this one.
    Retire { into: Layout },
    /// It takes the place of documents with other shards, all of whose fences were of `token` or less.
    Begin {
        /// Nothing at or below it is missing from any of these, for any sink.
        at: Option<CursorMark>,
        token: FencingToken,
        paused: bool,
        source: Box<SourceIdentity>,
    },
}

/// `None`: it was done before.
pub(super) fn apply(
    document: &StateDocument,
    step: &Parting,
    now: Timestamp,
) -> Option<(StateDocument, String)> {
    match step {
        Parting::Retire { into } => retire(document, *into),
        Parting::Begin {
            at,
            token,
            paused,
            source,
        } => Some(begin(document, at, *token, *paused, source, now)),
    }
}

/// Whether it is about the same rows of a source that is parted: what another part has passed, this one
/// has not.
pub fn same_part(document: &StateDocument, source: &SourceIdentity) -> Result<(), Refusal> {
    let was = document.source.as_ref().and_then(|was| was.shard.clone());
    match was == source.definition.shard {
        true => Ok(()),
        false => Err(Refusal::OtherShard {
            was: was.unwrap_or_else(|| Layout::Whole.to_string()),
            is: (source.definition.shard.clone()).unwrap_or_else(|| Layout::Whole.to_string()),
        }),
    }
}

fn retire(document: &StateDocument, into: Layout) -> Option<(StateDocument, String)> {
    let what = format!("{RETIRED}{into}");
    let last = document.audit.iter().rev();
    let mut last = last.filter(|entry| entry.what.starts_with("mark failed"));
    if document.status == Status::Failed && last.next().is_some_and(|entry| entry.what == what) {
        return None;
    }
    let mut next = document.clone();
    fence_off(&mut next);
    next.status = Status::Failed;
    Some((next, what))
}

fn begin(
    document: &StateDocument,
    at: &Option<CursorMark>,
    token: FencingToken,
    paused: bool,
    source: &SourceIdentity,
    now: Timestamp,
) -> (StateDocument, String) {
    let mut next = begun_again(document, source, now);
    next.lease.token = next.lease.token.max(token.next());
    next.checkpoint.cursor.clone_from(at);
    next.checkpoint.last_successful_batch_id = None;
    next.checkpoint.metadata.remove("row_count");
    // Whoever was behind gets from here on what all get.
    next.sinks.clear();
    next.schema = None;
    next.server = None;
    next.status = match paused {
        true => Status::Paused,
        false => Status::Active,
    };
    remember(document, &mut next, Some("reshard"), now);
    let what = match paused {
        // As a pause is told of.
        true => format!("pause, reshard, begins {}", standing(&next)),
        false => format!("reshard, begins {}", standing(&next)),
    };
    (next, what)
}
