//! A poller as production wires it (SQLite table, webhook, blob state), with a proxy of its own in
//! front of an Azurite that all cases of a test share.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dbtick::clock::{Clock, SystemClock};
use dbtick::config::{App, LeaseTimes, Settings};
use dbtick::model::state::StateDocument;
use dbtick::store::{Loaded, StateStore, StoreKey, Swap};
use dbtick::tick::budget::Budget;
use dbtick::tick::report::{Outcome, TickError, TickReport};
use dbtick::tick::{Poller, tick};
use dbtick::wiring::Parts;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::support::azurite::Azurite;
use crate::support::proxy::Proxy;
use crate::support::world::{World, merge};

/// Long enough for a slow machine; nothing here waits for its end.
pub(crate) const CALM: LeaseTimes = LeaseTimes {
    ttl: Duration::from_secs(20),
    heartbeat: Duration::from_secs(8),
    margin: Duration::from_secs(2),
};

/// Short, for those that do. A request counts as lost after one second.
pub(crate) const BRISK: LeaseTimes = LeaseTimes {
    ttl: Duration::from_secs(4),
    heartbeat: Duration::from_secs(1),
    margin: Duration::from_secs(1),
};

/// A request counts as lost after one second, and the lease after seven.
pub(crate) const IMPATIENT: LeaseTimes = LeaseTimes {
    ttl: Duration::from_secs(12),
    heartbeat: Duration::from_secs(5),
    margin: Duration::from_secs(5),
};

/// Rows of a batch.
pub(crate) const BATCH: usize = 2;

pub(crate) struct BlobWorld {
    pub(crate) world: World,
    pub(crate) proxy: Proxy,
    pub(crate) lease: LeaseTimes,
    app: String,
    /// Connections live as long as a process: from tick to tick.
    parts: Parts,
    /// Past the proxy.
    direct: Arc<dyn StateStore>,
}

impl BlobWorld {
    /// Cases on one server are kept apart by the name of their app.
    pub(crate) async fn on(azurite: &Azurite, lease: LeaseTimes) -> Self {
        Self::changed(azurite, lease, json!({})).await
    }

    /// With `changes` on top of its configuration.
    pub(crate) async fn changed(azurite: &Azurite, lease: LeaseTimes, changes: Value) -> Self {
        let app = format!("case-{:x}", SystemClock.random());
        let proxy = Proxy::before(azurite);
        let mut poller = json!({
            "batch": { "max_rows": BATCH },
            "deliver": [{ "webhook": { "url": "%HOOK%", "attempts": 1 } }],
            "state": { "connection": "STATE", "container": "db-state" }
        });
        merge(&mut poller, changes);
        let world = World::with_orders(poller)
            .await
            .setting("DBTICK_APP", &app)
            .setting("STATE", &azurite.connection_string());
        let parts = Parts::new(Arc::new(SystemClock)).unwrap();
        let direct = poller_of(&world, &parts).store;
        let world = world.setting("STATE", &proxy.connection_string());
        Self {
            world,
            proxy,
            lease,
            app,
            parts,
            direct,
        }
    }

    /// With a first tick behind it, so that the next one only does what every tick does.
    pub(crate) async fn born_on(azurite: &Azurite, lease: LeaseTimes) -> Self {
        let mut this = Self::on(azurite, CALM).await;
        this.insert(1).await;
        assert_eq!(done(this.tick().await), Outcome::Drained);
        this.proxy.fresh();
        this.lease = lease;
        this
    }

    pub(crate) async fn insert(&self, rows: i64) {
        self.world.writer().await.insert(rows).await;
    }

    /// Through the proxy.
    pub(crate) fn poller(&self) -> Poller {
        self.wired_by(&self.parts)
    }

    /// Another process, with a clock of its own.
    pub(crate) fn poller_with(&self, clock: Arc<dyn Clock>) -> Poller {
        self.wired_by(&Parts::new(clock).unwrap())
    }

    fn wired_by(&self, parts: &Parts) -> Poller {
        Poller {
            lease: self.lease,
            ..poller_of(&self.world, parts)
        }
    }

    /// Another process, which has all the time that it needs once the lease is its own.
    pub(crate) fn next_owner(&self, clock: Arc<dyn Clock>) -> Poller {
        let margin = self.lease.margin;
        Poller {
            lease: LeaseTimes { margin, ..CALM },
            ..self.poller_with(clock)
        }
    }

    pub(crate) async fn tick(&self) -> TickReport {
        run(&self.poller()).await
    }

    pub(crate) fn key(&self) -> StoreKey {
        StoreKey::state(&self.app, "orders").unwrap()
    }

    /// As it lies in the container.
    pub(crate) async fn stored(&self) -> Option<Loaded> {
        self.direct.load(&self.key()).await.unwrap()
    }

    pub(crate) async fn document(&self) -> StateDocument {
        let stored = self.stored().await.expect("there is a document");
        StateDocument::from_bytes(&stored.body, "orders", &["id".to_owned()]).unwrap()
    }

    /// Whatever is there, it is this now.
    pub(crate) async fn put(&self, body: impl Into<Bytes>) {
        let (key, body) = (self.key(), body.into());
        let swap = match self.stored().await {
            Some(stored) => self.direct.replace(&key, &stored.tag, body).await,
            None => self.direct.create(&key, body).await,
        };
        assert!(matches!(swap.unwrap(), Swap::Won(_)));
    }

    /// The key of the last committed row; 0 before the first.
    pub(crate) async fn committed(&self) -> i64 {
        match self.document().await.position() {
            None => 0,
            Some(position) => {
                let text = position.to_string();
                text.split(' ').next().unwrap().parse().unwrap()
            }
        }
    }

    /// How often each row was sent, by its id from 1.
    pub(crate) fn sent(&self) -> Vec<usize> {
        let mut sent = Vec::new();
        for delivery in self.world.receiver.deliveries() {
            for (row, _) in delivery.events() {
                let row = usize::try_from(row).unwrap();
                sent.resize(sent.len().max(row), 0);
                sent[row - 1] += 1;
            }
        }
        sent
    }
}

fn poller_of(world: &World, parts: &Parts) -> Poller {
    let settings: Settings = world.environment.clone().into_iter().collect();
    let app = App::load(&world.app(), &settings);
    let faults: Vec<_> = app.faults().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let config = app.pollers().next().unwrap();
    parts.poller(&app, config).unwrap()
}

pub(crate) async fn run(poller: &Poller) -> TickReport {
    let started = poller.clock.monotonic();
    let budget = Budget::starting(started, Some(Duration::from_secs(300)));
    Box::pin(tick(poller, budget)).await
}

/// So many that they finish soon, so few that none starves.
pub(crate) async fn a_few_at_a_time(cases: impl IntoIterator<Item = impl Future<Output = ()>>) {
    // Boxed: in a debug build a dozen ticks side by side are more than a stack holds.
    let cases = stream::iter(cases).map(Box::pin).buffer_unordered(6);
    cases.collect::<()>().await;
}

#[track_caller]
pub(crate) fn done(report: TickReport) -> Outcome {
    let sentence = report.sentence();
    report.result.unwrap_or_else(|_| panic!("{sentence}"))
}

#[track_caller]
pub(crate) fn failed(report: TickReport) -> TickError {
    report.result.unwrap_err()
}
