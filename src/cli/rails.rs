//! Guard rails for whoever changes a poller by hand (G2): what will happen is shown first, with row
//! counts; it needs the poller's name or `--yes`; it is audited; and its undo is printed.

use std::cmp::Ordering;
use std::io::{BufRead, IsTerminal, stdin};

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::problem::Problem;
use super::target::{AppPlace, Opened};
use super::{complain, say};
use crate::clock::{Clock, SystemClock};
use crate::model::history::short;
use crate::model::lease::AgeEvidence;
use crate::model::plain::is_obeyed;
use crate::model::position::Position;
use crate::model::sinks;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::{Operator, Order};
use crate::tick::Poller;
use crate::tick::operate::{Count, Found, OperateError, Operated, Otherwise};
use crate::tick::report::TickError;

/// An audit trail is no place for essays.
const LONGEST_REASON: usize = 500;

const OLD_SOURCE: &str = "put the old source back into function.json";
const OLD_RECEIVERS: &str = "put the old receivers back into function.json";

#[derive(Debug, Args)]
pub(super) struct Rails {
    /// Do not ask for the poller's name
    #[arg(long)]
    yes: bool,
    /// Show what would happen, and do nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Why; kept in the audit trail of the state document
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Print JSON, one object
    #[arg(long)]
    pub(super) json: bool,
}

/// What is about to happen.
#[derive(Debug, Serialize)]
pub(super) struct Plan {
    pub(super) what: &'static str,
    pub(super) poller: String,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) rows: Rows,
    pub(super) notes: Vec<String>,
}

/// How many rows it is about.
#[derive(Debug, Serialize)]
pub(super) struct Rows {
    /// `again`, `skipped`, `next`, `none`; or what is done with quarantined ones.
    kind: &'static str,
    /// `null`: unknown.
    count: Option<u64>,
    /// `false`: there are more.
    exact: bool,
    text: String,
}

impl Rails {
    pub(super) fn operator(&self, opened: &Opened) -> Result<Operator, Problem> {
        operator(opened, self.reason.as_deref())
    }

    pub(super) fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Shows the plan, asks, carries the order out and prints how to take it back.
    pub(super) async fn move_poller(
        &self,
        place: &AppPlace,
        poller: &Poller,
        mut plan: Plan,
        by: &Operator,
        otherwise: Otherwise,
        order: impl Fn(AgeEvidence) -> Order,
    ) -> Result<(), Problem> {
        match poller.held_by_another().await? {
            Some(refusal) if self.dry_run => plan.notes.push(format!("not now: {refusal}")),
            Some(refusal) => return Err(OperateError::from(refusal).into()),
            None => {}
        }
        let before = poller.found().await?;
        if !self.agreed(&plan, &poller.name)? {
            return Ok(());
        }
        let operated = poller.operate(by, otherwise, order).await?;
        let undo = match &before {
            Found::Document(before) => match adopted(&plan, before, poller) {
                Some(old) => {
                    let command = self.command(place, "adopt", &poller.name, "");
                    Some(format!("{old}, then {command}"))
                }
                None => self.undo(place, poller, &operated),
            },
            Found::Nothing { .. } | Found::Refused { .. } => None,
        };
        self.report(plan, &operated, undo);
        Ok(())
    }

    /// Whether to go on; `false` after a dry run.
    pub(super) fn agreed(&self, plan: &Plan, name: &str) -> Result<bool, Problem> {
        if !self.json {
            say(&plan.text());
        }
        if self.dry_run {
            match self.json {
                true => say(&format!("{}\n", plan.json(false, json!({})))),
                false => say("dry run: nothing was changed\n"),
            }
            return Ok(false);
        }
        if self.yes {
            return Ok(true);
        }
        if !stdin().is_terminal() {
            return Err(Problem::usage(
                "nothing was changed: there is no terminal to ask on; say --yes to do it, or --dry-run to only look",
            ));
        }
        complain(&format!("type {name} to go on: "));
        let mut line = String::new();
        stdin().lock().read_line(&mut line)?;
        if line.trim() != name {
            return Err(Problem::new("nothing was changed: that is not its name"));
        }
        Ok(true)
    }

    pub(super) fn report(&self, plan: Plan, operated: &Operated, undo: Option<String>) {
        let document = &operated.document;
        let aside = operated.aside.as_ref().map(ToString::to_string);
        if self.json {
            let rest = json!({
                "changed": !operated.already,
                "version": document.version(),
                "checkpoint": document.position().map(ToString::to_string),
                "refused_document": aside,
                "undo": undo,
            });
            say(&format!("{}\n", plan.json(true, rest)));
            return;
        }
        if operated.already {
            say("there was nothing to change\n");
            return;
        }
        let mut text = format!("done: {} is at {}", plan.poller, place_of(document));
        if let Some(key) = aside {
            text += &format!("\nthe refused document is kept as {key}");
        }
        if let Some(undo) = undo {
            text += &format!("\nundo: {undo}");
        }
        say(&format!("{text}\n"));
    }

    fn undo(&self, place: &AppPlace, poller: &Poller, operated: &Operated) -> Option<String> {
        let version = operated.undo()?;
        let to = format!(" --to {version}");
        let command = self.command(place, "rollback", &poller.name, &to);
        let kept = operated.document.kept(version)?;
        Some(match kept.source == short(&poller.fingerprint) {
            true => command,
            false => format!("{OLD_SOURCE}, then {command}"),
        })
    }

    fn command(&self, place: &AppPlace, verb: &str, poller: &str, more: &str) -> String {
        let arguments = place.arguments();
        let yes = if self.yes { " --yes" } else { "" };
        format!("dbtick {verb} {poller}{more}{arguments}{yes}")
    }
}

/// What has to be put back before it can be adopted again: definitions are not in the history.
fn adopted(plan: &Plan, before: &StateDocument, poller: &Poller) -> Option<&'static str> {
    if plan.what != "adopt" {
        None
    } else if before.source_fingerprint != poller.fingerprint {
        Some(OLD_SOURCE)
    } else if sinks::compare(&before.sinks, &poller.sink_names()).is_err() {
        Some(OLD_RECEIVERS)
    } else {
        None
    }
}

/// Whoever types a command, for the audit trail.
pub(super) fn operator(opened: &Opened, reason: Option<&str>) -> Result<Operator, Problem> {
    let why = reason.unwrap_or_default();
    if why.chars().count() > LONGEST_REASON {
        let text = format!("--reason is longer than {LONGEST_REASON} characters");
        return Err(Problem::usage(text));
    }
    Ok(Operator {
        who: opened.who.clone(),
        why: why.replace(is_obeyed, " "),
        id: format!("{:032x}", SystemClock.random()),
    })
}

impl Plan {
    pub(super) fn text(&self) -> String {
        let Self {
            what,
            poller,
            from,
            to,
            rows,
            notes,
        } = self;
        let mut text = format!(
            "{what} {poller}\n  from  {from}\n  to    {to}\n  rows  {}\n",
            rows.text
        );
        for note in notes {
            text += &format!("  note  {note}\n");
        }
        text
    }

    /// Members of `rest` are added.
    pub(super) fn json(&self, done: bool, rest: Value) -> Value {
        let mut object = json!({ "ok": true, "done": done });
        for more in [json!(self), rest] {
            if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
                object.extend(more);
            }
        }
        object
    }
}

/// Where a document stands, in words.
pub(super) fn place_of(document: &StateDocument) -> String {
    let place = match document.position() {
        Some(position) => position.to_string(),
        None => "the beginning".to_owned(),
    };
    match document.version() {
        Some(version) => format!("{place}, version {version}"),
        None => place,
    }
}

/// Where a poller stands now, whatever that is.
pub(super) fn standing(found: &Found) -> String {
    match found {
        Found::Nothing { born: false } => "no state: it has not run yet".to_owned(),
        Found::Nothing { born: true } => "no state: the document is gone".to_owned(),
        Found::Document(document) => place_of(document),
        Found::Refused { error, .. } => format!("a document that is refused: {error}"),
    }
}

/// What moving from one place to another does to rows. The order of the two is only known when they
/// are places in the same source.
pub(super) async fn rows_between(poller: &Poller, from: &Found, to: Option<&Position>) -> Rows {
    let document = match from {
        Found::Document(document) if document.source_fingerprint == poller.fingerprint => document,
        _ => return rows_behind(poller, to).await,
    };
    let from = document.position();
    if let (Some(from), Some(to)) = (from, to)
        && shape(from) != shape(to)
    {
        return rows_behind(poller, Some(to)).await;
    }
    match to.cmp(&from) {
        Ordering::Equal => Rows::unmoved(),
        Ordering::Less => Rows::of("again", poller.count(to, from).await),
        Ordering::Greater => {
            let mut rows = Rows::of("skipped", poller.count(from, to).await);
            if let Some(last) = poller.beyond_the_end(to).await {
                rows.text += &format!(
                    "; the table ends at {last}: rows that are still to come up to that place are passed over too"
                );
            }
            rows
        }
    }
}

/// What will be delivered from a place on.
pub(super) async fn rows_behind(poller: &Poller, place: Option<&Position>) -> Rows {
    rows_behind_all([poller], place).await
}

/// Of pollers that have parts of the same rows.
pub(super) async fn rows_behind_all(
    pollers: impl IntoIterator<Item = &Poller>,
    place: Option<&Position>,
) -> Rows {
    let mut all = Count::Exactly(0);
    for poller in pollers {
        match poller.count(place, None).await {
            Ok(part) => all = all.and(part),
            error => return Rows::of("next", error),
        }
    }
    Rows::of("next", Ok(all))
}

impl Rows {
    /// So many, and nothing else about them.
    pub(super) fn exactly(kind: &'static str, count: u64) -> Self {
        Self {
            kind,
            count: Some(count),
            exact: true,
            text: count.to_string(),
        }
    }

    pub(super) fn unmoved() -> Self {
        Self {
            kind: "none",
            count: Some(0),
            exact: true,
            text: "the same place: none comes again, none is skipped".to_owned(),
        }
    }

    fn of(kind: &'static str, counted: Result<Count, TickError>) -> Self {
        let (count, exact, text) = match counted {
            Err(error) => (None, false, format!("unknown how many: {}", error.story())),
            Ok(counted) => {
                let (count, exact) = match counted {
                    Count::Exactly(count) => (count, true),
                    Count::MoreThan(count) => (count, false),
                };
                let one = exact && count == 1;
                let fate = match kind {
                    "again" if one => "comes again",
                    "again" => "come again",
                    "skipped" if one => "is passed over and never delivered",
                    "skipped" => "are passed over and never delivered",
                    _ => "to deliver from there on",
                };
                (Some(count), exact, format!("{counted} {fate}"))
            }
        };
        Self {
            kind,
            count,
            exact,
            text,
        }
    }
}

/// What else a move clears or leaves.
pub(super) fn consequences(found: &Found) -> Vec<String> {
    let Found::Document(document) = found else {
        return Vec::new();
    };
    let mut notes = Vec::new();
    let delivered = document.delivered.len();
    if delivered > 0 {
        notes.push(format!(
            "{delivered} row(s) delivered above the checkpoint are forgotten, and come again"
        ));
    }
    for (name, sink) in &document.sinks {
        if let Some(failure) = &sink.failure {
            let attempts = failure.attempts;
            notes.push(format!(
                "{attempts} failed attempt(s) at {name} are forgotten"
            ));
        }
        if let Some(lag) = &sink.lag {
            let since = lag.since;
            notes.push(format!(
                "{name} is behind since {since}: it goes on from its own place, or from the new one if that is before it"
            ));
        }
    }
    match document.status {
        Status::Active => {}
        Status::Paused => notes.push("it stays paused".to_owned()),
        Status::Failed => notes.push("it is no longer marked failed".to_owned()),
    }
    notes
}

fn shape(position: &Position) -> Vec<&'static str> {
    let scalars = position.cursor().iter().chain(position.key());
    scalars.map(|scalar| scalar.scalar_type().name()).collect()
}
