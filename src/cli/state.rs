//! `dbtick state`: the document of a poller as a file.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, place_of, rows_between, standing};
use super::reset::{otherwise, refuse_unless_discarded};
use super::target::Target;
use super::{complain, say};
use crate::model::state::StateDocument;
use crate::model::transitions::Order;
use crate::tick::Poller;
use crate::tick::operate::Found;

/// Save the state document of a poller to a file, or put it back
#[derive(Debug, Args)]
pub(super) struct State {
    #[command(subcommand)]
    command: StateCommand,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    Export(Export),
    Import(Import),
}

/// Write the document to a file, or to stdout
///
/// As it stands, also one that is refused.
#[derive(Debug, Args)]
struct Export {
    #[command(flatten)]
    target: Target,
    /// A file that does not exist yet; stdout without it
    file: Option<PathBuf>,
}

/// Put a saved document in the place of the present one
///
/// Restores its checkpoint, schema and delivered rows, with a free lease. Also the way on when the document is gone, or is refused.
#[derive(Debug, Args)]
struct Import {
    #[command(flatten)]
    target: Target,
    /// A document that `dbtick state export` wrote, or a plain one of version 1
    file: PathBuf,
    /// Take the place of a document that is refused; its bytes are kept beside it
    #[arg(long)]
    discard_corrupt: bool,
    #[command(flatten)]
    rails: Rails,
}

impl State {
    pub(super) async fn run(self) -> ExitCode {
        match self.command {
            StateCommand::Export(export) => finish(export.export().await, false),
            StateCommand::Import(import) => finish(import.import().await, import.rails.json),
        }
    }
}

impl Export {
    async fn export(&self) -> Result<(), Problem> {
        let (_, poller) = self.target.open()?;
        let found = poller.found().await?;
        let bytes = match &found {
            Found::Nothing { .. } => {
                let (name, standing) = (&poller.name, standing(&found));
                return Err(Problem::new(format!("{name} has {standing}")));
            }
            Found::Document(document) => document.to_bytes(),
            Found::Refused { error, body } => {
                complain(&format!("dbtick: warning: {error}; exported as it is\n"));
                body.body.to_vec()
            }
        };
        let Some(file) = &self.file else {
            say(&String::from_utf8_lossy(&bytes));
            say("\n");
            return Ok(());
        };
        let written = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(file)
            .and_then(|mut open| {
                open.write_all(&bytes)?;
                open.sync_all()
            });
        written.map_err(|error| {
            let why = match error.kind() {
                ErrorKind::AlreadyExists => "exists already, and is not overwritten".to_owned(),
                _ => error.to_string(),
            };
            Problem::new(format!("{}: {why}", file.display()))
        })
    }
}

impl Import {
    async fn import(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let saved = read_document(&self.file, &poller)?;
        let found = poller.found().await?;
        refuse_unless_discarded(&poller, &found, self.discard_corrupt)?;
        let mut notes = Vec::new();
        if saved.source_fingerprint != poller.fingerprint {
            notes.push("the file was made for another source: ticks will refuse it until `dbtick adopt` or `dbtick reset`".to_owned());
            let was = saved.source.as_ref();
            let changes = was.map_or_else(Vec::new, |was| was.differences(&poller.definition));
            notes.extend(changes.iter().map(ToString::to_string));
        }
        let plan = Plan {
            what: "import",
            poller: poller.name.clone(),
            from: standing(&found),
            to: place_of(&saved),
            rows: rows_between(&poller, &found, saved.position()).await,
            notes,
        };
        let order = |evidence| Order::Import {
            saved: Box::new(saved.clone()),
            evidence,
        };
        let otherwise = otherwise(self.discard_corrupt);
        let place = &self.target.place;
        self.rails
            .move_poller(place, &poller, plan, &by, otherwise, order)
            .await
    }
}

/// A saved document of this poller.
pub(super) fn read_document(file: &Path, poller: &Poller) -> Result<StateDocument, Problem> {
    let bytes = std::fs::read(file)
        .map_err(|error| Problem::new(format!("{}: {error}", file.display())))?;
    StateDocument::from_bytes(without_tag(&bytes), &poller.name, &poller.key_columns)
        .map_err(|error| Problem::new(format!("{}: {error}", file.display())))
}

/// A copy of a file in a state directory begins with a line that holds its tag.
fn without_tag(bytes: &[u8]) -> &[u8] {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) if bytes.starts_with(b"{\"tag\":") => &bytes[end + 1..],
        _ => bytes,
    }
}
