//! Whether anybody works on a poller, and gets on.

use std::time::Duration;

use chrono::TimeDelta;

use super::{Evidence, Finding, Health, State, finding};
use crate::clock::Timestamp;
use crate::overview::view::{LagBasis, LeaseView, PollerView};
use crate::overview::words::{ago, seconds, waiting};

/// A transaction is worth a word when it is waited for so long.
const LONG_WAIT: TimeDelta = TimeDelta::minutes(2);
/// A tick that is so much later than its schedule does not come.
const MISSED_TICKS: u32 = 3;
const LEAST_PATIENCE: Duration = Duration::from_secs(60);
/// Trouble that lasts is written down at least this often.
const TROUBLE_SAID: TimeDelta = TimeDelta::minutes(6);

pub(super) fn of_lease(view: &PollerView, evidence: &Evidence) -> Option<Finding> {
    let lease = view.lease.as_ref().filter(|lease| lease.expired)?;
    let level = match is_overdue(view, lease) && evidence.halt.is_none() {
        true => Health::Stuck,
        false => Health::Attention,
    };
    let says = format!(
        "{} holds the lease and has not been heard of for {}: it has died at work",
        lease.owner,
        ago(seconds(lease.age_s))
    );
    let next = format!(
        "the next tick takes the lease over and nothing is lost; if none comes, see that the app runs and its timer is enabled, or try `dbtick tick {}`",
        view.poller
    );
    Some(finding("lease_expired", level, says, next).since(lease.heartbeat_at))
}

/// Rows wait, nothing was committed for long, and nothing that is still going on says why.
pub(super) fn of_waiting(view: &PollerView, evidence: &Evidence) -> Option<Finding> {
    let lag = view.lag.as_ref().filter(|lag| lag.rows > 0)?;
    if !matches!(evidence.state, State::Document) || is_explained(view, evidence) {
        return None;
    }
    let committed = view.checkpoint.as_ref().and_then(|last| last.updated_at);
    let silence = committed.map(|at| evidence.now - at);
    let longer_than = |limit: TimeDelta| silence.is_none_or(|silence| silence > limit);
    if let Some(lease) = &view.lease {
        // Told already.
        if is_overdue(view, lease) {
            return None;
        }
        // A tick may be at one batch for as long as the host lets it.
        let limit = delta(evidence.tick_limit).max(patience(view)) + TimeDelta::minutes(1);
        return longer_than(limit).then(|| {
            let says = format!(
                "{}; ticks are running, or dying, and commit nothing",
                waiting(lag)
            );
            let next = "look at the log of the app: a tick that is killed at one batch (memory, time limit) needs a smaller `batch`, or a faster receiver";
            finding("no_progress", Health::Stuck, says, next.to_owned())
        });
    }
    // Rows of a table that is read for the first time, or again, are old: only silence counts.
    if !longer_than(patience(view)) {
        return None;
    }
    let next = format!(
        "see that the app runs, that its timer is enabled, and what `dbtick tick {}` says",
        view.poller
    );
    match lag.basis {
        LagBasis::Cursor if seconds(lag.seconds) > patience(view) => {
            let says = format!("{}, and no tick takes them", waiting(lag));
            Some(finding("not_ticking", Health::Stuck, says, next))
        }
        LagBasis::Cursor | LagBasis::Nothing => None,
        // Nobody can tell whether they came just now.
        LagBasis::LastCommit => {
            let says = format!(
                "{}, since the last commit or since just now; if they still do after the next tick, none comes",
                waiting(lag)
            );
            Some(finding("not_ticking", Health::Attention, says, next))
        }
    }
}

/// The next tick takes it over, unless none comes.
fn is_overdue(view: &PollerView, lease: &LeaseView) -> bool {
    let lifetime = lease.expires_at - lease.heartbeat_at;
    lease.expired && seconds(lease.age_s) > patience(view) + lifetime
}

/// Something else is in the way, and was so just now.
fn is_explained(view: &PollerView, evidence: &Evidence) -> bool {
    let fresh = |at: Timestamp, limit: TimeDelta| evidence.now - at <= limit;
    let patience = patience(view);
    let trouble = view.trouble.as_ref();
    let troubled = trouble.is_some_and(|trouble| fresh(trouble.last_at, patience + TROUBLE_SAID));
    let mut failures = view
        .sinks
        .iter()
        .filter(|sink| sink.behind.is_none())
        .filter_map(|sink| sink.failure.as_ref());
    let failing = failures.any(|failure| {
        let last = failure.not_before.unwrap_or(failure.last_at);
        fresh(last.max(failure.last_at), patience)
    });
    evidence.halt.is_some()
        || evidence.refuses.is_some()
        || evidence.source.is_some()
        || evidence.must_wait
        || troubled
        || failing
}

pub(super) fn of_transactions(view: &PollerView, evidence: &Evidence) -> Option<Finding> {
    let late = view.late.as_ref()?;
    let since = late.oldest_witness_since?;
    let age = evidence.now - since;
    if age < LONG_WAIT {
        return None;
    }
    let who = match (&late.oldest_witness_is, &late.oldest_witness) {
        (Some(who), _) => who.clone(),
        (None, Some(name)) => format!("{name}; the database does not tell whose, or it has ended"),
        (None, None) => "unknown".to_owned(),
    };
    let (level, meanwhile) = match evidence.must_wait {
        true => (Health::Stuck, "rows wait for it"),
        false => (
            Health::Attention,
            "rows arrive, but the checkpoint waits for it",
        ),
    };
    let says = format!(
        "a transaction has been open for {} or more ({who}): {meanwhile}, with {} remembered above it",
        ago(age),
        late.remembered
    );
    let next = match &evidence.remedy {
        Some(remedy) => format!("end it, or its session: {remedy}"),
        None => "end it, or its session; if it has ended, the next tick passes it".to_owned(),
    };
    Some(finding("transaction_open", level, says, next).since(since))
}

/// How long nothing may happen before it is strange.
fn patience(view: &PollerView) -> TimeDelta {
    let interval = Duration::from_secs(view.interval_s.unwrap_or(0));
    delta((interval * MISSED_TICKS).max(LEAST_PATIENCE))
}

fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}
