//! `dbtick orphans`: work that is stuck (F1).

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::output::{object, show, table};
use super::problem::{Problem, finish};
use super::say;
use super::target::AppPlace;
use crate::config::human::{self, show_duration};
use crate::overview::orphans::{GRACE, Orphan};
use crate::overview::words::ago;

/// List work that is stuck: what has not moved for longer than the grace period
///
/// Leases of owners that died and that nobody took, receivers that fail at the same row, ticks that fail,
/// rows left in quarantine, backfills that are not complete, state whose poller is gone. `dbtick resolve`
/// does something about each.
#[derive(Debug, Args)]
pub(super) struct Orphans {
    #[command(flatten)]
    place: AppPlace,
    #[command(flatten)]
    grace: Grace,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

/// How long something may stand still.
#[derive(Debug, Args)]
pub(super) struct Grace {
    /// What has stood still for so long is stuck, such as 30m or 1d
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "2h")]
    grace: Duration,
}

impl Grace {
    pub(super) fn get(&self) -> Duration {
        self.grace
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    human::duration(text).map_err(|error| error.to_string())
}

impl Orphans {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.list().await, self.json)
    }

    async fn list(&self) -> Result<(), Problem> {
        let opened = self.place.open()?;
        let grace = self.grace.get();
        let found = opened.overview()?.orphans(grace).await?;
        if self.json {
            let members = json!({ "grace_s": grace.as_secs(), "orphans": found });
            object(true, &members)?;
            return Ok(());
        }
        let unless_told = if grace == GRACE {
            " (the grace period)"
        } else {
            ""
        };
        if found.is_empty() {
            let grace = show_duration(grace);
            say(&format!(
                "nothing is stuck for {grace}{unless_told} or longer\n"
            ));
            return Ok(());
        }
        let mut table = table(&["poller", "kind", "since", ""]);
        for orphan in &found {
            let Orphan {
                poller,
                kind,
                since,
                says,
                review,
                ..
            } = orphan;
            let review = review.as_ref().map_or_else(String::new, |review| {
                format!(" [{} looks into it since {}]", review.who, review.at)
            });
            table.add_row([
                poller.clone(),
                kind.name().to_owned(),
                format!("{} ago", ago(opened.now() - *since)),
                format!("{says}{review}"),
            ]);
        }
        say(&show(&table));
        let arguments = self.place.arguments();
        say(&format!(
            "\n`dbtick resolve POLLER{arguments} --strategy resume | mark-failed | review` does something about it\n"
        ));
        Ok(())
    }
}
