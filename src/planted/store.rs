//! Around a store. What a write is for is told by the documents before and after it.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::Plan;
use super::names::Bug;
use crate::model::state::StateDocument;
use crate::store::{
    Deleted, Loaded, ObjectStore, Put, StateStore, StoreError, StoreKey, Swap, Tag,
};
use crate::tick::Poller;

#[derive(Debug)]
pub(super) struct Planted {
    store: Arc<dyn StateStore>,
    objects: Arc<dyn ObjectStore>,
    plan: Arc<Plan>,
    poller: String,
    key_columns: Vec<String>,
    /// The document as this process has last seen it.
    known: Mutex<Option<StateDocument>>,
}

impl Planted {
    pub(super) fn new(poller: &Poller, plan: &Arc<Plan>) -> Self {
        Self {
            store: Arc::clone(&poller.store),
            objects: Arc::clone(&poller.objects),
            plan: Arc::clone(plan),
            poller: poller.name.clone(),
            key_columns: poller.key_columns.clone(),
            known: Mutex::default(),
        }
    }

    /// `None`: it is no document of the poller, but its birth marker, say.
    fn read(&self, body: &[u8]) -> Option<StateDocument> {
        StateDocument::from_bytes(body, &self.poller, &self.key_columns).ok()
    }

    fn remember(&self, document: Option<StateDocument>) {
        if document.is_some() {
            *self.known.lock().unwrap_or_else(PoisonError::into_inner) = document;
        }
    }

    fn purpose(&self, next: Option<&StateDocument>) -> &'static str {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        match (known.as_ref(), next) {
            (Some(known), Some(next)) => purpose(known, next),
            _ => "birth",
        }
    }

    /// A conditional write, with its places to die.
    async fn write(
        &self,
        body: &Bytes,
        write: impl Future<Output = Result<Swap, StoreError>>,
    ) -> Result<Swap, StoreError> {
        let next = self.read(body);
        let swapped = self.plan.step(self.purpose(next.as_ref()), write).await?;
        if let Swap::Won(_) = swapped {
            self.remember(next);
        }
        Ok(swapped)
    }

    /// Whoever has written meanwhile.
    async fn overwrite(&self, key: &StoreKey, body: &Bytes) -> Result<Swap, StoreError> {
        while let Some(found) = self.store.load(key).await? {
            let swapped = self.store.replace(key, &found.tag, body.clone()).await?;
            if let Swap::Won(_) = swapped {
                return Ok(swapped);
            }
        }
        Ok(Swap::Lost)
    }
}

fn purpose(known: &StateDocument, next: &StateDocument) -> &'static str {
    let order = |document: &StateDocument| document.audit.last().and_then(|last| last.id.clone());
    if order(next) != order(known) {
        "rewind"
    } else if next.lease.token > known.lease.token {
        match next.lease.held {
            Some(_) => "claim",
            None => "settle",
        }
    } else if next.counters.batches > known.counters.batches {
        "commit"
    } else if next.lease.held.is_some() {
        "heartbeat"
    } else {
        "release"
    }
}

#[async_trait]
impl StateStore for Planted {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        let loaded = self.plan.step("load", self.store.load(key)).await?;
        if let Some(loaded) = &loaded {
            self.remember(self.read(&loaded.body));
        }
        Ok(loaded)
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        let create = self.store.create(key, body.clone());
        self.write(&body, create).await
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        if self.plan.has(Bug::IfMatchIgnored) {
            return self.write(&body, self.overwrite(key, &body)).await;
        }
        let replace = self.store.replace(key, tag, body.clone());
        self.write(&body, replace).await
    }

    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError> {
        self.store.delete(key, tag).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.store.list(prefix).await
    }
}

#[async_trait]
impl ObjectStore for Planted {
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError> {
        let kind = match key.as_str().split('/').next() {
            Some("quarantine") if self.plan.has(Bug::QuarantineNotKept) => return Ok(Put::Created),
            Some("quarantine") => "quarantine",
            Some("late") => "remember",
            Some("ledger") => "ledger",
            _ => "object",
        };
        self.plan.step(kind, self.objects.put(key, body)).await
    }

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        self.objects.get(key).await
    }

    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        self.objects.remove(key).await
    }

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.objects.names(prefix).await
    }
}
