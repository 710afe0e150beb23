//! What a first-time visitor is told before anything moves.

use std::time::Duration;

use super::app::DemoApp;
use super::checkpoint;
use crate::config::human;

pub(super) fn text(app: &DemoApp, page: &str, length: Option<Duration>, crash: bool) -> String {
    let ends = match (length.map(human::show_duration), crash) {
        (Some(length), false) => format!("It ends after {length}"),
        (Some(length), true) => format!("It ends after {length}, when the crash is over"),
        (None, true) => "It ends when the crash is over".to_owned(),
        (None, false) => "It runs until you stop it".to_owned(),
    };
    format!(
        "dbtick demo: a SQL table as the trigger of an Azure Functions app, on this machine alone.

  table orders  ->  timer, every second  ->  dbtick serve  ->  webhook

It is a pseudo trigger on timers, not a native database trigger. Each tick reads the rows behind
the checkpoint, delivers them in batches, and commits the checkpoint behind every batch.
Rows are delivered at least once, so receivers must be idempotent (by event id).

  app    {}
  table  {}
  state  {}
  page   {page}

{ends}. Ctrl-C ends it cleanly.",
        app.root.display(),
        app.database.display(),
        checkpoint::path(&app.state).display(),
    )
}
