//! What only looks.

use axum::http::StatusCode;
use tokio::time::timeout;

use super::answers::{
    CaseAnswer, CaseDetail, HealthAnswer, HistoryAnswer, OrphansAnswer, QuarantineAnswer,
    SchemaAnswer,
};
use super::ask::Ask;
use super::reply::{self, Reply};
use super::routes::Endpoint;
use super::{Desk, LONGEST_LOOK, Status, openapi};
use crate::model::schema::Schema;
use crate::overview::health::Health;
use crate::overview::orphans::GRACE;
use crate::overview::view::{CaseView, ColumnView};
use crate::overview::{AppView, metrics};
use crate::tick::Poller;
use crate::tick::operate::Found;
use crate::tick::quarantine::{Kept, Kepts};
use crate::tick::report::TickError;

/// Of the rows in quarantine: the page asks for them every few seconds, and each is read.
const MOST_SHOWN: usize = 200;
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) async fn read(
    status: &Status,
    endpoint: Endpoint,
    names: &[&str],
    ask: &Ask,
) -> Result<Reply, Reply> {
    let Status { function, desk } = status;
    let name = names.first().copied().unwrap_or_default();
    match endpoint {
        Endpoint::Page => Ok(Reply::page(function.actions)),
        Endpoint::OpenApi => Ok(Reply::json(&openapi::openapi(&function.path))),
        Endpoint::Checkpoints => Ok(Reply::json(&*desk.all().await?)),
        Endpoint::Metrics => {
            let text = metrics::text(&*desk.all().await?);
            Ok(Reply::text(PROMETHEUS, text))
        }
        Endpoint::Health => Ok(health(&*desk.all().await?)),
        Endpoint::Orphans => match &*desk.stuck().await? {
            Ok(orphans) => Ok(Reply::json(&OrphansAnswer {
                grace_s: GRACE.as_secs(),
                orphans,
            })),
            Err(story) => Err(cannot_be_asked(story.clone())),
        },
        Endpoint::Poller => match &*desk.one(name).await? {
            Some(detail) => Ok(Reply::json(detail)),
            None => Err(desk.no_such_poller(name)),
        },
        Endpoint::History => match &*desk.one(name).await? {
            Some(detail) => Ok(Reply::json(&HistoryAnswer {
                poller: name,
                history: &detail.history,
                audit: &detail.audit,
            })),
            None => Err(desk.no_such_poller(name)),
        },
        Endpoint::Schema => schema(desk.poller(name)?, ask).await,
        Endpoint::Quarantine => {
            let some = desk.poller(name)?.some_quarantined(MOST_SHOWN);
            let (Kepts { rows, unreadable }, total) = in_time(some).await?;
            Ok(Reply::json(&QuarantineAnswer {
                poller: name,
                rows: rows.iter().map(case).collect(),
                unreadable: unreadable.len(),
                total,
            }))
        }
        Endpoint::Case => {
            let event = names.get(1).copied().unwrap_or_default();
            let with_data = ask.query.get("data").is_some_and(|data| data == "1");
            let sink = ask.query.get("sink").map(String::as_str);
            let rows = kept(desk.poller(name)?, event, sink).await?;
            let rows = rows.iter().map(|kept| CaseDetail {
                case: case(kept),
                batch_id: kept.case.batch_id.clone(),
                first_failed_at: kept.case.first_failed_at,
                event: with_data.then(|| kept.case.event().to_owned()),
            });
            Ok(Reply::json(&CaseAnswer {
                poller: name,
                rows: rows.collect(),
            }))
        }
        Endpoint::Pause | Endpoint::Resume | Endpoint::Redrive | Endpoint::Discard => {
            unreachable!("these are actions")
        }
    }
}

impl Desk {
    pub(super) fn poller(&self, name: &str) -> Result<&Poller, Reply> {
        let poller = self.overview.poller(name);
        poller.ok_or_else(|| self.no_such_poller(name))
    }
}

/// The rows of one event, of one receiver or of all that did not take it. An id is never completed,
/// since one of them may be discarded.
pub(super) async fn kept(
    poller: &Poller,
    event: &str,
    sink: Option<&str>,
) -> Result<Vec<Kept>, Reply> {
    let mut rows = in_time(poller.quarantined_event(event)).await?.rows;
    rows.retain(|kept| kept.case.event_id == event);
    rows.retain(|kept| sink.is_none_or(|sink| kept.case.sink == sink));
    if rows.is_empty() {
        let name = &poller.name;
        let of = sink.map(|sink| format!(" for {sink}")).unwrap_or_default();
        return Err(Reply::refused(
            StatusCode::NOT_FOUND,
            format!("no row of {name} in quarantine{of} has the event id {event}"),
            "it may have been sent again or discarded meanwhile; checkpoints/{poller}/quarantine lists what is there",
        ));
    }
    Ok(rows)
}

/// The one row that is to be acted on: what one receiver misses says nothing about the others.
pub(super) async fn only(
    poller: &Poller,
    event: &str,
    sink: Option<&str>,
) -> Result<[Kept; 1], Reply> {
    let rows = kept(poller, event, sink).await?;
    <[Kept; 1]>::try_from(rows).map_err(|rows| {
        let sinks: Vec<&str> = rows.iter().map(|kept| kept.case.sink.as_str()).collect();
        let error = format!(
            "several receivers have not taken the event {event}: {}",
            sinks.join(", ")
        );
        let hint = "name one of them: send {\"sink\": \"…\"} in the body";
        Reply::refused(StatusCode::CONFLICT, error, hint)
    })
}

pub(super) fn unavailable(error: &TickError) -> Reply {
    cannot_be_asked(error.story())
}

fn cannot_be_asked(story: String) -> Reply {
    Reply::refused(
        StatusCode::SERVICE_UNAVAILABLE,
        story,
        "mend what the error names; nothing was changed by this request",
    )
}

async fn in_time<T>(look: impl Future<Output = Result<T, TickError>>) -> Result<T, Reply> {
    match timeout(LONGEST_LOOK, look).await {
        Ok(found) => found.map_err(|error| unavailable(&error)),
        Err(_) => Err(reply::too_slow()),
    }
}

fn case(kept: &Kept) -> CaseView {
    let case = &kept.case;
    CaseView {
        event_id: case.event_id.clone(),
        sink: case.sink.clone(),
        key: case.key(),
        quarantined_at: case.quarantined_at,
        attempts: case.attempts,
        reason: case.error.clone(),
        superseded: kept.superseded,
    }
}

fn health(view: &AppView) -> Reply {
    let stuck = view.pollers.iter();
    let stuck = stuck.filter(|poller| poller.health == Health::Stuck);
    let code = match view.health {
        Health::Stuck => StatusCode::SERVICE_UNAVAILABLE,
        Health::Ok | Health::Attention | Health::Stopped => StatusCode::OK,
    };
    let answer = HealthAnswer {
        health: view.health,
        at: view.at,
        stuck: stuck.map(|poller| poller.poller.clone()).collect(),
        faults: view.faults.len(),
    };
    Reply::json_with(code, &answer)
}

/// Of the newest checkpoint, or of the one that `?version=N` names.
async fn schema(poller: &Poller, ask: &Ask) -> Result<Reply, Reply> {
    let name = &poller.name;
    let missing = |error: String, hint: &str| Reply::refused(StatusCode::NOT_FOUND, error, hint);
    let found = poller.found().await.map_err(|error| unavailable(&error))?;
    let Found::Document(document) = found else {
        return Err(missing(
            format!("{name} has no state that could be read"),
            "it has not run yet, or its document is refused: checkpoints/{poller} says which",
        ));
    };
    let wanted = match ask.query.get("version").map(|text| text.parse::<u64>()) {
        None => document.version(),
        Some(Ok(version)) => Some(version),
        Some(Err(_)) => {
            return Err(Reply::refused(
                StatusCode::BAD_REQUEST,
                "version is not a number",
                "write ?version=N with the version of a kept checkpoint",
            ));
        }
    };
    let mut history = document.history.iter();
    let Some(entry) = history.find(|entry| Some(entry.version) == wanted) else {
        let error = match wanted {
            Some(wanted) => format!("{name} has no kept checkpoint with the version {wanted}"),
            None => format!("{name} has not committed anything yet"),
        };
        return Err(missing(error, "checkpoints/{poller}/history lists them"));
    };
    let (wanted, hash) = (entry.version, entry.schema.as_deref());
    let current = document.schema.iter();
    let mut known = current.chain(document.past_schemas.values());
    match hash.and_then(|hash| known.find(|schema| schema.hash() == hash)) {
        Some(schema) => Ok(Reply::json(&SchemaAnswer {
            poller: name.clone(),
            version: wanted,
            hash: schema.hash().to_owned(),
            columns: columns(schema),
        })),
        None => Err(missing(
            format!("the columns of {name} at version {wanted} are not known"),
            "they are written down with the first batch that is committed",
        )),
    }
}

fn columns(schema: &Schema) -> Vec<ColumnView> {
    let columns = schema.columns().iter().map(|column| ColumnView {
        name: column.name.clone(),
        declared: column.declared.clone(),
        role: column.role.name(),
    });
    columns.collect()
}
