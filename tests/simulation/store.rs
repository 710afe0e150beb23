//! A store behind a network: requests and answers get lost, and a write may land long after its
//! sender has given up or died. `apply` is the linearization point.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{SubsecRound, TimeDelta};
use dbtick::backfill::Plan;
use dbtick::clock::Timestamp;
use dbtick::model::lease::StoreClock;
use dbtick::model::quarantine::Case;
use dbtick::model::state::StateDocument;
use dbtick::store::{
    Deleted, Loaded, ObjectStore, Put, StateStore, StoreError, StoreKey, Swap, Tag,
};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::backfill::Hand;
use super::faults::{Arrives, Bug, Heard, MOST_LATE, Write};
use super::instance::key_columns;
use super::keys::{self, Kind, kind, marker_of, plan_key};
use super::table::Place;
use super::world::World;

#[derive(Debug, Default)]
pub(crate) struct Documents {
    writes: u64,
    bodies: BTreeMap<StoreKey, Stored>,
    /// What stood there before, which a cache may still have.
    stale: BTreeMap<StoreKey, Stored>,
    /// A state document as it was before somebody spoiled it.
    whole: Option<(StoreKey, Stored)>,
    objects: BTreeMap<StoreKey, Bytes>,
}

#[derive(Debug, Clone)]
struct Stored {
    tag: Tag,
    body: Bytes,
    written: Timestamp,
    /// What the body says, if it is a state document.
    document: Option<Arc<StateDocument>>,
}

impl Documents {
    /// Of the ledger of a document.
    pub(crate) fn segment(&self, document: &StoreKey, name: &str) -> Option<Bytes> {
        let key = StoreKey::new(format!("{}{name}", document.ledger())).unwrap();
        self.objects.get(&key).cloned()
    }

    pub(crate) fn plan(&self) -> Option<Plan> {
        Some(parse_plan(&self.bodies.get(&plan_key())?.body))
    }

    /// Those of the ranges of the backfill.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &StateDocument> {
        let ranges = self.bodies.iter();
        let ranges = ranges.filter(|(key, _)| kind(key) == Kind::Range);
        ranges.filter_map(|(_, stored)| stored.document.as_deref())
    }

    /// The last one that dbtick has written, spoiled or not.
    pub(crate) fn state(&self, key: &StoreKey) -> Option<Arc<StateDocument>> {
        let whole = self.whole.as_ref().filter(|(spoiled, _)| spoiled == key);
        let whole = whole.map(|(_, whole)| whole);
        whole.or_else(|| self.bodies.get(key))?.document.clone()
    }

    /// Whether whoever has this document is known to have begun.
    pub(crate) fn is_marked(&self, document: &StoreKey) -> bool {
        self.bodies.contains_key(&marker_of(document))
    }

    /// By somebody else than dbtick; `None` deletes it.
    pub(crate) fn spoil(
        &mut self,
        key: &StoreKey,
        now: Timestamp,
        spoiled: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) {
        let Some(stands) = self.bodies.remove(key) else {
            return;
        };
        if let Some(body) = spoiled(&stands.body) {
            let stored = Stored {
                tag: self.next_tag(),
                body: body.into(),
                written: now,
                document: None,
            };
            self.bodies.insert(key.clone(), stored);
        }
        self.whole = Some((key.clone(), stands));
    }

    /// The very bytes, by somebody who has kept them.
    pub(crate) fn put_back(&mut self, now: Timestamp) {
        if let Some((key, whole)) = self.whole.take() {
            let stored = Stored {
                tag: self.next_tag(),
                written: now,
                ..whole
            };
            self.bodies.insert(key, stored);
        }
    }

    fn next_tag(&mut self) -> Tag {
        self.writes += 1;
        Tag::new(self.writes.to_string())
    }
}

fn parse(key: &StoreKey, body: &[u8]) -> Arc<StateDocument> {
    let document = StateDocument::from_bytes(body, &keys::name(key), &key_columns());
    Arc::new(document.expect("only whole documents are written"))
}

fn parse_plan(body: &[u8]) -> Plan {
    serde_json::from_slice(body).expect("only whole plans are written")
}

#[derive(Debug, Clone)]
pub(crate) struct SimStore {
    pub(crate) world: Arc<World>,
    pub(crate) hand: Hand,
}

impl SimStore {
    async fn write(
        &self,
        key: &StoreKey,
        tag: Option<&Tag>,
        body: Bytes,
    ) -> Result<Swap, StoreError> {
        let (store, key, tag) = (self.clone(), key.clone(), tag.cloned());
        // A first document that was believed and never was is missed later, by its birth marker.
        let trusted = tag.is_some() && self.world.has(Bug::UnknownTrusted);
        let believed = trusted.then(|| Swap::Won(Tag::new("believed")));
        self.send(believed, move || {
            store.apply(&key, tag.as_ref(), body.clone())
        })
        .await
    }

    /// `believed` is the answer to a request that was lost; only a planted bug has one.
    async fn send<T: Send + 'static>(
        &self,
        believed: Option<T>,
        apply: impl Fn() -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let Write { arrives, heard } = self.world.fate_of_a_write();
        if heard == Heard::Refused {
            self.world.travel().await;
            return Err(unreachable());
        }
        let (answer, answered) = oneshot::channel();
        let mut answer = Some(answer);
        let world = self.world.clone();
        self.world.send(async move {
            world.travel().await;
            if heard == Heard::Nothing && arrives == Arrives::Late {
                answer = None;
            }
            let done = match arrives {
                Arrives::Never => believed,
                Arrives::Soon => Some(apply()),
                Arrives::Late => {
                    sleep(world.draw_time(MOST_LATE)).await;
                    Some(apply())
                }
                Arrives::Twice => {
                    apply();
                    world.travel().await;
                    Some(apply())
                }
            };
            world.travel().await;
            let told = heard == Heard::Answer || arrives == Arrives::Never;
            if let (Some(answer), Some(done), true) = (answer, done, told) {
                // Nobody listens when the sender has died.
                drop(answer.send(done));
            }
        });
        answered.await.map_err(|lost| StoreError::Unknown {
            context: "simulated".to_owned(),
            cause: lost.into(),
        })
    }

    fn apply(&self, key: &StoreKey, tag: Option<&Tag>, mut body: Bytes) -> Swap {
        let world = &self.world;
        let mut documents = world.documents();
        let before = documents.bodies.get(key).cloned();
        let met = match tag {
            Some(tag) => {
                before.as_ref().is_some_and(|before| before.tag == *tag)
                    || world.has(Bug::IfMatchIgnored)
            }
            None => before.is_none() || world.has(Bug::IfNoneMatchIgnored),
        };
        if !met {
            drop(documents);
            world.note(format_args!("store {key}: lost"));
            return Swap::Lost;
        }
        let kind = kind(key);
        if kind == Kind::Marker && world.has(Bug::MarkerNotKept) {
            return Swap::Won(documents.next_tag());
        }
        if kind == Kind::State && self.hand != Hand::Poller {
            drop(documents);
            world.violated("H1", "a backfill writes the poller's document".to_owned());
            return Swap::Lost;
        }
        let spoiled = documents.whole.as_ref();
        if spoiled.is_some_and(|(spoiled, _)| spoiled == key) {
            drop(documents);
            let what = "a document that is spoiled or gone is written over";
            world.violated("I14", what.to_owned());
            return Swap::Lost;
        }
        let tag = match world.has(Bug::TagsReused) {
            true => Tag::new(body.len().to_string()),
            false => documents.next_tag(),
        };
        let mut after = match kind {
            Kind::State | Kind::Range => Some(parse(key, &body)),
            Kind::Plan | Kind::Marker => None,
        };
        let plans = (kind == Kind::Plan).then(|| (documents.plan(), parse_plan(&body)));
        let was = before.as_ref().and_then(|before| before.document.as_ref());
        if let (Some(was), Some(after)) = (was, &mut after)
            && let Some(forgetful) = world.plan.bug.and_then(|bug| forgetful(bug, was, after))
        {
            body = Bytes::from(forgetful.to_bytes());
            *after = Arc::new(forgetful);
        }
        let stored = Stored {
            tag: tag.clone(),
            body,
            written: world.now(),
            document: after.clone(),
        };
        documents.bodies.insert(key.clone(), stored);
        if let Some(before) = &before {
            documents.stale.insert(key.clone(), before.clone());
        }
        drop(documents);
        if let Some(after) = after {
            let written = before.as_ref().map(|before| before.written);
            let before = before.and_then(|before| before.document);
            world.note(format_args!(
                "store: {} {} -> {:?} {}",
                keys::name(key),
                tag.as_str(),
                after.holder,
                Describe(&after)
            ));
            world.check_write(key, before.as_deref(), written, &after);
        }
        if let Some((before, after)) = plans {
            world.note(format_args!("store: the plan is {after:?}"));
            world.check_plan(before.as_ref(), &after);
        }
        Swap::Won(tag)
    }
}

/// What is written when something is forgotten on purpose.
fn forgetful(bug: Bug, was: &StateDocument, after: &StateDocument) -> Option<StateDocument> {
    let mut after = after.clone();
    match bug {
        Bug::LagDropped => {
            for (name, sink) in &mut after.sinks {
                if was.sink(name).lag.is_some() {
                    sink.lag = None;
                }
            }
        }
        Bug::HeadDropped => after.ledger.clone_from(&was.ledger),
        Bug::TokenNotBumped => after.lease.token = was.lease.token,
        _ => return None,
    }
    Some(after)
}

struct Describe<'a>(&'a StateDocument);

impl std::fmt::Display for Describe<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.position() {
            Some(position) => write!(f, "at {position}")?,
            None => f.write_str("at the beginning")?,
        }
        if let Some(held) = &self.0.lease.held {
            write!(f, ", held by {}", held.owner_id)?;
        }
        for (sink, failure) in self.0.failures() {
            write!(f, ", {sink} failed {} times", failure.attempts)?;
        }
        for (sink, state) in &self.0.sinks {
            if let Some(lag) = &state.lag {
                let at = lag
                    .position
                    .as_ref()
                    .map(|mark| Place::from(&mark.position));
                let more = lag.delivered.len();
                write!(f, ", {sink} is behind at {at:?} and {more}")?;
            }
        }
        Ok(())
    }
}

fn below<'a>(keys: impl Iterator<Item = &'a StoreKey>, prefix: &str) -> Vec<StoreKey> {
    let below = keys.filter(|key| key.as_str().starts_with(prefix));
    below.cloned().collect()
}

fn unreachable() -> StoreError {
    StoreError::Unreachable {
        context: "simulated".to_owned(),
        cause: "connection refused".into(),
    }
}

#[async_trait]
impl StateStore for SimStore {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        let world = &self.world;
        world.travel().await;
        if world.fault(|odds| odds.store_unreachable) {
            return Err(unreachable());
        }
        let mut found = world.documents().bodies.get(key).cloned();
        if world.fault(|odds| odds.read_is_stale) {
            found = world.documents().stale.get(key).cloned().or(found);
        }
        // As in an HTTP answer: whole seconds, both from one clock.
        let now = world.now().trunc_subsecs(0);
        world.travel().await;
        Ok(found.map(|stored| Loaded {
            body: stored.body,
            tag: stored.tag,
            clock: world.layout.store_tells_time.then(|| StoreClock {
                now,
                last_write: match world.has(Bug::LeaseExpiryIgnored) {
                    true => now - TimeDelta::from_std(Duration::from_secs(86_400)).unwrap(),
                    false => stored.written.trunc_subsecs(0),
                },
            }),
        }))
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        self.write(key, None, body).await
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        self.write(key, Some(tag), body).await
    }

    async fn delete(&self, _: &StoreKey, _: &Tag) -> Result<Deleted, StoreError> {
        unreachable!("a tick deletes nothing")
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.reach().await?;
        let documents = self.world.documents();
        Ok(below(documents.bodies.keys(), prefix))
    }
}

#[async_trait]
impl ObjectStore for SimStore {
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError> {
        let (store, key) = (self.clone(), key.clone());
        self.send(None, move || store.keep(key.clone(), body.clone()))
            .await
    }

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        self.reach().await?;
        Ok(self.world.documents().objects.get(key).cloned())
    }

    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        self.reach().await?;
        self.world.documents().objects.remove(key);
        Ok(())
    }

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        self.reach().await?;
        let documents = self.world.documents();
        Ok(below(documents.objects.keys(), prefix))
    }
}

impl SimStore {
    /// What is there is left as it is.
    fn keep(&self, key: StoreKey, body: Bytes) -> Put {
        let world = &self.world;
        let quarantine = key.as_str().starts_with("quarantine/");
        if quarantine && world.has(Bug::QuarantineNotKept) {
            return Put::Created;
        }
        let segment = key.as_str().starts_with("ledger/");
        if segment && world.has(Bug::SegmentNotKept) && world.draw(4) == 0 {
            return Put::Created;
        }
        let mut documents = world.documents();
        if documents.objects.contains_key(&key) {
            return Put::Exists;
        }
        documents.objects.insert(key.clone(), body.clone());
        drop(documents);
        world.note(format_args!("store: {key} is kept"));
        if quarantine {
            let case = Case::from_bytes(&body).expect("only whole cases are kept");
            world.receivers().set_aside(&case);
        }
        Put::Created
    }

    async fn reach(&self) -> Result<(), StoreError> {
        self.world.travel().await;
        match self.world.fault(|odds| odds.store_unreachable) {
            true => Err(unreachable()),
            false => Ok(()),
        }
    }
}
