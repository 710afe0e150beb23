//! Looking at one poller: one read of its document, one list of its quarantine, two short questions to
//! its database. Nothing is written, and what does not answer in time is a finding.

use std::time::Duration;

use chrono::TimeDelta;
use tokio::time::timeout;

use super::health::{self, Evidence, Health, Phase, State};
use super::view::{
    AuditView, BeatView, BehindView, CheckpointView, ColumnView, CountersView, FailureView,
    HistoryView, LagBasis, LagView, LateView, LeaseView, PollerDetail, PollerView, QuarantineView,
    ReviewedView, SinkView, SourceView, TimingView, TroubleView,
};
use crate::clock::Timestamp;
use crate::config::Start;
use crate::model::counters::Timing;
use crate::model::halt::Halt;
use crate::model::history::HistoryEntry;
use crate::model::late::{Ordering, Witness};
use crate::model::lease::AgeEvidence;
use crate::model::pulse::{Beat, moment_of};
use crate::model::schema::Schema;
use crate::model::sinks::SinkState;
use crate::model::state::{AuditEntry, Review, StateDocument};
use crate::tick::report::TickError;
use crate::tick::{MOST_REMEMBERED, Poller, Stood, remembered};

/// Counting stops here: it is to be cheap.
const MOST_COUNTED: u64 = 10_000;
/// With more rows delivered above the checkpoint, what is new is looked for, not counted.
const MOST_SUBTRACTED: u64 = 50_000;
/// A database or store that does not answer by then is not fit for a tick either.
const PATIENCE: Duration = Duration::from_secs(5);

/// How closely to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Glance,
    /// Also at the catalogue of the database, and at who is waited for.
    Closely,
}

/// Between two ticks, where that is known, and the longest that one may take.
pub(super) type Rhythm = (Option<Duration>, Duration);

/// What was found in the place of the document.
struct Found {
    state: State,
    stood: Option<Stood>,
}

pub(super) async fn glance(poller: &Poller, function: &str, rhythm: Rhythm) -> PollerView {
    let found = find(poller).await;
    look(poller, function, rhythm, &found, Depth::Glance).await
}

pub(super) async fn closely(poller: &Poller, function: &str, rhythm: Rhythm) -> PollerDetail {
    let found = find(poller).await;
    let view = look(poller, function, rhythm, &found, Depth::Closely).await;
    let document = found.stood.map(|stood| stood.document);
    let document = document.as_ref();
    PollerDetail {
        view,
        history: document.map_or_else(Vec::new, |d| d.history.iter().map(history).collect()),
        audit: document.map_or_else(Vec::new, |d| d.audit.iter().map(audit).collect()),
        schema: document
            .and_then(|document| document.schema.as_deref())
            .map_or_else(Vec::new, columns),
    }
}

async fn find(poller: &Poller) -> Found {
    let bad = |outcome, error: String| Found {
        state: State::Bad(outcome, error),
        stood: None,
    };
    match timeout(PATIENCE, poller.stands()).await {
        Ok(Ok(Some(stood))) => Found {
            state: State::Document,
            stood: Some(stood),
        },
        Ok(Ok(None)) => Found {
            state: State::Nothing,
            stood: None,
        },
        Ok(Err(error)) => bad(error.name(), error.story()),
        Err(_) => bad("store_failed", no_answer("the state store")),
    }
}

async fn look(
    poller: &Poller,
    function: &str,
    (interval, tick_limit): Rhythm,
    found: &Found,
    depth: Depth,
) -> PollerView {
    let now = poller.clock.now();
    let stood = found.stood.as_ref();
    let document = stood.map(|stood| &stood.document);
    let refuses = document.and_then(|document| poller.refuses(document));
    let asked = match (&found.state, &refuses) {
        // Its places are not known, or are places in another source.
        (State::Bad(..), _) | (_, Some(TickError::Fingerprint { .. })) => None,
        _ => Some(in_time(lag(poller, document, now)).await),
    };
    let (lag, source, is_slow) = match asked {
        None => (None, None, false),
        Some(Ok(lag)) => (lag, None, false),
        Some(Err(Unanswered::Slow)) => (None, None, true),
        Some(Err(Unanswered::Failed(error))) => (None, Some(error), false),
    };
    let session = match document.and_then(oldest_witness) {
        Some((witness, _)) if source.is_none() => {
            in_time(poller.source.who_is(witness)).await.ok().flatten()
        }
        _ => None,
    };
    let grade = match depth {
        Depth::Closely if source.is_none() => in_time(poller.source.describe()).await.ok(),
        Depth::Closely | Depth::Glance => None,
    };
    let quarantine = timeout(PATIENCE, poller.set_aside()).await;
    let quarantine = quarantine.ok().and_then(Result::ok);
    let evidence = Evidence {
        now,
        halt: document.and_then(Halt::of),
        refuses: refuses.map(|error| (error.name(), error.story())),
        source,
        is_slow,
        must_wait: document.is_some_and(|document| must_wait(poller, document)),
        tick_limit,
        poison_after: poller.poison.attempts,
        remedy: session.as_ref().map(|session| session.remedy.clone()),
        state: match &found.state {
            State::Document => State::Document,
            State::Nothing => State::Nothing,
            State::Bad(outcome, error) => State::Bad(outcome, error.clone()),
        },
    };
    let mut view = PollerView {
        poller: poller.name.clone(),
        function: function.to_owned(),
        health: Health::Ok,
        phase: Phase::Unknown,
        headline: String::new(),
        findings: Vec::new(),
        source: source_view(poller),
        checkpoint: stood.map(checkpoint),
        lag,
        lease: stood.and_then(|stood| lease(poller, stood)),
        trouble: document.and_then(trouble),
        late: document.map(late),
        sinks: sinks(poller, document),
        quarantine: quarantine.map(|aside| QuarantineView {
            rows: aside.rows,
            oldest: aside.oldest,
            unreadable: aside.unreadable,
        }),
        interval_s: interval.map(|interval| interval.as_secs().max(1)),
        last_success: document.and_then(|document| document.checkpoint.updated_at),
        counters: document.map_or_else(CountersView::default, counters),
        pulse: document.map_or_else(Vec::new, |d| d.pulse.iter().map(beat).collect()),
        reviews: document.map_or_else(Vec::new, |d| d.reviews.iter().map(reviewed).collect()),
    };
    if let Some(late) = &mut view.late {
        late.oldest_witness_is = session.map(|session| session.is);
        if let Some(protection) = grade.and_then(|description| description.protection) {
            late.grade = Some(protection.grade.to_string());
            late.reason = Some(protection.reason);
        }
    }
    view.findings = health::judge(&view, &evidence);
    let worst = view.findings.iter().map(|finding| finding.level).max();
    view.health = worst.unwrap_or(Health::Ok);
    view.phase = health::phase(&view, &evidence);
    view.headline = health::headline(&view);
    view
}

/// Why a question has no answer.
enum Unanswered {
    Slow,
    Failed(String),
}

async fn in_time<T, E: Into<TickError>>(
    question: impl Future<Output = Result<T, E>>,
) -> Result<T, Unanswered> {
    match timeout(PATIENCE, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(Unanswered::Failed(error.into().story())),
        Err(_) => Err(Unanswered::Slow),
    }
}

/// New rows are held back by design: until a transaction ends, or because nothing more can be remembered.
fn must_wait(poller: &Poller, document: &StateDocument) -> bool {
    let waited_for = !document.late.witnesses().is_empty();
    waited_for && poller.ordering == Ordering::Cursor || remembered(document) >= MOST_REMEMBERED
}

fn no_answer(who: &str) -> String {
    format!("{who} does not answer within {} s", PATIENCE.as_secs())
}

/// Rows that were delivered above the checkpoint are there, and do not wait. `None`: nobody can tell.
async fn lag(
    poller: &Poller,
    document: Option<&StateDocument>,
    now: Timestamp,
) -> Result<Option<LagView>, TickError> {
    if document.is_none() && poller.start != Start::Beginning {
        return Ok(None);
    }
    let place = document.and_then(StateDocument::position);
    let delivered = document.map_or(0, remembered);
    let nothing = LagView {
        rows: 0,
        exact: true,
        seconds: 0,
        basis: LagBasis::Nothing,
    };
    let most = MOST_COUNTED + delivered;
    let counted = match delivered <= MOST_SUBTRACTED {
        true => poller.source.count(place, None, most).await?,
        false => 0,
    };
    let mut rows = counted.saturating_sub(delivered);
    if rows == 0 && delivered > 0 {
        // Remembered rows may have changed or gone since, so that new ones make up for them.
        let next = poller.forecast(1).await?;
        rows = next.pages.iter().map(|page| page.len() as u64).sum();
    }
    if rows == 0 {
        return Ok(Some(nothing));
    }
    // Of so many rows at least one is not delivered.
    let oldest = poller.source.ahead(place, delivered + 1).await?;
    let committed = document.and_then(|document| document.checkpoint.updated_at);
    let (since, basis) = match oldest.as_ref().and_then(moment_of) {
        Some(moment) => (Some(moment), LagBasis::Cursor),
        None => (committed, LagBasis::LastCommit),
    };
    let waited = since.map_or(TimeDelta::zero(), |since| now - since);
    Ok(Some(LagView {
        rows,
        exact: delivered == 0 && counted < most,
        seconds: u64::try_from(waited.num_seconds()).unwrap_or(0),
        basis,
    }))
}

fn source_view(poller: &Poller) -> SourceView {
    let definition = &poller.definition;
    SourceView {
        connection: definition.connection.clone(),
        rows: definition
            .table
            .clone()
            .unwrap_or_else(|| "query".to_owned()),
        cursor: definition.cursor.clone(),
        key: definition.key.clone(),
        fingerprint: poller.fingerprint.clone(),
    }
}

fn checkpoint(stood: &Stood) -> CheckpointView {
    let document = &stood.document;
    CheckpointView {
        place: document.position().map(ToString::to_string),
        version: document.version(),
        updated_at: document.checkpoint.updated_at,
        batch_id: document.checkpoint.last_successful_batch_id.clone(),
        bytes: stood.bytes,
        schema: document
            .schema
            .as_ref()
            .map(|schema| schema.hash().to_owned()),
    }
}

fn lease(poller: &Poller, stood: &Stood) -> Option<LeaseView> {
    let lease = &stood.document.lease;
    let held = lease.held.as_ref()?;
    let now = poller.clock.now();
    let age = match &stood.clock {
        Some(clock) => clock.now - clock.last_write,
        None => now - held.heartbeat_at,
    };
    Some(LeaseView {
        owner: held.owner_id.clone(),
        token: lease.token.get(),
        acquired_at: held.acquired_at,
        heartbeat_at: held.heartbeat_at,
        expires_at: held.expires_at,
        age_s: u64::try_from(age.num_seconds()).unwrap_or(0),
        expired: held.may_be_taken(AgeEvidence {
            local_now: now,
            store: stood.clock,
            margin: poller.lease.margin,
        }),
    })
}

fn trouble(document: &StateDocument) -> Option<TroubleView> {
    let trouble = document.trouble.as_ref()?;
    Some(TroubleView {
        outcome: trouble.outcome.clone(),
        error: trouble.error.clone(),
        since: trouble.since,
        last_at: trouble.last_at,
    })
}

/// The one that has been waited for the longest.
fn oldest_witness(document: &StateDocument) -> Option<(&Witness, Timestamp)> {
    let fences = document.late.fences.iter();
    let waiting = fences.filter(|fence| !fence.witnesses.is_empty());
    let oldest = waiting.min_by_key(|fence| fence.since)?;
    Some((oldest.witnesses.first()?, oldest.since))
}

fn late(document: &StateDocument) -> LateView {
    let oldest = oldest_witness(document);
    LateView {
        grade: None,
        reason: None,
        remembered: remembered(document),
        witnesses: document.late.witnesses().len() as u64,
        oldest_witness: oldest.map(|(witness, _)| witness.to_string()),
        oldest_witness_since: oldest.map(|(_, since)| since),
        oldest_witness_is: None,
    }
}

fn sinks(poller: &Poller, document: Option<&StateDocument>) -> Vec<SinkView> {
    let sinks = poller.sinks.iter().map(|outlet| {
        let name = outlet.sink.name();
        let SinkState {
            failure, lag, rows, ..
        } = document.map_or_else(SinkState::default, |document| document.sink(name));
        SinkView {
            name: name.to_owned(),
            required: outlet.required,
            rows,
            failure: failure.map(|failure| FailureView {
                event_id: failure.event_id,
                attempts: failure.attempts,
                rejections: failure.rejections,
                first_at: failure.first_at,
                last_at: failure.last_at,
                not_before: failure.not_before,
                error: failure.error,
            }),
            behind: lag.map(|lag| BehindView {
                since: lag.since,
                place: lag.position.map(|mark| mark.position.to_string()),
            }),
        }
    });
    sinks.collect()
}

fn counters(document: &StateDocument) -> CountersView {
    let counters = &document.counters;
    CountersView {
        batches: counters.batches,
        rows: counters.rows,
        failed_ticks: counters.failed_ticks,
        quarantined: counters.quarantined,
        bytes: counters.bytes,
        resent: counters.resent,
        failed_commits: counters.failed_commits,
        read: timing(counters.read),
        deliver: timing(counters.deliver),
        commit: timing(counters.commit),
    }
}

fn reviewed((kind, review): (&String, &Review)) -> ReviewedView {
    ReviewedView {
        kind: kind.clone(),
        since: review.since,
        at: review.at,
        who: review.who.clone(),
        why: review.why.clone(),
    }
}

fn timing(Timing { count, us }: Timing) -> TimingView {
    TimingView { count, us }
}

fn beat(beat: &Beat) -> BeatView {
    BeatView {
        minute: beat.begins(),
        rows: beat.rows,
        delay_ms: beat.delay_ms,
    }
}

pub(super) fn history(entry: &HistoryEntry) -> HistoryView {
    HistoryView {
        version: entry.version,
        at: entry.at,
        checkpoint: entry.cursor.as_ref().map(|mark| mark.position.to_string()),
        batch_id: entry.batch_id.clone(),
        rows: entry.rows,
        total_rows: entry.total_rows,
        schema: entry.schema.clone(),
        source: entry.source.clone(),
        by: entry.by.clone(),
    }
}

fn audit(entry: &AuditEntry) -> AuditView {
    AuditView {
        at: entry.at,
        who: entry.who.clone(),
        what: entry.what.clone(),
        why: entry.why.clone(),
    }
}

pub(super) fn columns(schema: &Schema) -> Vec<ColumnView> {
    let columns = schema.columns().iter();
    columns
        .map(|column| ColumnView {
            name: column.name.clone(),
            declared: column.declared.clone(),
            role: column.role.name(),
        })
        .collect()
}
