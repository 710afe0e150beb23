//! From configuration to pollers that run: every concrete source, sink and store is chosen here.
//!
//! Nothing is connected to: sources and stores open what they need when it is first used.

use std::sync::Arc;

use reqwest::Client;

use crate::azure::Azure;
use crate::azure::queue::Queue;
use crate::clock::Clock;
use crate::config::{
    App, MessageQueue, Poller as PollerConfig, SinkConfig, StateConfig, Target, definition,
    fingerprint,
};
use crate::database::Databases;
use crate::sink::webhook::ClientError;
use crate::sink::{Outlet, QueueSink, RelaySink, Sink, WebhookSink, webhook};
use crate::source;
use crate::store::key::KeyError;
use crate::store::{BlobStore, FileStore, ObjectStore, SqlStore, StateStore, StoreKey};
use crate::tick::Poller;

/// What all pollers of a process share.
#[derive(Debug, Clone)]
pub struct Parts {
    pub clock: Arc<dyn Clock>,
    client: Client,
    azure: Azure,
    databases: Databases,
    #[cfg(feature = "planted")]
    planted: Arc<crate::planted::Plan>,
}

impl Parts {
    pub fn new(clock: Arc<dyn Clock>) -> Result<Self, ClientError> {
        let azure = Azure::new(Arc::clone(&clock))?;
        Ok(Self {
            client: webhook::client()?,
            databases: Databases::new(azure.clone()),
            azure,
            clock,
            #[cfg(feature = "planted")]
            planted: crate::planted::Plan::of_process(),
        })
    }

    pub fn poller(&self, app: &App, config: &PollerConfig) -> Result<Poller, KeyError> {
        let (store, objects) = self.stores(&config.state);
        let poller = Poller {
            name: config.name.clone(),
            events_as: config.events_as.clone(),
            fingerprint: fingerprint(&config.source),
            definition: definition(&config.source),
            owner: app.owner_prefix(),
            key_columns: config.source.key.clone(),
            start: config.source.start.clone(),
            ordering: config.source.late.ordering,
            recovery_point: config.source.late.recovery_point,
            batch: config.batch,
            lease: config.lease,
            source: source::open(&config.source, &self.databases),
            sinks: config
                .deliver
                .iter()
                .map(|sink| self.outlet(app, sink))
                .collect(),
            commit: config.commit,
            poison: config.poison,
            poison_queue: config.poison_queue.as_ref().map(|queue| {
                let clock = Arc::clone(&self.clock);
                Arc::new(QueueSink::new(
                    &app.name,
                    "poison",
                    queue,
                    &self.azure,
                    clock,
                ))
            }),
            ledger: config.ledger,
            store,
            objects,
            state_key: StoreKey::state(&app.name, &config.name)?,
            birth_marker: StoreKey::birth_marker(&app.name, &config.name)?,
            beside: None,
            clock: Arc::clone(&self.clock),
        };
        #[cfg(feature = "planted")]
        let poller = self.planted.around(poller);
        Ok(poller)
    }

    fn outlet(&self, app: &App, config: &SinkConfig) -> Outlet {
        let SinkConfig { name, required, to } = config;
        let clock = Arc::clone(&self.clock);
        let sink: Arc<dyn Sink> = match to {
            Target::Webhook(webhook) => {
                let client = self.client.clone();
                Arc::new(WebhookSink::new(name, webhook, client, &self.azure, clock))
            }
            Target::Queue(queue) => {
                Arc::new(QueueSink::new(&app.name, name, queue, &self.azure, clock))
            }
            Target::Relay(relay) => {
                Arc::new(RelaySink::new(name, relay, self.client.clone(), clock))
            }
        };
        Outlet {
            sink,
            required: *required,
        }
    }

    #[must_use]
    pub fn queue(&self, config: &MessageQueue) -> Queue {
        let (endpoint, clock) = (Arc::clone(&config.endpoint), Arc::clone(&self.clock));
        Queue::new(&self.azure, endpoint, &config.queue, clock)
    }

    /// Who is told of stuck work that was resolved.
    #[must_use]
    pub fn warnings(&self, config: &PollerConfig) -> Option<WebhookSink> {
        let (client, clock) = (self.client.clone(), Arc::clone(&self.clock));
        let webhook = config.warnings.as_ref()?;
        Some(WebhookSink::new(
            "warnings",
            webhook,
            client,
            &self.azure,
            clock,
        ))
    }

    #[must_use]
    pub fn store(&self, config: &StateConfig) -> Arc<dyn StateStore> {
        self.stores(config).0
    }

    /// One back end, seen from both sides.
    fn stores(&self, config: &StateConfig) -> (Arc<dyn StateStore>, Arc<dyn ObjectStore>) {
        let clock = Arc::clone(&self.clock);
        match config {
            StateConfig::Blob {
                endpoint,
                container,
            } => {
                let endpoint = Arc::clone(endpoint);
                both(BlobStore::new(&self.azure, endpoint, container, clock))
            }
            StateConfig::File { directory } => both(FileStore::new(directory, clock)),
            StateConfig::Sql {
                connection_name,
                connection,
                table,
            } => {
                let databases = &self.databases;
                both(SqlStore::new(
                    connection_name,
                    connection,
                    table,
                    databases,
                    clock,
                ))
            }
        }
    }
}

fn both<S: StateStore + ObjectStore + 'static>(
    store: S,
) -> (Arc<dyn StateStore>, Arc<dyn ObjectStore>) {
    let store = Arc::new(store);
    (Arc::clone(&store) as _, store)
}
