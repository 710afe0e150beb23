//! `dbtick trace`: why a row did not arrive, as far as anybody can know.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::problem::{Problem, finish};
use super::say;
use super::target::Target;
use crate::model::page::Op;
use crate::model::plain::is_obeyed;
use crate::model::trail::{Facts, RowFacts, Trail, follow};

/// Say why a row did not arrive, or whether it did
///
/// Looks for the row by its key, now, and follows it: table, filter, cursor, checkpoint, delivered events,
/// quarantine, receivers. Each line says what it rests on: `observed` in the database just now, `recorded` in the state, the ledger or
/// the quarantine, or only `inferred` from positions.
#[derive(Debug, Args)]
pub(super) struct Trace {
    #[command(flatten)]
    target: Target,
    /// Value of the key, as events show it; one for each column of it
    #[arg(required = true, allow_negative_numbers = true)]
    key: Vec<String>,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

impl Trace {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.show().await, self.json)
    }

    async fn show(&self) -> Result<(), Problem> {
        let (_, poller) = self.target.open()?;
        let facts = poller.facts(&self.key).await?;
        let trail = follow(&facts);
        match self.json {
            true => say(&format!("{}\n", self.object(&poller.name, &facts, &trail))),
            false => say(&self.text(&poller.name, &trail)),
        }
        Ok(())
    }

    fn text(&self, poller: &str, trail: &Trail) -> String {
        let key = shown(&self.key.join(", "));
        let mut text = format!("{poller}, key {key}\n");
        for (number, said) in (1..).zip(&trail.statements) {
            text += &format!("{number:>3}. {:<9} {}\n", said.evidence, shown(&said.text));
        }
        let conclusion = &trail.conclusion;
        let evidence = conclusion.evidence;
        text + &format!("so ({evidence}): {}\n", shown(&conclusion.text))
    }

    fn object(&self, poller: &str, facts: &Facts, trail: &Trail) -> Value {
        json!({
            "ok": true,
            "poller": poller,
            "key": self.key,
            "rows": facts.rows.iter().map(row).collect::<Vec<_>>(),
            "statements": trail.statements,
            "conclusion": trail.conclusion,
        })
    }
}

fn row(row: &RowFacts) -> Value {
    json!({
        "position": row.position.as_ref().map(ToString::to_string),
        "op": match row.op {
            Op::Upsert => "upsert",
            Op::Delete => "delete",
        },
        "id": row.id.map(|id| id.to_string()),
        "passes_filter": row.passes_filter,
    })
}

/// Keys are text of others.
fn shown(text: &str) -> String {
    text.replace(is_obeyed, " ")
}
