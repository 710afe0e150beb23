//! The status functions: what the pollers of the app are doing, for people and for machines, and the
//! few things that can be done about it.
//!
//! The host hands a request over in one of two forms, wrapped into an invocation or, where the owner
//! has switched forwarding on, as it came; both end in `answer`. Who may ask is the host's to check
//! (S9). Nothing is known here that is not in the state documents: another process may run the ticks.

mod actions;
mod answers;
mod ask;
mod looks;
mod openapi;
mod reads;
mod reply;
mod routes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::invocation::Answer;
use super::{Handler, Role};
use crate::clock::Clock;
use crate::config::{App, StatusFunction};
use crate::overview::orphans::{GRACE, Orphan};
use crate::overview::{AppView, Overview, PollerDetail};
use crate::store::key::KeyError;
use crate::wiring::Parts;
use ask::Ask;
use looks::Looks;
use reply::Reply;
use routes::{Endpoint, Found};

pub use openapi::openapi;

/// Requests that are worked on at once; the others wait. They do not stand in the line of ticks.
const SEATS: usize = 32;
/// Then whoever waits is told to come again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// A database or a store that does not answer must not make the page hang without a word.
const LONGEST_LOOK: Duration = Duration::from_secs(60);
/// What has not moved for hours is not looked for every few seconds: it needs a list of all documents.
const STUCK_FOR_HOURS: Duration = Duration::from_secs(60);
/// A reason and a few flags.
const LARGEST_BODY: usize = 16 * 1024;

/// What all status functions of the app share.
#[derive(Debug)]
pub(super) struct Desk {
    overview: Overview,
    names: Vec<String>,
    all: Looks<AppView>,
    each: BTreeMap<String, Looks<Option<PollerDetail>>>,
    /// Or why they cannot be told.
    stuck: Looks<Result<Vec<Orphan>, String>>,
    clock: Arc<dyn Clock>,
    seats: Semaphore,
}

/// One of them.
#[derive(Debug, Clone)]
pub(super) struct Status {
    pub(super) function: StatusFunction,
    pub(super) desk: Arc<Desk>,
}

impl Desk {
    pub(super) fn new(app: &App, parts: &Parts) -> Result<Self, KeyError> {
        let names: Vec<String> = app.pollers().map(|poller| poller.name.clone()).collect();
        let each = names.iter().map(|name| (name.clone(), Looks::default()));
        Ok(Self {
            overview: Overview::new(app, parts)?,
            all: Looks::default(),
            each: each.collect(),
            stuck: Looks::kept_for(STUCK_FOR_HOURS),
            names,
            clock: Arc::clone(&parts.clock),
            seats: Semaphore::new(SEATS),
        })
    }

    async fn all(&self) -> Result<Arc<AppView>, Reply> {
        let look = self.all.look(&*self.clock, self.overview.all());
        timeout(LONGEST_LOOK, look)
            .await
            .map_err(|_| reply::too_slow())
    }

    async fn one(&self, name: &str) -> Result<Arc<Option<PollerDetail>>, Reply> {
        let Some(looks) = self.each.get(name) else {
            return Err(self.no_such_poller(name));
        };
        let look = looks.look(&*self.clock, self.overview.one(name));
        timeout(LONGEST_LOOK, look)
            .await
            .map_err(|_| reply::too_slow())
    }

    async fn stuck(&self) -> Result<Arc<Result<Vec<Orphan>, String>>, Reply> {
        let look = async {
            let found = self.overview.orphans(GRACE).await;
            found.map_err(|error| error.story())
        };
        timeout(LONGEST_LOOK, self.stuck.look(&*self.clock, look))
            .await
            .map_err(|_| reply::too_slow())
    }

    /// Something was changed: the next one who asks sees it.
    fn forget(&self, name: &str) {
        self.all.forget();
        self.stuck.forget();
        if let Some(looks) = self.each.get(name) {
            looks.forget();
        }
    }

    fn no_such_poller(&self, name: &str) -> Reply {
        let hint = match self.names.as_slice() {
            [] => "no function of this app has a poller that can run".to_owned(),
            names => format!("this app has: {}", names.join(", ")),
        };
        let error = format!("there is no poller {name}");
        Reply::refused(StatusCode::NOT_FOUND, error, hint)
    }
}

/// Wrapped into an invocation, which always succeeds: what the caller gets is in the output.
pub(super) async fn invoke(
    State(handler): State<Arc<Handler>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Answer {
    let name = uri.path().trim_start_matches('/');
    let Some(Role::Status(status)) = handler.functions.get(name) else {
        unreachable!("only these are routed here, and the role of a function does not change");
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let problem = rejection.body_text();
            return Answer::refused(name, &headers, rejection.status(), &problem);
        }
    };
    let Some(ask) = Ask::wrapped(&status.function, &body) else {
        return Answer::without_request(name, &headers, &status.function.request);
    };
    let reply = answer(&handler, status, ask).await;
    let output = (status.function.response.clone(), reply.into_output());
    Answer::ok(Vec::new()).with_outputs([output])
}

/// As it came to the host; `Err`: it is not for one of these functions.
pub(super) async fn forwarded(
    handler: &Arc<Handler>,
    request: Request<Body>,
) -> Result<Response, Request<Body>> {
    let statuses = handler.functions.values().filter_map(|role| match role {
        Role::Status(status) => Some(status),
        _ => None,
    });
    let path = request.uri().path();
    let longest = statuses
        .filter(|status| ask::below(&status.function.path, path).is_some())
        .max_by_key(|status| status.function.path.len());
    let Some(status) = longest else {
        return Err(request);
    };
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LARGEST_BODY).await else {
        return Ok(reply::too_large().into_response());
    };
    let Some(ask) = Ask::forwarded(&status.function, &parts, body) else {
        unreachable!("its path has been looked at");
    };
    Ok(answer(handler, status, ask).await.into_response())
}

async fn answer(handler: &Arc<Handler>, status: &Status, ask: Ask) -> Reply {
    let desk = &status.desk;
    let Ok(Ok(_seat)) = timeout(LONGEST_WAIT, desk.seats.acquire()).await else {
        return reply::too_many();
    };
    let path: Vec<&str> = ask.path.iter().map(String::as_str).collect();
    let (endpoint, names) = match routes::find(&ask.method, &path) {
        Found::Endpoint(endpoint, names) => (endpoint, names),
        Found::OtherMethods(methods) => return reply::wrong_method(&ask.method, methods),
        Found::Nothing => return reply::nothing_here(&path.join("/")),
    };
    let answered = match endpoint {
        Endpoint::Pause | Endpoint::Resume | Endpoint::Redrive | Endpoint::Discard => {
            actions::act(handler, status, endpoint, &names, &ask).await
        }
        _ => reads::read(status, endpoint, &names, &ask).await,
    };
    answered.unwrap_or_else(|refused| refused)
}

#[cfg(test)]
mod tests;
