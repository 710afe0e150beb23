//! What was delivered above the checkpoint, by id. A false member would be a lost row, so it is exact;
//! a member that is missing costs a duplicate.
//!
//! Up to a few hundred ids stand in the document. More of them are moved to immutable objects beside
//! it, each written before the document that names it and removed after none does.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::Poller;
use super::reading::{answered, may_try_again, pause};
use super::report::TickError;
use crate::model::late::{Late, Segment};
use crate::model::page::EventId;
use crate::model::position::Position;
use crate::model::state::StateDocument;
use crate::store::{StoreError, StoreKey};

/// About 64 KiB of document.
pub(super) const MOST_INLINE: usize = 512;
/// Then two neighbours become one.
const MOST_SEGMENTS: usize = 64;
/// One MiB; larger ones are not merged.
const MOST_IN_SEGMENT: u64 = 1 << 16;
/// 16 MiB of ids. Beyond it delivery waits, or the oldest are forgotten and may be delivered again.
pub const MOST_REMEMBERED: u64 = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct Memory {
    ids: HashSet<EventId>,
}

impl Memory {
    /// All that can be met behind `start`.
    pub(super) async fn load(
        poller: &Poller,
        document: &StateDocument,
        start: Option<&Position>,
    ) -> Result<Self, TickError> {
        let mut ids: HashSet<_> = document.delivered.keys().copied().collect();
        let segments = document.late.spilled.iter();
        for segment in segments.filter(|segment| Some(&segment.to) > start) {
            ids.extend(load_segment(poller, segment).await?);
        }
        Ok(Self { ids })
    }

    pub(super) fn has(&self, id: &EventId) -> bool {
        self.ids.contains(id)
    }
}

pub fn remembered(document: &StateDocument) -> u64 {
    let spilled: u64 = document
        .late
        .spilled
        .iter()
        .map(|segment| segment.ids)
        .sum();
    spilled + document.delivered.len() as u64
}

/// Moves everything that is remembered in the document, and `more`, beside it.
pub(super) async fn shelve(
    poller: &Poller,
    inline: &BTreeMap<EventId, Position>,
    more: &BTreeMap<EventId, Position>,
    late: &mut Late,
) -> Result<(), TickError> {
    let all: Vec<_> = inline.iter().chain(more).collect();
    let places = || all.iter().map(|(_, place)| *place);
    let (Some(from), Some(to)) = (places().min(), places().max()) else {
        return Ok(());
    };
    let ids = all.iter().map(|(id, _)| **id).collect();
    let segment = put_segment(poller, ids, from.clone(), to.clone()).await?;
    late.spilled.push(segment);
    if late.spilled.len() > MOST_SEGMENTS {
        merge_two(poller, late).await?;
    }
    Ok(())
}

/// The two neighbours that are smallest together become one.
async fn merge_two(poller: &Poller, late: &mut Late) -> Result<(), TickError> {
    let size = |at: &usize| late.spilled[*at].ids + late.spilled[at + 1].ids;
    let smallest = (0..late.spilled.len() - 1)
        .filter(|at| size(at) <= MOST_IN_SEGMENT)
        .min_by_key(size);
    let Some(at) = smallest else { return Ok(()) };
    let (one, other) = (late.spilled[at].clone(), late.spilled[at + 1].clone());
    let mut ids = load_segment(poller, &one).await?;
    ids.extend(load_segment(poller, &other).await?);
    let from = one.from.min(other.from);
    let to = one.to.max(other.to);
    let merged = put_segment(poller, ids, from, to).await?;
    late.spilled.splice(at..=at + 1, [merged]);
    late.retired.extend([one.name, other.name]);
    Ok(())
}

/// Forgets what will not be read until somebody who is waited for has gone; it may then be delivered
/// again. How many ids these were.
pub(super) fn forget_below(late: &mut Late, start: &Position) -> u64 {
    let mut forgotten = 0;
    let mut remaining: u64 = late.spilled.iter().map(|segment| segment.ids).sum();
    let mut kept = Vec::new();
    for segment in std::mem::take(&mut late.spilled) {
        if remaining > MOST_REMEMBERED / 2 && segment.to <= *start {
            remaining -= segment.ids;
            forgotten += segment.ids;
            late.retired.push(segment.name);
        } else {
            kept.push(segment);
        }
    }
    late.spilled = kept;
    forgotten
}

/// Removes objects that no document names any more. What cannot be removed now stays on the list.
pub(super) async fn remove_retired(poller: &Poller, late: &mut Late) {
    let named: HashSet<_> = late.spilled.iter().map(|s| s.name.clone()).collect();
    let mut left = Vec::new();
    for name in std::mem::take(&mut late.retired) {
        // Equal ids make an equal name, and it may be in use again.
        if named.contains(&name) {
            continue;
        }
        let removed = match key(poller, &name) {
            Ok(key) => poller.objects.remove(&key).await.is_ok(),
            Err(_) => true,
        };
        if !removed {
            left.push(name);
        }
    }
    late.retired = left;
}

async fn put_segment(
    poller: &Poller,
    mut ids: Vec<EventId>,
    from: Position,
    to: Position,
) -> Result<Segment, TickError> {
    ids.sort();
    let body: Bytes = ids.iter().flat_map(|id| id.as_bytes().to_vec()).collect();
    let name = HEXLOWER.encode(&Sha256::digest(&body)[..16]);
    let key = key(poller, &name)?;
    tried(poller, &key, || poller.objects.put(&key, body.clone())).await?;
    Ok(Segment {
        name,
        ids: ids.len() as u64,
        from,
        to,
    })
}

/// An object that is gone or damaged has been forgotten: its rows are delivered again.
async fn load_segment(poller: &Poller, segment: &Segment) -> Result<Vec<EventId>, TickError> {
    let key = key(poller, &segment.name)?;
    let found = tried(poller, &key, || poller.objects.get(&key)).await?;
    let whole = found.filter(|body| {
        HEXLOWER.encode(&Sha256::digest(body)[..16]) == segment.name
            && body.len() % EventId::BYTES == 0
    });
    let Some(body) = whole else {
        tracing::warn!(
            poller = %poller.name,
            "{key}: what was delivered above the checkpoint is gone or damaged; {} rows may be delivered again",
            segment.ids
        );
        return Ok(Vec::new());
    };
    Ok(body
        .chunks_exact(EventId::BYTES)
        .filter_map(EventId::from_bytes)
        .collect())
}

fn key(poller: &Poller, name: &str) -> Result<StoreKey, TickError> {
    poller
        .state_key
        .late_object(name)
        .map_err(|error| TickError::Bug {
            what: error.to_string(),
        })
}

/// Objects are immutable and named by their content, so all of it may safely happen twice.
pub(super) async fn tried<T, F>(
    poller: &Poller,
    key: &StoreKey,
    request: impl Fn() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut tries = 0;
    loop {
        match answered(poller, key, request()).await {
            Err(error) if may_try_again(&error, tries) => {
                pause(poller, tries).await;
                tries += 1;
            }
            result => return result,
        }
    }
}
