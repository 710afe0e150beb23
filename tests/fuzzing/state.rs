//! A state document: any bytes are refused with a reason, or are a document that is written and read back as it is, and
//! whose every legal successor is one too.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::DateTime;
use dbtick::clock::Timestamp;
use dbtick::model::counters::{Cost, Writes};
use dbtick::model::definition::{SourceDefinition, SourceIdentity};
use dbtick::model::late::{Epoch, Late};
use dbtick::model::lease::{AgeEvidence, StoreClock, WriteMark};
use dbtick::model::ledger::Ledger;
use dbtick::model::page::EventId;
use dbtick::model::position::{Position, Scalar};
use dbtick::model::sinks::{Attempt, Failure, Lag, News, SinkNews};
use dbtick::model::state::{CursorMark, StateDocument};
use dbtick::model::transitions::{
    Action, Advance, Applied, CatchUp, Claim, Operator, Order, Settlement, Step, Then, apply,
};
use dbtick::model::trouble::Trouble;
use serde_json::Value;
use sha2::{Digest, Sha256};

const POLLER: &str = "orders";
const TTL: Duration = Duration::from_secs(30);

pub(crate) fn state(input: &[u8]) {
    match read(input) {
        Ok(document) => accepted(&document),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    // With a check that is right, what the check would have caught has to be caught by what is behind it.
    if let Some(sealed) = sealed(input)
        && let Ok(document) = read(&sealed)
    {
        accepted(&document);
    }
}

fn read(bytes: &[u8]) -> Result<StateDocument, dbtick::model::state::DocumentError> {
    StateDocument::from_bytes(bytes, POLLER, &["id".to_owned()])
}

/// With the check that is right for it.
pub(crate) fn sealed(input: &[u8]) -> Option<Vec<u8>> {
    let mut value: Value = serde_json::from_slice(input).ok()?;
    value.as_object_mut()?.remove("check");
    let sum: String = Sha256::digest(value.to_string())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    value["check"] = format!("sha256:{sum}").into();
    Some(value.to_string().into_bytes())
}

fn accepted(document: &StateDocument) {
    let bytes = written(document);
    flipped(document, &bytes);
    decisions(document);
    for action in actions(document) {
        applied(document, &action);
    }
    // A claim opens what only a holder may do.
    if let Some(held) = applied(document, &claim(document)) {
        for step in steps(&held) {
            let mark = WriteMark {
                sequence: 1,
                ..held.holder.clone().unwrap()
            };
            let writes = Writes::default();
            applied(&held, &Action::Hold { mark, step, writes });
        }
    }
}

/// What a tick concludes from what the document says about its sinks.
fn decisions(document: &StateDocument) {
    for sink in document.sinks.values() {
        let failed = sink.failure.as_ref();
        let event_id = failed.and_then(|failure| EventId::parse(&failure.event_id));
        let event_id = event_id
            .or(EventId::from_bytes(&[7; EventId::BYTES]))
            .unwrap();
        let named = failed.into_iter().flat_map(|failure| failure.named.keys());
        let named: Vec<_> = named.filter_map(|id| EventId::parse(id)).collect();
        let pending = named.iter().copied().chain([event_id]).collect();
        let attempt = Attempt {
            event_id,
            pending: &pending,
            error: String::new(),
            rejected: true,
            not_before: None,
            named,
            searched: false,
            repeated: false,
        };
        let after = Failure::after(failed, attempt, now());
        assert!(after.attempts > 0);
        let pause = after
            .not_before
            .map_or(0, |then| (then - now()).num_seconds());
        assert!((0..=300).contains(&pause), "{pause}");
        assert!(sink.room_aside(20, 500) <= 20);
        assert_eq!(sink.sent_before(&[event_id]).len(), 1);
        assert!(sink.catches_up_from().is_some() == failed.is_some());
        assert!(sink.largest(now()).is_none() || sink.limit.is_some());
    }
}

/// What is written is read back as it is.
fn written(document: &StateDocument) -> Vec<u8> {
    let bytes = document.to_bytes();
    let again = read(&bytes).unwrap_or_else(|error| panic!("{error}: {document:?}"));
    assert_eq!(&again, document);
    assert_eq!(again.to_bytes(), bytes);
    bytes
}

/// One bit of it, wherever: refused, or the same document.
fn flipped(document: &StateDocument, bytes: &[u8]) {
    // A document whose check has another name has no check, as plain documents of version 1.
    let name = bytes
        .windows(11)
        .position(|part| part == b"\n  \"check\":")
        .unwrap();
    let name = name + 4..name + 9;
    let seed = Sha256::digest(bytes);
    for pair in seed.chunks_exact(4) {
        let at = usize::from(u16::from_le_bytes([pair[0], pair[1]])) * 31 % bytes.len();
        if name.contains(&at) {
            continue;
        }
        let mut flipped = bytes.to_vec();
        flipped[at] ^= 1 << (pair[2] % 8);
        if let Ok(found) = read(&flipped) {
            assert_eq!(&found, document, "a flipped bit at {at} was taken");
        }
    }
}

fn applied(document: &StateDocument, action: &Action) -> Option<StateDocument> {
    let next = match apply(document, action, now()) {
        Ok(Applied::Changed(next)) => *next,
        Ok(Applied::Already) => return None,
        Err(refusal) => {
            assert!(!refusal.to_string().is_empty());
            return None;
        }
    };
    written(&next);
    let (before, after) = (document.lease.token.get(), next.lease.token.get());
    assert!(after >= before, "the token went from {before} to {after}");
    let by_hand = matches!(action, Action::Operate { .. });
    if !by_hand && let Some(from) = document.position() {
        let to = next.position().expect("a checkpoint does not vanish");
        let from = from.typed_like(to).unwrap_or_else(|| from.clone());
        assert!(&from <= to, "the checkpoint went from {from} to {to}");
    }
    Some(next)
}

fn now() -> Timestamp {
    DateTime::from_timestamp(1_775_000_000, 123_456_000).unwrap()
}

fn evidence(store: bool) -> AgeEvidence {
    let clock = StoreClock {
        now: now(),
        last_write: now() - chrono::TimeDelta::days(1),
    };
    AgeEvidence {
        local_now: now(),
        store: store.then_some(clock),
        margin: Duration::from_secs(5),
    }
}

/// The one that the document was made for.
fn source(document: &StateDocument) -> SourceIdentity {
    let definition = SourceDefinition {
        cursor: vec!["seq".to_owned()],
        key: vec!["id".to_owned()],
        ..SourceDefinition::default()
    };
    SourceIdentity {
        fingerprint: document.source_fingerprint.clone(),
        definition: document.source.clone().unwrap_or(definition),
    }
}

fn claim(document: &StateDocument) -> Action {
    let sinks: Vec<_> = document.sinks.keys().cloned().collect();
    Action::Claim(Claim {
        owner_id: "app/instance/fuzz".to_owned(),
        nonce: "a fresh nonce".to_owned(),
        source: source(document),
        sinks: match sinks.is_empty() {
            true => vec!["hook".to_owned()],
            false => sinks,
        },
        ttl: TTL,
        evidence: evidence(true),
    })
}

fn place(number: i128) -> CursorMark {
    let scalars = || vec![Scalar::Integer(number)];
    CursorMark::new(Position::new(scalars(), scalars()), &["id".to_owned()])
}

/// Where somebody may want to go: the place itself, one of integers, and none.
fn places(document: &StateDocument) -> Vec<Option<CursorMark>> {
    vec![
        None,
        document.checkpoint.cursor.clone(),
        Some(place(1 << 40)),
    ]
}

fn news(document: &StateDocument) -> News {
    let failure = Failure {
        event_id: "0".repeat(32),
        attempts: 1,
        rejections: 1,
        first_at: now(),
        last_at: now(),
        not_before: Some(now()),
        error: "500".to_owned(),
        named: BTreeMap::new(),
    };
    let sinks = document.sinks.keys().cloned().chain(["hook".to_owned()]);
    let sinks = sinks.map(|name| {
        let news = SinkNews {
            failure: Some(failure.clone()),
            falls_behind: Some(Lag::new(None, BTreeMap::new(), now())),
            rows: u64::MAX,
            set_aside: 3,
            resent: u64::MAX,
            ..SinkNews::default()
        };
        (name, news)
    });
    News {
        sinks: sinks.collect(),
        gone: Some("gone".to_owned()),
    }
}

fn delivered() -> BTreeMap<EventId, Position> {
    let id = EventId::from_bytes(&[7; EventId::BYTES]).unwrap();
    [(id, place(1 << 41).position)].into()
}

fn ledger() -> Ledger {
    Ledger {
        head: "0000000001-00".to_owned(),
        segments: 1,
        rows: 1,
        bytes: 1,
        since: now(),
        closed: false,
    }
}

fn steps(document: &StateDocument) -> Vec<Step> {
    let mut steps = vec![
        Step::Heartbeat { ttl: TTL },
        Step::Release,
        Step::Record {
            ledger: ledger(),
            ttl: TTL,
        },
        Step::RecordFailure {
            news: news(document),
            late: Some(Late::default()),
            then: Then::Release,
        },
    ];
    for to in places(document) {
        steps.push(Step::Settle {
            to: to.clone(),
            late: document.late.clone(),
        });
        for shelved in [false, true] {
            steps.push(Step::Commit {
                advance: Box::new(Advance {
                    to: to.clone(),
                    delivered: delivered(),
                    batch_id: "batch_fuzz".to_owned(),
                    batches: 1,
                    rows: 1,
                    cost: Cost::default(),
                    schema: document.schema.clone(),
                    server: Some("server".into()),
                    late: shelved.then(Late::default),
                    shelved,
                    news: if shelved {
                        News::default()
                    } else {
                        news(document)
                    },
                    ledger: shelved.then(ledger),
                }),
                then: Then::Renew { ttl: TTL },
            });
        }
        for sink in document.sinks.keys() {
            for arrived in [false, true] {
                steps.push(Step::CatchUp(CatchUp {
                    sink: sink.clone(),
                    to: to.clone(),
                    delivered: delivered(),
                    arrived,
                    news: News::default(),
                    ledger: None,
                    ttl: TTL,
                }));
            }
        }
    }
    steps
}

fn actions(document: &StateDocument) -> Vec<Action> {
    let source = || source(document);
    let mut orders = vec![
        Order::Pause,
        Order::Resume,
        Order::Fail,
        Order::Note {
            what: "seen".to_owned(),
        },
        Order::Review {
            code: "lease".to_owned(),
            since: now(),
        },
        Order::Adopt {
            source: SourceIdentity {
                fingerprint: "sha256:another".to_owned(),
                ..source()
            },
            schema: document.schema.clone(),
            sinks: vec!["hook".to_owned(), "new".to_owned()],
            evidence: evidence(true),
        },
        Order::Import {
            saved: Box::new(document.clone()),
            evidence: evidence(true),
        },
        Order::Import {
            saved: Box::new(StateDocument::first(POLLER, "sha256:00", None)),
            evidence: evidence(true),
        },
    ];
    let versions = document.history.iter().map(|entry| entry.version);
    let versions: Vec<_> = versions.chain([0, u64::MAX]).collect();
    for even_if_alive in [false, true] {
        orders.push(Order::Unlock {
            token: document.lease.token.get(),
            even_if_alive,
            evidence: evidence(even_if_alive),
        });
        orders.push(Order::GoOn {
            evidence: evidence(even_if_alive),
        });
    }
    for to in places(document) {
        orders.push(Order::Reset {
            to,
            source: source(),
            evidence: evidence(true),
        });
    }
    for version in versions {
        orders.push(Order::Rollback {
            version,
            source: source(),
            evidence: evidence(true),
        });
        orders.push(Order::Rewind {
            version: Some(version),
            epoch: document.late.epoch.clone().unwrap_or(Epoch {
                timeline: None,
                started: Some(now()),
                started_within: 1,
                transaction: Some(u64::MAX),
                written_down: None,
                now: now(),
            }),
            source: source(),
            evidence: evidence(true),
        });
    }
    let by = Operator {
        who: "fuzz".to_owned(),
        why: "to see".to_owned(),
        id: "an order that nobody has given".to_owned(),
    };
    let orders = orders.into_iter().map(|order| Action::Operate {
        by: by.clone(),
        order,
    });
    let settle = |to| {
        Action::Settle(Settlement {
            nonce: "a fresh nonce".to_owned(),
            to,
            late: document.late.clone(),
            source: source(),
            evidence: evidence(true),
        })
    };
    // By a clock of our own, too: its sums are others than by the store's.
    let local = match claim(document) {
        Action::Claim(claim) => Action::Claim(Claim {
            evidence: evidence(false),
            ..claim
        }),
        other => other,
    };
    let held = document.holder.clone().map(|mark| Action::Hold {
        mark: WriteMark {
            sequence: mark.sequence.saturating_add(1),
            ..mark
        },
        step: Step::Heartbeat { ttl: TTL },
        writes: Writes::default(),
    });
    [
        local,
        Action::Report(None),
        Action::Report(Some(Trouble::new("error", "no route", now()))),
    ]
    .into_iter()
    .chain(held)
    .chain(places(document).into_iter().map(settle))
    .chain(orders)
    .collect()
}
