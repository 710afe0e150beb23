//! Batches on their way, in order.
//!
//! A row may not overtake an older version of itself: a batch that shares a key with one that is on its
//! way waits for it.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;

use crate::model::envelope::Batch;
use crate::model::position::Scalar;
use crate::model::state::StateDocument;
use crate::tick::deliver::{Answered, deliver};
use crate::tick::hand_over::Dispatch;
use crate::tick::keeper::Lease;
use crate::tick::sweeping::Unsent;
use crate::tick::{Call, Poller};

type Key = Vec<Scalar>;

pub(super) struct Flight<'a> {
    poller: &'a Poller,
    call: &'a Call,
    lease: &'a Lease,
    batches: FuturesOrdered<BoxFuture<'a, Landing>>,
    /// Of those batches, where there may be several of them.
    keys: BTreeSet<Key>,
}

/// A batch with the answers to it.
#[derive(Debug)]
pub(super) struct Landing {
    pub(super) unsent: Unsent,
    pub(super) batch: Batch,
    pub(super) answered: Answered,
}

impl<'a> Flight<'a> {
    pub(super) fn new(poller: &'a Poller, call: &'a Call, lease: &'a Lease) -> Self {
        Self {
            poller,
            call,
            lease,
            batches: FuturesOrdered::new(),
            keys: BTreeSet::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.batches.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Nobody waits for the answers any more.
    pub(super) fn abandon(&mut self) {
        self.batches = FuturesOrdered::new();
    }

    pub(super) fn has_room_for(&self, unsent: &Unsent, most: usize) -> bool {
        self.len() < most && (self.is_empty() || !keys(unsent).any(|key| self.keys.contains(key)))
    }

    /// As one of so many that may be on their way.
    pub(super) fn launch(
        &mut self,
        document: &Arc<StateDocument>,
        mut unsent: Unsent,
        at_once: usize,
    ) {
        let (poller, call, lease) = (self.poller, self.call, self.lease);
        let document = Arc::clone(document);
        if poller.batch.max_inflight.get() > 1 {
            self.keys.extend(keys(&unsent).map(<[Scalar]>::to_vec));
        }
        self.batches.push_back(Box::pin(async move {
            let dispatch = Dispatch::of(poller, call, lease, &document).one_of(at_once);
            let batch = encode(dispatch, &document, &unsent, call);
            unsent.page.drop_bytes();
            let answered = deliver(dispatch, &document, &unsent.page, &batch).await;
            Landing {
                unsent,
                batch,
                answered,
            }
        }));
    }

    /// The first of those that were launched; the others go on meanwhile.
    pub(super) async fn land(&mut self) -> Option<Landing> {
        let landing = self.batches.next().await?;
        for key in keys(&landing.unsent) {
            self.keys.remove(key);
        }
        Some(landing)
    }
}

fn keys(unsent: &Unsent) -> impl Iterator<Item = &[Scalar]> {
    let events = unsent.page.events().iter();
    events.map(|event| event.position.key())
}

fn encode(dispatch: Dispatch<'_>, document: &StateDocument, unsent: &Unsent, call: &Call) -> Batch {
    let failures = document.sinks.values().filter(|sink| sink.lag.is_none());
    let mut failures = failures.filter_map(|sink| sink.failure.as_ref()).peekable();
    let ids = match failures.peek() {
        Some(_) => unsent.page.events().iter().map(|event| event.id).collect(),
        None => BTreeSet::new(),
    };
    let failed_before = failures
        .filter(|failure| failure.concerns(&ids))
        .map(|failure| failure.attempts)
        .max();
    Batch::assemble(
        &dispatch.poller.events_as,
        &unsent.types,
        &unsent.page,
        dispatch.fences.next(),
        failed_before.unwrap_or(0) + 1,
        call.trace.clone(),
    )
}
