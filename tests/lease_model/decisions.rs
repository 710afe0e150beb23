//! What the production code decides, each question asked once. Documents have numbers, by their bytes; what
//! is only counted in them is left out, so that worlds that differ by it alone are one.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use chrono::DateTime;
use dbtick::clock::Timestamp;
use dbtick::model::counters::{Cost, Counters, Writes};
use dbtick::model::definition::{SourceDefinition, SourceIdentity};
use dbtick::model::late::Late;
use dbtick::model::lease::{AgeEvidence, Held, StoreClock, WriteMark};
use dbtick::model::page::EventId;
use dbtick::model::position::{Position, Scalar};
use dbtick::model::sinks::News;
use dbtick::model::state::{CursorMark, StateDocument, Status};
use dbtick::model::transitions::{
    Action, Advance, Applied, Claim, Operator, Order, Refusal, Settlement, Step, Then, apply,
};

use super::setup::{Clocks, Mutant, Setup, Wish};

pub(crate) const TTL: Duration = Duration::from_secs(4);
pub(crate) const MARGIN: Duration = Duration::from_secs(1);
pub(crate) const HEARTBEAT: u8 = 1;
const POLLER: &str = "orders";
const KEY: &str = "id";

/// The number of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Doc(u32);

/// One claim: a process, and one of its ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Nonce {
    pub(crate) process: u8,
    pub(crate) tick: u8,
}

/// Another one after every start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) process: u8,
    pub(crate) life: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    pub(crate) token: u64,
    pub(crate) nonce: Nonce,
    pub(crate) sequence: u8,
}

/// A change that somebody wants to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Deed {
    Claim {
        owner: Owner,
        nonce: Nonce,
        age: u8,
    },
    Hold {
        owner: Owner,
        mark: Mark,
        job: Job,
    },
    /// Without a lease: the checkpoint passes what was delivered.
    Settle {
        nonce: Nonce,
        age: u8,
    },
    Order {
        id: u8,
        wish: Wish,
        /// Of the lease that is meant.
        token: u64,
    },
}

/// What a holder writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Job {
    Beat,
    Commit {
        row: u8,
        /// The checkpoint passes it, and what was delivered behind it.
        proven: bool,
        /// With this write the lease is given back.
        ends: bool,
    },
    Fail,
    Release,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    Changed(Doc),
    Already,
    Refused(Refusal),
}

/// What a document says, as far as it matters here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The last row at or below the checkpoint; rows are counted from one.
    pub(crate) checkpoint: u8,
    /// Rows that are never sent again: bit by bit.
    pub(crate) covered: u8,
    pub(crate) token: u64,
    pub(crate) holder: Option<(String, u64)>,
    pub(crate) owner: Option<String>,
    pub(crate) status: Status,
    pub(crate) is_newborn: bool,
    pub(crate) version: Option<u64>,
    pub(crate) oldest: Option<u64>,
    pub(crate) history_ends_at_checkpoint: bool,
    pub(crate) orders: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Decisions {
    setup: Setup,
    documents: Vec<StateDocument>,
    facts: Vec<Facts>,
    numbers: HashMap<Vec<u8>, Doc>,
    outcomes: HashMap<(Doc, Deed, u8), Outcome>,
    quiet: HashMap<Doc, Result<u8, String>>,
}

impl Nonce {
    pub(crate) fn name(self) -> String {
        format!("claim {} of {}", self.tick, self.process)
    }
}

impl Owner {
    pub(crate) fn name(self) -> String {
        format!("app/{}/life {}", self.process, self.life)
    }
}

pub(crate) fn order_id(id: u8) -> String {
    format!("order {id}")
}

pub(crate) fn bit(row: u8) -> u8 {
    1 << (row - 1)
}

fn at(second: u8) -> Timestamp {
    DateTime::from_timestamp(1_800_000_000 + i64::from(second), 0).unwrap()
}

fn place(row: u8) -> CursorMark {
    let scalar = || vec![Scalar::Integer(row.into())];
    CursorMark::new(Position::new(scalar(), scalar()), &[KEY.to_owned()])
}

fn row(position: &Position) -> u8 {
    match position.cursor() {
        [Scalar::Integer(row)] => u8::try_from(*row).unwrap(),
        other => unreachable!("{other:?}"),
    }
}

fn source() -> SourceIdentity {
    SourceIdentity {
        fingerprint: "sha256:aa".to_owned(),
        definition: SourceDefinition {
            table: Some("orders".to_owned()),
            cursor: vec!["seq".to_owned()],
            key: vec![KEY.to_owned()],
            ..SourceDefinition::default()
        },
    }
}

impl Facts {
    fn of(document: &StateDocument) -> Self {
        let checkpoint = document.position().map_or(0, row);
        let below: u8 = (1..=checkpoint).map(bit).sum();
        let above = document.delivered.values().map(|place| bit(row(place)));
        let last = document.history.last().map(|entry| entry.cursor.as_ref());
        let holder = document.holder.as_ref();
        Self {
            checkpoint,
            covered: above.fold(below, |covered, row| covered | row),
            token: document.lease.token.get(),
            holder: holder.map(|mark| (mark.nonce.clone(), mark.sequence)),
            owner: document
                .lease
                .held
                .as_ref()
                .map(|held| held.owner_id.clone()),
            status: document.status.clone(),
            is_newborn: document.is_newborn(),
            version: document.version(),
            oldest: document.history.first().map(|entry| entry.version),
            history_ends_at_checkpoint: last
                .is_none_or(|last| last == document.checkpoint.cursor.as_ref()),
            orders: document
                .audit
                .iter()
                .filter_map(|entry| entry.id.clone())
                .collect(),
        }
    }

    /// The first row that is still to be sent.
    pub(crate) fn next_row(&self, rows: u8) -> Option<u8> {
        (1..=rows).find(|row| self.covered & bit(*row) == 0)
    }

    /// The last row before one that is still to be sent.
    fn reach(&self) -> u8 {
        let next = (1..=8).find(|row| self.covered & bit(*row) == 0);
        next.map_or(8, |next| next - 1)
    }

    pub(crate) fn is_settled(&self) -> bool {
        self.reach() == self.checkpoint
    }
}

impl Decisions {
    pub(crate) fn new(setup: &Setup) -> Self {
        Self {
            setup: setup.clone(),
            documents: Vec::new(),
            facts: Vec::new(),
            numbers: HashMap::new(),
            outcomes: HashMap::new(),
            quiet: HashMap::new(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.documents.len()
    }

    pub(crate) fn questions(&self) -> usize {
        self.outcomes.len()
    }

    pub(crate) fn facts(&self, doc: Doc) -> &Facts {
        &self.facts[doc.0 as usize]
    }

    pub(crate) fn document(&self, doc: Doc) -> &StateDocument {
        &self.documents[doc.0 as usize]
    }

    /// As the store would hand it out: every document goes through its bytes.
    fn number(&mut self, document: StateDocument) -> Doc {
        let bytes = document.to_bytes();
        if let Some(known) = self.numbers.get(&bytes) {
            return *known;
        }
        let read = StateDocument::from_bytes(&bytes, POLLER, &[KEY.to_owned()]).unwrap();
        assert_eq!(read, document, "a document changes by being written");
        let doc = Doc(u32::try_from(self.documents.len()).unwrap());
        self.facts.push(Facts::of(&read));
        self.documents.push(read);
        self.numbers.insert(bytes, doc);
        doc
    }

    /// Where a poller begins that has no document.
    pub(crate) fn first(&mut self) -> Doc {
        let mut document = StateDocument::first(POLLER, &source().fingerprint, None);
        document.source = Some(source().definition);
        self.number(document)
    }

    /// Something was committed before, of which nothing is left to see.
    pub(crate) fn begun(&mut self) -> Doc {
        let mut document = StateDocument::first(POLLER, &source().fingerprint, None);
        document.source = Some(source().definition);
        document.counters.batches = 1;
        self.number(document)
    }

    /// What a person makes where a document is lost: no token is given twice.
    pub(crate) fn begun_again(&mut self, floor: u64) -> Doc {
        let mut document = StateDocument::first(POLLER, &source().fingerprint, None);
        document.source = Some(source().definition);
        document.lease.token = document.lease.token.at_least(floor);
        self.number(document)
    }

    pub(crate) fn decide(&mut self, doc: Doc, deed: Deed, now: u8) -> Outcome {
        if let Some(known) = self.outcomes.get(&(doc, deed, now)) {
            return known.clone();
        }
        let before = self.document(doc).clone();
        let action = self.action(doc, deed);
        let outcome = match apply(&before, &action, at(now)) {
            Ok(Applied::Already) => Outcome::Already,
            Ok(Applied::Changed(next)) => {
                let next = self.spoilt(&before, *next, deed);
                Outcome::Changed(self.number(uncounted(next)))
            }
            Err(refusal) => match self.revived(&before, deed, &refusal, now) {
                Some(next) => Outcome::Changed(self.number(next)),
                None => Outcome::Refused(refusal),
            },
        };
        self.outcomes.insert((doc, deed, now), outcome.clone());
        outcome
    }

    fn action(&self, doc: Doc, deed: Deed) -> Action {
        let facts = self.facts(doc);
        match deed {
            Deed::Claim { owner, nonce, age } => Action::Claim(Claim {
                owner_id: owner.name(),
                nonce: nonce.name(),
                source: source(),
                sinks: vec!["hook".to_owned()],
                ttl: TTL,
                evidence: self.evidence(age),
            }),
            Deed::Hold { mark, job, .. } => Action::Hold {
                mark: self.mark(doc, mark),
                step: step(facts, job),
                writes: Writes::default(),
            },
            Deed::Settle { nonce, age } => Action::Settle(Settlement {
                nonce: nonce.name(),
                to: Some(place(facts.reach())),
                late: Late::default(),
                source: source(),
                evidence: self.evidence(age),
            }),
            Deed::Order { id, wish, token } => Action::Operate {
                by: Operator {
                    who: "ada".to_owned(),
                    why: "a model".to_owned(),
                    id: order_id(id),
                },
                order: self.order(facts, wish, token),
            },
        }
    }

    fn mark(&self, doc: Doc, mark: Mark) -> WriteMark {
        let found = self.document(doc).holder.as_ref();
        let mut nonce = mark.nonce.name();
        if let (Mutant::MarkNotCompared, Some(found)) = (self.setup.mutant, found)
            && found.token.get() == mark.token
        {
            nonce.clone_from(&found.nonce);
        }
        WriteMark {
            token: dbtick::model::lease::FencingToken::default().at_least(mark.token),
            nonce,
            sequence: mark.sequence.into(),
        }
    }

    fn order(&self, facts: &Facts, wish: Wish, token: u64) -> Order {
        let evidence = self.evidence(u8::MAX);
        match wish {
            Wish::Pause => Order::Pause,
            Wish::Resume => Order::Resume,
            Wish::Fail => Order::Fail,
            Wish::Reset => Order::Reset {
                to: None,
                source: source(),
                evidence,
            },
            Wish::Rollback => Order::Rollback {
                version: facts.oldest.unwrap_or(0),
                source: source(),
                evidence,
            },
            Wish::Unlock => Order::Unlock {
                token,
                even_if_alive: true,
                evidence,
            },
        }
    }

    /// Where clocks lie, it is the local one that does.
    fn evidence(&self, age: u8) -> AgeEvidence {
        let ignored = self.setup.mutant == Mutant::ExpiryIgnored;
        let age = if ignored { u8::MAX } else { age };
        AgeEvidence {
            local_now: at(age),
            store: match self.setup.clocks {
                Clocks::Lie => None,
                Clocks::Agree { .. } | Clocks::Calm { .. } => Some(StoreClock {
                    now: at(age),
                    last_write: at(0),
                }),
            },
            margin: MARGIN,
        }
    }

    /// What a mutant makes of a change.
    fn spoilt(&self, before: &StateDocument, mut next: StateDocument, deed: Deed) -> StateDocument {
        match (self.setup.mutant, deed) {
            (Mutant::TokenNotBumped, Deed::Claim { .. }) => {
                next.lease.token = before.lease.token;
                if let Some(mark) = &mut next.holder {
                    mark.token = before.lease.token;
                }
            }
            (Mutant::OrderDoesNotFence, Deed::Order { .. }) => {
                next.lease.clone_from(&before.lease);
                next.holder.clone_from(&before.holder);
            }
            _ => {}
        }
        next
    }

    fn revived(
        &self,
        before: &StateDocument,
        deed: Deed,
        refusal: &Refusal,
        now: u8,
    ) -> Option<StateDocument> {
        let Deed::Hold { owner, mark, job } = deed else {
            return None;
        };
        let revives = self.setup.mutant == Mutant::LeaseRevived && job == Job::Beat;
        if !revives || !matches!(refusal, Refusal::LeaseLost { .. }) {
            return None;
        }
        let mut next = before.clone();
        next.holder = Some(self.mark(Doc(0), mark));
        next.lease.held = Some(Held {
            owner_id: owner.name(),
            acquired_at: at(now),
            heartbeat_at: at(now),
            expires_at: at(now) + TTL,
        });
        Some(next)
    }

    /// The world is quiet, whoever was at work has gone, and a person has ended a pause: which rows a tick
    /// sends until nothing is left.
    pub(crate) fn quiet(&mut self, doc: Doc) -> Result<u8, String> {
        if let Some(known) = self.quiet.get(&doc) {
            return known.clone();
        }
        let found = self.run_quietly(doc);
        self.quiet.insert(doc, found.clone());
        found
    }

    fn run_quietly(&mut self, mut doc: Doc) -> Result<u8, String> {
        let (process, life) = (9, 9);
        let nonce = Nonce { process, tick: 9 };
        let owner = Owner { process, life };
        let age = u8::MAX;
        let rows = self.setup.rows;
        let mut sent = 0;
        let wish = match self.facts(doc).status {
            Status::Active => None,
            Status::Paused => Some(Wish::Resume),
            Status::Failed => Some(Wish::Reset),
        };
        if let Some(wish) = wish {
            doc = self.goes(
                doc,
                Deed::Order {
                    id: 9,
                    wish,
                    token: 0,
                },
            )?;
        }
        if self.facts(doc).next_row(rows).is_some() {
            doc = self.goes(doc, Deed::Claim { owner, nonce, age })?;
            let token = self.facts(doc).token;
            let mut sequence = 0;
            while let Some(row) = self.facts(doc).next_row(rows) {
                sent |= bit(row);
                sequence += 1;
                let mark = Mark {
                    token,
                    nonce,
                    sequence,
                };
                let ends = self.facts(doc).next_row(rows) == Some(rows)
                    || self.facts(doc).covered.count_ones() == u32::from(rows) - 1;
                let job = Job::Commit {
                    row,
                    proven: true,
                    ends,
                };
                doc = self.goes(doc, Deed::Hold { owner, mark, job })?;
            }
        }
        if !self.facts(doc).is_settled() {
            doc = self.goes(
                doc,
                Deed::Settle {
                    nonce: Nonce { process, tick: 10 },
                    age,
                },
            )?;
        }
        match self.facts(doc) {
            facts if facts.checkpoint != rows => Err(format!("it ends at {}", facts.checkpoint)),
            Facts {
                owner: Some(owner), ..
            } if sent != 0 => Err(format!("{owner} still holds it")),
            _ => Ok(sent),
        }
    }

    fn goes(&mut self, doc: Doc, deed: Deed) -> Result<Doc, String> {
        match self.decide(doc, deed, 0) {
            Outcome::Changed(next) => Ok(next),
            other => Err(format!("{deed:?} ends in {other:?}")),
        }
    }
}

fn step(facts: &Facts, job: Job) -> Step {
    let then = |ends| match ends {
        true => Then::Release,
        false => Then::Renew { ttl: TTL },
    };
    match job {
        Job::Beat => Step::Heartbeat { ttl: TTL },
        Job::Commit { row, proven, ends } => Step::Commit {
            advance: Box::new(commit_of(facts, row, proven)),
            then: then(ends),
        },
        Job::Fail => Step::RecordFailure {
            news: News::default(),
            late: None,
            then: Then::Release,
        },
        Job::Release => Step::Release,
    }
}

fn commit_of(facts: &Facts, row: u8, proven: bool) -> Advance {
    let with_it = Facts {
        covered: facts.covered | bit(row),
        ..facts.clone()
    };
    let reach = with_it.reach();
    let passes = proven && reach > facts.checkpoint;
    let mut delivered = BTreeMap::new();
    if !passes || reach < row {
        let id = EventId::parse(&format!("{row:032x}")).unwrap();
        delivered.insert(id, place(row).position);
    }
    Advance {
        to: passes.then(|| place(reach)),
        delivered,
        batch_id: format!("batch of {row}"),
        batches: 1,
        rows: 1,
        cost: Cost::default(),
        schema: None,
        server: None,
        late: None,
        shelved: false,
        news: News::default(),
        ledger: None,
    }
}

fn uncounted(mut document: StateDocument) -> StateDocument {
    document.counters = Counters {
        batches: document.counters.batches.min(1),
        ..Counters::default()
    };
    document.pulse.clear();
    document
}
