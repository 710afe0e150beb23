//! `dbtick pause` and `dbtick resume`: harmless and each the undo of the other, so nobody is asked to
//! confirm them.

use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::problem::{Problem, finish};
use super::rails::{Plan, Rows, operator, place_of, rows_behind, standing};
use super::say;
use super::target::Target;
use crate::model::halt::{Halt, HaltKind};
use crate::model::state::StateDocument;
use crate::model::transitions::{Order, Refusal};
use crate::tick::Poller;
use crate::tick::operate::{Found, OperateError, Operated, Otherwise};

/// Stop a poller after the batch in flight, until it is resumed
///
/// Its function goes on to be invoked: each tick answers 200, reads nothing and says that it is
/// paused. The checkpoint stays, so that no row is lost or comes again.
#[derive(Debug, Args)]
pub(super) struct Pause {
    #[command(flatten)]
    turn: Turn,
}

/// Let a paused poller go on from its checkpoint
#[derive(Debug, Args)]
pub(super) struct Resume {
    #[command(flatten)]
    turn: Turn,
}

#[derive(Debug, Args)]
struct Turn {
    #[command(flatten)]
    target: Target,
    /// Show what would happen, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Why; kept in the audit trail of the state document
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Paused,
    Active,
}

impl Pause {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.turn.run(To::Paused).await, self.turn.json)
    }
}

impl Resume {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.turn.run(To::Active).await, self.turn.json)
    }
}

impl To {
    fn verb(self) -> &'static str {
        match self {
            Self::Paused => "pause",
            Self::Active => "resume",
        }
    }

    fn undone_by(self) -> Self {
        match self {
            Self::Paused => Self::Active,
            Self::Active => Self::Paused,
        }
    }
}

impl Turn {
    async fn run(&self, to: To) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = operator(&opened, self.reason.as_deref())?;
        let document = document(&poller, to).await?;
        let halt = Halt::of(&document);
        if let Some(halt) = halt.as_ref().filter(|halt| halt.kind == HaltKind::Failed) {
            return Err(failed(&poller.name, &halt.to_string()));
        }
        let plan = plan(&poller, &document, halt.as_ref(), to).await?;
        if !self.json {
            say(&plan.text());
        }
        if self.dry_run {
            match self.json {
                true => say(&format!("{}\n", plan.json(false, json!({})))),
                false => say("dry run: nothing was changed\n"),
            }
            return Ok(());
        }
        let order = |_| match to {
            To::Paused => Order::Pause,
            To::Active => Order::Resume,
        };
        let operated = poller.operate(&by, Otherwise::Refuse, order).await;
        let operated = operated.map_err(|error| match error {
            OperateError::Refused(Refusal::Failed) => failed(&poller.name, "marked failed"),
            error => error.into(),
        })?;
        self.report(to, &plan, &operated);
        Ok(())
    }

    fn report(&self, to: To, plan: &Plan, operated: &Operated) {
        let changed = !operated.already;
        let name = &plan.poller;
        let undo = changed.then(|| {
            let verb = to.undone_by().verb();
            format!("dbtick {verb} {name}{}", self.target.place.arguments())
        });
        let document = &operated.document;
        if self.json {
            let rest = json!({
                "changed": changed,
                "version": document.version(),
                "checkpoint": document.position().map(ToString::to_string),
                "undo": undo,
            });
            say(&format!("{}\n", plan.json(true, rest)));
            return;
        }
        let Some(undo) = undo else {
            let is = match Halt::of(document) {
                Some(halt) => halt.to_string(),
                None => "not paused".to_owned(),
            };
            say(&format!("there was nothing to change: {name} is {is}\n"));
            return;
        };
        let done = match to {
            To::Paused => "is paused: its ticks read and deliver nothing",
            To::Active => "goes on with its next tick",
        };
        say(&format!("done: {name} {done}\nundo: {undo}\n"));
    }
}

/// The document of a poller that has one.
async fn document(poller: &Poller, to: To) -> Result<StateDocument, Problem> {
    let found = poller.found().await?;
    match found {
        Found::Document(document) => Ok(*document),
        Found::Nothing { born: false } => {
            let (name, verb) = (&poller.name, to.verb());
            Err(Problem::new(format!(
                "{name} has not run yet, so there is nothing to {verb}: its first tick makes its state; \
                 to keep it from starting, disable its function"
            )))
        }
        Found::Nothing { born: true } | Found::Refused { .. } => {
            // Says what to do about it.
            poller.standing().await?;
            Err(Problem::new(standing(&found)))
        }
    }
}

async fn plan(
    poller: &Poller,
    document: &StateDocument,
    halt: Option<&Halt>,
    to: To,
) -> Result<Plan, Problem> {
    let place = place_of(document);
    let (is, rows) = match (to, halt) {
        (To::Paused, _) => ("paused", Rows::unmoved()),
        (To::Active, None) => ("active", Rows::unmoved()),
        (To::Active, Some(_)) => ("active", rows_behind(poller, document.position()).await),
    };
    let mut notes = Vec::new();
    if to == To::Paused
        && halt.is_none()
        && let Some(Refusal::Held { owner_id, .. }) = poller.held_by_another().await?
    {
        notes.push(format!(
            "{owner_id} works on it now: it finishes and commits the batch in flight, then stops"
        ));
    }
    Ok(Plan {
        what: to.verb(),
        poller: poller.name.clone(),
        from: halt.map_or_else(|| format!("active at {place}"), ToString::to_string),
        to: format!("{is} at {place}"),
        rows,
        notes,
    })
}

fn failed(name: &str, how: &str) -> Problem {
    Problem::new(format!(
        "{name} is {how}; nothing was changed. Look into it, then let it go on by \
         `dbtick rollback {name} --to VERSION` or `dbtick reset {name}`"
    ))
}
