//! `dbtick backfill`: rows below the checkpoint once more, beside the live poller (H1 to H3).

mod view;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::problem::{Problem, finish};
use super::rails::{Plan as Preview, Rails, Rows};
use super::reset::place::{Edge, edge};
use super::target::{Opened, Target};
use super::{interrupted, say};
use crate::backfill::{self, Bounds, Ended, Plan, Status, Wishes};
use crate::config::human;
use crate::model::position::{Position, Scalar};
use crate::model::transitions::Operator;
use crate::tick::Poller;
use crate::tick::operate::Found;
use view::View;

/// Names of backfills are parts of paths.
const LONGEST_NAME: usize = 60;

/// Deliver rows below the checkpoint again, beside the live poller
///
/// It has a name, state and leases of its own: the live poller goes on undisturbed. Events have the ids that the
/// live poller gives them. After Ctrl-C, a crash or kill -9 the same command goes on where it stood. At the end
/// every row of the range that is in the source is looked for in its ledger; what is missing is sent again, and
/// only when nothing is missing is it complete.
#[derive(Debug, Args)]
pub(super) struct Backfill {
    #[command(flatten)]
    target: Target,
    /// First cursor value, inclusive; the beginning unless told. Of a composite cursor, its first column
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    from: Option<String>,
    /// Last cursor value, inclusive, at most the live checkpoint, which it is unless told
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    to: Option<String>,
    /// How many parts are worked on at once
    #[arg(long, value_name = "N", default_value = "4", value_parser = at_most_64)]
    ranges: NonZeroUsize,
    /// Rows a second at the most, over all parts
    #[arg(long, value_name = "ROWS", value_parser = positive)]
    rate: Option<f64>,
    /// Rows in a batch; the poller's own, or 5000 if that is more
    #[arg(long, value_name = "N")]
    batch_rows: Option<NonZeroUsize>,
    /// Name of the backfill; made from --from and --to unless told
    #[arg(long)]
    name: Option<String>,
    /// How long to keep trying without any progress
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = human::duration)]
    give_up_after: Duration,
    /// List the backfills of the poller
    #[arg(long, conflicts_with_all = ["from", "to", "rate", "batch_rows", "abandon"])]
    list: bool,
    /// Give a backfill up for good; what it has delivered stays delivered
    #[arg(long)]
    abandon: bool,
    #[command(flatten)]
    rails: Rails,
}

impl Backfill {
    pub(super) async fn run(self) -> ExitCode {
        let result = match (self.list, self.abandon) {
            (true, _) => self.list().await,
            (_, true) => self.abandon().await,
            _ => self.backfill().await,
        };
        finish(result, self.rails.json)
    }

    async fn backfill(&self) -> Result<(), Problem> {
        let (opened, live) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let name = self.name()?;
        let plan = match Plan::load(&live, &name).await? {
            Some(plan) => {
                self.refuse_unless_same(&live, &plan)?;
                plan
            }
            None => match self.begin(&live, &name, &by).await? {
                Some(plan) => plan,
                None => return Ok(()),
            },
        };
        match plan.status {
            Status::Running => self.go_on(&opened, live, plan, &by).await,
            Status::Complete => {
                let more = "it was complete before: nothing was done; say --name for another one";
                let ends = plan.ranges.last().and_then(|range| range.up_to().ok());
                let now = checkpoint(&live).await?;
                if plan.to.is_none() && ends.is_some_and(|ends| ends < now) {
                    let text = format!("{more}; the checkpoint is at {now} now");
                    return Err(Problem::new(text).in_detail(object(&plan, false)));
                }
                self.told(&plan, Some(more));
                Ok(())
            }
            Status::Abandoned => Err(Problem::new(format!(
                "the backfill {name} was abandoned; say --name for another one"
            ))),
        }
    }

    /// `None` after a dry run.
    async fn begin(
        &self,
        live: &Poller,
        name: &str,
        by: &Operator,
    ) -> Result<Option<Plan>, Problem> {
        let checkpoint = checkpoint(live).await?;
        let example = checkpoint.cursor().first();
        let parse = |text: &Option<String>, what: &str| -> Result<Option<Scalar>, Problem> {
            let end = if what == "--to" {
                Edge::Last
            } else {
                Edge::First
            };
            let parsed = text.as_deref().map(|text| edge(text, example, end));
            let parsed = parsed.transpose();
            parsed.map_err(|error| Problem::usage(format!("{what}: {error}")))
        };
        let (from, to) = (parse(&self.from, "--from")?, parse(&self.to, "--to")?);
        if to.as_ref() > example && to.is_some() {
            return Err(Problem::usage(format!(
                "--to is beyond the checkpoint of {}, which is at {checkpoint}: what is behind that comes by the poller \
                 itself, and a backfill must not overtake it; leave --to out to go up to the checkpoint",
                live.name
            )));
        }
        let bounds = Bounds::find(live, from.as_ref(), to.as_ref(), &checkpoint).await?;
        let Some(bounds) = bounds else {
            return Err(Problem::new("there is no row between --from and --to"));
        };
        let ranges = bounds.cut(live, self.ranges).await?;
        let given = (self.from.clone(), self.to.clone());
        let plan = Plan::new(live, name, given, ranges, by);
        let preview = self.preview(live, &plan, &bounds);
        if !self.rails.agreed(&preview, &live.name)? {
            return Ok(None);
        }
        Ok(Some(plan.create(live).await?))
    }

    fn preview(&self, live: &Poller, plan: &Plan, bounds: &Bounds) -> Preview {
        let mut notes = vec![
            format!(
                "name {}, {} range(s) at once; the same command goes on after an interruption",
                plan.name,
                plan.ranges.len()
            ),
            "the poller itself goes on; its state is not touched".to_owned(),
            "receivers get rows that they may have had before, with the same event ids".to_owned(),
        ];
        if live.source.cleans_up() {
            notes.push("rows of the outbox are not cleaned up by a backfill".to_owned());
        }
        let after = bounds.after.as_ref();
        Preview {
            what: "backfill",
            poller: live.name.clone(),
            from: after.map_or_else(|| "the beginning".to_owned(), |it| format!("behind {it}")),
            to: bounds.up_to.to_string(),
            rows: Rows::exactly("again", plan.rows()),
            notes,
        }
    }

    async fn go_on(
        &self,
        opened: &Opened,
        live: Poller,
        plan: Plan,
        by: &Operator,
    ) -> Result<(), Problem> {
        let (poller, name) = (live.name.clone(), plan.name.clone());
        let pollers = plan.ranges.iter().map(|_| opened.poller(&poller));
        let pollers = pollers.collect::<Result<Vec<_>, _>>()?;
        let wishes = Wishes {
            rate: self.rate,
            batch_rows: self.batch_rows,
            give_up_after: self.give_up_after,
        };
        let backfill = backfill::Backfill::new(live, pollers, plan, wishes)?;
        let switch = backfill.stop_switch();
        let view = View::new(&poller, &name, backfill.progress(), self.rails.json);
        let ended = {
            let stop = async {
                interrupted().await;
                switch.raise();
                interrupted().await;
            };
            tokio::select! {
                biased;
                ended = backfill.run(by) => ended,
                () = view.run() => unreachable!("it looks on for ever"),
                // Batches in flight come again, as after a crash.
                () = stop => return Err(Problem::new("stopped at once; the same command goes on where it stood")),
            }
        };
        view.finish();
        let again = "nothing is lost: the same command goes on where it stood";
        match ended {
            Ok(Ended::Complete(plan)) => {
                self.told(&plan, None);
                Ok(())
            }
            Ok(Ended::Stopped(plan)) => {
                Err(Problem::new(format!("stopped; {again}")).in_detail(object(&plan, false)))
            }
            Ok(Ended::Incomplete(plan)) => {
                self.told(&plan, Some("not complete"));
                Err(Problem::new(
                    "rows of the range are missing: they change faster than they are sent, or their receiver does \
                     not take them. The same command tries again",
                )
                .in_detail(object(&plan, false)))
            }
            Err(error) => Err(Problem::new(format!("{error}; {again}"))),
        }
    }

    async fn list(&self) -> Result<(), Problem> {
        let (_, live) = self.target.open()?;
        let (plans, unreadable) = Plan::all(&live).await?;
        if self.rails.json {
            let plans: Vec<Value> = plans.iter().map(|plan| object(plan, true)).collect();
            say(&format!(
                "{}\n",
                json!({ "ok": true, "poller": live.name, "backfills": plans })
            ));
            return Ok(());
        }
        for error in unreadable {
            say(&format!("{error}; it is left as it is\n"));
        }
        if plans.is_empty() {
            say(&format!("{} has no backfill\n", live.name));
        }
        for plan in plans {
            say(&line(&plan));
        }
        Ok(())
    }

    async fn abandon(&self) -> Result<(), Problem> {
        let (opened, live) = self.target.open()?;
        let name = self.name()?;
        let by = self.rails.operator(&opened)?;
        let Some(plan) = Plan::load(&live, &name).await? else {
            return Err(Problem::new(format!("there is no backfill {name}")));
        };
        let preview = Preview {
            what: "abandon",
            poller: live.name.clone(),
            from: line(&plan).trim_end().to_owned(),
            to: "given up for good; what it has delivered stays delivered".to_owned(),
            rows: Rows::unmoved(),
            notes: vec!["the poller itself goes on".to_owned()],
        };
        if !self.rails.agreed(&preview, &live.name)? {
            return Ok(());
        }
        let (plan, changed) = Plan::abandon(&live, &name, &by).await?;
        let more = "it had ended before: nothing was changed";
        self.told(&plan, (!changed).then_some(more));
        Ok(())
    }

    fn told(&self, plan: &Plan, more: Option<&str>) {
        match self.rails.json {
            // A problem is told as one object, with the plan in it.
            true if more == Some("not complete") => {}
            true => {
                let mut object = object(plan, true);
                object["changed"] = more.is_none().into();
                say(&format!("{object}\n"));
            }
            false => {
                say(&line(plan));
                if let Some(more) = more {
                    say(&format!("{more}\n"));
                }
            }
        }
    }

    fn refuse_unless_same(&self, live: &Poller, plan: &Plan) -> Result<(), Problem> {
        let name = &plan.name;
        if plan.source_fingerprint != live.fingerprint && plan.status == Status::Running {
            return Err(Problem::new(format!(
                "the source has changed since the backfill {name} began, and its places may mean other rows: \
                 `dbtick backfill {} --name {name} --abandon`, then begin another one",
                live.name
            )));
        }
        let differs = |given: &Option<String>, is: &Option<String>| given.is_some() && given != is;
        if differs(&self.from, &plan.from) || differs(&self.to, &plan.to) {
            let said = |text: &Option<String>| text.clone().unwrap_or_else(|| "(not told)".into());
            return Err(Problem::usage(format!(
                "there is a backfill {name} from {} to {}; give this one another --name",
                said(&plan.from),
                said(&plan.to)
            )));
        }
        Ok(())
    }

    /// Equal for equal ends, so that the same command finds it again.
    fn name(&self) -> Result<String, Problem> {
        if let Some(name) = &self.name {
            let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            let first = name
                .bytes()
                .next()
                .is_some_and(|b| b.is_ascii_alphanumeric());
            return match first && name.len() <= LONGEST_NAME && name.bytes().all(legal) {
                true => Ok(name.to_lowercase()),
                false => Err(Problem::usage(format!(
                    "--name {name:?}: use 1 to {LONGEST_NAME} letters, digits, - and _, beginning with a letter or a digit"
                ))),
            };
        }
        let (from, to) = (self.from.as_deref(), self.to.as_deref());
        let text = format!(
            "{}-to-{}",
            from.unwrap_or("beginning"),
            to.unwrap_or("checkpoint")
        );
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let is_plain = text.chars().all(plain) && text.len() <= LONGEST_NAME;
        if is_plain && !text.starts_with('-') {
            return Ok(text);
        }
        let hash = HEXLOWER.encode(&Sha256::digest(&text)[..4]);
        let kept: String = text
            .to_lowercase()
            .chars()
            .filter(|c| plain(*c))
            .take(40)
            .collect();
        Ok(format!("{}-{hash}", kept.trim_matches('-')))
    }
}

async fn checkpoint(live: &Poller) -> Result<Position, Problem> {
    let Found::Document(document) = live.found().await? else {
        return Err(Problem::new(format!(
            "{} has no state yet: a backfill ends at its checkpoint, so let it run first",
            live.name
        )));
    };
    if document.source_fingerprint != live.fingerprint {
        return Err(Problem::new(format!(
            "the source of {} has changed since its state was made: reset or adopt it first",
            live.name
        )));
    }
    let Some(place) = document.position() else {
        return Err(Problem::new(format!(
            "{} stands at the beginning: all rows come by itself, there is nothing to fill in",
            live.name
        )));
    };
    // A document of another writer does not say of which types its place is.
    let last = live.source.last(None).await?;
    let typed = last.and_then(|last| place.typed_like(&last));
    Ok(typed.unwrap_or_else(|| place.clone()))
}

fn line(plan: &Plan) -> String {
    let status = match plan.status {
        Status::Running => "not complete",
        Status::Complete => "complete",
        Status::Abandoned => "abandoned",
    };
    let report = match &plan.report {
        Some(report) => format!(
            "{} rows in the source: {} delivered, {} quarantined, {} missing; reconciled {} time(s)",
            report.total, report.delivered, report.quarantined, report.missing, report.rounds
        ),
        None => format!("{} rows, not reconciled yet", plan.rows()),
    };
    let took = match plan.took() {
        Some(took) if plan.status == Status::Complete => {
            format!(", {} s since it began", took.num_seconds())
        }
        _ => String::new(),
    };
    format!("{} {}: {status}; {report}{took}\n", plan.poller, plan.name)
}

fn object(plan: &Plan, ok: bool) -> Value {
    json!({
        "ok": ok, "done": plan.status == Status::Complete, "what": "backfill", "poller": plan.poller,
        "name": plan.name, "status": plan.status, "from": plan.from, "to": plan.to,
        "ranges": plan.ranges.len(), "rows": plan.rows(), "started_at": plan.started_at, "report": plan.report,
    })
}

fn at_most_64(text: &str) -> Result<NonZeroUsize, String> {
    match text.parse() {
        Ok(ranges) if ranges <= NonZeroUsize::MIN.saturating_add(63) => Ok(ranges),
        _ => Err("write a number from 1 to 64".to_owned()),
    }
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.01 => Ok(rate),
        _ => Err("write a number of rows a second, such as 500".to_owned()),
    }
}
