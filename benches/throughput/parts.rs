//! What all measures share: one table per database, one store, one receiver. And one run of either program.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::handler::App;
use crate::peer::Peer;
use crate::receiver::{Receiver, Seen};
use crate::support::azurite::Azurite;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::{queue, table};

pub(crate) const TABLE: &str = "orders";
/// What takes long is run on a part of the rows.
pub(crate) const SMALL: (&str, usize) = ("orders_small", 20_000);
pub(crate) const TINY: (&str, usize) = ("orders_tiny", 2_000);
const CONTAINER: &str = "db-state";
/// Of the peer, unless the time between two ticks is to be short: it waits for half of it, up to 5 s, behind a release.
const LEASE: u32 = 120;
/// Batches of the peer in one tick.
const ALL: u32 = 1_000_000_000;

pub(crate) struct Parts {
    pub(crate) dbtick: PathBuf,
    pub(crate) rows: usize,
    pub(crate) receiver: Receiver,
    pub(crate) blobs: Azurite,
    pub(crate) queues: Azurite,
    pub(crate) postgres: Postgres,
    mariadb: MariaDb,
    sqlite: String,
    _directory: TempDir,
    runs: AtomicU32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Database {
    Postgres,
    MariaDb,
    Sqlite,
}

/// What one run of dbtick is given.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) database: Database,
    pub(crate) table: &'static str,
    pub(crate) rows: usize,
    pub(crate) batch: usize,
    pub(crate) in_flight: usize,
    /// Messages per event, or packed, in place of the webhook.
    pub(crate) queue: Option<&'static str>,
}

/// What one run cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) rows: usize,
    pub(crate) took: Duration,
    pub(crate) cpu: Option<Duration>,
    pub(crate) memory: Option<u64>,
}

impl Cost {
    /// Of a limit: nobody's process.
    pub(crate) fn of(rows: usize, took: Duration) -> Self {
        Self {
            rows,
            took,
            cpu: None,
            memory: None,
        }
    }
}

impl Parts {
    pub(crate) async fn start(dbtick: PathBuf, rows: usize) -> Self {
        let directory = TempDir::new().unwrap();
        let postgres = table::postgres().await;
        let mariadb = table::mariadb().await;
        for (name, rows) in [(TABLE, rows), SMALL, TINY] {
            table::fill_postgres(&postgres, name, rows).await;
        }
        table::fill_mariadb(&mariadb, TABLE, rows).await;
        let sqlite = table::fill_sqlite(&directory, TABLE, rows).await;
        let parts = Self {
            dbtick,
            rows,
            receiver: Receiver::start(),
            blobs: Azurite::blob(),
            queues: Azurite::queue(),
            postgres,
            mariadb,
            sqlite,
            _directory: directory,
            runs: AtomicU32::new(0),
        };
        // Caches are warm, and the container is there, for whoever comes first.
        parts.dbtick(&parts.case()).await;
        parts
    }

    /// The one that is compared: PostgreSQL to a webhook, batches of 1000, state in a blob.
    pub(crate) fn case(&self) -> Case {
        Case {
            database: Database::Postgres,
            table: TABLE,
            rows: self.rows,
            batch: 1000,
            in_flight: 1,
            queue: None,
        }
    }

    /// From an empty state to the last row, in one tick.
    pub(crate) async fn dbtick(&self, case: &Case) -> Cost {
        self.dbtick_seen(case).await.0
    }

    pub(crate) async fn dbtick_seen(&self, case: &Case) -> (Cost, Seen) {
        let app = self.app(case, &self.blobs.connection_string());
        let handler = app.start();
        let before = handler.process.cpu();
        let took = handler.tick().await;
        let cost = Cost {
            rows: case.rows,
            took,
            cpu: Some(handler.process.cpu() - before),
            memory: Some(handler.process.peak_memory()),
        };
        let seen = match case.queue {
            None => self.receiver.take(),
            Some(per) => queue::seen(&self.queues.queue_connection_string(), per).await,
        };
        seen.check(case.rows);
        (cost, seen)
    }

    /// With a state of its own.
    pub(crate) fn app(&self, case: &Case, storage: &str) -> App {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let deliver = match case.queue {
            None => json!({ "webhook": { "url": "%HOOK%" } }),
            Some(per) => json!({ "queue": { "queue": per, "connection": "QUEUES", "per": per } }),
        };
        let poller = json!({
            "source": { "connection": "DB", "table": case.table, "cursor": table::CURSOR, "key": table::KEY },
            "batch": { "max_rows": case.batch, "max_inflight": case.in_flight },
            "deliver": [deliver],
            "state": { "container": CONTAINER }
        });
        let database = match case.database {
            Database::Postgres => self.postgres.url(),
            Database::MariaDb => self.mariadb.url(),
            Database::Sqlite => self.sqlite.clone(),
        };
        App::new(&self.dbtick, &poller)
            .setting("DBTICK_APP", format!("run-{run}"))
            .setting("DB", database)
            .setting("HOOK", self.receiver.url())
            .setting("AzureWebJobsStorage", storage)
            .setting("QUEUES", self.queues.queue_connection_string())
    }

    /// The same by the peer.
    pub(crate) fn peer(&self, table: &str, rows: usize, batch: usize) -> Cost {
        let mut peer = Peer::start(&self.told(table, batch, &self.blobs.connection_string()));
        peer.ready();
        let before = peer.process.cpu();
        let (delivered, took) = peer.tick();
        assert_eq!(delivered, rows);
        let cost = Cost {
            rows,
            took,
            cpu: Some(peer.process.cpu() - before),
            memory: Some(peer.process.peak_memory()),
        };
        self.receiver.take().check(rows);
        cost
    }

    pub(crate) fn told(&self, table: &str, batch: usize, storage: &str) -> Value {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        json!({
            "database": self.postgres.url().replace("postgres://", "postgresql+psycopg://"),
            "table": table, "batch": batch, "batches": ALL, "poller": format!("run-{run}"), "lease": LEASE,
            "storage": storage, "container": CONTAINER,
            "receiver": self.receiver.port,
        })
    }
}
