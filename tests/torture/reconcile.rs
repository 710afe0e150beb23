//! What was committed against what was received, row by row; what was set aside; and every version of the state
//! documents.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dbtick::model::position::Position;
use dbtick::model::quarantine::Case;
use dbtick::store::{StoreError, StoreKey};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use super::database::Found;
use super::documents::Version as Document;
use super::log::{Fate, Version};
use super::outage;
use super::receiver::{Delivery, is_poison, label};
use super::tables::{HOOK, Manners, Poller, Source, Table};
use super::{APP, World};

/// A promise that was not kept.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    pub(crate) promise: Promise,
    pub(crate) poller: String,
    pub(crate) what: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Promise {
    /// A committed row comes, or is set aside.
    NothingIsLost,
    /// The checkpoint does not pass a row that nobody has, not even until a restart of the database heals it.
    NothingIsPassed,
    /// What was never committed does not come.
    NothingIsInvented,
    /// What comes is what is in the database.
    BodiesAreTrue,
    /// The same version has the same id and place, whoever sends it.
    IdsAreStable,
    /// Exactly the rows that are never taken are set aside.
    QuarantineIsExact,
    /// Checkpoint, token and sequence go forward; a token has one owner.
    DocumentsGoForward,
    /// Once nobody does any harm, everything comes to rest.
    RestIsReached,
    /// The ledger agrees.
    LedgerAgrees,
    /// Not ours: the database has lost what it had committed.
    DatabaseKeepsRows,
}

/// Of one poller, or of all that read from one database.
#[derive(Debug, Default)]
pub(crate) struct Account {
    pub(crate) rows: usize,
    /// Versions of rows that were committed.
    pub(crate) versions: usize,
    /// Events that were taken, once or again.
    pub(crate) deliveries: usize,
    pub(crate) quarantined: usize,
    pub(crate) lost: usize,
    pub(crate) duplicates: usize,
    /// Of those, because a restarted database was read again.
    pub(crate) read_again: usize,
    pub(crate) documents: usize,
    pub(crate) takeovers: usize,
    /// Batches that came after one of a later holder.
    pub(crate) stale: usize,
    pub(crate) longest_outage: Duration,
}

pub(crate) struct Accounts {
    pub(crate) by_poller: Vec<(Arc<Poller>, Account)>,
    pub(crate) violations: Vec<Violation>,
}

/// What is known of a table in the end; read from the database only when more was written.
#[derive(Default)]
pub(crate) struct Known {
    written: usize,
    rows: BTreeMap<&'static str, Vec<Found>>,
    cases: BTreeMap<StoreKey, Case>,
}

/// A row that has not come.
pub(crate) struct Awaited {
    pub(crate) poison: bool,
    pub(crate) what: String,
}

impl Known {
    pub(crate) async fn look(&mut self, world: &World) {
        let written = world.log.len();
        if written != self.written {
            self.written = written;
            for table in &world.tables {
                let rows = world.database(table).rows(table).await;
                self.rows.insert(table.name, rows);
            }
        }
        for poller in &world.pollers {
            let prefix = quarantine(poller);
            let names = patiently(async || world.objects().names(&prefix).await).await;
            let fresh = names
                .into_iter()
                .filter(|key| !self.cases.contains_key(key));
            for key in fresh.collect::<Vec<_>>() {
                let body = patiently(async || world.objects().get(&key).await).await;
                let case = Case::from_bytes(&body.unwrap()).unwrap();
                self.cases.insert(key, case);
            }
        }
    }

    /// Labels of the rows that are set aside, and for which receiver.
    fn set_aside(&self, poller: &Poller) -> BTreeMap<String, (&Case, Value)> {
        let prefix = quarantine(poller);
        let its = |(key, _): &(&StoreKey, _)| key.as_str().starts_with(&prefix);
        let cases = self.cases.iter().filter(its).map(|(_, case)| case);
        let cases = cases.map(|case| {
            let event: Value = serde_json::from_str(case.event().get()).unwrap();
            (label(&event).to_owned(), (case, event))
        });
        cases.collect()
    }

    pub(crate) fn awaited(&self, world: &World, poller: &Poller) -> Vec<Awaited> {
        let aside = self.set_aside(poller);
        let mut awaited = Vec::new();
        for row in &self.rows[poller.table.name] {
            for sink in poller.sinks() {
                let has_come = match row.poison && *sink == HOOK {
                    true => aside.contains_key(&row.label),
                    false => world.receiver.has_taken(&poller.name, sink, &row.label),
                };
                if !has_come {
                    let Found { label, cursor, .. } = row;
                    awaited.push(Awaited {
                        poison: row.poison,
                        what: format!("{label} at {cursor} for {sink}"),
                    });
                }
            }
        }
        awaited
    }
}

fn quarantine(poller: &Poller) -> String {
    format!("quarantine/{APP}/{}/", poller.name)
}

/// Azurite is asked without the proxy, but is busy.
async fn patiently<T>(question: impl AsyncFn() -> Result<T, StoreError>) -> T {
    for _ in 0..20 {
        match question().await {
            Ok(answer) => return answer,
            Err(_) => sleep(Duration::from_millis(250)).await,
        }
    }
    question().await.unwrap()
}

impl Accounts {
    /// `unrest`: why it did not come to rest.
    pub(crate) async fn gather(world: &World, unrest: Option<String>) -> Self {
        let mut known = Known::default();
        known.look(world).await;
        let deliveries = world.receiver.deliveries();
        let versions = world.log.versions();
        let mut accounts = Self {
            by_poller: Vec::new(),
            violations: Vec::new(),
        };
        if let Some(what) = unrest {
            let poller = "all".to_owned();
            let promise = Promise::RestIsReached;
            accounts.violations.push(Violation {
                promise,
                poller,
                what,
            });
        }
        for poller in &world.pollers {
            let table = &*poller.table;
            let (chain, wrong) = world.documents.chain(&poller.name);
            let mut books = Books {
                world,
                poller,
                table,
                rows: &known.rows[table.name],
                written: versions
                    .values()
                    .filter(|version| version.table == table.name)
                    .map(|version| (version.label.as_str(), version))
                    .collect(),
                received: received(&deliveries, &poller.name),
                chain,
                violations: Vec::new(),
            };
            for what in wrong {
                books.violated(Promise::DocumentsGoForward, what);
            }
            let mut account = books.close(&known).await;
            account.stale = stale(&deliveries, &poller.name);
            accounts.violations.extend(books.violations);
            accounts.by_poller.push((Arc::clone(poller), account));
        }
        accounts
            .violations
            .sort_by_key(|violation| violation.promise);
        accounts
    }

    pub(crate) fn of(&self, source: Source) -> Account {
        let mut sum = Account::default();
        let mut tables = BTreeSet::new();
        let its = self.by_poller.iter();
        for (poller, account) in its.filter(|(poller, _)| poller.table.source == source) {
            if tables.insert(poller.table.name) {
                sum.rows += account.rows;
                sum.versions += account.versions;
            }
            sum.deliveries += account.deliveries;
            sum.quarantined += account.quarantined;
            sum.lost += account.lost;
            sum.duplicates += account.duplicates;
            sum.read_again += account.read_again;
            sum.documents += account.documents;
            sum.takeovers += account.takeovers;
            sum.stale += account.stale;
            sum.longest_outage = sum.longest_outage.max(account.longest_outage);
        }
        sum
    }
}

/// One event as it came, once.
struct Receipt<'a> {
    at: Duration,
    sink: &'a str,
    taken: bool,
    token: u64,
    event: &'a Value,
}

fn received<'a>(deliveries: &'a [Delivery], poller: &str) -> BTreeMap<&'a str, Vec<Receipt<'a>>> {
    let mut received: BTreeMap<&str, Vec<Receipt<'_>>> = BTreeMap::new();
    for delivery in deliveries
        .iter()
        .filter(|delivery| delivery.poller == poller)
    {
        for event in &delivery.events {
            received
                .entry(label(&event.event))
                .or_default()
                .push(Receipt {
                    at: Duration::from_micros(delivery.at_us),
                    sink: &delivery.sink,
                    taken: event.taken,
                    token: delivery.token,
                    event: &event.event,
                });
        }
    }
    received
}

fn stale(deliveries: &[Delivery], poller: &str) -> usize {
    let mut newest = 0;
    let its = deliveries
        .iter()
        .filter(|delivery| delivery.poller == poller);
    its.filter(|delivery| {
        newest = newest.max(delivery.token);
        delivery.token < newest
    })
    .count()
}

/// Everything that is known about the rows of one poller.
struct Books<'a> {
    world: &'a World,
    poller: &'a Poller,
    table: &'a Table,
    rows: &'a [Found],
    /// By label.
    written: BTreeMap<&'a str, &'a Version>,
    received: BTreeMap<&'a str, Vec<Receipt<'a>>>,
    chain: Vec<Document>,
    violations: Vec<Violation>,
}

impl Books<'_> {
    async fn close(&mut self, known: &Known) -> Account {
        let mut account = Account {
            rows: self.rows.len(),
            documents: self.chain.len(),
            ..Account::default()
        };
        let aside = known.set_aside(self.poller);
        account.quarantined = aside.len();
        for awaited in known.awaited(self.world, self.poller) {
            account.lost += 1;
            let name = awaited.what.split(' ').next().unwrap_or_default();
            let what = format!("{}; {}", awaited.what, self.story(name));
            self.violated(Promise::NothingIsLost, what);
        }
        self.check_database();
        self.check_events(&aside);
        self.check_passing(&aside);
        self.check_ledger().await;
        account.versions = self.committed().count();
        let receipts = self.received.values().flatten();
        account.deliveries = receipts.filter(|receipt| receipt.taken).count();
        (account.duplicates, account.read_again) = self.duplicates();
        account.takeovers = self
            .chain
            .windows(2)
            .filter(|pair| pair[1].takes_over_from(&pair[0]))
            .count();
        account.longest_outage = self.longest_outage();
        account
    }

    fn violated(&mut self, promise: Promise, what: String) {
        let poller = self.poller.name.clone();
        self.violations.push(Violation {
            promise,
            poller,
            what,
        });
    }

    /// What the writer and the receivers know about a version.
    fn story(&self, label: &str) -> String {
        let written = match self.written.get(label) {
            None => "nobody has written it".to_owned(),
            Some(version) => {
                let began = self.since(version.began);
                let fate = version.fate.word();
                let at = version
                    .fate
                    .committed_at()
                    .map(|at| format!(" at {:.3} s", self.since(at).as_secs_f64()));
                format!(
                    "written from {:.3} s on, {fate}{}{}",
                    began.as_secs_f64(),
                    at.unwrap_or_default(),
                    if version.poison { ", poison" } else { "" }
                )
            }
        };
        let receipts = self.received.get(label).map_or(&[][..], Vec::as_slice);
        let receipts: Vec<String> = receipts
            .iter()
            .map(|receipt| {
                let taken = if receipt.taken { "taken" } else { "refused" };
                let at = receipt.at.as_secs_f64();
                format!(
                    "{taken} by {} at {at:.3} s under token {}",
                    receipt.sink, receipt.token
                )
            })
            .collect();
        match receipts.is_empty() {
            true => format!("{written}; never received"),
            false => format!("{written}; {}", receipts.join(", ")),
        }
    }

    fn since(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.world.started)
    }

    /// Labels of versions that were committed, as the database knows in the end where the writer does not.
    fn committed(&self) -> impl Iterator<Item = &Version> {
        let there: BTreeSet<&str> = self.rows.iter().map(|row| row.label.as_str()).collect();
        self.written
            .values()
            .copied()
            .filter(move |version| match version.fate {
                Fate::Committed(_) => true,
                Fate::Unknown => there.contains(version.label.as_str()),
                Fate::RolledBack | Fate::Open => false,
            })
    }

    fn check_database(&mut self) {
        let there: BTreeSet<&str> = self.rows.iter().map(|row| row.name.as_str()).collect();
        let mut wrong = Vec::new();
        for version in self
            .committed()
            .filter(|version| !there.contains(version.name.as_str()))
        {
            wrong.push(format!(
                "{} is gone; {}",
                version.name,
                self.story(&version.label)
            ));
        }
        for row in self.rows {
            let version = self.written.get(row.label.as_str());
            let is_known = version.is_some_and(|version| {
                let same = version.name == row.name && version.amount == row.amount;
                let could_be = matches!(version.fate, Fate::Committed(_) | Fate::Unknown);
                same && could_be && version.note == row.note && version.poison == row.poison
            });
            if !is_known {
                wrong.push(format!("it has {row:?}; {}", self.story(&row.label)));
            }
        }
        for what in wrong {
            self.violated(Promise::DatabaseKeepsRows, what);
        }
    }

    /// Each event, received or set aside, is a version that was committed, as it was written; and all of one
    /// version are the same.
    fn check_events(&mut self, aside: &BTreeMap<String, (&Case, Value)>) {
        let mut wrong = Vec::new();
        let final_rows: BTreeMap<&str, &Found> = self
            .rows
            .iter()
            .map(|row| (row.label.as_str(), row))
            .collect();
        for (label, receipts) in &self.received {
            let events = receipts.iter().map(|receipt| receipt.event);
            let events: Vec<&Value> = events
                .chain(aside.get(*label).map(|(_, event)| event))
                .collect();
            let ids: BTreeSet<_> = events
                .iter()
                .map(|event| (event["id"].as_str(), event["cursor"].to_string()))
                .collect();
            if ids.len() > 1 {
                wrong.push((
                    Promise::IdsAreStable,
                    format!("{label} came as {ids:?}; {}", self.story(label)),
                ));
            }
            let version = self.written.get(label);
            match version.map(|version| version.fate) {
                Some(Fate::Committed(_) | Fate::Unknown) => {}
                _ => wrong.push((
                    Promise::NothingIsInvented,
                    format!("{label}; {}", self.story(label)),
                )),
            }
            let Some(version) = version else { continue };
            let place = final_rows.get(label).map(|row| self.place_of(row));
            let is_true = |event: &&&Value| {
                let data = &event["data"];
                data["name"] == version.name.as_str()
                    && data["amount"] == version.amount.as_str()
                    && data["note"].as_str() == version.note.as_deref()
                    && is_poison(event) == version.poison
                    && place.as_ref().is_none_or(|place| {
                        self.table
                            .position(&event["cursor"], self.table.key_of(event))
                            == *place
                    })
            };
            if let Some(event) = events.iter().find(|event| !is_true(event)) {
                wrong.push((
                    Promise::BodiesAreTrue,
                    format!("{label} came as {event}, and is {version:?} at {place:?}"),
                ));
            }
            if version.poison
                && receipts
                    .iter()
                    .any(|receipt| receipt.taken && receipt.sink == HOOK)
            {
                wrong.push((
                    Promise::QuarantineIsExact,
                    format!("{label} was taken; {}", self.story(label)),
                ));
            }
        }
        for (label, (case, event)) in aside {
            if !is_poison(event) || case.sink != HOOK {
                wrong.push((
                    Promise::QuarantineIsExact,
                    format!(
                        "{label} is set aside, and is good; {}; {}",
                        case.error,
                        self.story(label)
                    ),
                ));
            }
        }
        for (promise, what) in wrong {
            self.violated(promise, what);
        }
    }

    fn place_of(&self, row: &Found) -> Option<Position> {
        let cursor = Value::from(row.cursor.clone());
        self.table.position(&cursor, &Value::from(row.key.clone()))
    }

    /// I1 and I13 at the moment of each commit. A number that a database has given twice, because it crashed in
    /// between, is passed before its second row is begun, and the poller goes back after that.
    fn check_passing(&mut self, aside: &BTreeMap<String, (&Case, Value)>) {
        let went_back = self.went_back();
        let mut furthest: Vec<(Option<&Position>, Duration)> = Vec::new();
        for document in &self.chain {
            let before = furthest.last().and_then(|(position, _)| *position);
            furthest.push((
                document.position.as_ref().max(before),
                self.since(document.at),
            ));
        }
        let mut wrong = Vec::new();
        for row in self.rows {
            let Some(place) = self.place_of(row) else {
                wrong.push(format!("{row:?} has no place"));
                continue;
            };
            let passed = furthest.partition_point(|(position, _)| *position < Some(&place));
            let Some((_, passed)) = furthest.get(passed) else {
                continue;
            };
            let Some(version) = self.written.get(row.label.as_str()) else {
                continue;
            };
            let given_twice = self.since(version.began) > *passed;
            if given_twice && went_back.iter().any(|at| at > passed) {
                continue;
            }
            let kept = match row.poison {
                true => aside
                    .get(&row.label)
                    .and_then(|(case, _)| self.world.documents.kept_at(&case.event_id))
                    .map(|at| self.since(at)),
                false => {
                    let receipts = self.received.get(row.label.as_str());
                    let mut taken = receipts
                        .into_iter()
                        .flatten()
                        .filter(|receipt| receipt.taken && receipt.sink == HOOK);
                    taken.next().map(|receipt| receipt.at)
                }
            };
            if kept.is_none_or(|kept| kept > *passed) {
                wrong.push(format!(
                    "{} at {place} was passed at {:.3} s; {}",
                    row.label,
                    passed.as_secs_f64(),
                    self.story(&row.label)
                ));
            }
        }
        for what in wrong {
            self.violated(Promise::NothingIsPassed, what);
        }
    }

    async fn check_ledger(&mut self) {
        let World {
            options,
            environment,
            ..
        } = self.world;
        if self.poller.manners != Manners::Recorded || options.bug.is_some() {
            return;
        }
        let asked = Command::new(&options.programs.dbtick)
            .args(["reconcile", &self.poller.name, "--json", "--app"])
            .arg(self.world.directory.join("app"))
            .env_clear()
            .envs(environment)
            .output()
            .await
            .unwrap();
        let said = String::from_utf8_lossy(&asked.stdout).into_owned();
        if !asked.status.success() || !said.contains("\"exact\"") {
            let complaint = String::from_utf8_lossy(&asked.stderr).into_owned();
            self.violated(
                Promise::LedgerAgrees,
                format!("dbtick reconcile: {said}{complaint}"),
            );
        }
    }

    fn went_back(&self) -> Vec<Duration> {
        let pairs = self.chain.windows(2);
        let went_back = pairs.filter(|pair| pair[1].goes_back_from(&pair[0]));
        went_back.map(|pair| self.since(pair[1].at)).collect()
    }

    /// How many came more than once, and how many of those because the poller went back in between.
    fn duplicates(&self) -> (usize, usize) {
        let went_back = self.went_back();
        let (mut all, mut read_again) = (0, 0);
        for receipts in self.received.values() {
            for sink in self.poller.sinks() {
                let times = receipts
                    .iter()
                    .filter(|receipt| receipt.taken && receipt.sink == *sink);
                let times: Vec<Duration> = times.map(|receipt| receipt.at).collect();
                for pair in times.windows(2) {
                    all += 1;
                    read_again +=
                        usize::from(went_back.iter().any(|at| pair[0] < *at && *at < pair[1]));
                }
            }
        }
        (all, read_again)
    }

    fn longest_outage(&self) -> Duration {
        let commits = self
            .chain
            .windows(2)
            .filter(|pair| pair[1].batches > pair[0].batches);
        let commits: Vec<Duration> = commits.map(|pair| self.since(pair[1].at)).collect();
        let waits = self.received.iter().filter_map(|(label, receipts)| {
            let committed = self.written.get(label)?.fate.committed_at()?;
            let mut taken = receipts
                .iter()
                .filter(|receipt| receipt.taken && receipt.sink == HOOK);
            Some((self.since(committed), taken.next()?.at))
        });
        outage::longest(&commits, waits)
    }
}
