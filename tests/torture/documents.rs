//! Every version of every state document, in the order in which the store took them: each write names the tag
//! that it replaces, so that the chain has no gaps. Between two versions, I3, I4, I5 and I9 must hold.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::model::lease::WriteMark;
use dbtick::model::position::Position;
use dbtick::model::state::{StateDocument, Status};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::proxy::Watcher;
use super::receiver::by_name;
use super::support::wire::Message;
use super::tables::Poller;

/// What is kept of a version.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    /// When the store had taken it, at the latest.
    pub(crate) at: Instant,
    /// The tag that it replaces; `None`: there was nothing.
    before: Option<String>,
    tag: String,
    pub(crate) position: Option<Position>,
    token: u64,
    holder: Option<WriteMark>,
    owner: Option<String>,
    /// Batches that were committed until then.
    pub(crate) batches: u64,
    /// Of the last change by hand, or by a database that has gone back.
    order: Option<(String, String)>,
    /// Ids above the checkpoint that are remembered.
    pub(crate) remembered: usize,
    pub(crate) standing: Standing,
}

/// What keeps a poller from being done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    pub(crate) held: bool,
    pub(crate) paused: bool,
    pub(crate) failure: Option<String>,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) behind: bool,
}

impl Standing {
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.held && !self.paused && !self.behind && self.failure.is_none()
    }
}

pub(crate) struct Documents {
    pollers: BTreeMap<String, Arc<Poller>>,
    /// By poller, as they were answered.
    versions: Mutex<BTreeMap<String, Vec<Version>>>,
    /// By event id, when a row was set aside.
    kept: Mutex<BTreeMap<String, Instant>>,
    /// Writes that the store has refused, because somebody else had been there.
    refused: AtomicUsize,
    /// What cannot be a version at all.
    illegal: Mutex<Vec<(String, String)>>,
    /// Counts versions.
    pub(crate) changed: watch::Sender<u64>,
    file: Mutex<File>,
    started: Instant,
}

impl Documents {
    pub(crate) fn new(directory: &Path, pollers: &[Arc<Poller>], started: Instant) -> Arc<Self> {
        Arc::new(Self {
            pollers: by_name(pollers),
            versions: Mutex::default(),
            kept: Mutex::default(),
            refused: AtomicUsize::new(0),
            illegal: Mutex::default(),
            changed: watch::Sender::default(),
            file: Mutex::new(File::create(directory.join("documents.jsonl")).unwrap()),
            started,
        })
    }

    /// Whether a process holds the lease of a poller, by its worker id.
    pub(crate) fn is_held_by(&self, worker: &str) -> bool {
        let versions = self.versions.lock().unwrap();
        let mut newest = versions.values().filter_map(|versions| versions.last());
        newest.any(|newest| {
            newest
                .owner
                .as_ref()
                .is_some_and(|owner| owner.ends_with(worker))
        })
    }

    /// Whether a process has, or has had, this token.
    pub(crate) fn is_token_of(&self, poller: &str, token: u64, worker: &str) -> bool {
        let versions = self.versions.lock().unwrap();
        let Some(versions) = versions.get(poller) else {
            return false;
        };
        let claim = versions
            .iter()
            .rev()
            .find(|version| version.token == token && version.owner.is_some());
        claim.is_some_and(|claim| {
            claim
                .owner
                .as_ref()
                .is_some_and(|owner| owner.ends_with(worker))
        })
    }

    /// When a row was set aside, at the latest.
    pub(crate) fn kept_at(&self, event_id: &str) -> Option<Instant> {
        self.kept.lock().unwrap().get(event_id).copied()
    }

    pub(crate) fn newest(&self, poller: &str) -> Option<Version> {
        self.versions.lock().unwrap().get(poller)?.last().cloned()
    }

    pub(crate) fn last_change(&self) -> Option<Instant> {
        let versions = self.versions.lock().unwrap();
        let newest = versions.values().filter_map(|versions| versions.last());
        newest.map(|newest| newest.at).max()
    }

    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// In the order in which they replaced each other, and what is wrong with them.
    pub(crate) fn chain(&self, poller: &str) -> (Vec<Version>, Vec<String>) {
        let mut wrong: Vec<String> = Vec::new();
        for (of, what) in self.illegal.lock().unwrap().iter() {
            if of == poller {
                wrong.push(what.clone());
            }
        }
        let all = self
            .versions
            .lock()
            .unwrap()
            .get(poller)
            .cloned()
            .unwrap_or_default();
        let count = all.len();
        let mut by_tag: BTreeMap<Option<String>, Version> = BTreeMap::new();
        for version in all {
            if let Some(other) = by_tag.insert(version.before.clone(), version) {
                wrong.push(format!("two writes have replaced {:?}", other.before));
            }
        }
        let mut chain: Vec<Version> = Vec::new();
        while let Some(next) = by_tag.remove(&chain.last().map(|last| last.tag.clone())) {
            if let Some(last) = chain.last() {
                wrong.extend(successor(last, &next));
            }
            chain.push(next);
        }
        if chain.len() < count && wrong.is_empty() {
            let lost = count - chain.len();
            wrong.push(format!(
                "{lost} of {count} versions replaced one that nobody wrote"
            ));
        }
        (chain, wrong)
    }

    fn note(&self, poller: &str, version: Version) {
        let position = version.position.as_ref().map(ToString::to_string);
        let mark = version.holder.as_ref();
        let line = json!({
            "at_us": (version.at - self.started).as_micros() as u64, "poller": poller,
            "replaces": version.before, "tag": version.tag, "checkpoint": position,
            "token": version.token, "owner": version.owner,
            "nonce": mark.map(|mark| &mark.nonce), "sequence": mark.map(|mark| mark.sequence),
            "batches": version.batches, "remembered": version.remembered,
            "order": version.order.as_ref().map(|(_, what)| what),
            "failure": version.standing.failure,
        });
        writeln!(self.file.lock().unwrap(), "{line}").unwrap();
        self.versions
            .lock()
            .unwrap()
            .entry(poller.to_owned())
            .or_default()
            .push(version);
        self.changed.send_modify(|count| *count += 1);
    }
}

/// Of what a write is not a legal successor.
fn successor(last: &Version, next: &Version) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut say = |what: String| wrong.push(format!("{what}: {} → {}", last.brief(), next.brief()));
    let ordered = next.order != last.order;
    if next.position < last.position && !ordered {
        say("the checkpoint went back".to_owned());
    }
    let mark = |version: &Version| {
        version
            .holder
            .clone()
            .map(|mark| (mark.nonce, mark.sequence))
    };
    match (mark(last), mark(next)) {
        _ if next.token < last.token => say("the token went back".to_owned()),
        _ if next.token > last.token + 1 => say("a token was left out".to_owned()),
        (Some((old, _)), Some((new, _))) if next.token > last.token && old == new && !ordered => {
            say("one claim has two tokens".to_owned());
        }
        (Some((old, _)), Some((new, _))) if next.token == last.token && old != new => {
            say("one token has two owners".to_owned());
        }
        (Some((_, old)), Some((_, new))) if next.token == last.token && new < old => {
            say("a write of a holder came after a later one".to_owned());
        }
        (Some(_), None) if !ordered => say("nobody knows who wrote last".to_owned()),
        _ => {}
    }
    if next.batches < last.batches {
        say("committed batches are not committed any more".to_owned());
    }
    wrong
}

impl Version {
    /// Not by a commit, but back to an older checkpoint.
    pub(crate) fn goes_back_from(&self, last: &Self) -> bool {
        self.order != last.order
    }

    /// Somebody else has the lease of one who still had it.
    pub(crate) fn takes_over_from(&self, last: &Self) -> bool {
        last.owner.is_some() && self.token > last.token
    }

    fn brief(&self) -> String {
        let position = self.position.as_ref().map(ToString::to_string);
        let position = position.unwrap_or_else(|| "the beginning".to_owned());
        let mark = self.holder.as_ref();
        let nonce = mark.map_or("-", |mark| &mark.nonce[..6]);
        let sequence = mark.map_or(0, |mark| mark.sequence);
        let owner = self.owner.as_deref().unwrap_or("nobody");
        format!(
            "{position} (token {}, {nonce}/{sequence}, {owner})",
            self.token
        )
    }
}

impl Watcher for Documents {
    fn exchanged(&self, request: &Message, answer: &Message) {
        let (method, path) = (request.word(0), request.word(1));
        if method == "PUT" && answer.status() == 412 {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        if method != "PUT" || answer.status() >= 300 {
            return;
        }
        let path = path.split('?').next().unwrap_or_default();
        if let Some((_, event_id)) = path.rsplit_once('/')
            && path.contains("/torture/objects/quarantine/")
        {
            let mut kept = self.kept.lock().unwrap();
            kept.entry(event_id.to_owned())
                .or_insert_with(|| SystemClock.monotonic());
            return;
        }
        let Some((_, path)) = path.split_once("/torture/state/") else {
            return;
        };
        let Some(name) = path
            .strip_suffix(".json")
            .and_then(|path| path.rsplit('/').next())
        else {
            return;
        };
        let Some(poller) = self.pollers.get(name) else {
            return;
        };
        let before = request.header("if-match");
        if before.is_none() && request.header("if-none-match").is_none() {
            let what = "a write without a condition".to_owned();
            self.illegal.lock().unwrap().push((name.to_owned(), what));
        }
        let body = &request.bytes[request.head..];
        let key = [poller.table.key_column().to_owned()];
        let document = match StateDocument::from_bytes(body, name, &key) {
            Ok(document) => document,
            Err(error) => {
                let what = format!("a document that nobody can read: {error}");
                return self.illegal.lock().unwrap().push((name.to_owned(), what));
            }
        };
        let failure = document.failures().next();
        let standing = Standing {
            held: document.lease.held.is_some(),
            paused: document.status != Status::Active,
            failure: failure.map(|(sink, failure)| format!("{sink}: {}", failure.error)),
            not_before: document
                .failures()
                .filter_map(|(_, failure)| failure.not_before)
                .max(),
            behind: document.is_anybody_behind(),
        };
        let order = document.audit.last();
        let version = Version {
            at: SystemClock.monotonic(),
            before,
            tag: answer.header("etag").unwrap_or_default(),
            position: document.position().cloned(),
            token: document.lease.token.get(),
            holder: document.holder.clone(),
            owner: document
                .lease
                .held
                .as_ref()
                .map(|held| held.owner_id.clone()),
            batches: document.counters.batches,
            order: order.and_then(|entry| Some((entry.id.clone()?, entry.what.clone()))),
            remembered: document.delivered.len(),
            standing,
        };
        self.note(name, version);
    }
}
