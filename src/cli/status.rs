//! `dbtick status`: what is stuck, why, and what to do about it.

use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::time::Duration;

use chrono::TimeDelta;
use clap::Args;
use tokio::time::sleep;

use super::output::{health_cell, object, show, table};
use super::problem::{Problem, finish};
use super::target::AppPlace;
use super::{interrupted, say};
use crate::clock::Timestamp;
use crate::overview::health::{Finding, Health};
use crate::overview::view::{
    AppView, LagBasis, LagView, LeaseView, PollerDetail, PollerView, SinkView,
};
use crate::overview::words::ago;

const REFRESH: Duration = Duration::from_secs(2);
/// Home, and clear to the end.
const FROM_THE_TOP: &str = "\u{1b}[H\u{1b}[J";

/// Show what every poller does, what is stuck and why, and the next step
///
/// Everything comes from the state, the quarantine and the databases themselves: it may be asked from any
/// machine that can reach them. Exit code 1 if a poller is stuck, or cannot be looked at.
#[derive(Debug, Args)]
pub(super) struct Status {
    /// One poller, in detail; all of them unless told
    poller: Option<String>,
    #[command(flatten)]
    place: AppPlace,
    /// Look again every two seconds, until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// Print JSON, one object for each look
    #[arg(long)]
    json: bool,
}

/// What was seen.
enum Seen {
    All(AppView),
    One(Box<PollerDetail>, Timestamp),
}

impl Status {
    pub(super) async fn run(self) -> ExitCode {
        match self.watched().await {
            Ok(Health::Stuck) => ExitCode::FAILURE,
            Ok(_) => ExitCode::SUCCESS,
            Err(problem) => finish(Err(problem), self.json),
        }
    }

    async fn watched(&self) -> Result<Health, Problem> {
        let opened = self.place.open()?;
        let overview = opened.overview()?;
        if let Some(name) = &self.poller {
            // Says which there are.
            opened.poller(name)?;
        }
        let from_the_top = self.watch && !self.json && stdout().is_terminal();
        loop {
            let seen = match &self.poller {
                None => Seen::All(overview.all().await),
                Some(name) => {
                    let detail = overview.one(&name.to_lowercase()).await;
                    let detail = detail.ok_or_else(|| Problem::new("it is gone"))?;
                    Seen::One(Box::new(detail), opened.now())
                }
            };
            if from_the_top {
                say(FROM_THE_TOP);
            }
            self.print(&seen)?;
            let health = match &seen {
                Seen::All(app) => app.health,
                Seen::One(detail, _) => detail.view.health,
            };
            if !self.watch {
                return Ok(health);
            }
            tokio::select! {
                biased;
                () = interrupted() => return Ok(health),
                () = sleep(REFRESH) => {}
            }
        }
    }

    fn print(&self, seen: &Seen) -> Result<(), Problem> {
        match seen {
            Seen::All(app) if self.json => object(true, app)?,
            Seen::One(detail, _) if self.json => object(true, detail)?,
            Seen::All(app) => say(&all(app)),
            Seen::One(detail, now) => say(&one(detail, *now)),
        }
        Ok(())
    }
}

fn all(app: &AppView) -> String {
    let mut text = String::new();
    for fault in &app.faults {
        text += &format!("stuck  {fault}\n");
    }
    if app.pollers.is_empty() {
        let other = if app.faults.is_empty() { "" } else { "other " };
        return text + &format!("no {other}function of this app has a poller\n");
    }
    let header = [
        "health",
        "poller",
        "phase",
        "to deliver",
        "last commit",
        "quarantine",
        "",
    ];
    let mut table = table(&header);
    for view in &app.pollers {
        let kept = view.quarantine.as_ref();
        table.add_row([
            health_cell(view.health),
            (&view.poller).into(),
            view.phase.name().into(),
            view.lag.as_ref().map_or("?".to_owned(), lag).into(),
            view.last_success
                .map_or("-".to_owned(), |at| since(at, app.at))
                .into(),
            kept.map_or("?".to_owned(), |kept| kept.rows.to_string())
                .into(),
            (&view.headline).into(),
        ]);
    }
    text += &show(&table);
    for view in &app.pollers {
        for finding in view
            .findings
            .iter()
            .filter(|found| found.level > Health::Ok)
        {
            text += &format!("\n{}\n", advice(&view.poller, finding, app.at));
        }
    }
    text
}

fn advice(poller: &str, finding: &Finding, now: Timestamp) -> String {
    let Finding {
        code,
        level,
        says,
        next,
        since: began,
    } = finding;
    let began = began.map_or_else(String::new, |began| {
        format!(" (since {})", since(began, now))
    });
    format!(
        "{poller}: {code}, {}{began}\n  {says}\n  → {next}",
        level.name()
    )
}

fn one(detail: &PollerDetail, now: Timestamp) -> String {
    let view = &detail.view;
    let mut text = format!(
        "{}: {}, {}\n{}\n",
        view.poller,
        view.health.name(),
        view.phase.name(),
        view.headline
    );
    for finding in &view.findings {
        text += &format!("\n{}\n", advice(&view.poller, finding, now));
    }
    text.push('\n');
    for (name, value) in facts(view, now) {
        text += &format!("{name:<12}  {value}\n");
    }
    text
}

/// Names and values, those that there are.
fn facts(view: &PollerView, now: Timestamp) -> Vec<(String, String)> {
    let mut facts: Vec<(String, String)> = Vec::new();
    let mut fact = |name: &str, value: String| facts.push((name.to_owned(), value));
    let source = &view.source;
    fact(
        "source",
        format!("{} of {}", source.rows, source.connection),
    );
    if let Some(checkpoint) = &view.checkpoint {
        let place = checkpoint.place.as_deref().unwrap_or("the beginning");
        let version = checkpoint
            .version
            .map(|version| format!(", version {version}"));
        fact(
            "checkpoint",
            format!("{place}{}", version.unwrap_or_default()),
        );
        fact("state", format!("{} bytes", checkpoint.bytes));
    }
    if let Some(at) = view.last_success {
        fact("last commit", format!("{at}, {}", since(at, now)));
    }
    if let Some(waiting) = &view.lag {
        fact("to deliver", lag(waiting));
    }
    if let Some(seconds) = view.interval_s {
        fact(
            "schedule",
            format!(
                "every {seconds} s: a row arrives within that + query + a running tick + delivery"
            ),
        );
    }
    fact(
        "lease",
        view.lease
            .as_ref()
            .map_or("free".to_owned(), |held| lease(held, now)),
    );
    if let Some(late) = &view.late {
        let grade = late.grade.as_deref().unwrap_or("not asked");
        let remembered = late.remembered;
        fact(
            "late commits",
            format!(
                "{grade}; {remembered} delivered above the checkpoint, {} waited for",
                late.witnesses
            ),
        );
    }
    for sink in &view.sinks {
        fact(&format!("→ {}", sink.name), receiver(sink, now));
    }
    if let Some(kept) = &view.quarantine {
        let oldest = kept
            .oldest
            .map(|oldest| format!(", the oldest {}", since(oldest, now)));
        fact(
            "quarantine",
            format!("{}{}", kept.rows, oldest.unwrap_or_default()),
        );
    }
    let counters = &view.counters;
    fact(
        "so far",
        format!(
            "{} rows in {} batches, {} failed ticks",
            counters.rows, counters.batches, counters.failed_ticks
        ),
    );
    facts
}

fn lag(lag: &LagView) -> String {
    let more = if lag.exact { "" } else { "+" };
    match lag.basis {
        LagBasis::Nothing => "0".to_owned(),
        LagBasis::Cursor => {
            let seconds = TimeDelta::seconds(i64::try_from(lag.seconds).unwrap_or(0));
            format!("{}{more}, {} old", lag.rows, ago(seconds))
        }
        LagBasis::LastCommit => format!("{}{more}", lag.rows),
    }
}

fn lease(held: &LeaseView, now: Timestamp) -> String {
    let state = if held.expired { "expired" } else { "held" };
    format!(
        "{state} by {}, token {}, taken {}, heartbeat {} s ago",
        held.owner,
        held.token,
        since(held.acquired_at, now),
        held.age_s
    )
}

fn receiver(sink: &SinkView, now: Timestamp) -> String {
    let mut text = match sink.required {
        true => format!("{} rows", sink.rows),
        false => format!("optional, {} rows", sink.rows),
    };
    if let Some(behind) = &sink.behind {
        text += &format!("; behind since {}", since(behind.since, now));
    }
    if let Some(failure) = &sink.failure {
        text += &format!("; {} failed attempts: {}", failure.attempts, failure.error);
    }
    text
}

fn since(at: Timestamp, now: Timestamp) -> String {
    format!("{} ago", ago(now - at))
}
