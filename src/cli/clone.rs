//! `dbtick clone`: a second poller that goes on from where the first one stands.

use std::process::ExitCode;

use clap::Args;

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, place_of, rows_behind, standing};
use super::target::{Opened, Target};
use crate::clock::{Clock, SystemClock};
use crate::model::transitions::orders::{clone_as, fits};
use crate::store::StoreKey;
use crate::tick::Poller;
use crate::tick::operate::{Found, Operated};

/// Begin a new poller at the checkpoint of another
///
/// Makes the state document of the new one, with its own lease. For a second receiver that shall not begin at the beginning, or for a poller under a new name.
/// One of the two must be in the app. The original is not touched. Events of the new poller have
/// other ids than those of the original, because its name is part of them; `"events_as": "NAME"` in its
/// poller block keeps them, for receivers that shall know the events again.
#[derive(Debug, Args)]
pub(super) struct Clone {
    #[command(flatten)]
    target: Target,
    /// Name of the new poller
    #[arg(long = "as", value_name = "NAME")]
    name: String,
    #[command(flatten)]
    rails: Rails,
}

impl Clone {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.clone_poller().await, self.rails.json)
    }

    async fn clone_poller(&self) -> Result<(), Problem> {
        let opened = self.target.place.open()?;
        let by = self.rails.operator(&opened)?;
        let (original, copy, is_configured) = self.both(&opened)?;
        let found = original.found().await?;
        let Found::Document(from) = &found else {
            let (name, standing) = (&original.name, standing(&found));
            return Err(Problem::new(format!("{name} cannot be cloned: {standing}")));
        };
        if !matches!(copy.found().await?, Found::Nothing { born: false }) {
            return Err(taken(&copy));
        }
        let mut notes = Vec::new();
        let source = is_configured.then(|| copy.identity());
        if let Some(source) = &source {
            fits(from, source)?;
            let was = from.source.as_ref();
            let changes = was.map_or_else(Vec::new, |was| was.differences(&source.definition));
            notes.extend(changes.iter().map(ToString::to_string));
        } else {
            notes.push(format!(
                "the app has no poller {} yet: it begins when its function is there",
                copy.name
            ));
        }
        notes.push(match copy.events_as == original.events_as {
            true => "its events have the same ids as those of the original".to_owned(),
            false => format!(
                "its events have other ids than those of the original; \"events_as\": {:?} in its poller block keeps them",
                original.events_as
            ),
        });
        let document = clone_as(from, &copy.name, source.as_ref(), &by, SystemClock.now());
        let plan = Plan {
            what: "clone",
            poller: original.name.clone(),
            from: place_of(from),
            to: format!("the same place, as {}", copy.name),
            rows: rows_behind(&copy, document.position()).await,
            notes,
        };
        if !self.rails.agreed(&plan, &copy.name)? {
            return Ok(());
        }
        if !copy.begin_with(&document).await? {
            return Err(taken(&copy));
        }
        let operated = Operated {
            document,
            aside: None,
            already: false,
        };
        let plan = Plan {
            poller: copy.name.clone(),
            ..plan
        };
        self.rails.report(plan, &operated, None);
        Ok(())
    }

    /// The original and the copy, and whether the copy is in the app. The one that is not borrows
    /// everything but its name from the other.
    fn both(&self, opened: &Opened) -> Result<(Poller, Poller, bool), Problem> {
        let name = self.name.to_lowercase();
        let from = self.target.poller.to_lowercase();
        if name == from {
            return Err(Problem::usage("a clone needs another name"));
        }
        let configured = |name: &str| opened.configured(name);
        Ok(match (configured(&from)?, configured(&name)?) {
            (Some(original), Some(copy)) => (original, copy, true),
            (Some(original), None) => {
                let copy = renamed(opened, configured(&from)?, &name)?;
                (original, copy, false)
            }
            (None, Some(copy)) => (renamed(opened, configured(&name)?, &from)?, copy, true),
            // Says which pollers there are.
            (None, None) => (opened.poller(&from)?, opened.poller(&name)?, false),
        })
    }
}

fn renamed(opened: &Opened, poller: Option<Poller>, name: &str) -> Result<Poller, Problem> {
    let Some(mut poller) = poller else {
        return opened.poller(name);
    };
    let bad = |_| {
        Problem::usage(format!(
            "{name:?} is no name for a poller: letters, digits, '-' and '_'"
        ))
    };
    poller.state_key = StoreKey::state(opened.app_name(), name).map_err(bad)?;
    poller.birth_marker = StoreKey::birth_marker(opened.app_name(), name).map_err(bad)?;
    poller.name = name.to_owned();
    poller.events_as = name.to_owned();
    Ok(poller)
}

fn taken(copy: &Poller) -> Problem {
    Problem::new(format!(
        "{} has state already: nothing was changed. Give another name, or move it by `dbtick reset {}`",
        copy.name, copy.name
    ))
}
