//! `dbtick tick`: one tick now, by the code that the handler runs.

use std::pin::pin;
use std::process::ExitCode;

use clap::Args;
use futures_util::poll;
use serde_json::{Value, json};

use super::problem::{Problem, finish};
use super::target::{Opened, Target};
use super::{complain, interrupted, say};
use crate::model::page::Page;
use crate::model::position::Position;
use crate::model::state::StateDocument;
use crate::stop::{self, StopSwitch};
use crate::telemetry;
use crate::tick::budget::Budget;
use crate::tick::operate::Found;
use crate::tick::report::TickReport;
use crate::tick::{Poller, tick};

/// Run one tick of a poller now
///
/// The same as when its timer fires: it takes the lease, delivers what is new, and commits. The timer goes on
/// beside it; of two ticks at once one does nothing. Ctrl-C finishes the batch in flight and gives the
/// lease back.
#[derive(Debug, Args)]
pub(super) struct Tick {
    #[command(flatten)]
    target: Target,
    /// Show what it would do, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

impl Tick {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.tick().await, self.json)
    }

    async fn tick(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        if self.dry_run {
            return self.preview(&poller).await;
        }
        let report = run_to_the_end(&opened, &poller).await?;
        let sentence = report.sentence();
        let mut object = serde_json::to_value(telemetry::tick_line(&report, None))?;
        object["ok"] = json!(!report.is_failure());
        if report.is_failure() {
            return Err(Problem::new(sentence).in_detail(object));
        }
        match self.json {
            true => say(&format!("{object}\n")),
            false => say(&format!("{sentence}\n")),
        }
        Ok(())
    }

    async fn preview(&self, poller: &Poller) -> Result<(), Problem> {
        let forecast = poller.forecast(1).await?;
        let document = match poller.found().await? {
            Found::Document(document) => Some(document),
            Found::Nothing { .. } | Found::Refused { .. } => None,
        };
        let first = forecast.pages.first();
        let ends = first.and_then(ends);
        let rows = first.map_or(0, Page::len);
        let more = forecast.pages.len() > 1 || rows >= poller.batch.max_rows.get();
        let sinks = sinks(poller, document.as_deref());
        if self.json {
            let object = json!({
                "ok": true, "done": false, "poller": poller.name,
                "nothing": forecast.nothing,
                "rows": rows,
                "first": ends.map(|(first, _)| first.to_string()),
                "last": ends.map(|(_, last)| last.to_string()),
                "may_be_more": more,
                "sinks": sinks,
            });
            say(&format!("{object}\n"));
            return Ok(());
        }
        let what = match (&forecast.nothing, ends) {
            (Some(why), _) => why.clone(),
            (None, Some((first, last))) => {
                let behind = match more {
                    true => "; further batches follow while there is time",
                    false => "",
                };
                format!("a first batch of {rows}, from {first} to {last}{behind}")
            }
            (None, None) => "nothing new".to_owned(),
        };
        say(&format!("tick {}\n  rows  {what}\n", poller.name));
        for sink in &sinks {
            say(&format!("  to    {}\n", sink_text(sink)));
        }
        say("dry run: nothing was sent or changed\n");
        Ok(())
    }
}

/// Not before the tick is over, unless somebody insists.
async fn run_to_the_end(opened: &Opened, poller: &Poller) -> Result<TickReport, Problem> {
    let (switch, stop) = stop::channel();
    let started = poller.clock.monotonic();
    let budget = Budget::starting(started, opened.function_timeout()).or_until(stop);
    let mut ticking = pin!(tick(poller, budget));
    tokio::select! {
        biased;
        report = &mut ticking => Ok(report),
        () = twice_interrupted(&switch) => Err(Problem::new(format!(
            "left in the middle: what was not committed comes again, and {} can be worked on when the lease \
             has run out, or after `dbtick unlock {}`", poller.name, poller.name
        ))),
    }
}

async fn twice_interrupted(switch: &StopSwitch) {
    interrupted().await;
    switch.raise();
    let mut again = pin!(interrupted());
    // Listens before it says so.
    if poll!(&mut again).is_pending() {
        complain("dbtick: finishing the batch in flight; interrupt again to leave it\n");
        again.await;
    }
}

fn ends(page: &Page) -> Option<(&Position, &Position)> {
    let first = page.events().first()?;
    Some((&first.position, page.last_position()?))
}

fn sinks(poller: &Poller, document: Option<&StateDocument>) -> Vec<Value> {
    let sinks = poller.sinks.iter();
    sinks
        .map(|outlet| {
            let name = outlet.sink.name();
            let state = document.map(|document| document.sink(name));
            let lag = state.as_ref().and_then(|state| state.lag.as_ref());
            let failure = state.as_ref().and_then(|state| state.failure.as_ref());
            json!({
                "name": name,
                "required": outlet.required,
                "behind_since": lag.map(|lag| lag.since),
                "failed_attempts": failure.map_or(0, |failure| failure.attempts),
                "error": failure.map(|failure| &failure.error),
            })
        })
        .collect()
}

fn sink_text(sink: &Value) -> String {
    let text = |name: &str| sink[name].as_str().unwrap_or_default().to_owned();
    let mut said = text("name");
    if sink["required"] == false {
        said += ", not required";
    }
    if !sink["behind_since"].is_null() {
        said += &format!(
            ", behind since {}: it is asked after the others",
            text("behind_since")
        );
    }
    if !sink["error"].is_null() {
        let attempts = &sink["failed_attempts"];
        said += &format!(", failed {attempts} time(s): {}", text("error"));
    }
    said
}
