//! The world of the tick's contract tests: a table in memory, a receiver that follows a script, a
//! store that counts and fails on cue, a clock that only moves when everybody waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Debug};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering as Memory};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, TimeDelta};
use dbtick::clock::{Clock, Timestamp};
use dbtick::config::{Batch as BatchLimits, LeaseTimes, Start};
use dbtick::model::definition::SourceDefinition;
use dbtick::model::envelope::{Batch, Fence};
use dbtick::model::late::{Ordering, Sight, Survey, Witness};
use dbtick::model::ledger::LedgerMode;
use dbtick::model::page::{Op, PageWriter, Taken};
use dbtick::model::policy::{CommitPolicy, PoisonPolicy};
use dbtick::model::position::{Position, Scalar};
use dbtick::model::schema::Schema;
use dbtick::model::state::StateDocument;
use dbtick::model::transitions::{Action, Applied, Operator, Order, apply};
use dbtick::sink::{DeliveryFailure, FailureKind, Outlet, Sink, Stance, Unaccepted, Verdict};
use dbtick::source::{Description, Located, ReadPage, Source, SourceError, Types};
use dbtick::store::{Deleted, Loaded, MemoryStore, StateStore, StoreError, StoreKey, Swap, Tag};
use dbtick::tick::budget::Budget;
use dbtick::tick::report::{Outcome, TickError, TickReport};
use dbtick::tick::{Poller, tick};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::{Instant, sleep};

pub(crate) const POLLER: &str = "orders";
pub(crate) const FINGERPRINT: &str = "sha256:aa";
pub(crate) const TTL: Duration = Duration::from_secs(24);
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(7);
pub(crate) const MARGIN: Duration = Duration::from_secs(5);

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<FaultyStore>,
    pub(crate) source: Arc<Table>,
    pub(crate) sinks: Vec<Arc<Receiver>>,
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) start: Start,
    pub(crate) ordering: Ordering,
    pub(crate) objects: Arc<MemoryStore>,
    pub(crate) max_rows: usize,
    pub(crate) max_inflight: usize,
    pub(crate) fingerprint: &'static str,
    pub(crate) function_timeout: Duration,
    /// By name; all others are required.
    pub(crate) optional: BTreeSet<String>,
    pub(crate) commit: CommitPolicy,
    pub(crate) poison: PoisonPolicy,
    pub(crate) ledger: LedgerMode,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            store: Arc::new(FaultyStore::default()),
            source: Arc::default(),
            sinks: vec![Arc::new(Receiver::new("hook"))],
            clock: Arc::default(),
            start: Start::Beginning,
            ordering: Ordering::Visible,
            objects: Arc::default(),
            max_rows: 2,
            max_inflight: 1,
            fingerprint: FINGERPRINT,
            function_timeout: Duration::from_secs(300),
            optional: BTreeSet::new(),
            commit: CommitPolicy::default(),
            poison: PoisonPolicy::default(),
            ledger: LedgerMode::Off,
        }
    }

    /// Rows 1 to n, one cursor value each.
    pub(crate) fn with_rows(n: i64) -> Self {
        let world = Self::new();
        world.insert(1..=n);
        world
    }

    pub(crate) fn insert(&self, ids: impl IntoIterator<Item = i64>) {
        for id in ids {
            self.source.put(id, id, "new");
        }
    }

    pub(crate) fn hook(&self) -> &Receiver {
        &self.sinks[0]
    }

    pub(crate) fn poller(&self, owner: &str) -> Poller {
        Poller {
            name: POLLER.to_owned(),
            events_as: POLLER.to_owned(),
            fingerprint: self.fingerprint.to_owned(),
            definition: definition(self.fingerprint),
            owner: owner.to_owned(),
            key_columns: vec!["id".to_owned()],
            start: self.start.clone(),
            ordering: self.ordering,
            recovery_point: Duration::from_secs(60),
            batch: BatchLimits {
                max_rows: NonZeroUsize::new(self.max_rows).unwrap(),
                max_bytes: NonZeroUsize::new(1 << 20).unwrap(),
                max_wait: Duration::from_secs(5),
                max_inflight: NonZeroUsize::new(self.max_inflight).unwrap(),
            },
            lease: LeaseTimes {
                ttl: TTL,
                heartbeat: HEARTBEAT,
                margin: MARGIN,
            },
            source: self.source.clone(),
            sinks: self
                .sinks
                .iter()
                .map(|sink| Outlet {
                    required: !self.optional.contains(&sink.name),
                    sink: sink.clone(),
                })
                .collect(),
            commit: self.commit,
            poison: self.poison,
            poison_queue: None,
            ledger: self.ledger,
            store: self.store.clone(),
            objects: self.objects.clone(),
            state_key: state_key(),
            birth_marker: marker_key(),
            beside: None,
            clock: self.clock.clone(),
        }
    }

    pub(crate) async fn tick(&self) -> TickReport {
        self.tick_of("app/one").await
    }

    pub(crate) async fn tick_of(&self, owner: &str) -> TickReport {
        let budget = Budget::starting(self.clock.monotonic(), Some(self.function_timeout));
        tick(&self.poller(owner), budget).await
    }

    /// A whole tick of another instance whose own requests never fail, as something that happens
    /// in the middle of one of ours.
    pub(crate) fn rival_tick(&self) -> Fault {
        let mut rival = self.clone();
        rival.store = Arc::new(FaultyStore {
            inner: self.store.inner.clone(),
            ..FaultyStore::default()
        });
        Fault::Meanwhile(
            async move {
                let report = rival.tick_of("app/rival").await;
                assert_eq!(done(report), Outcome::Drained);
            }
            .boxed(),
        )
    }

    /// An operator's order, as something that happens in the middle of a tick.
    pub(crate) fn operate(&self, order: Order) -> Fault {
        let (store, now) = (self.store.inner.clone(), self.clock.now());
        Fault::Meanwhile(async move { change(&store, order, now) }.boxed())
    }

    pub(crate) fn operate_now(&self, order: Order) {
        change(&self.store.inner, order, self.clock.now());
    }

    pub(crate) fn document(&self) -> StateDocument {
        self.store.document().expect("there is a document")
    }

    /// But for what is said of failed ticks.
    pub(crate) fn essence(&self) -> StateDocument {
        let mut document = self.document();
        document.trouble = None;
        document.counters.failed_ticks = 0;
        document
    }

    /// The id of the row that the checkpoint stands on; 0 at the beginning.
    pub(crate) fn checkpoint(&self) -> i64 {
        match self.document().position().map(Position::key) {
            Some([Scalar::Integer(id)]) => i64::try_from(*id).unwrap(),
            _ => 0,
        }
    }
}

fn change(store: &MemoryStore, order: Order, now: Timestamp) {
    let key = state_key();
    let loaded = store.load(&key).now_or_never().unwrap();
    let loaded = loaded.unwrap().unwrap();
    let document = parse(&loaded.body).unwrap();
    let by = Operator {
        who: "an operator".to_owned(),
        why: "a test".to_owned(),
        id: format!("{order:?} at {now}"),
    };
    let Applied::Changed(next) = apply(&document, &Action::Operate { by, order }, now).unwrap()
    else {
        return;
    };
    let swap = store.replace(&key, &loaded.tag, next.to_bytes().into());
    assert!(matches!(
        swap.now_or_never().unwrap().unwrap(),
        Swap::Won(_)
    ));
}

pub(crate) fn definition(table: &str) -> SourceDefinition {
    SourceDefinition {
        connection: "sqlite:/orders.db".to_owned(),
        table: Some(table.to_owned()),
        cursor: vec!["seq".to_owned()],
        key: vec!["id".to_owned()],
        ..SourceDefinition::default()
    }
}

pub(crate) fn state_key() -> StoreKey {
    StoreKey::state("shop", POLLER).unwrap()
}

pub(crate) fn marker_key() -> StoreKey {
    StoreKey::birth_marker("shop", POLLER).unwrap()
}

fn parse(body: &[u8]) -> Option<StateDocument> {
    StateDocument::from_bytes(body, POLLER, &["id".to_owned()]).ok()
}

pub(crate) fn done(report: TickReport) -> Outcome {
    report.result.unwrap()
}

pub(crate) fn failed(report: TickReport) -> TickError {
    report.result.unwrap_err()
}

// ---- clock

#[derive(Debug, Default)]
pub(crate) struct FakeClock {
    started: std::sync::OnceLock<Instant>,
    drawn: AtomicU64,
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        let now = self.monotonic();
        let passed = now - *self.started.get_or_init(|| now);
        DateTime::from_timestamp(1_775_000_000, 0).unwrap() + TimeDelta::from_std(passed).unwrap()
    }

    fn random(&self) -> u128 {
        u128::from(self.drawn.fetch_add(1, Memory::Relaxed))
    }
}

// ---- store

/// What happens to one write.
pub(crate) enum Fault {
    /// It surely did not happen.
    Unreachable,
    /// It did not happen, and the caller cannot know.
    RequestLost,
    /// It happened, and the caller cannot know.
    AnswerLost,
    /// It has not happened yet, and the caller cannot know; `land` makes it arrive.
    Delayed,
    /// No answer, ever, and it did not happen.
    Silence,
    /// Somebody else is faster: this happens first, then the write as it was sent.
    Meanwhile(BoxFuture<'static, ()>),
}

impl Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fault")
    }
}

/// What a write was for, told from the document before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrote {
    Marker,
    Birth,
    Claim,
    Heartbeat,
    Commit,
    LastCommit,
    Failure,
    Release,
    /// A condition that was not met, or a request that did not arrive.
    Nothing,
    /// Why ticks fail, or that they do not any more.
    Trouble,
}

#[derive(Debug, Default)]
pub(crate) struct FaultyStore {
    inner: Arc<MemoryStore>,
    faults: Mutex<BTreeMap<usize, Fault>>,
    load_faults: Mutex<u32>,
    after_load: Mutex<BTreeMap<usize, Fault>>,
    writes: Mutex<Vec<Wrote>>,
    loads: Mutex<usize>,
    latency: Mutex<Duration>,
    delayed: Mutex<Vec<(StoreKey, Option<Tag>, Bytes)>>,
}

impl FaultyStore {
    /// The n-th write from now, counting from one.
    pub(crate) fn on_write(&self, n: usize, fault: Fault) {
        let n = n + self.writes.lock().unwrap().len();
        self.faults.lock().unwrap().insert(n, fault);
    }

    /// Every request takes this long.
    pub(crate) fn take(&self, latency: Duration) {
        *self.latency.lock().unwrap() = latency;
    }

    pub(crate) fn fail_loads(&self, n: u32) {
        *self.load_faults.lock().unwrap() = n;
    }

    /// What was planned to fail from here on does not.
    pub(crate) fn heal(&self) {
        *self.load_faults.lock().unwrap() = 0;
        self.faults.lock().unwrap().clear();
    }

    /// Right after the answer of the n-th load from now was made.
    pub(crate) fn after_load(&self, n: usize, fault: Fault) {
        let n = n + *self.loads.lock().unwrap();
        self.after_load.lock().unwrap().insert(n, fault);
    }

    /// What was written since the last time this was asked.
    pub(crate) fn take_writes(&self) -> Vec<Wrote> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    pub(crate) fn take_loads(&self) -> usize {
        std::mem::take(&mut self.loads.lock().unwrap())
    }

    /// Every key there is.
    pub(crate) async fn keys(&self) -> Vec<StoreKey> {
        self.inner.list("state/").await.unwrap()
    }

    pub(crate) fn body(&self, key: &StoreKey) -> Option<Bytes> {
        let loaded = self.inner.load(key).now_or_never().unwrap().unwrap();
        loaded.map(|loaded| loaded.body)
    }

    pub(crate) fn document(&self) -> Option<StateDocument> {
        parse(&self.body(&state_key())?)
    }

    pub(crate) async fn put(&self, key: &StoreKey, body: Bytes) {
        self.remove(key).await;
        self.inner.create(key, body).await.unwrap();
    }

    pub(crate) async fn remove(&self, key: &StoreKey) {
        if let Some(loaded) = self.inner.load(key).await.unwrap() {
            self.inner.delete(key, &loaded.tag).await.unwrap();
        }
    }

    /// The delayed writes arrive now. True if any of them changed anything.
    pub(crate) async fn land(&self) -> bool {
        let delayed = std::mem::take(&mut *self.delayed.lock().unwrap());
        let mut changed = false;
        for (key, tag, body) in delayed {
            changed |= self.send(&key, tag.as_ref(), body).await != Swap::Lost;
        }
        changed
    }

    async fn travel(&self) {
        let latency = *self.latency.lock().unwrap();
        if !latency.is_zero() {
            sleep(latency).await;
        }
    }

    async fn send(&self, key: &StoreKey, tag: Option<&Tag>, body: Bytes) -> Swap {
        match tag {
            Some(tag) => self.inner.replace(key, tag, body).await.unwrap(),
            None => self.inner.create(key, body).await.unwrap(),
        }
    }

    async fn write(
        &self,
        key: &StoreKey,
        tag: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        let slot = {
            let mut writes = self.writes.lock().unwrap();
            writes.push(Wrote::Nothing);
            writes.len()
        };
        let fault = self.faults.lock().unwrap().remove(&slot);
        self.travel().await;
        let unknown = || StoreError::Unknown {
            context: "scripted".to_owned(),
            cause: "connection reset".into(),
        };
        let answer_lost = matches!(fault, Some(Fault::AnswerLost));
        match fault {
            Some(Fault::Unreachable) => {
                return Err(StoreError::Unreachable {
                    context: "scripted".to_owned(),
                    cause: "connection refused".into(),
                });
            }
            Some(Fault::RequestLost) => return Err(unknown()),
            Some(Fault::Delayed) => {
                let late = (key.clone(), tag.cloned(), body);
                self.delayed.lock().unwrap().push(late);
                return Err(unknown());
            }
            Some(Fault::Silence) => std::future::pending().await,
            Some(Fault::Meanwhile(happening)) => happening.await,
            Some(Fault::AnswerLost) | None => {}
        }
        let before = self.document();
        let swap = self.send(key, tag, body).await;
        if swap != Swap::Lost {
            self.writes.lock().unwrap()[slot - 1] = self.name(key, before);
        }
        if answer_lost {
            return Err(unknown());
        }
        self.travel().await;
        Ok(swap)
    }

    fn name(&self, key: &StoreKey, before: Option<StateDocument>) -> Wrote {
        if *key == marker_key() {
            return Wrote::Marker;
        }
        if *key != state_key() {
            return Wrote::Nothing;
        }
        let after = self.document().expect("only documents are written");
        let Some(before) = before else {
            return if after.lease.held.is_some() {
                Wrote::Claim
            } else {
                Wrote::Birth
            };
        };
        if after.lease.token > before.lease.token {
            Wrote::Claim
        } else if after.counters.batches > before.counters.batches {
            match after.lease.held {
                Some(_) => Wrote::Commit,
                None => Wrote::LastCommit,
            }
        } else if after.trouble != before.trouble && after.holder == before.holder {
            Wrote::Trouble
        } else if after.counters.failed_ticks > before.counters.failed_ticks {
            Wrote::Failure
        } else if after.lease.held.is_none() {
            Wrote::Release
        } else {
            Wrote::Heartbeat
        }
    }
}

#[async_trait]
impl StateStore for FaultyStore {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        let slot = {
            let mut loads = self.loads.lock().unwrap();
            *loads += 1;
            *loads
        };
        let fails = {
            let mut left = self.load_faults.lock().unwrap();
            let fails = *left > 0;
            *left = left.saturating_sub(1);
            fails
        };
        if fails {
            return Err(StoreError::Unreachable {
                context: "scripted".to_owned(),
                cause: "connection refused".into(),
            });
        }
        self.travel().await;
        let loaded = self.inner.load(key).await;
        let then = self.after_load.lock().unwrap().remove(&slot);
        if let Some(Fault::Meanwhile(happening)) = then {
            happening.await;
        }
        loaded
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        self.write(key, None, body).await
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        self.write(key, Some(tag), body).await
    }

    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError> {
        self.inner.delete(key, tag).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.inner.list(prefix).await
    }
}

// ---- source

#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Mutex<BTreeMap<Position, (i64, String)>>,
    /// For each read in turn: whether it works.
    script: Mutex<VecDeque<Read>>,
    reads: Mutex<u32>,
    pub(crate) schema: Mutex<Option<Arc<Schema>>>,
    pub(crate) server: Mutex<Option<Arc<str>>>,
    pub(crate) late: Mutex<Late>,
    /// Rows leave it when everybody has them.
    pub(crate) is_outbox: AtomicBool,
}

/// What is seen of writers.
#[derive(Debug, Default)]
pub(crate) struct Late {
    pub(crate) sight: Sight,
    /// From the look after the next one on.
    pub(crate) then: Option<Sight>,
    pub(crate) survey: Survey,
    /// How often it was looked.
    pub(crate) looks: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Read {
    Works,
    Unreachable,
    Broken,
    Hangs,
}

impl Table {
    pub(crate) fn put(&self, id: i64, cursor: i64, content: &str) {
        let mut rows = self.rows.lock().unwrap();
        rows.retain(|_, (other, _)| *other != id);
        rows.insert(place(cursor, id), (id, content.to_owned()));
    }

    pub(crate) fn remove(&self, id: i64) {
        self.rows.lock().unwrap().retain(|_, (row, _)| *row != id);
    }

    pub(crate) fn will(&self, script: impl IntoIterator<Item = Read>) {
        self.script.lock().unwrap().extend(script);
    }

    /// The rows that are there.
    pub(crate) fn ids(&self) -> BTreeSet<i64> {
        let rows = self.rows.lock().unwrap();
        rows.values().map(|(id, _)| *id).collect()
    }

    pub(crate) fn take_reads(&self) -> u32 {
        std::mem::take(&mut self.reads.lock().unwrap())
    }

    fn page(&self, wanted: impl Fn(&Position) -> bool, mut writer: PageWriter) -> ReadPage {
        let rows = self.rows.lock().unwrap();
        let mut end = true;
        for (position, (id, content)) in rows.iter().filter(|(place, _)| wanted(place)) {
            let Scalar::Integer(cursor) = position.cursor()[0] else {
                unreachable!("cursors are integers here")
            };
            if writer.is_full() {
                end = false;
                break;
            }
            let taken = writer.push(
                Op::Upsert,
                position.clone(),
                |out| out.extend_from_slice(cursor.to_string().as_bytes()),
                |out| out.extend_from_slice(format!("{{\"id\":{id}}}").as_bytes()),
                |out| {
                    out.extend_from_slice(format!("{{\"id\":{id},\"x\":\"{content}\"}}").as_bytes())
                },
            );
            if taken == Taken::NoRoom {
                end = false;
                break;
            }
        }
        ReadPage {
            page: writer.finish(),
            end,
            types: types(),
            schema: {
                let changed = self.schema.lock().unwrap().clone();
                changed.unwrap_or_else(|| schema(COLUMNS))
            },
            server: self.server.lock().unwrap().clone(),
            survey: Survey::default(),
        }
    }

    async fn answer(&self) -> Result<(), SourceError> {
        *self.reads.lock().unwrap() += 1;
        let next = self.script.lock().unwrap().pop_front();
        match next.unwrap_or(Read::Works) {
            Read::Works => Ok(()),
            Read::Unreachable => Err(SourceError::Unreachable {
                context: "scripted".to_owned(),
                cause: None,
            }),
            Read::Broken => Err(SourceError::Query {
                context: "scripted".to_owned(),
                cause: "no such column".into(),
            }),
            Read::Hangs => std::future::pending().await,
        }
    }
}

pub(crate) fn place(cursor: i64, id: i64) -> Position {
    let scalar = |value: i64| vec![Scalar::Integer(value.into())];
    Position::new(scalar(cursor), scalar(id))
}

pub(crate) const COLUMNS: &[(&str, &str)] = &[("id", "integer"), ("seq", "integer")];

/// Columns with their types; `seq` is the cursor, `id` the key.
pub(crate) fn schema(columns: &[(&str, &str)]) -> Arc<Schema> {
    let columns = columns
        .iter()
        .map(|(name, declared)| ((*name).to_owned(), (*declared).to_owned()));
    Arc::new(Schema::new(
        columns,
        &["seq".to_owned()],
        &["id".to_owned()],
    ))
}

fn types() -> Types {
    Arc::new([("id".to_owned(), "integer".to_owned())])
}

#[async_trait]
impl Source for Table {
    async fn look(&self, _: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        let mut late = self.late.lock().unwrap();
        late.looks += 1;
        let sight = late.sight.clone();
        if let Some(next) = late.then.take() {
            late.sight = next;
        }
        Ok(sight)
    }

    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        _max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        self.answer().await?;
        Ok(ReadPage {
            survey: self.late.lock().unwrap().survey.clone(),
            ..self.page(|place| after.is_none_or(|after| place > after), writer)
        })
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        self.answer().await?;
        Ok(self.page(|place| place == at, writer))
    }

    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        self.answer().await?;
        let rows = self.rows.lock().unwrap();
        let fits = |place: &&Position| below.is_none_or(|below| place.cursor()[0] < *below);
        Ok(rows.keys().rev().find(fits).cloned())
    }

    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        self.answer().await?;
        let rows = self.rows.lock().unwrap();
        let behind = rows
            .keys()
            .filter(|place| after.is_none_or(|after| *place > after));
        let inside = behind.filter(|place| up_to.is_none_or(|up_to| *place <= up_to));
        Ok(most.min(inside.count() as u64))
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        self.answer().await?;
        let table = self.rows.lock().unwrap();
        let mut behind = table
            .keys()
            .filter(|place| after.is_none_or(|after| *place > after));
        Ok(behind.nth(usize::try_from(rows).unwrap() - 1).cloned())
    }

    async fn locate(&self, _: &[String], _: PageWriter) -> Result<Vec<Located>, SourceError> {
        unreachable!("a tick does not locate")
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        unreachable!("a tick does not describe")
    }

    fn cleans_up(&self) -> bool {
        self.is_outbox.load(Memory::Relaxed)
    }

    async fn clean_up(&self, delivered: &[Position]) -> Result<(), SourceError> {
        let mut rows = self.rows.lock().unwrap();
        rows.retain(|place, _| !delivered.contains(place));
        Ok(())
    }
}

// ---- sink

/// What the receiver does with one batch; whether it kept the rows is not known to the sender.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Acknowledge,
    AcknowledgeAfter(Duration),
    Refuse,
    RefuseUntil(Timestamp),
    Fail(FailureKind),
    /// It says of each event that it has not tried it.
    DoNotTry,
    Never,
}

/// How a receiver judges a batch when no script says otherwise.
#[derive(Debug, Clone, Default)]
pub(crate) enum Temper {
    #[default]
    Kind,
    /// It fails so at every batch that has one of these rows.
    At(FailureKind, BTreeSet<i64>),
    /// It names these rows, and whether for good.
    Names(BTreeSet<i64>, bool),
    /// It takes no more than so many rows at once.
    Small(usize),
    Always(FailureKind),
}

/// One attempt, as the receiver saw it.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) batch_id: String,
    pub(crate) number: u32,
    pub(crate) fence: Fence,
    pub(crate) event_ids: Vec<String>,
    pub(crate) rows: Vec<i64>,
    pub(crate) body: Bytes,
    pub(crate) checkpoint_then: Option<i64>,
    pub(crate) answered: bool,
}

#[derive(Debug)]
pub(crate) struct Receiver {
    name: String,
    script: Mutex<VecDeque<Reply>>,
    attempts: Mutex<Vec<Attempt>>,
    watched: Mutex<Option<World>>,
    temper: Mutex<Temper>,
    stored: Mutex<Vec<i64>>,
}

impl Receiver {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            script: Mutex::default(),
            attempts: Mutex::default(),
            watched: Mutex::default(),
            temper: Mutex::default(),
            stored: Mutex::default(),
        }
    }

    pub(crate) fn is(&self, temper: Temper) {
        *self.temper.lock().unwrap() = temper;
    }

    /// The rows that it has taken, in order, each as often as it came.
    pub(crate) fn stored(&self) -> Vec<i64> {
        self.stored.lock().unwrap().clone()
    }

    fn judge(&self, batch: &Batch, rows: &[i64]) -> Verdict {
        let temper = self.temper.lock().unwrap().clone();
        let named = match &temper {
            Temper::Names(names, _) => rows.iter().map(|row| names.contains(row)).collect(),
            _ => vec![false; rows.len()],
        };
        let failed = |kind| Verdict::Failed(DeliveryFailure::new(kind, format!("{kind:?}")));
        let verdict = match &temper {
            Temper::At(kind, bad) if rows.iter().any(|row| bad.contains(row)) => failed(*kind),
            Temper::Small(most) if rows.len() > *most => failed(FailureKind::TooLarge),
            Temper::Always(kind) => failed(*kind),
            Temper::Names(_, never) if named.contains(&true) => {
                let events = batch.event_ids.iter().zip(&named);
                let named = events.filter(|(_, named)| **named);
                let named = named.map(|(id, _)| Unaccepted {
                    id: *id,
                    reason: "not this one".to_owned(),
                    stance: match never {
                        true => Stance::Never,
                        false => Stance::NotNow,
                    },
                });
                Verdict::Partly(named.collect())
            }
            _ => Verdict::Acknowledged,
        };
        if !matches!(verdict, Verdict::Failed(_)) {
            let taken = rows.iter().zip(named).filter(|(_, named)| !named);
            self.stored
                .lock()
                .unwrap()
                .extend(taken.map(|(row, _)| *row));
        }
        verdict
    }

    pub(crate) fn will(&self, script: impl IntoIterator<Item = Reply>) {
        self.script.lock().unwrap().extend(script);
    }

    /// Note the checkpoint in the store at the time of each attempt.
    pub(crate) fn watch(&self, world: &World) {
        *self.watched.lock().unwrap() = Some(world.clone());
    }

    pub(crate) fn attempts(&self) -> Vec<Attempt> {
        self.attempts.lock().unwrap().clone()
    }

    /// The rows of every attempt, in order.
    pub(crate) fn rows(&self) -> Vec<i64> {
        self.attempts().into_iter().flat_map(|a| a.rows).collect()
    }
}

#[async_trait]
impl Sink for Receiver {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let value: serde_json::Value = serde_json::from_slice(&batch.body).unwrap();
        let events = value["events"].as_array().unwrap();
        let slot = {
            let watched = self.watched.lock().unwrap();
            let mut attempts = self.attempts.lock().unwrap();
            attempts.push(Attempt {
                batch_id: batch.id.to_string(),
                number: batch.attempt,
                fence: batch.fence,
                event_ids: batch.event_ids.iter().map(ToString::to_string).collect(),
                rows: events
                    .iter()
                    .map(|e| e["key"]["id"].as_i64().unwrap())
                    .collect(),
                body: batch.body.clone(),
                checkpoint_then: watched.as_ref().map(World::checkpoint),
                answered: false,
            });
            attempts.len() - 1
        };
        let Some(reply) = self.script.lock().unwrap().pop_front() else {
            let rows = self.attempts.lock().unwrap()[slot].rows.clone();
            let verdict = self.judge(batch, &rows);
            self.attempts.lock().unwrap()[slot].answered = true;
            return verdict;
        };
        let failed = |not_before| {
            Verdict::Failed(DeliveryFailure {
                not_before,
                ..DeliveryFailure::new(FailureKind::Passing, "503")
            })
        };
        let verdict = match reply {
            Reply::Acknowledge => Verdict::Acknowledged,
            Reply::AcknowledgeAfter(time) => {
                sleep(time).await;
                Verdict::Acknowledged
            }
            Reply::Refuse => failed(None),
            Reply::RefuseUntil(until) => failed(Some(until)),
            Reply::Fail(kind) => Verdict::Failed(DeliveryFailure::new(kind, format!("{kind:?}"))),
            Reply::DoNotTry => {
                let untried = batch.event_ids.iter().map(|id| Unaccepted {
                    id: *id,
                    reason: "busy".to_owned(),
                    stance: Stance::NotTried,
                });
                Verdict::Partly(untried.collect())
            }
            Reply::Never => std::future::pending().await,
        };
        self.attempts.lock().unwrap()[slot].answered = true;
        verdict
    }
}
