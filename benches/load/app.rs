//! An app under load: PostgreSQL, a receiver, one handler process, and a host that fires its functions.

use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use serde_json::{Value, json};

use crate::process::peak_kib;
use crate::receiver::Receiver;
use crate::support::handler::HandlerProcess;
use crate::support::http::{RawAnswer, chunked, timer_body, try_exchange};
use crate::support::postgres::Postgres;
use crate::support::world::World;

pub(crate) struct App {
    pub(crate) postgres: Postgres,
    pub(crate) receiver: Receiver,
    pub(crate) handler: HandlerProcess,
    /// From the start of the process until it answered.
    pub(crate) ready: Duration,
    /// As the host enforces it.
    pub(crate) timeout: Duration,
    world: World,
}

/// One invocation of a function.
#[derive(Debug)]
pub(crate) struct Fired {
    pub(crate) answer: Option<RawAnswer>,
    /// What the host waited.
    pub(crate) took: Duration,
}

/// What it reads, and how it differs from the smallest poller.
pub(crate) struct PollerOf {
    pub(crate) function: String,
    pub(crate) table: String,
    pub(crate) changes: Value,
}

impl App {
    /// `early`: after so many rows the memory is looked at for the first time.
    pub(crate) async fn start(
        tables: &str,
        pollers: Vec<PollerOf>,
        timeout: Duration,
        early: usize,
    ) -> Self {
        let postgres = Postgres::with()
            .setting("max_wal_size", "8GB")
            .start()
            .await;
        postgres.sql(tables).await;
        let receiver = Receiver::start(early).await;
        let mut world = World::new().await;
        for PollerOf {
            function,
            table,
            changes,
        } in pollers
        {
            let mut poller = json!({ "source": { "table": table } });
            crate::support::world::merge(&mut poller, changes);
            world = world.poller(&function, poller);
        }
        let limit = format!("00:00:{:02}", timeout.as_secs());
        let world = world
            .setting("ORDERS_DB", &postgres.url())
            .setting("HOOK", &receiver.url)
            .setting("AzureFunctionsJobHost__functionTimeout", &limit);
        let started = SystemClock.monotonic();
        let handler = world.serve().await;
        let ready = SystemClock.monotonic() - started;
        receiver.watch(handler.pid);
        Self {
            postgres,
            receiver,
            handler,
            ready,
            timeout,
            world,
        }
    }

    pub(crate) fn fire(&self, function: &str) -> impl Future<Output = Fired> + Send + use<> {
        let body = timer_body(&Value::Null).to_string();
        let request = chunked(function, "00000000-0000-0000-0000-000000000000", &body);
        let port = self.handler.port;
        async move {
            let began = SystemClock.monotonic();
            let answer = try_exchange(port, request).await;
            let took = SystemClock.monotonic() - began;
            Fired { answer, took }
        }
    }

    /// Fires it until it finds nothing; all of that.
    pub(crate) async fn drain(&self, function: &str) -> Vec<Fired> {
        let mut fired = Vec::new();
        loop {
            let before = self.receiver.events();
            let last = self.fire(function).await;
            let failed = !last.is_good();
            fired.push(last);
            if failed || self.receiver.events() == before {
                return fired;
            }
        }
    }

    pub(crate) fn peak_kib(&self) -> u64 {
        peak_kib(self.handler.pid)
    }

    /// Where a tick gives up what it has not finished; a moment more to say so.
    pub(crate) fn latest_answer(&self) -> Duration {
        self.timeout.mul_f64(0.9) + Duration::from_millis(500)
    }

    /// Bytes of the state document of a poller.
    pub(crate) fn document_bytes(&self, poller: &str) -> u64 {
        let path = self.world.state(poller).path;
        std::fs::metadata(path).unwrap().len()
    }
}

impl Fired {
    pub(crate) fn is_good(&self) -> bool {
        self.answer
            .as_ref()
            .is_some_and(|answer| answer.status == 200)
    }
}

pub(crate) fn longest(fired: &[Fired]) -> Duration {
    fired.iter().map(|fired| fired.took).max().unwrap()
}

/// What the host waited in the middle of all.
pub(crate) fn median(fired: &[Fired]) -> Duration {
    let mut times: Vec<_> = fired.iter().map(|fired| fired.took).collect();
    times.sort_unstable();
    times[times.len() / 2]
}

pub(crate) fn failed(fired: &[Fired]) -> usize {
    for bad in fired.iter().filter(|fired| !fired.is_good()).take(3) {
        eprintln!("{:?}", bad.answer);
    }
    fired.iter().filter(|fired| !fired.is_good()).count()
}
