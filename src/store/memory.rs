//! A store that lives as long as the process: for tests, and the model the others are held to.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;

use super::{Deleted, Loaded, ObjectStore, Put, StateStore, StoreError, StoreKey, Swap, Tag};

#[derive(Debug, Default)]
pub struct MemoryStore {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    writes: u64,
    documents: BTreeMap<StoreKey, (Tag, Bytes)>,
    objects: BTreeMap<StoreKey, Bytes>,
}

impl MemoryStore {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Every lock is released before an await, and nothing inside can panic half way.
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, key: &StoreKey, body: Bytes) -> Swap {
        self.writes += 1;
        let tag = Tag::new(self.writes.to_string());
        self.documents.insert(key.clone(), (tag.clone(), body));
        Swap::Won(tag)
    }

    fn has(&self, key: &StoreKey, tag: &Tag) -> bool {
        self.documents.get(key).is_some_and(|(now, _)| now == tag)
    }
}

#[async_trait]
impl StateStore for MemoryStore {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        let inner = self.inner();
        let found = inner.documents.get(key);
        Ok(found.map(|(tag, body)| Loaded {
            body: body.clone(),
            tag: tag.clone(),
            clock: None,
        }))
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        let mut inner = self.inner();
        if inner.documents.contains_key(key) {
            return Ok(Swap::Lost);
        }
        Ok(inner.write(key, body))
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        let mut inner = self.inner();
        if !inner.has(key, tag) {
            return Ok(Swap::Lost);
        }
        Ok(inner.write(key, body))
    }

    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError> {
        let mut inner = self.inner();
        if !inner.has(key, tag) {
            return Ok(Deleted::Lost);
        }
        inner.documents.remove(key);
        Ok(Deleted::Gone)
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        Ok(below(self.inner().documents.keys(), prefix))
    }
}

#[async_trait]
impl ObjectStore for MemoryStore {
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError> {
        let mut inner = self.inner();
        if inner.objects.contains_key(key) {
            return Ok(Put::Exists);
        }
        inner.objects.insert(key.clone(), body);
        Ok(Put::Created)
    }

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        Ok(self.inner().objects.get(key).cloned())
    }

    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        self.inner().objects.remove(key);
        Ok(())
    }

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        Ok(below(self.inner().objects.keys(), prefix))
    }
}

fn below<'a>(keys: impl Iterator<Item = &'a StoreKey>, prefix: &str) -> Vec<StoreKey> {
    keys.filter(|key| key.as_str().starts_with(prefix))
        .cloned()
        .collect()
}
