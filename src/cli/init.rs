//! `dbtick init`: looks at a table and writes the function.json that polls it.

mod proposal;
mod tombstones;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use serde_json::Value;

use super::app_files::{HOST_JSON, is_function_name, write_whole};
use super::{complain, fail, local_app, say};
use crate::azure::Azure;
use crate::clock::SystemClock;
use crate::config::{self, Connection, Rows, Settings};
use crate::schedule::Schedule;
use crate::source::survey::{Survey, survey};
use proposal::{Proposal, Wanted, is_indexed, propose};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  dbtick init orders --connection ORDERS_DB --table public.orders --webhook %ORDERS_HOOK%
  dbtick init orders --connection ORDERS_DB --table orders --tombstones --dry-run")]
pub(super) struct Init {
    /// Name of the new function: a directory with a function.json
    name: String,
    /// App setting that holds the connection (from the environment or local.settings.json)
    #[arg(long, value_name = "SETTING")]
    connection: String,
    /// Table or view, with its schema if need be
    #[arg(long)]
    table: String,
    /// Where to post: a URL, or an app setting as %NAME%
    #[arg(long, value_name = "URL", default_value = "%WEBHOOK_URL%")]
    webhook: String,
    /// Column that grows with every change; several for a composite cursor [default: proposed]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    cursor: Vec<String>,
    /// Column or columns that identify a row [default: proposed]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    key: Vec<String>,
    /// When to poll, as NCRONTAB with seconds
    #[arg(long, default_value = "*/15 * * * * *")]
    schedule: String,
    /// Also see deletions, by a table of tombstones: its DDL is printed, not run
    #[arg(long)]
    tombstones: bool,
    /// Directory of the Functions app
    #[arg(long, default_value = ".", value_name = "DIR")]
    app: PathBuf,
    /// Print function.json, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite an existing function.json
    #[arg(long)]
    force: bool,
}

impl Init {
    pub(super) async fn run(self) -> ExitCode {
        match self.prepare().await {
            Ok(prepared) => self.finish(&prepared),
            Err(problem) => fail(&problem),
        }
    }

    async fn prepare(&self) -> Result<Prepared, String> {
        if !is_function_name(&self.name) {
            return Err(format!(
                "{:?} is no name of a function: write letters, digits, - and _, beginning with a letter",
                self.name
            ));
        }
        if holds_secret(&self.webhook) {
            return Err(
                "--webhook has a user or a query, where tokens stand, and function.json is no place for \
                 secrets: put the URL into an app setting and name it as %SETTING%"
                    .to_owned(),
            );
        }
        Schedule::parse(&self.schedule)
            .map_err(|error| format!("--schedule {:?}: {error}", self.schedule))?;
        let settings = local_app::settings(&self.app).map_err(|error| error.to_string())?;
        let root = std::path::absolute(&self.app).unwrap_or_else(|_| self.app.clone());
        let connection = Connection::resolve(&settings, &root, &self.connection)
            .map_err(|refusal| format!("--connection: {refusal}"))?;
        let Some(Rows::Table { schema, table }) = config::table_name(&self.table) else {
            return Err(format!(
                "--table {:?} is not the name of a table: write table or schema.table; put a part \
                 with a dot in it into double quotes",
                self.table
            ));
        };
        let azure = Azure::new(Arc::new(SystemClock)).map_err(|error| super::chain(&error))?;
        let name = &self.connection;
        let survey = survey(&connection, name, schema.as_deref(), &table, &azure)
            .await
            .map_err(|error| super::chain(&error))?;
        let wanted = Wanted {
            cursor: self.cursor.clone(),
            key: self.key.clone(),
        };
        let proposal = propose(&survey, wanted)?;
        Ok(Prepared {
            function: self.function(&survey, &proposal),
            missing: missing_settings(&settings, &self.webhook),
            survey,
            proposal,
        })
    }

    fn finish(&self, prepared: &Prepared) -> ExitCode {
        let Prepared {
            survey,
            proposal,
            function,
            missing,
        } = prepared;
        if self.dry_run {
            say(function);
        } else if let Err(problem) = self.write(function) {
            return fail(&problem);
        }
        // What is printed beside a file goes to stderr, so that --dry-run can be piped.
        let mut notes: Vec<String> = proposal.reasons.clone();
        notes.extend(proposal.cautions.iter().map(|text| format!("mind: {text}")));
        if !is_indexed(survey, proposal) && !survey.is_view {
            notes.push("mind: no index begins with cursor and key, so every page would read the whole table; `dbtick check` prints the index".to_owned());
        }
        notes.extend(missing.iter().map(|name| {
            format!("next: add the app setting {name}, on this machine in local.settings.json")
        }));
        notes.push(format!("next: dbtick check {}", self.app.display()));
        complain(&(notes.join("\n") + "\n"));
        if self.tombstones {
            let title = "\n-- run this once, as the owner of the table:\n";
            complain(&format!("{title}{}", tombstones::ddl(survey, proposal)));
        }
        ExitCode::SUCCESS
    }

    /// In the order in which people read it.
    fn function(&self, survey: &Survey, proposal: &Proposal) -> String {
        let columns: Vec<_> = survey
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect();
        let cursor = match proposal.cursor.as_slice() {
            [single] => text(single),
            several => list(several),
        };
        let mut source = vec![
            ("connection", text(&self.connection)),
            ("table", text(&self.table)),
            ("cursor", cursor),
            ("key", list(&proposal.key)),
            ("columns", list(&columns)),
        ];
        if self.tombstones {
            let table = match config::table_name(&self.table) {
                Some(Rows::Table { schema, table }) => qualified(schema.as_deref(), &table),
                _ => tombstones::table_name(&survey.table),
            };
            let table = text(&table);
            source.push((
                "deletes",
                format!("{{ \"tombstones\": {{ \"table\": {table} }} }}"),
            ));
        }
        let members: Vec<_> = source
            .iter()
            .map(|(name, value)| format!("      \"{name}\": {value}"))
            .collect();
        format!(
            r#"{{
  "bindings": [
    {{ "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": {schedule} }}
  ],
  "poller": {{
    "source": {{
{members}
    }},
    "deliver": [
      {{ "webhook": {{ "url": {url} }} }}
    ]
  }}
}}
"#,
            schedule = text(&self.schedule),
            members = members.join(",\n"),
            url = text(&self.webhook),
        )
    }

    fn write(&self, function: &str) -> Result<(), String> {
        let directory = self.app.join(&self.name);
        let file = directory.join("function.json");
        if file.exists() && !self.force {
            return Err(format!(
                "{} exists already; --force overwrites it, --dry-run prints the new one",
                file.display()
            ));
        }
        let written = std::fs::create_dir_all(&directory)
            .and_then(|()| write_whole(&file, function))
            .and_then(|()| host_json(&self.app));
        written.map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
        complain(&format!("wrote {}\n", file.display()));
        Ok(())
    }
}

struct Prepared {
    survey: Survey,
    proposal: Proposal,
    function: String,
    /// App settings that function.json names and that have no value yet.
    missing: Vec<String>,
}

/// An app without host.json is no app; ours says who the handler is.
fn host_json(app: &Path) -> std::io::Result<()> {
    let file = app.join("host.json");
    if file.exists() {
        return Ok(());
    }
    write_whole(&file, HOST_JSON)?;
    complain(&format!("wrote {}\n", file.display()));
    Ok(())
}

fn text(value: &str) -> String {
    Value::from(value).to_string()
}

fn list(values: &[String]) -> String {
    let values: Vec<_> = values.iter().map(|value| text(value)).collect();
    format!("[{}]", values.join(", "))
}

/// The table of tombstones beside a table, as function.json names it.
fn qualified(schema: Option<&str>, table: &str) -> String {
    let quoted = |part: &str| match part.contains(['.', '"']) {
        true => format!("\"{}\"", part.replace('"', "\"\"")),
        false => part.to_owned(),
    };
    let table = quoted(&tombstones::table_name(table));
    match schema {
        Some(schema) => format!("{}.{table}", quoted(schema)),
        None => table,
    }
}

fn missing_settings(settings: &Settings, webhook: &str) -> Vec<String> {
    let names = webhook.split('%').skip(1).step_by(2);
    names
        .filter(|name| settings.filled(name).is_none())
        .map(str::to_owned)
        .collect()
}

fn holds_secret(url: &str) -> bool {
    !url.contains('%')
        && reqwest::Url::parse(url).is_ok_and(|url| {
            !url.username().is_empty() || url.password().is_some() || url.query().is_some()
        })
}
