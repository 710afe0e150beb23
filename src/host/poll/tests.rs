use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::config::{App, Batch as BatchLimits, LeaseTimes, Start};
use crate::model::definition::SourceDefinition;
use crate::model::envelope::Batch;
use crate::model::late::Survey;
use crate::model::ledger::LedgerMode;
use crate::model::page::{Op, PageWriter, Room};
use crate::model::policy::{CommitPolicy, PoisonPolicy};
use crate::model::position::{Position, Scalar};
use crate::model::schema::Schema;
use crate::sink::{Outlet, Sink, Verdict};
use crate::source::{Description, Located, ReadPage, Source, SourceError};
use crate::stop::Stop;
use crate::store::{MemoryStore, StoreKey};
use crate::wiring::Parts;

/// A table with so many rows.
#[derive(Debug)]
struct Rows(i128);

#[derive(Debug)]
struct Panicking;

#[async_trait]
impl Source for Rows {
    async fn read(
        &self,
        after: Option<&Position>,
        mut writer: PageWriter,
        _: Duration,
    ) -> Result<ReadPage, SourceError> {
        let next = match after.map(Position::cursor) {
            Some([Scalar::Integer(last)]) => last + 1,
            _ => 1,
        };
        if next <= self.0 {
            let place = || vec![Scalar::Integer(next)];
            let json = |out: &mut Vec<u8>| out.extend(format!("{{\"id\":{next}}}").bytes());
            let position = Position::new(place(), place());
            writer.push_into(Room::Limited, Op::Upsert, position, json, json, json);
        }
        Ok(ReadPage {
            end: next >= self.0,
            ..nothing(writer)
        })
    }

    async fn find(&self, _: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        Ok(nothing(writer))
    }

    async fn last(&self, _: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        Ok(None)
    }

    async fn count(
        &self,
        _: Option<&Position>,
        _: Option<&Position>,
        _: u64,
    ) -> Result<u64, SourceError> {
        Ok(0)
    }

    async fn ahead(&self, _: Option<&Position>, _: u64) -> Result<Option<Position>, SourceError> {
        Ok(None)
    }

    async fn locate(&self, _: &[String], _: PageWriter) -> Result<Vec<Located>, SourceError> {
        Ok(Vec::new())
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        unreachable!("only check asks")
    }
}

fn nothing(writer: PageWriter) -> ReadPage {
    ReadPage {
        page: writer.finish(),
        end: true,
        types: Arc::new([]),
        schema: Arc::new(Schema::new([], &[], &[])),
        server: None,
        survey: Survey::default(),
    }
}

#[async_trait]
impl Source for Panicking {
    async fn read(
        &self,
        _: Option<&Position>,
        _: PageWriter,
        _: Duration,
    ) -> Result<ReadPage, SourceError> {
        panic!("planted")
    }

    async fn find(&self, _: &Position, _: PageWriter) -> Result<ReadPage, SourceError> {
        panic!("planted")
    }

    async fn last(&self, _: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        panic!("planted")
    }

    async fn count(
        &self,
        _: Option<&Position>,
        _: Option<&Position>,
        _: u64,
    ) -> Result<u64, SourceError> {
        panic!("planted")
    }

    async fn ahead(&self, _: Option<&Position>, _: u64) -> Result<Option<Position>, SourceError> {
        panic!("planted")
    }

    async fn locate(&self, _: &[String], _: PageWriter) -> Result<Vec<Located>, SourceError> {
        panic!("planted")
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        panic!("planted")
    }
}

/// Takes a second for each batch.
#[derive(Debug, Default)]
struct Receiver {
    taken: Mutex<Vec<(String, Instant)>>,
    at_work: AtomicUsize,
    most_at_work: AtomicUsize,
}

#[async_trait]
impl Sink for Receiver {
    fn name(&self) -> &str {
        "receiver"
    }

    async fn deliver(&self, batch: &Batch) -> Verdict {
        let at_work = self.at_work.fetch_add(1, Ordering::Relaxed) + 1;
        self.most_at_work.fetch_max(at_work, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.at_work.fetch_sub(1, Ordering::Relaxed);
        let taken = (batch.poller().to_owned(), SystemClock.monotonic());
        self.taken.lock().unwrap().push(taken);
        Verdict::Acknowledged
    }
}

impl Receiver {
    fn taken_of(&self, poller: &str) -> Vec<Instant> {
        let taken = self.taken.lock().unwrap();
        let taken = taken.iter().filter(|(name, _)| name == poller);
        taken.map(|(_, at)| *at).collect()
    }
}

fn delivering(name: &str, rows: i128, receiver: &Arc<Receiver>) -> Poller {
    Poller {
        sinks: vec![Outlet::required(Arc::clone(receiver) as _)],
        key_columns: vec!["id".to_owned()],
        ..poller(name, Rows(rows))
    }
}

fn handler(settings: &[(&str, &str)]) -> Handler {
    let root = tempfile::tempdir().unwrap();
    let settings = settings.iter().copied().collect();
    let app = App::load(root.path(), &settings);
    let parts = Parts::new(Arc::new(SystemClock)).unwrap();
    Handler::new(&app, parts, Stop::never())
}

async fn polled(handler: &Handler, pollers: &[Poller], parallel: usize) -> (StatusCode, String) {
    let now = Arrived(SystemClock.monotonic());
    let invocation = Invocation {
        id: "id".to_owned(),
        past_due: false,
        host_retry: 0,
        trace: None,
    };
    let answer = poll(handler, pollers, parallel, &invocation, now).await;
    let answer = answer.into_response();
    let status = answer.status();
    let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await;
    (status, String::from_utf8(body.unwrap().to_vec()).unwrap())
}

fn poller(name: &str, source: impl Source + 'static) -> Poller {
    let second = Duration::from_secs(1);
    Poller {
        name: name.to_owned(),
        events_as: name.to_owned(),
        definition: SourceDefinition::default(),
        fingerprint: String::new(),
        owner: String::new(),
        key_columns: Vec::new(),
        ordering: Default::default(),
        recovery_point: Duration::from_secs(60),
        objects: Arc::new(MemoryStore::new()),
        start: Start::Beginning,
        batch: BatchLimits {
            max_rows: NonZeroUsize::MIN,
            max_bytes: NonZeroUsize::MIN,
            max_wait: second,
            max_inflight: NonZeroUsize::MIN,
        },
        lease: LeaseTimes {
            ttl: second * 24,
            heartbeat: second * 7,
            margin: second * 5,
        },
        source: Arc::new(source),
        sinks: Vec::new(),
        commit: CommitPolicy::default(),
        poison: PoisonPolicy::default(),
        poison_queue: None,
        ledger: LedgerMode::Off,
        store: Arc::new(MemoryStore::new()),
        state_key: StoreKey::state("app", name).unwrap(),
        birth_marker: StoreKey::birth_marker("app", name).unwrap(),
        beside: None,
        clock: Arc::new(SystemClock),
    }
}

#[tokio::test]
async fn a_poller_that_panics_does_not_take_the_others_with_it() {
    let handler = handler(&[]);
    for parallel in [1, 2] {
        let pollers = [poller("bad", Panicking), poller("good", Rows(0))];
        let (status, body) = polled(&handler, &pollers, parallel).await;
        assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
        assert!(body.contains("good: nothing new"), "{body}");
        assert!(body.contains("bad: dbtick has a bug"), "{body}");
        assert!(body.contains("planted"), "{body}");
    }
}

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_backlog_does_not_keep_others_from_their_turn() {
    let (handler, receiver) = (handler(&[]), Arc::new(Receiver::default()));
    let few = (0..5).map(|at| delivering(&format!("few-{at}"), 2, &receiver));
    let mut pollers = vec![delivering("backlog", 100_000, &receiver)];
    pollers.extend(few);
    let started = SystemClock.monotonic();
    let (status, body) = polled(&handler, &pollers, 1).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let last = (0..5).flat_map(|at| receiver.taken_of(&format!("few-{at}")));
    let last = last.max().unwrap() - started;
    assert!(last < TURN + MINUTE / 4, "{last:?}");
    assert!(body.contains("backlog: others waited"), "{body}");
    // When they are done, it has the rest of the time, which is 80 % of five minutes.
    assert!(body.contains("backlog: time budget spent"), "{body}");
    assert!(receiver.taken_of("backlog").len() > 200);
    assert!(SystemClock.monotonic() - started < 5 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_backlog_that_nobody_waits_for_is_drained_in_one_tick() {
    let (handler, receiver) = (handler(&[]), Arc::new(Receiver::default()));
    let pollers = [delivering("backlog", 100, &receiver)];
    let (_, body) = polled(&handler, &pollers, 1).await;
    assert!(body.contains("100 rows in 100 batches"), "{body}");
}

#[tokio::test(start_paused = true)]
async fn ticks_at_work_are_bounded_by_what_their_batches_weigh() {
    // Batches at once: two ticks with two each weigh as much as four with one.
    for (in_flight, max_bytes, max_inflight, expected) in [
        ("4MiB", 1 << 20, 1, 4),
        ("4MiB", 2 << 20, 1, 2),
        ("4MiB", 1 << 20, 2, 4),
    ] {
        let handler = handler(&[("DBTICK_IN_FLIGHT", in_flight)]);
        let receiver = Arc::new(Receiver::default());
        let pollers: Vec<_> = (0..20)
            .map(|at| {
                let mut poller = delivering(&format!("p{at}"), 3, &receiver);
                poller.batch.max_bytes = NonZeroUsize::new(max_bytes).unwrap();
                poller.batch.max_inflight = NonZeroUsize::new(max_inflight).unwrap();
                poller
            })
            .collect();
        let (status, body) = polled(&handler, &pollers, 20).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        let most = receiver.most_at_work.load(Ordering::Relaxed);
        assert_eq!(most, expected, "{in_flight} {max_bytes} {max_inflight}");
        assert_eq!(receiver.taken.lock().unwrap().len(), 60);
    }
}

#[tokio::test(start_paused = true)]
async fn a_tick_whose_turn_never_comes_says_so_before_the_host_kills_it() {
    let (handler, receiver) = (handler(&[]), Arc::new(Receiver::default()));
    let _all = handler.line.enter(u32::MAX).await;
    let started = SystemClock.monotonic();
    let (status, body) = polled(&handler, &[delivering("p", 1, &receiver)], 1).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(body.contains("p: it was never its turn"), "{body}");
    assert_eq!(SystemClock.monotonic() - started, 4 * MINUTE);
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_has_had_a_turn_and_gets_no_other_has_not_failed() {
    let (handler, receiver) = (handler(&[]), Arc::new(Receiver::default()));
    let pollers = [delivering("backlog", 100_000, &receiver)];
    let for_ever = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let _all = handler.line.enter(u32::MAX).await;
        std::future::pending::<()>().await;
    };
    let (status, body) = tokio::select! {
        biased;
        answer = polled(&handler, &pollers, 1) => answer,
        () = for_ever => unreachable!("it never ends"),
    };
    assert_eq!(status, StatusCode::OK, "{body}");
    assert!(body.contains("backlog: others waited"), "{body}");
    assert!(body.contains("backlog: time budget spent"), "{body}");
    assert_eq!(receiver.taken_of("backlog").len(), 10);
}

/// The host does not know of our line: its limit counts from its request on.
#[tokio::test(start_paused = true)]
async fn the_time_in_line_is_a_part_of_the_budget() {
    let (handler, receiver) = (handler(&[]), Arc::new(Receiver::default()));
    let all = handler.line.enter(u32::MAX).await;
    let started = SystemClock.monotonic();
    let pollers = [delivering("backlog", 100_000, &receiver)];
    let (answer, ()) = tokio::join!(polled(&handler, &pollers, 1), async {
        tokio::time::sleep(3 * MINUTE).await;
        drop(all);
    });
    assert!(answer.1.contains("time budget spent"), "{}", answer.1);
    let took = SystemClock.monotonic() - started;
    assert!(took < 4 * MINUTE + MINUTE / 10, "{took:?}");
}
