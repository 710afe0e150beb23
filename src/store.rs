//! Where state is kept: documents that change only by compare-and-swap, and plain objects beside
//! them.

pub mod blob;
pub mod file;
pub mod key;
pub mod memory;
pub mod sql;

use std::error::Error;
use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use crate::model::lease::StoreClock;

pub use blob::BlobStore;
pub use file::FileStore;
pub use key::StoreKey;
pub use memory::MemoryStore;
pub use sql::SqlStore;

/// Documents that are only ever changed conditionally: there is no plain put on this seam (I7).
///
/// The contract, kept by every implementation and proven by `tests/store_contract.rs`:
///
/// - A successful write returns a tag that no other write of that key ever had, equal bodies
///   included; a condition on any older tag loses.
/// - Of several concurrent conditional writes against one tag, exactly one wins.
/// - Losing is an answer ([`Swap::Lost`]), not an error. An error says whether the write may have
///   happened ([`StoreError::Unknown`]) or surely has not.
/// - A load sees the latest completed write, whole.
/// - A call may never be answered: callers bound it themselves.
/// - A conditional write is never repeated behind the caller's back: a repeat would turn the
///   caller's own success into a loss.
#[async_trait]
pub trait StateStore: Debug + Send + Sync {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError>;

    /// Wins only if the key does not exist.
    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError>;

    /// Wins only if the key still has `tag`.
    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError>;

    /// Wins only if the key still has `tag`.
    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError>;

    /// Keys below a prefix, in order.
    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError>;
}

/// Immutable objects by name: quarantined rows, spilled sets, ledgers.
#[async_trait]
pub trait ObjectStore: Debug + Send + Sync {
    /// Durable when it returns. An existing object is left as it is.
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError>;

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError>;

    /// Removing what is not there is no error.
    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError>;

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError>;
}

/// A document as it was read.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub body: Bytes,
    pub tag: Tag,
    /// Where the store tells the time, lease age needs no client's clock.
    pub clock: Option<StoreClock>,
}

/// The version of a document; opaque, never reused, never a hash of the content (ABA).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Tag(String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    Won(Tag),
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deleted {
    Gone,
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Created,
    Exists,
}

/// What a store could not do, by what the caller may do about it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It surely did not happen: try again.
    #[error("state store unreachable: {context}")]
    Unreachable {
        context: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// It surely did not happen, and the store asks to be left alone for a while.
    #[error("the state store is busy: {context}")]
    Busy {
        context: String,
        wait: Duration,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// It may or may not have happened: read before deciding (C6).
    #[error("the outcome of a write to the state store is unknown: {context}")]
    Unknown {
        context: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
    /// It will not happen until a person acts.
    #[error("the state store refused: {context}")]
    Refused {
        context: String,
        #[source]
        cause: Box<dyn Error + Send + Sync>,
    },
}

impl Tag {
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tag({})", self.0)
    }
}
