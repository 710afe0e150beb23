//! A document that cannot be read is somebody's evidence: before anything takes its place, its bytes
//! are written down beside it, in the same store.

use super::OperateError;
use crate::store::{Loaded, StoreError, StoreKey};
use crate::tick::Poller;
use crate::tick::reading::{answered, load, may_try_again, pause};
use crate::tick::report::TickError;

impl Poller {
    /// Where the bytes of a refused document are kept from now on.
    pub(super) async fn move_aside(&self, refused: &Loaded) -> Result<StoreKey, OperateError> {
        let stamp = self.clock.now().format("%Y%m%dT%H%M%S%6fZ");
        let path = self.state_key.as_str();
        let path = path.strip_suffix(".json").unwrap_or(path);
        let key =
            StoreKey::new(format!("{path}.refused-{stamp}")).map_err(|error| TickError::Bug {
                what: error.to_string(),
            })?;
        let mut tries = 0;
        loop {
            let request = self.store.create(&key, refused.body.clone());
            let error = match answered(self, &key, request).await {
                Ok(_) => break,
                Err(error) => error,
            };
            if !may_try_again(&error, tries) {
                return Err(error.into());
            }
            pause(self, tries).await;
            tries += 1;
        }
        // Lost, or an answer that was lost: what counts is what is there.
        match load(self, &key).await? {
            Some(kept) if kept.body == refused.body => Ok(key),
            _ => Err(StoreError::Refused {
                context: format!("{key} is there already, or cannot be read back"),
                cause: "the refused document was not saved, so it is not replaced".into(),
            }
            .into()),
        }
    }
}
