//! Azure: connections by the conventions of the Functions host, credentials, signing, transport.
//!
//! Nothing in here retries a request: who sends one knows whether it may happen twice.

pub(crate) mod advice;
pub mod connection;
pub(crate) mod failure;
pub mod identity;
pub mod queue;
mod shared_key;
mod transport;

use std::sync::{Arc, Mutex, PoisonError};

use azure_core::http::policies::Policy;
use azure_core::http::policies::auth::BearerTokenAuthorizationPolicy;
use azure_core::http::{ClientOptions, RetryOptions, Transport};

use crate::clock::Clock;
use connection::{Access, ServiceEndpoint};
use identity::{Credential, IdentityConfig};
use shared_key::SharedKeyPolicy;

const STORAGE_SCOPE: &str = "https://storage.azure.com/.default";

/// What everything that talks to Azure shares: one HTTP client, and one credential per identity, so
/// that tokens are fetched once.
#[derive(Debug, Clone)]
pub struct Azure {
    transport: Transport,
    clock: Arc<dyn Clock>,
    credentials: Arc<Mutex<Vec<(IdentityConfig, Credential)>>>,
}

impl Azure {
    pub fn new(clock: Arc<dyn Clock>) -> reqwest::Result<Self> {
        Ok(Self {
            transport: transport::shared()?,
            clock,
            credentials: Arc::default(),
        })
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.clock)
    }

    /// The same credential for the same identity, with the tokens it holds already.
    #[must_use]
    pub fn credential(&self, identity: &IdentityConfig) -> Credential {
        let mut known = self
            .credentials
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((_, credential)) = known.iter().find(|(config, _)| config == identity) {
            return credential.clone();
        }
        let credential = Credential::new(identity.clone(), self.transport.clone());
        known.push((identity.clone(), credential.clone()));
        credential
    }

    /// For a client of the SDK: authorised, over the shared transport, and never trying twice.
    pub(crate) fn client_options(&self, endpoint: &ServiceEndpoint) -> ClientOptions {
        let authorise: Option<Arc<dyn Policy>> = match endpoint.access() {
            Access::SharedKey { account, key } => Some(Arc::new(SharedKeyPolicy::new(
                account,
                key.clone(),
                Arc::clone(&self.clock),
            ))),
            // It travels in the URL.
            Access::Sas(_) => None,
            Access::Identity(identity) => Some(Arc::new(BearerTokenAuthorizationPolicy::new(
                Arc::new(self.credential(identity)),
                [STORAGE_SCOPE],
            ))),
        };
        ClientOptions {
            per_try_policies: authorise.into_iter().collect(),
            retry: RetryOptions::none(),
            transport: Some(self.transport.clone()),
            ..ClientOptions::default()
        }
    }
}
