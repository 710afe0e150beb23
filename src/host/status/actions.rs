//! What changes something. Each is in the audit trail with who and why; a request that another site
//! makes a browser send is not one (S9).

use std::sync::Arc;

use axum::http::StatusCode;

use super::answers::{ActionAnswer, Because};
use super::ask::Ask;
use super::reads::{only, unavailable};
use super::reply::{self, Reply};
use super::routes::Endpoint;
use super::{LARGEST_BODY, Status};
use crate::host::Handler;
use crate::model::plain::is_obeyed;
use crate::model::transitions::{Operator, Order, Refusal};
use crate::tick::Poller;
use crate::tick::budget::Budget;
use crate::tick::operate::{OperateError, Otherwise};
use crate::tick::quarantine::{Kept, Redrive, RedriveError, Redriven};

/// An audit trail is no place for essays.
const LONGEST_REASON: usize = 500;

/// It goes on when its caller has gone: cut off, a lease would be kept until it runs out.
pub(super) async fn act(
    handler: &Arc<Handler>,
    status: &Status,
    endpoint: Endpoint,
    names: &[&str],
    ask: &Ask,
) -> Result<Reply, Reply> {
    let because = permitted(status, ask)?;
    let action = Action {
        handler: Arc::clone(handler),
        status: status.clone(),
        endpoint,
        name: names.first().copied().unwrap_or_default().to_owned(),
        event: names.get(1).copied().unwrap_or_default().to_owned(),
        sink: because.sink,
        by: Operator {
            who: ask.caller.clone(),
            why: because.reason.replace(is_obeyed, " "),
            id: format!("{:032x}", status.desk.clock.random()),
        },
        how: Redrive {
            as_is: because.as_is,
            new_ids: because.new_ids,
        },
    };
    let running = handler.running.clone();
    match running.spawn(action.run()).await {
        Ok(answered) => answered,
        Err(error) => match error.try_into_panic() {
            Ok(cause) => std::panic::resume_unwind(cause),
            Err(_) => Err(reply::too_slow()),
        },
    }
}

fn permitted(status: &Status, ask: &Ask) -> Result<Because, Reply> {
    if !status.function.actions {
        return Err(Reply::refused(
            StatusCode::FORBIDDEN,
            "this status function only shows",
            "use the command line, or set \"actions\": true in its status block",
        ));
    }
    if !ask.is_meant {
        return Err(Reply::refused(
            StatusCode::FORBIDDEN,
            "the header x-dbtick-action: 1 is missing",
            "it shows that no other site has made a browser send this; add it",
        ));
    }
    if !ask.is_json {
        return Err(Reply::refused(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body is not said to be JSON",
            "add the header content-type: application/json and a body such as {\"reason\": \"…\"}",
        ));
    }
    if ask.body.len() > LARGEST_BODY {
        return Err(reply::too_large());
    }
    let because: Because = match ask.body.is_empty() {
        true => Because::default(),
        false => serde_json::from_slice(&ask.body).map_err(|error| {
            let error = format!("the body is not what an action needs: {error}");
            let hint = "send {\"reason\": \"…\"}";
            Reply::refused(StatusCode::BAD_REQUEST, error, hint)
        })?,
    };
    if because.reason.chars().count() > LONGEST_REASON {
        return Err(Reply::refused(
            StatusCode::BAD_REQUEST,
            format!("the reason is longer than {LONGEST_REASON} characters"),
            "say it shorter",
        ));
    }
    Ok(because)
}

struct Action {
    handler: Arc<Handler>,
    status: Status,
    endpoint: Endpoint,
    name: String,
    event: String,
    sink: Option<String>,
    by: Operator,
    how: Redrive,
}

impl Action {
    async fn run(self) -> Result<Reply, Reply> {
        let desk = &self.status.desk;
        let poller = desk.poller(&self.name)?;
        let done = match self.endpoint {
            Endpoint::Pause => self.turn(poller, "pause", Order::Pause).await,
            Endpoint::Resume => self.turn(poller, "resume", Order::Resume).await,
            Endpoint::Redrive => self.redrive(poller).await,
            Endpoint::Discard => self.discard(poller).await,
            _ => unreachable!("the others only look"),
        };
        desk.forget(&self.name);
        done
    }

    async fn turn(&self, poller: &Poller, what: &'static str, to: Order) -> Result<Reply, Reply> {
        let operated = poller
            .operate(&self.by, Otherwise::Refuse, |_| to.clone())
            .await;
        let operated = operated.map_err(|error| self.refused(&error))?;
        let name = &self.name;
        let says = match (what, operated.already) {
            ("pause", false) => format!("{name} is paused: its ticks read and deliver nothing"),
            ("pause", true) => format!("{name} was paused already"),
            (_, false) => format!("{name} goes on with its next tick"),
            (_, true) => format!("{name} was not paused"),
        };
        Ok(self.answer(what, !operated.already, says))
    }

    async fn redrive(&self, poller: &Poller) -> Result<Reply, Reply> {
        let rows = only(poller, &self.event, self.sink.as_deref()).await?;
        let now = self.status.desk.clock.monotonic();
        let budget = Budget::starting(now, self.handler.function_timeout);
        let budget = budget.or_until(self.handler.stop.clone());
        let results = poller.redrive(&rows, self.how, &self.by, &budget).await;
        let results = results.map_err(|error| self.not_now(&error))?;
        let done = results.iter().all(|result| *result == Redriven::Delivered);
        let each = rows.iter().zip(&results).map(became);
        Ok(self.answer("redrive", done, each.collect::<Vec<_>>().join("; ")))
    }

    async fn discard(&self, poller: &Poller) -> Result<Reply, Reply> {
        let rows = only(poller, &self.event, self.sink.as_deref()).await?;
        let discarded = poller.discard(&rows, &self.by).await;
        discarded.map_err(|error| self.not_now(&error))?;
        let [kept] = &rows;
        let sink = &kept.case.sink;
        let says = format!("it is no longer in quarantine, and {sink} never gets it");
        Ok(self.answer("discard", true, says))
    }

    fn answer(&self, what: &'static str, done: bool, says: String) -> Reply {
        tracing::info!(poller = %self.name, who = %self.by.who, "{what}: {says}");
        Reply::json(&ActionAnswer {
            poller: self.name.clone(),
            what,
            done,
            says,
            who: self.by.who.clone(),
        })
    }

    fn not_now(&self, error: &RedriveError) -> Reply {
        let name = &self.name;
        match error {
            RedriveError::Held { .. } => conflict(error, "try again in a moment"),
            RedriveError::Paused { .. } => conflict(error, format!("resume {name} first")),
            RedriveError::Tick(error) => unavailable(error),
            RedriveError::Operate(error) => self.refused(error),
        }
    }

    fn refused(&self, error: &OperateError) -> Reply {
        let name = &self.name;
        match error {
            OperateError::NotBegun { .. } => {
                conflict(error, "to keep it from starting, disable its function")
            }
            OperateError::Held { .. } => conflict(error, "try again in a moment"),
            OperateError::Refused(Refusal::Failed) => conflict(
                error,
                format!(
                    "look into it, then `dbtick rollback {name} --to VERSION` or `dbtick reset {name}`"
                ),
            ),
            OperateError::Refused(_) => conflict(error, "look at the poller again"),
            OperateError::Tick(error) => unavailable(error),
        }
    }
}

fn conflict(error: &dyn std::error::Error, hint: impl Into<String>) -> Reply {
    Reply::refused(StatusCode::CONFLICT, error.to_string(), hint)
}

fn became((kept, result): (&Kept, &Redriven)) -> String {
    let sink = &kept.case.sink;
    match result {
        Redriven::Delivered => format!("{sink} has taken it"),
        Redriven::Superseded => format!(
            "not sent to {sink}: the row has changed since, or is gone; its newer version comes by itself"
        ),
        Redriven::Failed(reason) => format!("{sink} has not taken it: {reason}"),
    }
}
