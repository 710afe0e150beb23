use std::num::NonZeroUsize;
use std::time::Duration;

use async_trait::async_trait;

use super::*;
use crate::clock::SystemClock;
use crate::config::{App, Batch, LeaseTimes, Settings, Start};
use crate::model::definition::SourceDefinition;
use crate::model::late::Survey;
use crate::model::ledger::LedgerMode;
use crate::model::page::PageWriter;
use crate::model::policy::{CommitPolicy, PoisonPolicy};
use crate::model::position::{Position, Scalar};
use crate::model::schema::Schema;
use crate::source::{Description, Located, ReadPage, Source, SourceError};
use crate::stop::Stop;
use crate::store::{MemoryStore, StoreKey};
use crate::wiring::Parts;

#[derive(Debug)]
struct Empty;

#[derive(Debug)]
struct Panicking;

#[async_trait]
impl Source for Empty {
    async fn read(
        &self,
        _: Option<&Position>,
        writer: PageWriter,
        _: Duration,
    ) -> Result<ReadPage, SourceError> {
        Ok(nothing(writer))
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
        batch: Batch {
            max_rows: NonZeroUsize::MIN,
            max_bytes: NonZeroUsize::MIN,
            max_wait: second,
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
    let root = tempfile::tempdir().unwrap();
    let app = App::load(root.path(), &Settings::default());
    let parts = Parts::new(Arc::new(SystemClock)).unwrap();
    let handler = Handler::new(&app, parts, Stop::never());
    let invocation = Invocation {
        id: "id".to_owned(),
        past_due: false,
        host_retry: 0,
        trace: None,
    };
    for parallel in [1, 2] {
        let pollers = [poller("bad", Panicking), poller("good", Empty)];
        let answer = poll(&handler, &pollers, parallel, &invocation).await;
        let answer = answer.into_response();
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = axum::body::to_bytes(answer.into_body(), 4096).await;
        let body = String::from_utf8(body.unwrap().to_vec()).unwrap();
        assert!(body.contains("good: nothing new"), "{body}");
        assert!(body.contains("bad: dbtick has a bug"), "{body}");
        assert!(body.contains("planted"), "{body}");
    }
}
