//! `dbtick adopt`: the source has changed, the rows are the same, the checkpoint stays.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::problem::{Problem, finish};
use super::rails::{Plan, Rails, place_of, rows_behind, standing};
use super::reset::source_notes;
use super::target::Target;
use crate::model::schema::Schema;
use crate::model::sinks::{SinksDiffer, compare};
use crate::model::state::StateDocument;
use crate::model::transitions::Order;
use crate::model::transitions::orders::fits;
use crate::source::SourceError;
use crate::tick::Poller;
use crate::tick::operate::{Found, Otherwise};
use crate::tick::report::TickError;

/// Keep the checkpoint although the source or the receivers have changed
///
/// For another connection, server, table, query, filter or type of a key when the same rows are
/// meant: a moved database, a renamed table, a filter that lets more through from now on. Rows below
/// the checkpoint are not read again. Another cursor or key is another order: that needs `dbtick
/// reset`. Also where receivers were added, renamed or removed: a new one begins at the checkpoint.
#[derive(Debug, Args)]
pub(super) struct Adopt {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    rails: Rails,
}

impl Adopt {
    pub(super) async fn run(self) -> ExitCode {
        finish(self.adopt().await, self.rails.json)
    }

    async fn adopt(&self) -> Result<(), Problem> {
        let (opened, poller) = self.target.open()?;
        let by = self.rails.operator(&opened)?;
        let found = poller.found().await?;
        let Found::Document(document) = &found else {
            let (name, standing) = (&poller.name, standing(&found));
            let text = format!("{name} has nothing that could be kept: {standing}");
            return Err(Problem::new(text));
        };
        fits(document, &poller.identity())?;
        let (schema, mut notes) = columns(&poller, document).await?;
        notes.splice(0..0, source_notes(&poller, &found));
        notes.extend(receivers(&poller, document));
        let plan = Plan {
            what: "adopt",
            poller: poller.name.clone(),
            from: place_of(document),
            to: "the same place in the source as it is configured now".to_owned(),
            rows: rows_behind(&poller, document.position()).await,
            notes,
        };
        let order = |evidence| Order::Adopt {
            source: poller.identity(),
            schema: schema.clone(),
            sinks: poller.sink_names(),
            evidence,
        };
        let place = &self.target.place;
        self.rails
            .move_poller(place, &poller, plan, &by, Otherwise::Refuse, order)
            .await
    }
}

/// Which receivers begin, and which end (E3).
fn receivers(poller: &Poller, document: &StateDocument) -> Vec<String> {
    let Err(SinksDiffer { added, removed }) = compare(&document.sinks, &poller.sink_names()) else {
        return Vec::new();
    };
    let added = added
        .iter()
        .map(|name| format!("{name} is new: it gets rows from the checkpoint on, none before it"));
    let removed = removed.iter().map(|name| match document.sink(name).lag {
        Some(lag) => format!(
            "{name} is gone, and was behind since {}: it never gets what it has missed",
            lag.since
        ),
        None => format!("{name} is gone: it gets no more rows"),
    });
    added.chain(removed).collect()
}

/// What the source looks like behind the checkpoint. One that refuses the checkpoint cannot be
/// adopted; one that cannot be reached shows its columns to the next tick.
async fn columns(
    poller: &Poller,
    document: &StateDocument,
) -> Result<(Option<Arc<Schema>>, Vec<String>), Problem> {
    let schema = match poller.columns_now(document.position()).await {
        Ok(schema) => schema,
        Err(TickError::Source(error @ SourceError::Unreachable { .. })) => {
            return Ok((None, vec![format!("its columns were not seen: {error}")]));
        }
        Err(error) => return Err(error.into()),
    };
    let known = document.schema.as_ref();
    let changes = known.map_or_else(Vec::new, |known| known.changes_to(&schema));
    let notes = changes.iter().map(ToString::to_string).collect();
    Ok((Some(schema), notes))
}
