//! The first tick of a poller, and the marker that tells a first tick from a lost document.
//!
//! The document is created before the marker, and the marker before the first delivery. So a crash
//! between the two leaves a poller that simply begins, while a document that disappears after
//! something was committed, or moved by a person, is refused (I14).

use bytes::Bytes;
use chrono::TimeDelta;

use super::Poller;
use super::budget::Budget;
use super::keeper::Standing;
use super::layout;
use super::reading::{answered, load, load_document, may_try_again, pause, read_last};
use super::report::TickError;
use crate::config::Start;
use crate::model::position::Scalar;
use crate::model::state::{CursorMark, StateDocument};
use crate::store::StoreKey;

/// Where a poller without a document stands: at the beginning, or (`None`) at a start that has just
/// been written down.
pub(super) async fn first_standing(
    poller: &Poller,
    budget: &Budget,
    writes: &mut u64,
) -> Result<Option<Standing>, TickError> {
    if let Some(standing) = refuse_if_born(poller).await? {
        return Ok(Some(standing));
    }
    layout::refuse_another(poller).await?;
    match &poller.start {
        Start::Beginning => Ok(Some(Standing {
            document: first_document(poller, None),
            tag: None,
            clock: None,
            skew: TimeDelta::zero(),
        })),
        Start::Now => {
            write_down_start(poller, None, budget, writes).await?;
            Ok(None)
        }
        Start::From(cursor) => {
            write_down_start(poller, Some(cursor), budget, writes).await?;
            Ok(None)
        }
    }
}

/// A document that is missing although the poller has run is an alarm. Another instance may have
/// begun since it was looked for, though: losing that race is normal (C3), and its document is
/// returned, because an alarm would send somebody to reset a healthy poller.
pub(super) async fn refuse_if_born(poller: &Poller) -> Result<Option<Standing>, TickError> {
    if load(poller, &poller.birth_marker).await?.is_none() {
        return Ok(None);
    }
    match load_document(poller).await? {
        Some(standing) => Ok(Some(standing)),
        None => Err(TickError::DocumentGone {
            key: poller.state_key.to_string(),
            poller: poller.name.clone(),
        }),
    }
}

/// "Now" must not move with every tick that finds nothing, so it is stored at once.
async fn write_down_start(
    poller: &Poller,
    below: Option<&Scalar>,
    budget: &Budget,
    writes: &mut u64,
) -> Result<(), TickError> {
    let last = read_last(poller, below, budget).await?;
    let start = last.map(|position| CursorMark::new(position, &poller.key_columns));
    let body = first_document(poller, start).to_bytes().into();
    // Lost: another instance has written down a start of its own, which is as good, or an earlier
    // try of ours has arrived after all.
    create(poller, &poller.state_key, body, writes).await?;
    leave_birth_marker(poller, writes).await
}

pub(super) fn first_document(poller: &Poller, start: Option<CursorMark>) -> StateDocument {
    let mut document = StateDocument::first(&poller.name, &poller.fingerprint, start);
    document.source = Some(poller.definition.clone());
    document
}

/// Creating it twice is harmless: it has no content.
pub(super) async fn leave_birth_marker(poller: &Poller, writes: &mut u64) -> Result<(), TickError> {
    create(poller, &poller.birth_marker, "{}".into(), writes).await
}

/// For what may be there already: both answers of the store are good.
async fn create(
    poller: &Poller,
    key: &StoreKey,
    body: Bytes,
    writes: &mut u64,
) -> Result<(), TickError> {
    let mut tries = 0;
    loop {
        *writes += 1;
        let request = poller.store.create(key, body.clone());
        match answered(poller, key, request).await {
            Ok(_) => return Ok(()),
            Err(error) if may_try_again(&error, tries) => {
                pause(poller, tries).await;
                tries += 1;
            }
            Err(error) => return Err(error.into()),
        }
    }
}
