//! A state document whose poller is not configured any more: looked at, and given orders, all the same.

use std::sync::Arc;

use crate::clock::Clock;
use crate::model::state::StateDocument;
use crate::model::transitions::{Action, Applied, Operator, Order, apply};
use crate::store::{StateStore, StoreError, StoreKey, Swap};
use crate::tick::operate::OperateError;
use crate::tick::report::TickError;

/// Each time somebody else was faster.
const MOST_TRIES: u32 = 8;

#[derive(Debug)]
pub struct Stray {
    /// As its document says it.
    pub name: String,
    pub key: StoreKey,
    pub store: Arc<dyn StateStore>,
    pub clock: Arc<dyn Clock>,
}

impl Stray {
    /// `None`: it is gone.
    pub async fn document(&self) -> Result<Option<StateDocument>, TickError> {
        let loaded = self.store.load(&self.key).await?;
        loaded.map(|loaded| self.read(&loaded.body)).transpose()
    }

    /// `false`: there was nothing to change. No order that needs a lease.
    pub async fn operate(&self, by: &Operator, order: &Order) -> Result<bool, OperateError> {
        for _ in 0..MOST_TRIES {
            let Some(loaded) = self.store.load(&self.key).await? else {
                let poller = self.name.clone();
                return Err(OperateError::NotBegun { poller });
            };
            let document = self.read(&loaded.body)?;
            let action = Action::Operate {
                by: by.clone(),
                order: order.clone(),
            };
            let Applied::Changed(next) = apply(&document, &action, self.clock.now())? else {
                return Ok(document.audit.iter().any(|e| e.id.as_ref() == Some(&by.id)));
            };
            let body = next.to_bytes().into();
            match self.store.replace(&self.key, &loaded.tag, body).await {
                Ok(Swap::Won(_)) => return Ok(true),
                // Read again: the trail tells whether it has happened (C6).
                Ok(Swap::Lost) | Err(StoreError::Unknown { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(TickError::Contended { tries: MOST_TRIES }.into())
    }

    fn read(&self, body: &[u8]) -> Result<StateDocument, TickError> {
        StateDocument::from_bytes(body, &self.name, &[]).map_err(|source| TickError::Document {
            key: self.key.to_string(),
            poller: self.name.clone(),
            source,
        })
    }
}
