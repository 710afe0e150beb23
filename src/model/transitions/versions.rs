//! The history of checkpoints, written by the very change that moves one (G3).

use std::sync::Arc;

use crate::clock::Timestamp;
use crate::model::history::{self, HistoryEntry};
use crate::model::sinks;
use crate::model::state::StateDocument;

/// Writes the checkpoint of `next` into its history, behind that of `document`, in the same write
/// that moves it. `by` names a change by hand; what it replaced is kept for its undo.
pub(super) fn remember(
    document: &StateDocument,
    next: &mut StateDocument,
    by: Option<&str>,
    now: Timestamp,
) {
    let begun = document.checkpoint.cursor.is_some() || by.is_some();
    if next.history.is_empty() && begun {
        let at = document.checkpoint.updated_at.unwrap_or(now);
        next.history.push(entry(document, 1, at, None));
    }
    if by.is_some()
        && let Some(replaced) = next.history.last_mut()
    {
        replaced.undo = true;
    }
    let version = next.version().unwrap_or(0) + 1;
    let entry = entry(next, version, now, by);
    next.history.push(entry);
    history::thin(&mut next.history);
    if let Some(was) = &document.schema {
        next.past_schemas
            .insert(was.hash().to_owned(), Arc::clone(was));
    }
    let current = next.schema.as_ref().map(|schema| schema.hash().to_owned());
    let history = &next.history;
    next.past_schemas.retain(|hash, _| {
        current.as_ref() != Some(hash)
            && history
                .iter()
                .any(|entry| entry.schema.as_ref() == Some(hash))
    });
}

fn entry(document: &StateDocument, version: u64, at: Timestamp, by: Option<&str>) -> HistoryEntry {
    let checkpoint = &document.checkpoint;
    let rows = checkpoint.metadata.get("row_count");
    HistoryEntry {
        version,
        at,
        cursor: checkpoint.cursor.clone(),
        batch_id: checkpoint.last_successful_batch_id.clone(),
        rows: rows.and_then(serde_json::Value::as_u64).unwrap_or(0),
        total_rows: document.counters.rows,
        schema: document
            .schema
            .as_ref()
            .map(|schema| schema.hash().to_owned()),
        source: history::short(&document.source_fingerprint),
        by: by.map(str::to_owned),
        undo: false,
        transaction: document
            .late
            .epoch
            .as_ref()
            .and_then(|epoch| epoch.transaction),
        behind: sinks::behind(&document.sinks),
    }
}
