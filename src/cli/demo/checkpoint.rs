//! The state document of the demo's poller, read as anybody could: from its file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::app::{APP, FUNCTION};
use crate::clock::{SystemClock, Timestamp};
use crate::model::position::Scalar;
use crate::model::state::StateDocument;
use crate::store::{FileStore, StateStore, StoreKey};

#[derive(Debug)]
pub(super) struct CheckpointFile {
    store: FileStore,
    key: StoreKey,
    key_columns: [String; 1],
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Standing {
    /// The last row id below the checkpoint.
    pub(super) committed: i64,
    /// When the lease of its holder runs out.
    pub(super) held_until: Option<Timestamp>,
}

impl CheckpointFile {
    pub(super) fn new(state: &Path) -> Result<Self, String> {
        Ok(Self {
            store: FileStore::new(state, Arc::new(SystemClock)),
            key: StoreKey::state(APP, FUNCTION).map_err(|error| error.to_string())?,
            key_columns: ["id".to_owned()],
        })
    }

    /// `None` before the first batch.
    pub(super) async fn read(&self) -> Option<Standing> {
        let loaded = self.store.load(&self.key).await.ok()??;
        let document = StateDocument::from_bytes(&loaded.body, FUNCTION, &self.key_columns).ok()?;
        let committed = match document.position().map(|position| position.cursor()) {
            Some([Scalar::Integer(id)]) => i64::try_from(*id).ok()?,
            _ => 0,
        };
        Some(Standing {
            committed,
            held_until: document.lease.held.map(|held| held.expires_at),
        })
    }
}

/// Where the document lies.
pub(super) fn path(state: &Path) -> PathBuf {
    state.join(format!("state/{APP}/{FUNCTION}.json"))
}
