//! A poller whose rows are parted in another way than they were: its documents have other names, and would
//! take themselves for new ones. Nothing goes on until a person has said `dbtick reshard`.

use super::Poller;
use super::report::TickError;
use crate::model::shard::Layout;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::orders::RETIRED;
use crate::store::StoreKey;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error(
        "{poller} has state with {was}, and is configured with {is}: beginning anew would lose rows, or repeat all; \
         go on where it stands: `dbtick reshard {poller}`"
    )]
    Other {
        poller: String,
        was: Layout,
        is: Layout,
    },
    #[error(
        "its rows go out with {into} since `dbtick reshard`; to part them as they are configured now, give that order again: \
         `dbtick reshard {poller}`"
    )]
    Retired { poller: String, into: String },
}

/// Before a document is made: there is none of the same poller with other shards.
pub(super) async fn refuse_another(poller: &Poller) -> Result<(), TickError> {
    let Some((directory, _)) = split(&poller.state_key) else {
        return Ok(());
    };
    let (base, is) = Layout::of(&poller.name);
    for key in poller.store.list(&format!("{directory}/{base}")).await? {
        let Some((_, name)) = split(&key) else {
            continue;
        };
        let (of, was) = Layout::of(name);
        if of == base && was != is {
            return Err(LayoutError::Other {
                poller: base.to_owned(),
                was,
                is,
            }
            .into());
        }
    }
    Ok(())
}

/// Directory and poller of a document or of its birth marker; `None` for what is neither, such as the
/// document of a backfill.
fn split(key: &StoreKey) -> Option<(&str, &str)> {
    let (directory, name) = key.as_str().rsplit_once('/')?;
    let name = name.strip_suffix(".json").or(name.strip_suffix(".born"))?;
    (directory.starts_with("state/")).then_some((directory, name))
}

/// Whether a document was left behind by a reshard; then, what has taken its place.
#[must_use]
pub fn retired_into(document: &StateDocument) -> Option<&str> {
    if document.status != Status::Failed {
        return None;
    }
    let mut trail = document.audit.iter().rev();
    let entry = trail.find(|entry| entry.what.starts_with("mark failed"))?;
    entry.what.strip_prefix(RETIRED)
}

pub(super) fn refuse_retired(document: &StateDocument) -> Result<(), LayoutError> {
    match retired_into(document) {
        None => Ok(()),
        Some(into) => Err(LayoutError::Retired {
            poller: Layout::of(&document.poller_name).0.to_owned(),
            into: into.to_owned(),
        }),
    }
}
