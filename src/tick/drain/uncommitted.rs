//! What was delivered and is not committed yet.

use std::sync::Arc;

use crate::model::page::EventId;
use crate::model::position::Position;
use crate::model::schema::{Schema, SchemaChange};
use crate::model::sinks::News;
use crate::model::state::StateDocument;
use crate::tick::Poller;
use crate::tick::deliver::Delivered;
use crate::tick::keeper::Receipt;
use crate::tick::ledger::Recording;
use crate::tick::sweeping::Unsent;

/// One batch, or several that are committed by one write.
#[derive(Debug, Default)]
pub(super) struct Uncommitted {
    pub(super) receipt: Option<Receipt>,
    pub(super) events: Vec<(EventId, Position)>,
    pub(super) seen: Option<(Arc<Schema>, Option<Arc<str>>)>,
    pub(super) news: News,
    pub(super) recording: Recording,
    pub(super) told: Told,
    /// Nothing newer goes out before it is committed.
    pub(super) comes_first: bool,
}

/// For the report, once it is committed.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) changes: Vec<SchemaChange>,
    /// Rows that leave an outbox.
    pub(super) done_with: Vec<Position>,
    pub(super) quarantined: u64,
    pub(super) batches: u64,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

impl Uncommitted {
    pub(super) fn batches(&self) -> usize {
        let batches = self.receipt.as_ref().map_or(0, Receipt::batches);
        usize::try_from(batches).unwrap_or(usize::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.receipt.is_none()
    }

    /// A batch all of which is done.
    pub(super) fn add(
        &mut self,
        poller: &Poller,
        document: &StateDocument,
        unsent: Unsent,
        delivered: Delivered,
    ) {
        let Delivered {
            receipt,
            aside,
            news,
            recording,
            ..
        } = delivered;
        let Some(receipt) = receipt else {
            unreachable!("a delivery that is not blocked has a receipt");
        };
        let receipt = receipt.was_read_in(unsent.took);
        let told = &mut self.told;
        told.changes.extend(changed_columns(document, &unsent));
        if poller.source.cleans_up() {
            let events = unsent.page.events().iter().enumerate();
            let done = events.filter(|(at, _)| !aside.contains(at));
            let done = done.map(|(_, event)| event.position.clone());
            told.done_with.extend(done);
        }
        told.quarantined += aside.len() as u64;
        told.batches += receipt.batches();
        told.rows += receipt.rows();
        told.bytes += receipt.bytes();
        if self.is_empty() {
            self.news = news;
            self.recording = recording;
        } else {
            self.news.add_quiet(&news);
        }
        self.receipt = Some(match self.receipt.take() {
            None => receipt,
            Some(before) => before.and(receipt),
        });
        self.seen = Some((unsent.schema, unsent.server));
        let events = unsent.page.into_events().into_iter();
        self.events
            .extend(events.map(|event| (event.id, event.position)));
    }
}

fn changed_columns(document: &StateDocument, unsent: &Unsent) -> Vec<SchemaChange> {
    match &document.schema {
        Some(known) if known.hash() != unsent.schema.hash() => known.changes_to(&unsent.schema),
        _ => Vec::new(),
    }
}
