//! `dbtick history`: the checkpoints that a poller can be brought back to.

use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::output;
use super::problem::{Problem, finish};
use super::rails::standing;
use super::say;
use super::target::Target;
use crate::model::history::HistoryEntry;
use crate::model::schema::Schema;
use crate::model::state::StateDocument;
use crate::model::transitions::Refusal;
use crate::tick::operate::Found;

/// Show the kept checkpoints of a poller, and who moved it
///
/// Dense for the last minutes, sparse for the last weeks. `dbtick rollback POLLER --to VERSION` brings one back.
#[derive(Debug, Args)]
pub(super) struct History {
    #[command(flatten)]
    target: Target,
    /// Show the columns as they were at this version
    #[arg(long, value_name = "VERSION")]
    schema: Option<u64>,
    /// Print JSON, one object
    #[arg(long)]
    json: bool,
}

impl History {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.show().await, self.json)
    }

    async fn show(&self) -> Result<(), Problem> {
        let (_, poller) = self.target.open()?;
        let found = poller.found().await?;
        let document = match &found {
            Found::Document(document) => document,
            Found::Nothing { born: false } => {
                let text = format!("{} has {}", poller.name, standing(&found));
                return Err(Problem::new(text));
            }
            Found::Nothing { born: true } | Found::Refused { .. } => {
                // Says what to do about it.
                poller.standing().await?;
                return Err(Problem::new(standing(&found)));
            }
        };
        match self.schema {
            Some(version) => self.show_schema(document, version),
            None => {
                self.show_history(document);
                Ok(())
            }
        }
    }

    fn show_history(&self, document: &StateDocument) {
        let bytes = document.to_bytes().len();
        if self.json {
            let object = json!({
                "ok": true,
                "poller": document.poller_name,
                "version": document.version(),
                "document_bytes": bytes,
                "history": document.history.iter().map(entry_json).collect::<Vec<_>>(),
                "audit": document.audit,
            });
            say(&format!("{object}\n"));
            return;
        }
        let name = &document.poller_name;
        if document.history.is_empty() {
            say(&format!(
                "{name} has no history yet: its next commit begins one\n"
            ));
            return;
        }
        let mut table = output::table(&["version", "time", "checkpoint", "rows", "schema", ""]);
        let mut before = 0;
        for entry in &document.history {
            let rows = entry.total_rows.saturating_sub(before);
            before = entry.total_rows;
            table.add_row(line(document, entry, rows));
        }
        say(&output::show(&table));
        let kept = document.history.len();
        say(&format!(
            "{name}: {kept} version(s) kept; rows are counted since the line above; the document has {bytes} bytes\n"
        ));
        for entry in &document.audit {
            let why = match entry.why.as_str() {
                "" => "no reason given",
                why => why,
            };
            let at = entry.at.format("%Y-%m-%d %H:%M:%S");
            say(&format!("{at}  {}  {} ({why})\n", entry.who, entry.what));
        }
    }

    fn show_schema(&self, document: &StateDocument, version: u64) -> Result<(), Problem> {
        let entry = document.kept(version).ok_or_else(|| Refusal::NotKept {
            version,
            kept: document.history.iter().map(|kept| kept.version).collect(),
        })?;
        let Some(schema) = document.schema_of(entry) else {
            return Err(Problem::new(format!(
                "the columns at version {version} were not written down"
            )));
        };
        if self.json {
            let object = json!({
                "ok": true, "version": version, "hash": schema.hash(), "columns": columns_json(schema),
            });
            say(&format!("{object}\n"));
            return Ok(());
        }
        for column in schema.columns() {
            say(&format!("{column}\n"));
        }
        Ok(())
    }
}

fn line(document: &StateDocument, entry: &HistoryEntry, rows: u64) -> [String; 6] {
    let mut notes = Vec::new();
    if document.version() == Some(entry.version) {
        notes.push("now".to_owned());
    }
    notes.extend(entry.by.iter().map(|by| format!("by {by}")));
    if entry.source != crate::model::history::short(&document.source_fingerprint) {
        notes.push("of another source".to_owned());
    }
    let schema = entry.schema.as_deref().unwrap_or("-");
    [
        entry.version.to_string(),
        entry.at.format("%Y-%m-%d %H:%M:%S").to_string(),
        place(entry),
        rows.to_string(),
        schema.chars().take(8).collect(),
        notes.join(", "),
    ]
}

fn place(entry: &HistoryEntry) -> String {
    match &entry.cursor {
        Some(mark) => mark.position.to_string(),
        None => "the beginning".to_owned(),
    }
}

fn entry_json(entry: &HistoryEntry) -> Value {
    json!({
        "version": entry.version,
        "at": entry.at,
        "checkpoint": entry.cursor.as_ref().map(|mark| mark.position.to_string()),
        "batch_id": entry.batch_id,
        "rows": entry.rows,
        "total_rows": entry.total_rows,
        "schema": entry.schema,
        "source": entry.source,
        "by": entry.by,
    })
}

fn columns_json(schema: &Schema) -> Vec<Value> {
    let columns = schema.columns().iter();
    columns
        .map(|column| json!({ "name": column.name, "type": column.declared, "role": column.role.name() }))
        .collect()
}
