//! A timer invocation: one tick for each poller of the function.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;
use tracing::Instrument;

use super::fan_out::Message;
use super::invocation::{Answer, Invocation, invocation_id};
use super::{Handler, Role};
use crate::model::plain::plain;
use crate::model::trace::TraceParent;
use crate::telemetry::{self, spans};
use crate::tick::budget::Budget;
use crate::tick::line::{Line, Place};
use crate::tick::report::{LateReport, Outcome, Tally, TickError, TickReport};
use crate::tick::{Call, Poller, tick};

/// After this, a tick with rows left lets those who wait go first.
const TURN: Duration = Duration::from_secs(10);

/// When the host began to wait for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived(pub(super) Instant);

/// The time limit of the host counts from here, not from when there is a place for the invocation.
pub(super) async fn arrived(State(handler): State<Arc<Handler>>, mut request: Request) -> Request {
    let now = handler.parts.clock.monotonic();
    request.extensions_mut().insert(Arrived(now));
    request
}

/// The host's readiness and health probe.
pub(super) async fn ready() -> &'static str {
    "dbtick is ready\n"
}

pub(super) fn no_such_route(uri: &Uri) -> Answer {
    let path = uri.path();
    Answer::failed(
        StatusCode::NOT_FOUND,
        vec![format!(
            "there is nothing at {path}; functions are at /NAME"
        )],
    )
}

pub(super) fn wrong_method(method: &Method, uri: &Uri) -> Answer {
    let path = uri.path();
    Answer::failed(
        StatusCode::METHOD_NOT_ALLOWED,
        vec![format!(
            "{path} does not answer {method}; the host invokes by POST /NAME and probes by GET /"
        )],
    )
}

pub(super) async fn invoke(
    State(handler): State<Arc<Handler>>,
    Path(function): Path<String>,
    Extension(arrived): Extension<Arrived>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let refused = |status, problem: String| {
        let problems = vec![format!("{function}: {problem}")];
        refused(&function, &invocation_id(&headers), status, problems)
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return refused(rejection.status(), rejection.body_text()),
    };
    let invocation = match Invocation::read(&headers, &body) {
        Ok(invocation) => invocation,
        Err(error) => return refused(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let role = handler.functions.get(&function);
    if let Some(slot) = &handler.off_in_slot {
        if let Some(Role::Poll {
            message: Some(_), ..
        }) = role
        {
            // A 200 would take it away from those that it is for.
            let problem = format!(
                "pollers are off in slot {slot}, and the message is for another: disable this function there by the slot's \
                 setting AzureWebJobs.{function}.Disabled"
            );
            return refused(StatusCode::SERVICE_UNAVAILABLE, problem);
        }
        return Answer::ok(vec![format!(
            "pollers are off in slot {slot}; set DBTICK_RUN_IN_SLOT=1 to run them there"
        )]);
    }
    match role {
        Some(Role::Poll { message: None, .. }) => {
            poll_to_the_end(Arc::clone(&handler), function, None, invocation, arrived).await
        }
        Some(Role::Poll {
            message: Some(binding),
            pollers,
            ..
        }) => {
            let (message, dequeued) = match Message::read(&body, binding) {
                Ok(read) => read,
                // Which is for the poison queue of the host.
                Err(error) => return refused(StatusCode::BAD_REQUEST, error.to_string()),
            };
            if let Some(problem) = message.is_for_another(&handler.app) {
                return refused(StatusCode::BAD_REQUEST, problem);
            }
            let Some(at) = pollers.iter().position(|it| it.name == message.poller) else {
                // Put by a deployment with other shards, or names.
                let name = plain(&message.poller);
                return Answer::ok(vec![format!(
                    "{function} has no poller {name}; nothing was done"
                )]);
            };
            let now = handler.parts.clock.now();
            match message.in_vain(&handler.taken, dequeued, now) {
                Some(said) => Answer::ok(vec![said]),
                None => {
                    let handler = Arc::clone(&handler);
                    poll_to_the_end(handler, function, Some(at), invocation, arrived).await
                }
            }
        }
        Some(Role::FanOut(fan_out)) => {
            let now = handler.parts.clock.now();
            fan_out.run(now, &invocation.id).await
        }
        Some(Role::Faulty(faults)) => {
            let problems = faults.iter().map(ToString::to_string).collect();
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            self::refused(&function, &invocation.id, status, problems)
        }
        Some(Role::NotAPoller) => refused(
            StatusCode::INTERNAL_SERVER_ERROR,
            "its function.json has no poller, pollers, fan_out, relay or status block".to_owned(),
        ),
        Some(Role::Relay(_) | Role::Status(_)) => unreachable!("these have routes of their own"),
        None => {
            let known: Vec<_> = handler.functions.keys().map(String::as_str).collect();
            let known = known.join(", ");
            let unknown = format!("{function}: there is no such function; this app has: {known}");
            let faults = handler.faults.iter().map(ToString::to_string);
            let problems = std::iter::once(unknown).chain(faults).collect();
            self::refused(&function, &invocation.id, StatusCode::NOT_FOUND, problems)
        }
    }
}

/// `only`: that poller, because a message has named it. A tick goes on when its caller has gone: cut off, it would keep its lease until that runs out.
async fn poll_to_the_end(
    handler: Arc<Handler>,
    function: String,
    only: Option<usize>,
    invocation: Invocation,
    arrived: Arrived,
) -> Answer {
    let span = spans::invocation(&function, &invocation.id, invocation.trace);
    let random = || handler.parts.clock.random();
    let invocation = Invocation {
        // A host that is not traced: receivers and our log are joined all the same.
        trace: spans::place_of(&span)
            .or(invocation.trace)
            .or_else(|| Some(TraceParent::begin(random(), random()))),
        ..invocation
    };
    let running = handler.running.clone();
    let polled = async move {
        match handler.functions.get(&function) {
            Some(Role::Poll {
                pollers, parallel, ..
            }) => match only {
                None => poll(&handler, pollers, *parallel, &invocation, arrived).await,
                Some(at) => tick_one(&handler, &pollers[at], &invocation, arrived).await,
            },
            _ => unreachable!("the role of a function does not change"),
        }
    };
    let polled = running.spawn(polled.instrument(span));
    match polled.await {
        Ok(answer) => answer,
        Err(error) => match error.try_into_panic() {
            Ok(cause) => std::panic::resume_unwind(cause),
            Err(_) => Answer::failed(StatusCode::SERVICE_UNAVAILABLE, vec!["stopping".to_owned()]),
        },
    }
}

/// By a message. Where the failure is in the state, the host is told that all is done: it would give the message
/// again and again, and the next one does the same. Where it is not, somebody has to hear of it.
async fn tick_one(
    handler: &Handler,
    poller: &Poller,
    invocation: &Invocation,
    arrived: Arrived,
) -> Answer {
    let reports = ticked(
        handler,
        std::slice::from_ref(poller),
        1,
        invocation,
        arrived,
    )
    .await;
    let untold = reports.iter().any(|it| it.is_failure() && !it.is_told);
    match untold {
        true => answer(&reports),
        false => answer(&reports).even_if_failed(),
    }
}

async fn poll(
    handler: &Handler,
    pollers: &[Poller],
    parallel: usize,
    invocation: &Invocation,
    arrived: Arrived,
) -> Answer {
    answer(&ticked(handler, pollers, parallel, invocation, arrived).await)
}

fn answer(reports: &[TickReport]) -> Answer {
    let logs = reports.iter().map(TickReport::sentence).collect();
    match reports.iter().any(TickReport::is_failure) {
        true => Answer::failed(StatusCode::INTERNAL_SERVER_ERROR, logs),
        false => Answer::ok(logs),
    }
}

async fn ticked(
    handler: &Handler,
    pollers: &[Poller],
    parallel: usize,
    invocation: &Invocation,
    Arrived(at): Arrived,
) -> Vec<TickReport> {
    let budget = Budget::starting(at, handler.function_timeout).or_until(handler.stop.clone());
    let random = || handler.parts.clock.random();
    let trace = invocation.trace.map(|trace| trace.child(random()));
    let call = Call {
        budget,
        trace: trace.map(|trace| trace.to_string().into()),
        repeated: invocation.host_retry > 0,
    };
    let own = Line::of(u32::try_from(parallel.max(1)).unwrap_or(u32::MAX));
    let ticks: FuturesUnordered<_> = pollers
        .iter()
        .map(|poller| in_turn(handler, poller, &own, &call, invocation).boxed())
        .collect();
    let reports = ticks.collect::<Vec<_>>().await;
    reports.into_iter().flatten().collect()
}

/// A tick, and another one after those who wait, as long as it has more to do and time is left.
async fn in_turn(
    handler: &Handler,
    poller: &Poller,
    own: &Line,
    call: &Call,
    invocation: &Invocation,
) -> Vec<TickReport> {
    let clock = &handler.parts.clock;
    let mut reports = Vec::new();
    loop {
        let place = place(handler, poller, own, &call.budget).await;
        let report = match &place {
            Some(_) => {
                let lines = vec![own.clone(), handler.line.clone()];
                let budget = call.budget.clone();
                let budget = budget.in_turn(clock.monotonic() + TURN, lines);
                let call = Call {
                    budget,
                    ..call.clone()
                };
                traced(poller, call, &invocation.id).await
            }
            // Who has had a turn has not failed: the next tick goes on.
            None if handler.stop.is_raised() || !reports.is_empty() => {
                nothing_done(poller, Ok(Outcome::BudgetSpent))
            }
            None => nothing_done(poller, Err(TickError::Crowded)),
        };
        drop(place);
        telemetry::tick_ended(&report, &invocation.cause());
        let goes_on = matches!(report.result, Ok(Outcome::Yielded));
        reports.push(report);
        if !goes_on || call.budget.is_spent(clock.monotonic()) {
            return reports;
        }
    }
}

/// In both lines; `None` if there is none in time for a tick that ends before it is too late.
async fn place(
    handler: &Handler,
    poller: &Poller,
    own: &Line,
    budget: &Budget,
) -> Option<(Place, Place)> {
    let weight = handler.weight_of(poller);
    let places = async {
        let first = own.enter(1).await;
        (first, handler.line.enter(weight).await)
    };
    tokio::select! {
        biased;
        places = places => Some(places),
        () = budget.spent() => None,
    }
}

fn refused(function: &str, id: &str, status: StatusCode, problems: Vec<String>) -> Answer {
    telemetry::refused(function, id, &problems);
    Answer::failed(status, problems)
}

/// What receivers get names the span of the tick as their parent, where it is exported.
async fn traced(poller: &Poller, call: Call, invocation_id: &str) -> TickReport {
    let span = spans::tick(&poller.name, invocation_id);
    let place = spans::place_of(&span).map(|place| place.to_string().into());
    let call = Call {
        trace: place.or(call.trace),
        ..call
    };
    let report = unharmed(poller, call).instrument(span.clone()).await;
    spans::ticked(&span, &report);
    report
}

/// A bug in one poller must not take the others of its function with it.
async fn unharmed(poller: &Poller, call: Call) -> TickReport {
    let ticked = AssertUnwindSafe(tick(poller, call)).catch_unwind().await;
    ticked.unwrap_or_else(|cause| {
        let what = message(cause.as_ref()).to_owned();
        nothing_done(poller, Err(TickError::Bug { what }))
    })
}

fn nothing_done(poller: &Poller, result: Result<Outcome, TickError>) -> TickReport {
    TickReport {
        poller: poller.name.clone(),
        result,
        tally: Tally::default(),
        took_ms: 0,
        checkpoint: None,
        clock_skew: None,
        schema_changes: Vec::new(),
        late: LateReport::default(),
        rewound: None,
        behind: Vec::new(),
        caught_up: false,
        is_told: false,
    }
}

fn message(cause: &(dyn Any + Send)) -> &str {
    cause
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| cause.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// A bug must not take the other invocations of the process with it.
pub(super) fn panicked(cause: Box<dyn Any + Send>) -> Response {
    let what = message(cause.as_ref());
    let line = format!("dbtick has a bug and abandoned this invocation, nothing is lost: {what}");
    refused("", "", StatusCode::INTERNAL_SERVER_ERROR, vec![line]).into_response()
}

#[cfg(test)]
mod tests;
