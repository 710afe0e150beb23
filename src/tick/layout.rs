//! A poller whose rows are parted in another way than they were: its documents have other names, and would
//! take themselves for new ones. Nothing goes on until a person has said `dbtick reshard`.

use super::Poller;
use super::reading::load;
use super::report::TickError;
use crate::model::shard::Layout;
use crate::model::state::{StateDocument, Status};
use crate::model::transitions::Order;
use crate::model::transitions::orders::retirement;
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

/// Before somebody brings a document to life by hand: rows would go out twice from then on, or a reshard
/// that was cut off would take it for one of its own. A document that was lost may be made again.
pub(super) async fn refuse_beside(
    poller: &Poller,
    order: &Order,
    document: Option<&StateDocument>,
) -> Result<(), TickError> {
    let begins = matches!(
        order,
        Order::Reset { .. } | Order::Rollback { .. } | Order::Import { .. }
    );
    let is_news = match document {
        Some(document) => retirement(document).is_some(),
        None => load(poller, &poller.birth_marker).await?.is_none(),
    };
    match begins && is_news {
        true => refuse_living(poller).await,
        false => Ok(()),
    }
}

/// There is no document of the same poller with other shards that goes on, or waits for these.
pub(super) async fn refuse_living(poller: &Poller) -> Result<(), TickError> {
    let Some((directory, _)) = split(&poller.state_key) else {
        return Ok(());
    };
    let (base, is) = Layout::of(&poller.name);
    for key in poller.store.list(&format!("{directory}/{base}")).await? {
        let Some((_, name)) = split(&key).filter(|_| key.as_str().ends_with(".json")) else {
            continue;
        };
        let (of, was) = Layout::of(name);
        if of != base || was == is {
            continue;
        }
        let Some(loaded) = load(poller, &key).await? else {
            continue;
        };
        let other = StateDocument::from_bytes(&loaded.body, name, &poller.key_columns);
        let lives = match &other {
            Ok(other) => match retirement(other) {
                Some(retirement) => retirement.into == is.to_string(),
                None => other.status != Status::Failed,
            },
            // Nobody knows.
            Err(_) => true,
        };
        if lives {
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

pub(super) fn refuse_retired(document: &StateDocument) -> Result<(), LayoutError> {
    match retirement(document) {
        None => Ok(()),
        Some(retirement) => Err(LayoutError::Retired {
            poller: Layout::of(&document.poller_name).0.to_owned(),
            into: retirement.into.to_owned(),
        }),
    }
}
