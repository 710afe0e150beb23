//! A real table, the production tick, and stand-ins for what is around them: a receiver that records,
//! a store in memory that measures, a clock that can be set.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering as Memory};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::TimeDelta;
use dbtick::azure::Azure;
use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::config::connection::{Login, Server, Tls, TlsMode};
use dbtick::config::secret::Secret;
use dbtick::config::{
    Batch as BatchLimits, Connection, Deletes, LateCommits, LateMode, LeaseTimes, NullPolicy, Rows,
    SourceConfig, Start, definition, fingerprint,
};
use dbtick::database::Databases;
use dbtick::model::envelope::Batch;
use dbtick::model::late::{Sight, Witness};
use dbtick::model::ledger::LedgerMode;
use dbtick::model::page::PageWriter;
use dbtick::model::policy::{CommitPolicy, PoisonPolicy};
use dbtick::model::position::{Position, Scalar};
use dbtick::model::state::StateDocument;
use dbtick::sink::{Outlet, Sink, Verdict};
use dbtick::source::{Description, Located, ReadPage, Source, SourceError};
use dbtick::store::{
    Deleted, Loaded, MemoryStore, ObjectStore, StateStore, StoreError, StoreKey, Swap, Tag,
};
use dbtick::tick::budget::Budget;
use dbtick::tick::report::{Outcome, TickReport};
use dbtick::tick::{Poller, tick};
use serde_json::Value;
use sqlx::AssertSqlSafe;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use tokio::task::yield_now;

use crate::support::mariadb::{self, MariaDb, MariaDbOptions};
use crate::support::postgres::{Postgres, PostgresOptions};

const POLLER: &str = "orders";
const READER: &str = "reader";
/// No document is larger, whatever is remembered.
pub(crate) const MOST_BYTES: usize = 128 * 1024;
pub(crate) const TTL: Duration = Duration::from_secs(24);
pub(crate) const MARGIN: Duration = Duration::from_secs(5);

/// A poller of the table `t (id, note)`, and all that it has.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) config: SourceConfig,
    pub(crate) max_rows: usize,
    pub(crate) source: Arc<Counting>,
    pub(crate) sink: Arc<Recorder>,
    pub(crate) store: Arc<Measured>,
    pub(crate) objects: Arc<MemoryStore>,
    pub(crate) clock: Arc<SetClock>,
}

impl World {
    /// As a role that may do nothing but read.
    pub(crate) fn of_postgres(server: &Postgres) -> Self {
        let login = Login::Nothing;
        let server = self::server(server.port, "postgres", READER, login);
        let identity = format!("postgres://127.0.0.1:{}/postgres", server.port);
        Self::new(Connection::Postgres(server), identity, LateMode::Auto)
    }

    /// Statements that wait for a lock do not occur here, so the window for them is short.
    pub(crate) fn of_mariadb(server: &MariaDb) -> Self {
        let login = Login::Password(Secret::new(mariadb::PASSWORD.to_owned()));
        let server = self::server(server.port, "main", mariadb::USER, login);
        let identity = format!("mysql://127.0.0.1:{}/main", server.port);
        let window = LateMode::Window(Duration::from_millis(1));
        Self::new(Connection::MySql(server), identity, window)
    }

    fn new(connection: Connection, identity: String, mode: LateMode) -> Self {
        let config = SourceConfig {
            connection_name: "ORDERS_DB".to_owned(),
            connection_identity: identity,
            connection,
            rows: Rows::Table {
                schema: None,
                table: "t".to_owned(),
            },
            cursor: vec!["id".to_owned()],
            key: vec!["id".to_owned()],
            columns: None,
            filter: None,
            start: Start::Beginning,
            nulls: NullPolicy::Fail,
            deletes: Deletes::Unseen,
            outbox: None,
            late: LateCommits {
                mode,
                ..LateCommits::default()
            },
            shard: None,
        };
        Self {
            source: Arc::new(Counting::of(&config)),
            config,
            max_rows: 500,
            sink: Arc::default(),
            store: Arc::default(),
            objects: Arc::default(),
            clock: Arc::default(),
        }
    }

    /// The same poller with a copy of the state as it is now, and a receiver of its own.
    pub(crate) async fn fork(&self, body: Bytes) -> Self {
        let fork = Self {
            sink: Arc::default(),
            store: Arc::default(),
            ..self.clone()
        };
        fork.put(body).await;
        fork
    }

    pub(crate) fn with_mode(mut self, mode: LateMode) -> Self {
        self.config.late.mode = mode;
        self.source = Arc::new(Counting::of(&self.config));
        self
    }

    pub(crate) fn poller(&self, owner: &str) -> Poller {
        Poller {
            name: POLLER.to_owned(),
            events_as: POLLER.to_owned(),
            fingerprint: fingerprint(&self.config),
            definition: definition(&self.config),
            owner: owner.to_owned(),
            key_columns: self.config.key.clone(),
            start: self.config.start.clone(),
            ordering: self.config.late.ordering,
            recovery_point: self.config.late.recovery_point,
            batch: BatchLimits {
                max_rows: NonZeroUsize::new(self.max_rows).unwrap(),
                max_bytes: NonZeroUsize::new(1 << 22).unwrap(),
                max_wait: Duration::from_secs(60),
                max_inflight: NonZeroUsize::MIN,
            },
            lease: LeaseTimes {
                ttl: TTL,
                heartbeat: Duration::from_secs(7),
                margin: MARGIN,
            },
            source: self.source.clone(),
            sinks: vec![Outlet::required(self.sink.clone())],
            commit: CommitPolicy::default(),
            poison: PoisonPolicy::default(),
            poison_queue: None,
            ledger: LedgerMode::Off,
            store: self.store.clone(),
            objects: self.objects.clone(),
            state_key: state_key(),
            birth_marker: StoreKey::birth_marker("shop", POLLER).unwrap(),
            beside: None,
            clock: self.clock.clone(),
        }
    }

    pub(crate) async fn try_tick(&self, owner: &str) -> TickReport {
        let budget = Budget::starting(self.clock.monotonic(), None);
        tick(&self.poller(owner), budget).await
    }

    /// A tick that ends well.
    pub(crate) async fn tick(&self) -> TickReport {
        let report = self.try_tick("app/one").await;
        assert!(!report.is_failure(), "{}", report.sentence());
        report
    }

    /// Until nothing is left to do.
    pub(crate) async fn settle(&self) -> TickReport {
        for _ in 0..10 {
            let report = self.tick().await;
            if report.result.as_ref().ok() == Some(&Outcome::Idle) {
                return report;
            }
        }
        panic!(
            "a poller that does not come to rest: {:?}",
            self.document().await
        );
    }

    pub(crate) async fn body(&self) -> Bytes {
        let loaded = self.store.inner.load(&state_key()).await.unwrap();
        loaded.expect("there is a document").body
    }

    pub(crate) async fn put(&self, body: Bytes) {
        let store = &self.store.inner;
        if let Some(loaded) = store.load(&state_key()).await.unwrap() {
            store.delete(&state_key(), &loaded.tag).await.unwrap();
        }
        store.create(&state_key(), body).await.unwrap();
    }

    pub(crate) async fn document(&self) -> StateDocument {
        StateDocument::from_bytes(&self.body().await, POLLER, &self.config.key).unwrap()
    }

    /// The id that the checkpoint stands on; 0 at the beginning.
    pub(crate) async fn checkpoint(&self) -> i64 {
        match self.document().await.position().map(Position::key) {
            Some([Scalar::Integer(id)]) => i64::try_from(*id).unwrap(),
            _ => 0,
        }
    }

    /// Objects beside the document.
    pub(crate) async fn spilled(&self) -> Vec<StoreKey> {
        self.objects.names("late/").await.unwrap()
    }

    /// Nothing is waited for and nothing remembered: the checkpoint says all.
    pub(crate) async fn is_at_rest(&self, checkpoint: i64) {
        let document = self.document().await;
        assert_eq!(self.checkpoint().await, checkpoint);
        assert!(document.delivered.is_empty(), "{:?}", document.delivered);
        assert!(document.late.fences.is_empty(), "{:?}", document.late);
        assert!(document.late.spilled.is_empty(), "{:?}", document.late);
    }
}

/// The document as a reader of plain version 1 keeps it: what it does not know is gone.
pub(crate) fn without(body: &Bytes, fields: &[&str]) -> Bytes {
    let mut document: Value = serde_json::from_slice(body).unwrap();
    let object = document.as_object_mut().unwrap();
    object.remove("check");
    object.remove("counters");
    for field in fields {
        object.remove(*field);
    }
    serde_json::to_vec(&document).unwrap().into()
}

fn state_key() -> StoreKey {
    StoreKey::state("shop", POLLER).unwrap()
}

fn server(port: u16, database: &str, user: &str, login: Login) -> Server {
    Server {
        host: "127.0.0.1".into(),
        port,
        database: database.into(),
        user: Secret::new(user.to_owned()),
        login,
        tls: Tls {
            mode: TlsMode::Disable,
            roots: None,
        },
        connect_timeout: None,
        most_connections: None,
    }
}

// ---- servers

/// Whoever comes is trusted: proving a password takes longer than most tests.
pub(crate) fn trusting() -> PostgresOptions {
    Postgres::with().hba("host all all 127.0.0.1/32 trust")
}

/// With the table, and a role that may read it and the sequence of its ids.
pub(crate) async fn postgres() -> Postgres {
    let server = trusting().start().await;
    make_table(&server).await;
    server
}

pub(crate) async fn make_table(server: &Postgres) {
    server
        .sql(
            "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL);
             CREATE ROLE reader LOGIN;
             GRANT SELECT ON t TO reader; GRANT SELECT ON SEQUENCE t_id_seq TO reader;",
        )
        .await;
}

pub(crate) async fn mariadb() -> MariaDb {
    mariadb_with(MariaDb::with()).await
}

pub(crate) async fn mariadb_with(options: MariaDbOptions) -> MariaDb {
    let server = options.start().await;
    server
        .sql("CREATE TABLE t (id int AUTO_INCREMENT PRIMARY KEY, note varchar(20) NOT NULL)")
        .await;
    server
}

/// Somebody who writes.
pub(crate) enum Session {
    Postgres(PgConnection),
    MariaDb(MySqlConnection),
}

impl Session {
    pub(crate) async fn of_postgres(server: &Postgres) -> Self {
        Self::Postgres(server.connect("postgres").await)
    }

    pub(crate) async fn of_mariadb(server: &MariaDb) -> Self {
        Self::MariaDb(server.connect("main").await)
    }

    pub(crate) async fn run(&mut self, sql: &str) {
        let statements = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
        let ran = match self {
            Self::Postgres(connection) => statements.execute(connection).await.map(drop),
            Self::MariaDb(connection) => statements.execute(connection).await.map(drop),
        };
        ran.unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    pub(crate) async fn insert(&mut self, note: &str) {
        self.run(&format!("INSERT INTO t (note) VALUES ('{note}')"))
            .await;
    }

    /// Opens a transaction, writes one row, and leaves it there.
    pub(crate) async fn begin(&mut self, note: &str) {
        self.run("BEGIN").await;
        self.insert(note).await;
    }

    /// So many transactions of one row each.
    pub(crate) async fn insert_many(&mut self, rows: usize) {
        match self {
            Self::Postgres(_) => {
                let sql = format!(
                    "DO $$ BEGIN FOR i IN 1..{rows} LOOP \
                     INSERT INTO t (note) VALUES ('many'); COMMIT; END LOOP; END $$"
                );
                self.run(&sql).await;
            }
            Self::MariaDb(_) => {
                self.run(&"INSERT INTO t (note) VALUES ('many');".repeat(rows))
                    .await;
            }
        }
    }

    /// All rows there are.
    pub(crate) async fn rows(&mut self) -> BTreeSet<(i64, String)> {
        const ALL: &str = "SELECT id, note FROM t";
        let rows: Vec<(i32, String)> = match self {
            Self::Postgres(connection) => sqlx::query_as(ALL).fetch_all(connection).await,
            Self::MariaDb(connection) => sqlx::query_as(ALL).fetch_all(connection).await,
        }
        .unwrap();
        rows.into_iter()
            .map(|(id, note)| (id.into(), note))
            .collect()
    }

    pub(crate) async fn text(&mut self, expression: &str) -> String {
        let sql = AssertSqlSafe(format!("SELECT CAST(({expression}) AS char(200))"));
        let text: String = match self {
            Self::Postgres(connection) => sqlx::query_scalar(sql).fetch_one(connection).await,
            Self::MariaDb(connection) => sqlx::query_scalar(sql).fetch_one(connection).await,
        }
        .unwrap();
        text.trim().to_owned()
    }
}

// ---- clock

/// The system's clock, put forward or back.
#[derive(Debug, Default)]
pub(crate) struct SetClock {
    ahead_ms: AtomicI64,
}

impl SetClock {
    /// Against the system's clock, which is the database's.
    pub(crate) fn set_ahead(&self, seconds: i64) {
        self.ahead_ms.store(seconds * 1000, Memory::Relaxed);
    }

    /// As long as it takes until anybody's lease may be taken.
    pub(crate) fn outlast_leases(&self) {
        let time = i64::try_from((TTL + MARGIN).as_millis()).unwrap() + 1;
        self.ahead_ms.fetch_add(time, Memory::Relaxed);
    }
}

impl Clock for SetClock {
    fn now(&self) -> Timestamp {
        SystemClock.now() + TimeDelta::milliseconds(self.ahead_ms.load(Memory::Relaxed))
    }

    fn random(&self) -> u128 {
        SystemClock.random()
    }
}

// ---- source

/// The production source; counts what is read.
#[derive(Debug)]
pub(crate) struct Counting {
    inner: Arc<dyn Source>,
    rows: AtomicUsize,
}

impl Counting {
    fn of(config: &SourceConfig) -> Self {
        let azure = Azure::new(Arc::new(SystemClock)).unwrap();
        Self {
            inner: dbtick::source::open(config, &Databases::new(azure)),
            rows: AtomicUsize::new(0),
        }
    }

    pub(crate) fn rows_read(&self) -> usize {
        self.rows.load(Memory::Relaxed)
    }
}

#[async_trait]
impl Source for Counting {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        let page = self.inner.read(after, writer, max_wait).await?;
        self.rows
            .fetch_add(page.page.events().len(), Memory::Relaxed);
        Ok(page)
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        self.inner.find(at, writer).await
    }

    async fn look(&self, known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        self.inner.look(known).await
    }

    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        self.inner.last(below).await
    }

    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        self.inner.count(after, up_to, most).await
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        self.inner.ahead(after, rows).await
    }

    async fn locate(
        &self,
        key: &[String],
        writer: PageWriter,
    ) -> Result<Vec<Located>, SourceError> {
        self.inner.locate(key, writer).await
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        self.inner.describe().await
    }
}

// ---- sink

/// Takes everything. A tick may be dropped before a batch arrives, and after it did.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    rows: Mutex<Vec<(i64, String)>>,
}

impl Recorder {
    /// What came, in order.
    pub(crate) fn rows(&self) -> Vec<(i64, String)> {
        self.rows.lock().unwrap().clone()
    }

    pub(crate) fn ids(&self) -> Vec<i64> {
        self.rows().into_iter().map(|(id, _)| id).collect()
    }

    pub(crate) fn forget(&self) {
        self.rows.lock().unwrap().clear();
    }

    /// How many rows came once too often.
    pub(crate) fn duplicates(&self) -> usize {
        let mut counts = BTreeMap::new();
        for row in self.rows() {
            *counts.entry(row).or_insert(0) += 1;
        }
        counts.values().map(|count| count - 1).sum()
    }

    #[track_caller]
    pub(crate) fn has_all(&self, rows: &BTreeSet<(i64, String)>) {
        let came: BTreeSet<_> = self.rows().into_iter().collect();
        let lost: Vec<_> = rows.difference(&came).collect();
        assert!(lost.is_empty(), "lost: {lost:?}");
    }

    #[track_caller]
    pub(crate) fn has_each_once(&self, rows: &BTreeSet<(i64, String)>) {
        self.has_all(rows);
        assert_eq!(self.duplicates(), 0);
        assert_eq!(self.rows().len(), rows.len(), "rows that are not there");
    }
}

#[async_trait]
impl Sink for Recorder {
    fn name(&self) -> &str {
        "hook"
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        yield_now().await;
        let body: Value = serde_json::from_slice(&batch.body).unwrap();
        let rows = body["events"].as_array().unwrap().iter().map(|event| {
            let id = event["key"]["id"].as_i64().unwrap();
            (id, event["data"]["note"].as_str().unwrap().to_owned())
        });
        self.rows.lock().unwrap().extend(rows);
        yield_now().await;
        Verdict::Acknowledged
    }
}

// ---- store

/// Keeps documents, and how many and how large they were. A tick may be dropped before a write
/// happens, and after it did.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    inner: MemoryStore,
    writes: AtomicUsize,
    largest: AtomicUsize,
}

impl Measured {
    pub(crate) fn writes(&self) -> usize {
        self.writes.load(Memory::Relaxed)
    }

    pub(crate) fn largest(&self) -> usize {
        self.largest.load(Memory::Relaxed)
    }

    fn measure(&self, body: &Bytes) {
        self.writes.fetch_add(1, Memory::Relaxed);
        self.largest.fetch_max(body.len(), Memory::Relaxed);
    }
}

#[async_trait]
impl StateStore for Measured {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        yield_now().await;
        self.inner.load(key).await
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        yield_now().await;
        self.measure(&body);
        let swap = self.inner.create(key, body).await;
        yield_now().await;
        swap
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        yield_now().await;
        self.measure(&body);
        let swap = self.inner.replace(key, tag, body).await;
        yield_now().await;
        swap
    }

    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError> {
        self.inner.delete(key, tag).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.inner.list(prefix).await
    }
}
