//! `dbtick reset`: to the beginning, to the checkpoint of a file, to a cursor and key.

pub(super) mod place;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{ArgGroup, Args, ValueEnum};

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, consequences, rows_between, standing};
use super::state::read_document;
use super::target::Target;
use crate::model::state::{CursorMark, StateDocument};
use crate::model::transitions::Order;
use crate::tick::Poller;
use crate::tick::operate::{Found, Otherwise};

/// Move a poller: to the beginning, to a file, to a cursor and key
///
/// The next tick goes on with the rows behind that place. Also the way on when the state document is gone, or is refused, or when the source has changed.
/// What was delivered above the checkpoint and the count of failed attempts are forgotten.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("place").required(true).args(["to", "to_file", "to_cursor"]))]
pub(super) struct Reset {
    #[command(flatten)]
    target: Target,
    /// A place with a name
    #[arg(long, value_name = "PLACE")]
    to: Option<Landmark>,
    /// The checkpoint of a file that `dbtick state export` wrote
    #[arg(long, value_name = "FILE")]
    to_file: Option<PathBuf>,
    /// A cursor value; repeat it for each column of a composite cursor
    #[arg(
        long,
        value_name = "VALUE",
        requires = "to_key",
        allow_hyphen_values = true
    )]
    to_cursor: Vec<String>,
    /// The key beside it: COLUMN=VALUE, for a composite key COLUMN=VALUE,COLUMN=VALUE
    #[arg(long, value_name = "COLUMN=VALUE", requires = "to_cursor")]
    to_key: Option<String>,
    /// Take the place of a document that is refused; its bytes are kept beside it
    #[arg(long)]
    discard_corrupt: bool,
    #[command(flatten)]
    rails: Rails,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Landmark {
    /// Every row comes again
    Beginning,
}

impl Reset {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.reset().await, self.rails.json)
    }

    async fn reset(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let found = poller.found().await?;
        refuse_unless_discarded(&poller, &found, self.discard_corrupt)?;
        let to = self.place(&poller, &found).await?;
        let position = to.as_ref().map(|mark| &mark.position);
        let mut notes = consequences(&found);
        notes.extend(source_notes(&poller, &found));
        let plan = Plan {
            what: "reset",
            poller: poller.name.clone(),
            from: standing(&found),
            to: position.map_or_else(|| "the beginning".to_owned(), ToString::to_string),
            rows: rows_between(&poller, &found, position).await,
            notes,
        };
        let order = |evidence| Order::Reset {
            to: to.clone(),
            source: poller.identity(),
            evidence,
        };
        let otherwise = otherwise(self.discard_corrupt);
        let place = &self.target.place;
        self.rails
            .move_poller(place, &poller, plan, &by, otherwise, order)
            .await
    }

    /// `None`: the beginning.
    async fn place(&self, poller: &Poller, found: &Found) -> Result<Option<CursorMark>, Problem> {
        if let Some(Landmark::Beginning) = self.to {
            return Ok(None);
        }
        if let Some(file) = &self.to_file {
            let saved = read_document(file, poller)?;
            refuse_another_source(poller, &saved)?;
            return Ok(saved.checkpoint.cursor);
        }
        let key = self.to_key.as_deref().unwrap_or_default();
        place::parse(poller, found, &self.to_cursor, key)
            .await
            .map(Some)
    }
}

pub(super) fn otherwise(discard_corrupt: bool) -> Otherwise {
    match discard_corrupt {
        true => Otherwise::Replace,
        false => Otherwise::Begin,
    }
}

/// Nobody replaces a document by accident (C8).
pub(super) fn refuse_unless_discarded(
    poller: &Poller,
    found: &Found,
    discard_corrupt: bool,
) -> Result<(), Problem> {
    match found {
        Found::Refused { error, .. } if !discard_corrupt => Err(Problem::new(format!(
            "{}: {error}; nothing was changed. If it is not worth saving, say --discard-corrupt: \
             its bytes are kept beside it under another name",
            poller.state_key
        ))),
        _ => Ok(()),
    }
}

/// What is different about the source, where the document was made for another.
pub(super) fn source_notes(poller: &Poller, found: &Found) -> Vec<String> {
    let Found::Document(document) = found else {
        return Vec::new();
    };
    if document.source_fingerprint == poller.fingerprint {
        return Vec::new();
    }
    let mut notes = vec!["the configured source is another than the one of this state".to_owned()];
    let was = document.source.as_ref();
    let changes = was.map_or_else(Vec::new, |was| was.differences(&poller.definition));
    notes.extend(changes.iter().map(ToString::to_string));
    notes
}

fn refuse_another_source(poller: &Poller, saved: &StateDocument) -> Result<(), Problem> {
    if saved.source_fingerprint == poller.fingerprint {
        return Ok(());
    }
    let was = saved.source.as_ref();
    let changes = was.map_or_else(Vec::new, |was| was.differences(&poller.definition));
    let changes: Vec<_> = changes.iter().map(|change| format!(": {change}")).collect();
    Err(Problem::new(format!(
        "the file holds a place in another source{}; give the place by --to-cursor and --to-key if it is the same",
        changes.concat()
    )))
}
