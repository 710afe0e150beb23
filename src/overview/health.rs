//! What the facts about a poller come to: health, phase, and findings that each name the next step.

mod progress;

use std::cmp::Reverse;
use std::time::Duration;

use chrono::TimeDelta;
use schemars::JsonSchema;
use serde::Serialize;

use super::view::{FailureView, PollerView, SinkView};
use super::words::{ago, rows, waiting};
use crate::clock::Timestamp;
use crate::model::halt::{Halt, HaltKind};
use crate::model::shard::Layout;
use progress::{of_lease, of_transactions, of_waiting};

/// The better ones first, so that the worst of several is the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    Ok,
    /// It works, and somebody should look at something.
    Attention,
    /// It stands still because somebody wants it to.
    Stopped,
    /// It does not get on by itself, or nobody can tell.
    Stuck,
}

/// What a poller is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It has not run yet.
    New,
    /// Nothing to do.
    Idle,
    /// Rows wait for the next tick.
    Due,
    /// A tick is running.
    Working,
    /// A receiver is left alone until a certain time.
    Waiting,
    /// Ticks fail.
    Failing,
    Paused,
    /// Marked failed.
    Failed,
    Unknown,
}

/// One thing that is worth knowing about a poller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// For machines; documented in docs/operations.md.
    pub code: &'static str,
    pub level: Health,
    /// What is, and why.
    pub says: String,
    /// What to do.
    pub next: String,
    pub since: Option<Timestamp>,
}

impl Health {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Attention => "attention",
            Self::Stopped => "stopped",
            Self::Stuck => "stuck",
        }
    }
}

impl Phase {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Idle => "idle",
            Self::Due => "due",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::Failing => "failing",
            Self::Paused => "paused",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
        }
    }
}

/// What is known about a poller beside its view.
#[derive(Debug)]
pub(super) struct Evidence {
    pub(super) now: Timestamp,
    pub(super) state: State,
    /// Where somebody, or a receiver, has stopped it.
    pub(super) halt: Option<Halt>,
    /// Why a tick would refuse the document: outcome and error.
    pub(super) refuses: Option<(&'static str, String)>,
    /// Why the source cannot be asked.
    pub(super) source: Option<String>,
    /// It can be asked, and takes too long to count.
    pub(super) is_slow: bool,
    /// Rows wait for transactions that could come before them, or because no more can be remembered.
    pub(super) must_wait: bool,
    /// The longest that a tick may take.
    pub(super) tick_limit: Duration,
    /// Failed ticks at one row before it is looked for.
    pub(super) poison_after: u32,
    /// How a session is ended that is waited for.
    pub(super) remedy: Option<String>,
}

/// What stands in the place of the document.
#[derive(Debug)]
pub(super) enum State {
    Document,
    /// It has not run yet.
    Nothing,
    /// There is none, or none that can be trusted, or nobody can tell: outcome and error.
    Bad(&'static str, String),
}

/// Of all findings; each is explained in docs/operations.md. Those of a state that cannot be read, or that a
/// tick refuses, are the outcomes of ticks.
pub const CODES: [&str; 19] = [
    "not_begun",
    "paused",
    "marked_failed",
    "fingerprint_changed",
    "sinks_changed",
    "source_failed",
    "tick_failed",
    "store_failed",
    "document_gone",
    "document_refused",
    "lease_expired",
    "sink_failing",
    "row_rejected",
    "sink_behind",
    "not_ticking",
    "no_progress",
    "slow_source",
    "transaction_open",
    "quarantine",
];

const A_DAY: TimeDelta = TimeDelta::days(1);

/// The findings, the worst first.
pub(super) fn judge(view: &PollerView, evidence: &Evidence) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    findings.extend(of_state(view, evidence));
    findings.extend(of_halt(view, evidence));
    findings.extend(of_source(view, evidence));
    findings.extend(of_slowness(evidence));
    findings.extend(of_lease(view, evidence));
    for sink in &view.sinks {
        findings.extend(of_sink(view, sink, evidence));
    }
    findings.extend(of_waiting(view, evidence));
    findings.extend(of_transactions(view, evidence));
    findings.extend(of_quarantine(view, evidence));
    findings.sort_by_key(|finding| Reverse(finding.level));
    findings
}

pub(super) fn phase(view: &PollerView, evidence: &Evidence) -> Phase {
    match (&evidence.state, &evidence.halt) {
        (State::Nothing, _) => return Phase::New,
        (State::Bad(..), _) => return Phase::Unknown,
        (_, Some(halt)) => {
            return match halt.kind {
                HaltKind::Paused => Phase::Paused,
                HaltKind::Failed => Phase::Failed,
            };
        }
        (State::Document, None) => {}
    }
    if view.lease.as_ref().is_some_and(|lease| !lease.expired) {
        return Phase::Working;
    }
    let broken = evidence.refuses.is_some() || evidence.source.is_some() || view.trouble.is_some();
    let failures = || view.sinks.iter().filter(|sink| sink.behind.is_none());
    let mut failures = failures().filter_map(|sink| sink.failure.as_ref());
    if broken {
        return Phase::Failing;
    }
    match failures.next() {
        Some(failure) if failure.not_before > Some(evidence.now) => Phase::Waiting,
        Some(_) => Phase::Failing,
        None if view.lag.as_ref().is_some_and(|lag| lag.rows > 0) => Phase::Due,
        None => Phase::Idle,
    }
}

/// One sentence about it all.
pub(super) fn headline(view: &PollerView) -> String {
    if let Some(worst) = view.findings.first() {
        return worst.says.clone();
    }
    match (view.phase, &view.lag) {
        (Phase::Working, Some(lag)) if lag.rows > 0 => {
            format!("a tick is running; {} to deliver", rows(lag))
        }
        (Phase::Working, _) => "a tick is running".to_owned(),
        (_, Some(lag)) if lag.rows > 0 => format!("{} for the next tick", waiting(lag)),
        (Phase::New, _) => "there is no row for it yet".to_owned(),
        _ => "everything visible is delivered".to_owned(),
    }
}

fn finding(code: &'static str, level: Health, says: String, next: String) -> Finding {
    Finding {
        code,
        level,
        says,
        next,
        since: None,
    }
}

impl Finding {
    fn since(self, since: Timestamp) -> Self {
        Self {
            since: Some(since),
            ..self
        }
    }
}

fn of_state(view: &PollerView, evidence: &Evidence) -> Option<Finding> {
    let name = &view.poller;
    match &evidence.state {
        State::Document => None,
        // A tick that finds no row leaves nothing behind by which it could be told from none.
        State::Nothing if view.lag.as_ref().is_some_and(|lag| lag.rows == 0) => None,
        State::Nothing => Some(finding(
            "not_begun",
            Health::Attention,
            "it has not run yet".to_owned(),
            format!("the next tick begins it; `dbtick tick {name}` does so now"),
        )),
        State::Bad(outcome, error) => Some(finding(
            outcome,
            Health::Stuck,
            error.clone(),
            match *outcome {
                "store_failed" => {
                    "see to the connection of `state` and its rights; `dbtick check` asks it again"
                        .to_owned()
                }
                "resharded" => format!(
                    "`dbtick reshard {}` lets it go on where it stands",
                    Layout::of(name).0
                ),
                _ => format!("`dbtick state export {name}` looks at what is there"),
            },
        )),
    }
}

fn of_slowness(evidence: &Evidence) -> Option<Finding> {
    evidence.is_slow.then(|| {
        let says = "the database takes too long to count what waits, so that is not known";
        let next = "see to its load, and to the index over cursor and key: `dbtick check`";
        finding(
            "slow_source",
            Health::Attention,
            says.to_owned(),
            next.to_owned(),
        )
    })
}

fn of_halt(view: &PollerView, evidence: &Evidence) -> Option<Finding> {
    let halt = evidence.halt.as_ref()?;
    let name = &view.poller;
    let found = match halt.kind {
        HaltKind::Paused => finding(
            "paused",
            Health::Stopped,
            halt.to_string(),
            format!("`dbtick resume {name}` lets it go on"),
        ),
        HaltKind::Failed => finding(
            "marked_failed",
            Health::Stuck,
            halt.to_string(),
            format!("look into it, then `dbtick reset {name}`"),
        ),
    };
    Some(match &halt.entry {
        Some(entry) => found.since(entry.at),
        None => found,
    })
}

/// What keeps a tick from reading. What the ticks themselves have written down counts only where it is
/// not seen at once.
fn of_source(view: &PollerView, evidence: &Evidence) -> Option<Finding> {
    let next = "mend what it names; ticks go on by themselves, and no row is lost meanwhile";
    let trouble = view.trouble.as_ref();
    let since = |found: Finding, outcome: &str| match trouble {
        Some(trouble) if trouble.outcome == outcome => found.since(trouble.since),
        _ => found,
    };
    if let Some((outcome, error)) = &evidence.refuses {
        let next = "decide which, then do it; the error names the commands".to_owned();
        return Some(since(
            finding(outcome, Health::Stuck, error.clone(), next),
            outcome,
        ));
    }
    if let Some(error) = &evidence.source {
        let found = finding(
            "source_failed",
            Health::Stuck,
            error.clone(),
            next.to_owned(),
        );
        return Some(since(found, "source_failed"));
    }
    let trouble = trouble?;
    // It can be asked now, and the next tick will.
    let (level, says) = match trouble.outcome.as_str() {
        "source_failed" => (
            Health::Attention,
            format!(
                "the database answers now, but the last tick failed: {}",
                trouble.error
            ),
        ),
        _ => (Health::Stuck, trouble.error.clone()),
    };
    Some(finding("tick_failed", level, says, next.to_owned()).since(trouble.since))
}

fn of_sink(view: &PollerView, sink: &SinkView, evidence: &Evidence) -> Option<Finding> {
    let (poller, name) = (&view.poller, &sink.name);
    let Some(failure) = &sink.failure else {
        let behind = sink.behind.as_ref()?;
        let says = format!("{name} is behind the others since {}", behind.since);
        let next = "it catches up by itself, tick by tick".to_owned();
        let found = finding("sink_behind", Health::Attention, says, next);
        return Some(found.since(behind.since));
    };
    let FailureView {
        attempts,
        rejections,
        error,
        event_id,
        ..
    } = failure;
    let waits = match failure.not_before.filter(|until| *until > evidence.now) {
        Some(until) => format!("; it is asked again at {}", until.format("%H:%M:%S UTC")),
        None => String::new(),
    };
    let times = match attempts {
        1 => "once".to_owned(),
        attempts => format!("{attempts} times"),
    };
    let poison = *rejections > 0;
    let says = match poison {
        true => format!("{name} has refused {times}, at event {event_id}: {error}{waits}"),
        false => format!("{name} has failed {times}: {error}{waits}"),
    };
    let next = match poison {
        true => format!(
            "mend the receiver, or the row (`dbtick peek {poller} --data` shows it): after {} failed ticks it is set aside if the receiver takes others",
            evidence.poison_after
        ),
        false if waits.is_empty() => format!(
            "see to the receiver {name}; the rows wait and come again, `dbtick tick {poller}` tries at once"
        ),
        false => format!(
            "see to the receiver {name}; the rows wait and come again, `dbtick resolve {poller} --strategy resume --grace 0s` has it asked with the next tick"
        ),
    };
    let level = match sink.behind {
        Some(_) => Health::Attention,
        None if *attempts > 1 => Health::Stuck,
        None => Health::Attention,
    };
    let code = match (poison, &sink.behind) {
        (_, Some(_)) => "sink_behind",
        (true, None) => "row_rejected",
        (false, None) => "sink_failing",
    };
    Some(finding(code, level, says, next).since(failure.first_at))
}

fn of_quarantine(view: &PollerView, evidence: &Evidence) -> Option<Finding> {
    let kept = view.quarantine.as_ref().filter(|kept| kept.rows > 0)?;
    let (count, verb) = match kept.rows {
        1 => ("1 row".to_owned(), "was"),
        rows => (format!("{rows} rows"), "were"),
    };
    let age = kept.oldest.map(|oldest| evidence.now - oldest);
    let since = match age {
        Some(age) if age >= A_DAY => format!(", for {} already", ago(age)),
        _ => String::new(),
    };
    let says = format!("{count} {verb} set aside and not delivered{since}");
    let next = format!(
        "`dbtick quarantine list {0}` says why; then `dbtick quarantine redrive {0} --all`, or `discard`",
        view.poller
    );
    let found = finding("quarantine", Health::Attention, says, next);
    Some(match kept.oldest {
        Some(oldest) => found.since(oldest),
        None => found,
    })
}

#[cfg(test)]
mod tests;
