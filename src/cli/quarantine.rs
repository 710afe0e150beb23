//! `dbtick quarantine`: rows that a receiver never took, looked at, sent again, or let go.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::output;
use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, Rows};
use super::say;
use super::target::Target;
use crate::clock::{Clock, SystemClock};
use crate::model::plain::plain;
use crate::tick::Poller;
use crate::tick::budget::Budget;
use crate::tick::quarantine::{Kept, Kepts, Redrive, Redriven};

/// Rows that a receiver never took: look at them, send them again, let them go
///
/// A row comes here when its receiver has rejected it in several ticks while it took others. It is kept
/// beside the state, with the receiver's reason; the checkpoint has passed it.
#[derive(Debug, Args)]
pub(super) struct Quarantine {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// List the rows, the oldest first
    List(List),
    /// Show one row, with the reason and the event as it was sent
    Show(Show),
    /// Send rows again to the receiver that did not take them
    ///
    /// Each is read again first: a row that has changed since is not sent in its old version. Same event
    /// ids, and the checkpoint does not move. It works under the lease of the poller.
    Redrive(RedriveRows),
    /// Remove rows for good
    Discard(Discard),
}

#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    target: Target,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Show {
    #[command(flatten)]
    target: Target,
    /// Id of the event, or its beginning
    event: String,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Which {
    /// Ids of events, or their beginnings
    #[arg(value_name = "EVENT")]
    events: Vec<String>,
    /// All rows of the poller
    #[arg(long, conflicts_with = "events")]
    all: bool,
}

#[derive(Debug, Args)]
struct RedriveRows {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    which: Which,
    /// Send what was kept, even if the row has changed since or is gone
    #[arg(long)]
    as_is: bool,
    /// Give the events new ids, for a receiver that remembers having seen these
    #[arg(long)]
    new_ids: bool,
    #[command(flatten)]
    rails: Rails,
}

#[derive(Debug, Args)]
struct Discard {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    rails: Rails,
}

impl Quarantine {
    pub(super) async fn run(self) -> ExitCode {
        match self.what {
            What::List(list) => finish(list.run().await, list.json),
            What::Show(show) => finish(show.run().await, show.json),
            What::Redrive(redrive) => finish(redrive.run().await, redrive.rails.json),
            What::Discard(discard) => finish(discard.run().await, discard.rails.json),
        }
    }
}

impl List {
    async fn run(&self) -> Result<(), Problem> {
        let (_, poller) = self.target.open()?;
        let Kepts { rows, unreadable } = poller.quarantined().await?;
        if self.json {
            let rows: Vec<Value> = rows.iter().map(summary).collect();
            let unreadable: Vec<Value> = unreadable
                .iter()
                .map(|(key, why)| json!({ "object": key.to_string(), "problem": why }))
                .collect();
            let object = json!({ "ok": true, "poller": poller.name, "rows": rows, "unreadable": unreadable });
            say(&format!("{object}\n"));
            return Ok(());
        }
        for (key, why) in &unreadable {
            say(&format!("{key}: {why}; it is left as it is\n"));
        }
        if rows.is_empty() {
            say(&format!("{} has no row in quarantine\n", poller.name));
            return Ok(());
        }
        let mut table = output::table(&["event", "since", "receiver", "key", "attempts", "reason"]);
        for Kept {
            case, superseded, ..
        } in &rows
        {
            let note = if *superseded { "superseded; " } else { "" };
            table.add_row([
                case.event_id.clone(),
                case.quarantined_at.format("%Y-%m-%d %H:%M:%S").to_string(),
                case.sink.clone(),
                plain(&case.key()),
                case.attempts.to_string(),
                format!("{note}{}", case.error),
            ]);
        }
        say(&output::show(&table));
        let arguments = self.target.place.arguments();
        say(&format!(
            "{}: {}; `dbtick quarantine show {} EVENT{arguments}` shows one\n",
            poller.name,
            rows_of(rows.len()),
            poller.name
        ));
        Ok(())
    }
}

impl Show {
    async fn run(&self) -> Result<(), Problem> {
        let (_, poller) = self.target.open()?;
        let kepts = poller.quarantined().await?;
        let kept = &find(&poller, &kepts.rows, &self.event)?[0];
        let case = &kept.case;
        // Byte for byte: numbers of any size stay what they are.
        let event = case.event();
        if self.json {
            #[derive(Serialize)]
            struct Whole<'a> {
                ok: bool,
                #[serde(flatten)]
                summary: Value,
                event: &'a RawValue,
            }
            let whole = Whole {
                ok: true,
                summary: summary(kept),
                event,
            };
            say(&format!("{}\n", serde_json::to_string(&whole)?));
            return Ok(());
        }
        let (name, id) = (&poller.name, &case.event_id);
        let arguments = self.target.place.arguments();
        say(&format!(
            "event      {id}\nreceiver   {}\nkey        {}\nset aside  {}, after {} attempt(s) since {}\nreason     {}\n",
            case.sink,
            plain(&case.key()),
            case.quarantined_at,
            case.attempts,
            case.first_failed_at,
            case.error,
        ));
        if kept.superseded {
            say(
                "superseded the row has changed since, or is gone; --as-is sends this version all the same\n",
            );
        }
        say(&format!("{event}\n"));
        say(&format!(
            "send it again: dbtick quarantine redrive {name} {id}{arguments}\nlet it go:     dbtick quarantine discard {name} {id}{arguments}\n"
        ));
        Ok(())
    }
}

impl RedriveRows {
    async fn run(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let rows = self.which.of(&poller).await?;
        let mut notes = vec!["the checkpoint stays where it is".to_owned()];
        if self.as_is {
            notes.push("rows that have changed since are sent as they were".to_owned());
        }
        if self.new_ids {
            notes.push(
                "with new event ids: a receiver cannot tell that it has seen them".to_owned(),
            );
        }
        if !self
            .rails
            .agreed(&plan("redrive", &poller, &rows, notes), &poller.name)?
        {
            return Ok(());
        }
        let how = Redrive {
            as_is: self.as_is,
            new_ids: self.new_ids,
        };
        let budget = Budget::starting(SystemClock.monotonic(), None);
        let results = poller.redrive(&rows, how, &by, &budget).await?;
        let delivered = count(&results, |result| *result == Redriven::Delivered);
        let superseded = count(&results, |result| *result == Redriven::Superseded);
        let failed = results.len() - delivered - superseded;
        let each = rows.iter().zip(&results);
        let each: Vec<Value> = each.map(|(kept, result)| outcome(kept, result)).collect();
        let object = json!({
            "ok": failed == 0, "done": true, "what": "redrive", "poller": poller.name,
            "delivered": delivered, "superseded": superseded, "failed": failed, "rows": each,
        });
        if !self.rails.json {
            say(&told(&rows, &results));
            say(&format!(
                "{delivered} delivered, {superseded} superseded, {failed} not taken\n"
            ));
        } else if failed == 0 {
            say(&format!("{object}\n"));
        }
        let stay = match failed {
            0 => return Ok(()),
            1 => "1 row stays in quarantine".to_owned(),
            failed => format!("{failed} rows stay in quarantine"),
        };
        Err(Problem::new(stay).in_detail(object))
    }
}

impl Discard {
    async fn run(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let rows = self.which.of(&poller).await?;
        let notes = vec!["there is no undo: their receivers never get them".to_owned()];
        if !self
            .rails
            .agreed(&plan("discard", &poller, &rows, notes), &poller.name)?
        {
            return Ok(());
        }
        poller.discard(&rows, &by).await?;
        let discarded = rows.len();
        if self.rails.json {
            let object = json!({
                "ok": true, "done": true, "what": "discard", "poller": poller.name, "discarded": discarded,
            });
            say(&format!("{object}\n"));
        } else {
            say(&format!("{} discarded\n", rows_of(discarded)));
        }
        Ok(())
    }
}

impl Which {
    async fn of(&self, poller: &Poller) -> Result<Vec<Kept>, Problem> {
        if self.events.is_empty() && !self.all {
            let name = &poller.name;
            return Err(Problem::usage(format!(
                "say which: an EVENT or several, or --all; `dbtick quarantine list {name}` shows them"
            )));
        }
        let rows = poller.quarantined().await?.rows;
        if self.all {
            return match rows.is_empty() {
                true => Err(Problem::new(format!(
                    "{} has no row in quarantine",
                    poller.name
                ))),
                false => Ok(rows),
            };
        }
        let mut chosen = Vec::new();
        for event in &self.events {
            chosen.extend(find(poller, &rows, event)?);
        }
        Ok(chosen)
    }
}

/// By an id or its beginning. Two receivers may have refused one event.
fn find(poller: &Poller, rows: &[Kept], event: &str) -> Result<Vec<Kept>, Problem> {
    let name = &poller.name;
    let written = event.to_lowercase();
    let found: Vec<Kept> = rows
        .iter()
        .filter(|kept| !written.is_empty() && kept.case.event_id.starts_with(&written))
        .cloned()
        .collect();
    let Some(first) = found.first() else {
        return Err(Problem::new(format!(
            "no row of {name} in quarantine has an event id that begins with {event:?}; `dbtick quarantine list {name}` shows them"
        )));
    };
    match found
        .iter()
        .all(|kept| kept.case.event_id == first.case.event_id)
    {
        true => Ok(found),
        false => Err(Problem::new(format!(
            "{event:?} begins the ids of several events; write more of it"
        ))),
    }
}

fn plan(what: &'static str, poller: &Poller, rows: &[Kept], notes: Vec<String>) -> Plan {
    let events: Vec<&str> = rows
        .iter()
        .map(|kept| kept.case.event_id.as_str())
        .collect();
    Plan {
        what,
        poller: poller.name.clone(),
        from: format!("quarantine: {}", events.join(", ")),
        to: match what {
            "discard" => "nowhere".to_owned(),
            _ => "the receiver that did not take it".to_owned(),
        },
        rows: Rows::exactly(what, rows.len() as u64),
        notes,
    }
}

fn summary(kept: &Kept) -> Value {
    let case = &kept.case;
    json!({
        "event_id": case.event_id,
        "receiver": case.sink,
        "key": serde_json::from_str::<Value>(&case.key()).unwrap_or_default(),
        "batch_id": case.batch_id,
        "quarantined_at": case.quarantined_at,
        "first_failed_at": case.first_failed_at,
        "attempts": case.attempts,
        "reason": case.error,
        "superseded": kept.superseded,
    })
}

fn outcome(kept: &Kept, result: &Redriven) -> Value {
    let (outcome, reason) = match result {
        Redriven::Delivered => ("delivered", None),
        Redriven::Superseded => ("superseded", None),
        Redriven::Failed(reason) => ("failed", Some(reason)),
    };
    let id = &kept.case.event_id;
    json!({ "event_id": id, "receiver": kept.case.sink, "outcome": outcome, "reason": reason })
}

/// What became of each row.
fn told(rows: &[Kept], results: &[Redriven]) -> String {
    let line = |(kept, result): (&Kept, &Redriven)| {
        let said = match result {
            Redriven::Delivered => "delivered".to_owned(),
            Redriven::Superseded => {
                "superseded, not sent: the row has changed since, or is gone; its newer version comes \
                 by itself. --as-is sends this one, discard removes it"
                    .to_owned()
            }
            Redriven::Failed(reason) => format!("not taken: {reason}"),
        };
        format!("{}  {said}\n", kept.case.event_id)
    };
    rows.iter().zip(results).map(line).collect()
}

fn rows_of(count: usize) -> String {
    match count {
        1 => "1 row".to_owned(),
        count => format!("{count} rows"),
    }
}

fn count(results: &[Redriven], is: impl Fn(&Redriven) -> bool) -> usize {
    results.iter().filter(|result| is(result)).count()
}
