//! After a commit: an outbox loses the rows that every sink has acknowledged.
//!
//! A crash in between leaves them in the table, below the checkpoint. They are not looked for again:
//! nothing proves that a row below the checkpoint was delivered, and a row is worth more than its room.

use tokio::time::timeout_at;

use super::Poller;
use super::budget::Budget;
use crate::model::position::Position;
use crate::source::SourceError;

/// How many rows were left behind. That is no failure of a tick: they were delivered and committed.
pub(super) async fn clean_up(poller: &Poller, positions: Vec<Position>, budget: &Budget) -> u64 {
    if positions.is_empty() {
        return 0;
    }
    let cleaned = timeout_at(budget.abandon_at(), poller.source.clean_up(&positions)).await;
    let problem = match cleaned {
        Ok(Ok(())) => return 0,
        Ok(Err(error)) => story(&error),
        Err(_) => "no answer before the time budget of the invocation was spent".to_owned(),
    };
    let rows = positions.len() as u64;
    tracing::warn!(
        poller = %poller.name,
        rows,
        "delivered rows stay in the outbox, which could not be cleaned up: {problem}"
    );
    rows
}

fn story(error: &SourceError) -> String {
    let cause = std::error::Error::source(error).map(ToString::to_string);
    match cause {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
