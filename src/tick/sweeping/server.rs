//! Whether the database is the one that the checkpoint was made with, and what to do where it has gone back.

use crate::model::late::{Continuity, Rewind, Sight, rewind_target};
use crate::model::state::StateDocument;
use crate::model::transitions::{Operator, Order};
use crate::tick::Poller;
use crate::tick::keeper::Standing;
use crate::tick::operate::Otherwise;
use crate::tick::reading::load_document;
use crate::tick::report::TickError;

pub(super) enum Server {
    Stands,
    /// It was restarted long after the checkpoint; the names of transactions begin anew.
    ForgetFences,
    GoBack {
        /// `None`: to the beginning.
        version: Option<u64>,
        why: String,
    },
}

pub(super) fn what_became_of_the_server(
    poller: &Poller,
    document: &StateDocument,
    sight: &Sight,
) -> Result<Server, TickError> {
    let (Some(was), Some(is)) = (&document.late.epoch, &sight.epoch) else {
        return Ok(Server::Stands);
    };
    let continuity = is.continues(was);
    let why = match continuity {
        Continuity::Same => return Ok(Server::Stands),
        Continuity::Restarted => "the database was restarted",
        Continuity::TookOver => "another server has taken over",
        Continuity::Restored { .. } => "the database was restored from an older copy",
        Continuity::ClockBack => "the database's clock was put back",
    };
    let go_back = |version| {
        Ok(Server::GoBack {
            version,
            why: why.to_owned(),
        })
    };
    match rewind_target(
        &document.history,
        was,
        is,
        &continuity,
        poller.recovery_point,
    ) {
        Rewind::Nowhere => Ok(Server::ForgetFences),
        Rewind::To { version } => go_back(Some(version)),
        Rewind::Beginning => go_back(None),
        Rewind::Unknown => Err(TickError::Restored {
            poller: poller.name.clone(),
        }),
    }
}

pub(super) async fn go_back(
    poller: &Poller,
    version: Option<u64>,
    why: &str,
    sight: &Sight,
) -> Result<Standing, TickError> {
    let by = Operator {
        who: "dbtick".to_owned(),
        why: why.to_owned(),
        id: format!("{:032x}", poller.clock.random()),
    };
    let Some(epoch) = sight.epoch.clone() else {
        unreachable!("an epoch has been compared");
    };
    let order = |evidence| Order::Rewind {
        version,
        epoch: epoch.clone(),
        source: poller.identity(),
        evidence,
    };
    poller
        .operate(&by, Otherwise::Refuse, order)
        .await
        .map_err(TickError::from)?;
    match load_document(poller).await? {
        Some(standing) => Ok(standing),
        None => Err(TickError::DocumentGone {
            key: poller.state_key.to_string(),
            poller: poller.name.clone(),
        }),
    }
}
