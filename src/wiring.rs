//! From configuration to pollers that run: every concrete source, sink and store is chosen here.
//!
//! Nothing is connected to: sources and stores open what they need when it is first used.

use std::sync::Arc;

use reqwest::Client;

use crate::azure::Azure;
use crate::clock::Clock;
use crate::config::{App, Poller as PollerConfig, StateConfig, definition, fingerprint};
use crate::sink::webhook::ClientError;
use crate::sink::{Sink, WebhookSink, webhook};
use crate::source;
use crate::store::key::KeyError;
use crate::store::{BlobStore, FileStore, SqlStore, StateStore, StoreKey};
use crate::tick::Poller;

/// What all pollers of a process share.
#[derive(Debug, Clone)]
pub struct Parts {
    pub clock: Arc<dyn Clock>,
    client: Client,
    azure: Azure,
}

impl Parts {
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        Ok(Self {
            client: webhook::client()?,
            azure: Azure::new(Arc::clone(&clock))?,
            clock,
        })
    }

    pub fn poller(&self, app: &App, config: &PollerConfig) -> Result<Poller, KeyError> {
        let sink = |sink| -> Arc<dyn Sink> {
            let (client, clock) = (self.client.clone(), Arc::clone(&self.clock));
            Arc::new(WebhookSink::new(sink, client, clock))
        };
        Ok(Poller {
            name: config.name.clone(),
            fingerprint: fingerprint(&config.source),
            definition: definition(&config.source),
            owner: app.owner_prefix(),
            key_columns: config.source.key.clone(),
            start: config.source.start.clone(),
            batch: config.batch,
            lease: config.lease,
            source: source::open(&config.source, &self.azure),
            sinks: config.deliver.iter().map(sink).collect(),
            store: self.store(&config.state),
            state_key: StoreKey::state(&app.name, &config.name)?,
            birth_marker: StoreKey::birth_marker(&app.name, &config.name)?,
            clock: Arc::clone(&self.clock),
        })
    }

    #[must_use]
    pub fn store(&self, config: &StateConfig) -> Arc<dyn StateStore> {
        match config {
            StateConfig::Blob {
                endpoint,
                container,
            } => {
                let clock = Arc::clone(&self.clock);
                Arc::new(BlobStore::new(
                    &self.azure,
                    Arc::clone(endpoint),
                    container,
                    clock,
                ))
            }
            StateConfig::File { directory } => {
                Arc::new(FileStore::new(directory, Arc::clone(&self.clock)))
            }
            StateConfig::Sql {
                connection_name,
                connection,
                table,
            } => {
                let clock = Arc::clone(&self.clock);
                let azure = &self.azure;
                Arc::new(SqlStore::new(
                    connection_name,
                    connection,
                    table,
                    azure,
                    clock,
                ))
            }
        }
    }
}
