//! `dbtick rollback`: back (or forward) to a kept checkpoint.

use std::process::ExitCode;

use clap::Args;

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, consequences, rows_between, standing};
use super::target::Target;
use crate::model::history::short;
use crate::model::transitions::{Order, Refusal};
use crate::tick::operate::{Found, Otherwise};

/// Bring a poller back to a kept checkpoint
///
/// To any version that `dbtick history` lists, its schema with it; the rows behind it come again.
#[derive(Debug, Args)]
pub(super) struct Rollback {
    #[command(flatten)]
    target: Target,
    /// The version, as `dbtick history` shows it
    #[arg(long, value_name = "VERSION")]
    to: u64,
    #[command(flatten)]
    rails: Rails,
}

impl Rollback {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.roll_back().await, self.rails.json)
    }

    async fn roll_back(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let found = poller.found().await?;
        let version = self.to;
        let kept = match &found {
            Found::Document(document) => {
                let kept: Vec<u64> = document.history.iter().map(|kept| kept.version).collect();
                let found = document.kept(version);
                let found = found.ok_or(Refusal::NotKept { version, kept })?;
                if found.source != short(&poller.fingerprint) {
                    return Err(Refusal::OtherSource { version }.into());
                }
                found.clone()
            }
            // The same refusal that the order itself would meet.
            other => {
                let text = format!("{} cannot be rolled back: {}", poller.name, standing(other));
                return Err(Problem::new(text));
            }
        };
        let to = kept.cursor.as_ref().map(|mark| &mark.position);
        let place = to.map_or_else(|| "the beginning".to_owned(), ToString::to_string);
        let plan = Plan {
            what: "rollback",
            poller: poller.name.clone(),
            from: standing(&found),
            to: format!("{place}, as of version {version} ({})", kept.at),
            rows: rows_between(&poller, &found, to).await,
            notes: consequences(&found),
        };
        let order = |evidence| Order::Rollback {
            version,
            source: poller.identity(),
            evidence,
        };
        let place = &self.target.place;
        self.rails
            .move_poller(place, &poller, plan, &by, Otherwise::Refuse, order)
            .await
    }
}
