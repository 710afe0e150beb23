//! The production tick over a real source, with a store in memory and a receiver that takes notes.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dbtick::azure::Azure;
use dbtick::clock::{Clock, SystemClock};
use dbtick::config::{Batch as BatchLimits, LateCommits, LateMode, LeaseTimes, Start};
use dbtick::config::{definition, fingerprint};
use dbtick::database::Databases;
use dbtick::model::envelope::Batch;
use dbtick::model::late::Protected;
use dbtick::model::ledger::LedgerMode;
use dbtick::model::page::EventId;
use dbtick::model::policy::{CommitPolicy, PoisonPolicy};
use dbtick::model::position::Position;
use dbtick::model::state::StateDocument;
use dbtick::sink::{Outlet, Sink, Verdict};
use dbtick::store::{MemoryStore, StateStore, StoreKey};
use dbtick::tick::budget::Budget;
use dbtick::tick::report::{Outcome, TickReport};
use dbtick::tick::{Poller, tick};
use serde::Deserialize;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::session::Server;
use crate::shape::Shape;

pub(crate) const PERIOD: Duration = Duration::from_millis(50);
/// After the last write; the longest window is five seconds.
const MOST_TICKS_TO_SETTLE: usize = 240;

pub(crate) struct Polling {
    shape: &'static str,
    mode: LateMode,
    grade: Protected,
    poller: Poller,
    store: Arc<MemoryStore>,
    receiver: Arc<Receiver>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Polled {
    pub(crate) shape: &'static str,
    pub(crate) mode: LateMode,
    pub(crate) grade: Protected,
    pub(crate) deliveries: Vec<Delivery>,
    /// How long each of them took, in order.
    pub(crate) ticks: Vec<Duration>,
    /// The most rows above the checkpoint.
    pub(crate) remembered: u64,
    document: StateDocument,
    last: Option<Position>,
}

#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) id: EventId,
    pub(crate) body: String,
    pub(crate) at: Instant,
}

#[derive(Debug, Default)]
struct Receiver {
    deliveries: Mutex<Vec<Delivery>>,
}

#[derive(Deserialize)]
struct Envelope {
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    body: String,
}

impl Receiver {
    fn take(&self) -> Vec<Delivery> {
        std::mem::take(&mut self.deliveries.lock().unwrap())
    }
}

#[async_trait]
impl Sink for Receiver {
    fn name(&self) -> &str {
        "notes"
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let at = SystemClock.monotonic();
        let envelope: Envelope = serde_json::from_slice(&batch.body).unwrap();
        let each = batch.event_ids.iter().zip(envelope.events);
        let each = each.map(|(id, event)| Delivery {
            id: *id,
            body: event.data.body,
            at,
        });
        self.deliveries.lock().unwrap().extend(each);
        Verdict::Acknowledged
    }
}

impl Polling {
    pub(crate) async fn new(server: &Server, shape: &Shape, late: LateCommits) -> Self {
        let config = server.source(shape, late);
        let clock = Arc::new(SystemClock);
        let databases = Databases::new(Azure::new(clock.clone()).unwrap());
        let source = dbtick::source::open(&config, &databases);
        let protection = source.describe().await.unwrap().protection;
        let store = Arc::new(MemoryStore::new());
        let receiver = Arc::new(Receiver::default());
        let poller = Poller {
            name: shape.name.to_owned(),
            events_as: shape.name.to_owned(),
            fingerprint: fingerprint(&config),
            definition: definition(&config),
            owner: "stress".to_owned(),
            key_columns: config.key.clone(),
            start: Start::Beginning,
            ordering: config.late.ordering,
            recovery_point: config.late.recovery_point,
            batch: BatchLimits {
                max_rows: NonZeroUsize::new(shape.max_rows).unwrap(),
                max_bytes: NonZeroUsize::new(1 << 20).unwrap(),
                max_wait: Duration::from_secs(5),
                max_inflight: NonZeroUsize::MIN,
            },
            lease: LeaseTimes {
                ttl: Duration::from_secs(24),
                heartbeat: Duration::from_secs(7),
                margin: Duration::from_secs(5),
            },
            source,
            sinks: vec![Outlet::required(receiver.clone())],
            commit: CommitPolicy::default(),
            poison: PoisonPolicy::default(),
            poison_queue: None,
            ledger: LedgerMode::Off,
            store: store.clone(),
            objects: store.clone(),
            state_key: StoreKey::state("stress", shape.name).unwrap(),
            birth_marker: StoreKey::birth_marker("stress", shape.name).unwrap(),
            beside: None,
            clock,
        };
        Self {
            shape: shape.name,
            mode: config.late.mode,
            grade: protection.unwrap().grade,
            poller,
            store,
            receiver,
        }
    }

    /// Until nothing is left to do after the last write.
    pub(crate) async fn run(self, written: watch::Receiver<bool>) -> Polled {
        let mut period = interval(PERIOD);
        period.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut ticks, mut remembered, mut settling) = (Vec::new(), 0, 0);
        while settling < MOST_TICKS_TO_SETTLE {
            period.tick().await;
            let is_written = *written.borrow();
            let began = self.poller.clock.monotonic();
            let report = self.tick().await;
            let idle = report.result.unwrap() == Outcome::Idle;
            remembered = report.late.remembered.max(remembered);
            ticks.push(self.poller.clock.monotonic() - began);
            if is_written {
                settling += 1;
                if idle && self.polled().await.is_settled() {
                    break;
                }
            }
        }
        ticks.sort();
        Polled {
            ticks,
            remembered,
            deliveries: self.receiver.take(),
            ..self.polled().await
        }
    }

    /// As it stands, without what was noted on the way.
    async fn polled(&self) -> Polled {
        Polled {
            shape: self.shape,
            mode: self.mode,
            grade: self.grade,
            ticks: Vec::new(),
            remembered: 0,
            deliveries: Vec::new(),
            document: self.document().await,
            last: self.poller.source.last(None).await.unwrap(),
        }
    }

    async fn tick(&self) -> TickReport {
        let budget = Budget::starting(self.poller.clock.monotonic(), None);
        tick(&self.poller, budget).await
    }

    async fn document(&self) -> StateDocument {
        let Poller {
            name,
            key_columns,
            state_key,
            ..
        } = &self.poller;
        let loaded = self.store.load(state_key).await.unwrap().unwrap();
        StateDocument::from_bytes(&loaded.body, name, key_columns).unwrap()
    }
}

impl Polled {
    /// Nothing is remembered, because the checkpoint has passed all there is. Where the last row was
    /// deleted, it may stand on its place.
    pub(crate) fn is_settled(&self) -> bool {
        let Self { document, last, .. } = self;
        let late = &document.late;
        let remembers_nothing = document.delivered.is_empty() && late.spilled.is_empty();
        remembers_nothing && late.fences.is_empty() && document.position() >= last.as_ref()
    }
}
