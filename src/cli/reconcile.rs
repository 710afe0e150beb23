//! `dbtick reconcile`: is anything in the source, at or below the checkpoint, that was never delivered (F6)?
//!
//! It never says more than the evidence: exact by the ledger, counted without it, or undecided.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::problem::{Problem, finish};
use super::rails::{Plan as Preview, Rails, Rows};
use super::reset::place::{Edge, edge};
use super::say;
use super::target::Target;
use crate::backfill::Bounds;
use crate::model::ledger::LedgerMode;
use crate::model::position::{Position, Scalar};
use crate::model::state::StateDocument;
use crate::model::transitions::Operator;
use crate::tick::Poller;
use crate::tick::audit::{Accounts, Audit, Demand, Missing};
use crate::tick::ledger::Reach;
use crate::tick::operate::Found;

/// Look for rows at or below the checkpoint that were never delivered
///
/// With `"ledger": "full"` the answer is exact, as far back as the ledger reaches: each row that is in the source and
/// was neither taken by its receivers nor set aside is listed, and --redeliver sends it. Without a ledger rows are
/// counted, which says something only about tables that rows are only inserted into. Exit code 1 if rows are missing.
#[derive(Debug, Args)]
pub(super) struct Reconcile {
    #[command(flatten)]
    target: Target,
    /// First cursor value, inclusive; the beginning unless told
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    from: Option<String>,
    /// Last cursor value, inclusive; the checkpoint unless told
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    to: Option<String>,
    /// Send what is missing, under the lease of the poller; each row is read again just before
    #[arg(long)]
    redeliver: bool,
    /// How many missing rows are shown; JSON has up to 100000
    #[arg(long, value_name = "N", default_value_t = 20)]
    show: usize,
    #[command(flatten)]
    rails: Rails,
}

/// More than that are neither named in JSON nor sent at once.
const MOST_NAMED: usize = 100_000;

/// What is known, and how well.
enum Verdict {
    Exact(Audit, Reach),
    /// So many were committed since a kept version, and so many are there.
    Counted {
        committed: u64,
        there: u64,
        since: String,
    },
    Undecided(String),
}

impl Reconcile {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.reconcile().await, self.rails.json)
    }

    async fn reconcile(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let (document, bounds) = match self.bounds(&poller).await? {
            (document, Some(bounds)) => (document, bounds),
            (_, None) => {
                let why = "there is no row between --from and --to, at or below the checkpoint";
                return self.told(&poller, &Verdict::Undecided(why.to_owned()));
            }
        };
        let verdict = self.judge(&poller, &document, &bounds).await?;
        match verdict {
            Verdict::Exact(audit, reach) if self.redeliver && audit.missing > 0 => {
                self.told(&poller, &Verdict::Exact(audit.clone(), reach))
                    .ok();
                let beyond = audit.missing.saturating_sub(audit.rows.len() as u64);
                self.send(&poller, &audit.rows, beyond, &by).await
            }
            Verdict::Exact(..) => self.told(&poller, &verdict),
            _ if self.redeliver => Err(Problem::new(
                "nothing was sent: without a ledger nobody can say which rows are missing; `dbtick backfill` sends all of them",
            )),
            _ => self.told(&poller, &verdict),
        }
    }

    async fn bounds(&self, poller: &Poller) -> Result<(StateDocument, Option<Bounds>), Problem> {
        let Found::Document(document) = poller.found().await? else {
            return Err(Problem::new(format!("{} has no state yet", poller.name)));
        };
        if document.source_fingerprint != poller.fingerprint {
            return Err(Problem::new(format!(
                "the source of {} has changed since its state was made: reset or adopt it first",
                poller.name
            )));
        }
        let Some(checkpoint) = document.position().cloned() else {
            return Ok((*document, None));
        };
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
        let bounds = Bounds::find(poller, from.as_ref(), to.as_ref(), &checkpoint).await?;
        Ok((*document, bounds))
    }

    async fn judge(
        &self,
        poller: &Poller,
        document: &StateDocument,
        bounds: &Bounds,
    ) -> Result<Verdict, Problem> {
        let is_part = self.from.is_some() || self.to.is_some();
        if document.ledger.is_none() {
            return counted(poller, document, is_part).await;
        }
        let mut accounts = Accounts::default();
        let mut reach = Reach::default();
        // What was delivered by a backfill was delivered.
        for ledger in poller.ledgers().await? {
            let read = accounts.read(poller, &ledger).await?;
            if ledger.backfill.is_none() {
                reach = read;
            }
        }
        let demand = Demand::covered(document, &reach);
        if demand.is_empty() {
            return counted(poller, document, is_part).await;
        }
        let most = match self.redeliver || self.rails.json {
            true => MOST_NAMED,
            false => self.show.min(MOST_NAMED),
        };
        let place = (bounds.after.as_ref(), &bounds.up_to);
        let audit = poller
            .audit(&[document], place, &demand, &accounts, most)
            .await?;
        Ok(Verdict::Exact(audit, reach))
    }

    /// `beyond`: rows that are missing too, and are too many for one time.
    async fn send(
        &self,
        poller: &Poller,
        rows: &[Missing],
        beyond: u64,
        by: &Operator,
    ) -> Result<(), Problem> {
        if poller.ledger == LedgerMode::Off {
            return Err(Problem::new(
                "nothing was sent: the ledger is off in the configuration, so that nobody would write down what is sent",
            ));
        }
        let mut notes = vec!["the checkpoint stays where it is".to_owned()];
        if beyond > 0 {
            notes.push(format!("{beyond} more are left for the next time"));
        }
        let preview = Preview {
            what: "redeliver",
            poller: poller.name.clone(),
            from: format!("{} row(s) that the ledger does not have", rows.len()),
            to: "the receivers that lack them".to_owned(),
            rows: Rows::exactly("again", rows.len() as u64),
            notes,
        };
        if !self.rails.agreed(&preview, &poller.name)? {
            return Ok(());
        }
        let sent = poller.redeliver(rows, by).await?;
        let left = sent.left + beyond;
        let is_all = sent.failed == 0 && left == 0;
        let object = json!({
            "ok": is_all, "done": true, "what": "redeliver", "poller": poller.name,
            "delivered": sent.delivered, "gone": sent.gone, "failed": sent.failed, "left": left, "reason": sent.reason,
        });
        if !self.rails.json {
            say(&format!(
                "{} delivered, {} no longer at their place (a newer version comes by itself), {} not taken\n",
                sent.delivered, sent.gone, sent.failed
            ));
        } else if is_all {
            say(&format!("{object}\n"));
        }
        if is_all {
            return Ok(());
        }
        let mut why = Vec::new();
        if sent.failed > 0 {
            why.push(format!("{} not taken", sent.failed));
        }
        if left > 0 {
            why.push(format!("{left} left, the same command goes on"));
        }
        let mut why = why.join("; ");
        if let Some(reason) = sent.reason {
            why = format!("{why}: {reason}");
        }
        Err(Problem::new(why).in_detail(object))
    }

    fn told(&self, poller: &Poller, verdict: &Verdict) -> Result<(), Problem> {
        let (text, object, missing) = match verdict {
            Verdict::Exact(audit, reach) => (
                exact_text(audit, reach),
                exact_object(audit, reach),
                audit.missing,
            ),
            Verdict::Counted {
                committed,
                there,
                since,
            } => (
                counted_text(*committed, *there, since),
                json!({ "verdict": "counted", "committed": committed, "in_source": there, "since": since }),
                0,
            ),
            Verdict::Undecided(why) => (
                format!("undecided: {why}\n"),
                json!({ "verdict": "undecided", "reason": why }),
                0,
            ),
        };
        let mut whole = json!({ "ok": missing == 0, "what": "reconcile", "poller": poller.name });
        if let (Some(whole), Value::Object(object)) = (whole.as_object_mut(), object) {
            whole.extend(object);
        }
        match (self.rails.json, missing) {
            (true, 0) => say(&format!("{whole}\n")),
            (false, _) => say(&format!("{}: {text}", poller.name)),
            (true, _) => {}
        }
        match missing {
            0 => Ok(()),
            missing => {
                let hint = match self.redeliver {
                    true => "",
                    false => "; --redeliver sends them",
                };
                let text = format!("{missing} row(s) were never delivered{hint}");
                Err(Problem::new(text).in_detail(whole))
            }
        }
    }
}

/// Since the last move by hand, or as far back as versions are kept.
async fn counted(
    poller: &Poller,
    document: &StateDocument,
    is_part: bool,
) -> Result<Verdict, Problem> {
    let undecided = |why: &str| Ok(Verdict::Undecided(why.to_owned()));
    if is_part {
        return undecided(
            "there is no ledger that reaches so far, and the state does not count rows by --from and --to",
        );
    }
    let moved = document
        .history
        .iter()
        .rev()
        .find(|entry| entry.by.is_some());
    let Some(since) = moved.or(document.history.first()) else {
        return undecided("there is no ledger, and no version is kept from which to count");
    };
    let first = since.version == 1
        && since.by.is_none()
        && since.rows > 0
        && since.total_rows == since.rows;
    let (from, total) = match first {
        // Its first batch: it began at the beginning.
        true => (None, 0),
        false => (
            since.cursor.as_ref().map(|mark| &mark.position),
            since.total_rows,
        ),
    };
    let there = count(poller, from, document.position()).await?;
    let above = document.delivered.len() as u64
        + document
            .late
            .spilled
            .iter()
            .map(|segment| segment.ids)
            .sum::<u64>();
    let committed = document
        .counters
        .rows
        .saturating_sub(total)
        .saturating_sub(above);
    Ok(Verdict::Counted {
        committed,
        there,
        since: match from {
            Some(place) => format!("version {}, at {place}", since.version),
            None => "the beginning".to_owned(),
        },
    })
}

async fn count(
    poller: &Poller,
    from: Option<&Position>,
    to: Option<&Position>,
) -> Result<u64, Problem> {
    Ok(poller.source.count(from, to, u64::MAX >> 1).await?)
}

fn counted_text(committed: u64, there: u64, since: &str) -> String {
    let meaning = match committed.cmp(&there) {
        std::cmp::Ordering::Equal => {
            "as many as there are. If rows are only ever inserted, and in the order of the cursor, that is all of them"
        }
        std::cmp::Ordering::Less => {
            "fewer than there are: rows came behind the checkpoint, or were changed back below it, or were delivered \
             above that place before. Which ones, only a ledger says; `dbtick backfill` sends all of them"
        }
        std::cmp::Ordering::Greater => {
            "more than there are: rows were changed, deleted, or came twice. That says nothing about what is missing"
        }
    };
    format!(
        "counted: {committed} rows were committed since {since}; {there} are there now: {meaning}\n\
         no ledger vouches for more: \"ledger\": \"full\" in the poller block makes this exact from then on\n"
    )
}

fn exact_text(audit: &Audit, reach: &Reach) -> String {
    let Audit {
        total,
        delivered,
        quarantined,
        pending,
        untold,
        missing,
        rows,
    } = audit;
    let mut text = format!(
        "exact: {total} rows at or below the checkpoint: {delivered} delivered, {quarantined} quarantined, {missing} missing"
    );
    if *pending > 0 {
        text += &format!(", {pending} on their way to a receiver that is behind");
    }
    if *untold > 0 {
        text += &format!(", {untold} undecided: they are older than the ledger");
    }
    text.push('\n');
    if let Some(back) = reach.back_to {
        let gone = match &reach.gone {
            Some(_) => "; what is older is gone",
            None => "",
        };
        text += &format!(
            "the ledger: {} rows in {} segments, back to {}{gone}\n",
            reach.rows,
            reach.segments,
            back.format("%Y-%m-%d %H:%M:%S")
        );
    }
    for row in rows {
        text += &format!(
            "missing  {}  {}  for {}\n",
            row.id,
            row.position,
            row.sinks.join(", ")
        );
    }
    let more = missing.saturating_sub(rows.len() as u64);
    if more > 0 {
        text += &format!("and {more} more; --json has up to {MOST_NAMED}\n");
    }
    text
}

fn exact_object(audit: &Audit, reach: &Reach) -> Value {
    let rows = audit.rows.iter().map(|row| {
        json!({ "event_id": row.id.to_string(), "position": row.position.to_string(), "receivers": row.sinks })
    });
    json!({
        "verdict": "exact", "total": audit.total, "delivered": audit.delivered,
        "quarantined": audit.quarantined, "pending": audit.pending, "undecided": audit.untold,
        "missing": audit.missing, "rows": rows.collect::<Vec<_>>(),
        "ledger": { "rows": reach.rows, "segments": reach.segments, "back_to": reach.back_to, "gone": reach.gone },
    })
}
