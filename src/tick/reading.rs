//! What a tick asks of its store and of its database. Infrastructure that
//! cannot be reached is tried again a few times, with jitter, and then the tick fails (D9).

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::{sleep, timeout, timeout_at};

use super::Poller;
use super::budget::Budget;
use super::keeper::Standing;
use super::report::TickError;
use super::sweeping::Portion;
use crate::model::late::{Sight, Witness};
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::model::schema::{Schema, SchemaChange};
use crate::model::state::StateDocument;
use crate::source::{Located, ReadPage, SourceError};
use crate::store::{Loaded, StoreError, StoreKey};

const MOST_TRIES: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Behind one name there may be another server today, with rows of its own below the checkpoint (B9).
pub(super) fn refuse_another_server(
    poller: &Poller,
    document: &StateDocument,
    server: Option<&str>,
) -> Result<(), TickError> {
    match (document.server.as_deref(), server) {
        (Some(was), Some(is)) if was != is => Err(TickError::OtherServer {
            poller: poller.name.clone(),
            was: was.to_owned(),
            is: is.to_owned(),
        }),
        _ => Ok(()),
    }
}

/// The checkpoint is a place in an order; when the columns that make the order have changed, nobody
/// but a person can say whether it still is (B8).
pub(super) fn refuse_another_order(
    poller: &Poller,
    document: &StateDocument,
    schema: &Schema,
) -> Result<(), TickError> {
    let Some(known) = &document.schema else {
        return Ok(());
    };
    if known.hash() == schema.hash() {
        return Ok(());
    }
    let mut changes = known.changes_to(schema);
    changes.retain(SchemaChange::stops_the_poller);
    if changes.is_empty() {
        return Ok(());
    }
    Err(TickError::SchemaChanged {
        poller: poller.name.clone(),
        changes,
    })
}

/// Whether what was read is of the same server and in the same order as what a document is about.
pub(super) fn refuse_another_source(
    poller: &Poller,
    document: &StateDocument,
    read: &ReadPage,
) -> Result<(), TickError> {
    refuse_another_server(poller, document, read.server.as_deref())?;
    refuse_another_order(poller, document, &read.schema)
}

/// As much as a batch may have.
pub(super) async fn read_page(
    poller: &Poller,
    after: Option<&Position>,
    budget: &Budget,
) -> Result<ReadPage, SourceError> {
    read_portion(poller, after, Portion::batch_of(poller), budget).await
}

pub(super) async fn read_portion(
    poller: &Poller,
    after: Option<&Position>,
    portion: Portion,
    budget: &Budget,
) -> Result<ReadPage, SourceError> {
    asked(poller, budget, || {
        let writer = event_writer(poller, portion.max_rows, portion.max_bytes);
        poller.source.read(after, writer, poller.batch.max_wait)
    })
    .await
}

/// Gives events the ids by which receivers know them.
fn event_writer(poller: &Poller, max_rows: usize, max_bytes: usize) -> PageWriter {
    PageWriter::new(&poller.events_as, max_rows, max_bytes)
}

/// Where the table ends now, or where the rows below a cursor end.
pub(super) async fn read_last(
    poller: &Poller,
    below: Option<&Scalar>,
    budget: &Budget,
) -> Result<Option<Position>, SourceError> {
    asked(poller, budget, || poller.source.last(below)).await
}

/// How many events lie between two places, counted up to `most`.
pub(super) async fn read_count(
    poller: &Poller,
    after: Option<&Position>,
    up_to: Option<&Position>,
    most: u64,
    budget: &Budget,
) -> Result<u64, SourceError> {
    asked(poller, budget, || poller.source.count(after, up_to, most)).await
}

/// The rows with a key, with the ids that a tick gives them.
pub(super) async fn read_located(
    poller: &Poller,
    key: &[String],
    budget: &Budget,
) -> Result<Vec<Located>, SourceError> {
    asked(poller, budget, || {
        let writer = event_writer(poller, usize::MAX, usize::MAX);
        poller.source.locate(key, writer)
    })
    .await
}

/// Who writes; `known` are the witnesses that are waited for.
pub(super) async fn look(
    poller: &Poller,
    known: &BTreeSet<Witness>,
    budget: &Budget,
) -> Result<Sight, SourceError> {
    asked(poller, budget, || poller.source.look(known)).await
}

/// A database that hangs must not keep a delivered batch from its commit until the host kills the
/// process: the next tick would end in the same place, for ever.
async fn asked<T, F>(
    poller: &Poller,
    budget: &Budget,
    question: impl Fn() -> F,
) -> Result<T, SourceError>
where
    F: Future<Output = Result<T, SourceError>>,
{
    let mut tries = 0;
    let mut why = None;
    loop {
        let Ok(result) = timeout_at(budget.abandon_at(), question()).await else {
            return Err(why.unwrap_or_else(too_late));
        };
        match result {
            Err(error @ SourceError::Unreachable { .. }) if tries + 1 < MOST_TRIES => {
                pause(poller, tries).await;
                tries += 1;
                why = Some(error);
            }
            result => return result,
        }
    }
}

fn too_late() -> SourceError {
    SourceError::Unreachable {
        context: "no answer, or no connection free, before the time budget of the invocation was \
                  spent"
            .to_owned(),
        cause: None,
    }
}

/// The document as it stands, or `None` where there is none.
pub(super) async fn load_document(poller: &Poller) -> Result<Option<Standing>, TickError> {
    let asked = poller.clock.now();
    let Some(loaded) = load(poller, &poller.state_key).await? else {
        return Ok(None);
    };
    let skew = match &loaded.clock {
        Some(clock) => clock.skew_of(asked, poller.clock.now()),
        None => TimeDelta::zero(),
    };
    let document = StateDocument::from_bytes(&loaded.body, &poller.name, &poller.key_columns)
        .map_err(|source| TickError::Document {
            key: poller.state_key.to_string(),
            poller: poller.name.clone(),
            source,
        })?;
    Ok(Some(Standing {
        document,
        tag: Some(loaded.tag),
        clock: loaded.clock,
        skew,
    }))
}

pub(super) async fn load(poller: &Poller, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
    let mut tries = 0;
    loop {
        match answered(poller, key, poller.store.load(key)).await {
            Err(error) if may_try_again(&error, tries) => {
                pause(poller, tries).await;
                tries += 1;
            }
            // Whatever became of a read, it has changed nothing.
            Err(StoreError::Unknown { context, cause }) => {
                return Err(StoreError::Unreachable { context, cause });
            }
            result => return result,
        }
    }
}

/// A request to the store, whose answer counts as lost while a holder still has time to read, to
/// write again and to stay the holder: half of what is left of a lease when its heartbeat is due.
pub(super) async fn answered<T>(
    poller: &Poller,
    key: &StoreKey,
    request: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let lease = &poller.lease;
    let patience = lease.ttl.saturating_sub(lease.margin + lease.heartbeat) / 2;
    match timeout(patience, request).await {
        Ok(result) => result,
        Err(elapsed) => Err(StoreError::Unknown {
            context: key.to_string(),
            cause: elapsed.into(),
        }),
    }
}

/// For reads, and for writes that may safely happen twice.
pub(super) fn may_try_again(error: &StoreError, tries: u32) -> bool {
    let passing = matches!(
        error,
        StoreError::Unreachable { .. } | StoreError::Unknown { .. }
    );
    passing && tries + 1 < MOST_TRIES
}

/// Doubles, with up to half of it taken off at random, so that instances do not march in step.
pub(super) async fn pause(poller: &Poller, tries: u32) {
    let jitter = u32::try_from(poller.clock.random() % 500).unwrap_or(0);
    sleep(FIRST_PAUSE * (1 << tries) * (1000 - jitter) / 1000).await;
}
