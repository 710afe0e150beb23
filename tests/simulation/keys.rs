//! What lies where in the store.

use dbtick::model::shard::{Layout, Shard, ShardBy};
use dbtick::store::StoreKey;

use super::instance::{APP, POLLER};

/// The only backfill of a world.
pub(crate) const BACKFILL: &str = "again";

/// A document of the poller, with the rows that it answers for.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) key: StoreKey,
    /// `None`: all rows.
    pub(crate) shard: Option<Shard>,
}

/// All of them; `shards`: how many, or one for the whole.
pub(crate) fn parts(shards: u16) -> Vec<Part> {
    let layout = match shards {
        1 => Layout::Whole,
        count => Layout::Shards {
            count,
            by: ShardBy::Key,
        },
    };
    let part = |name: String| Part {
        key: StoreKey::state(APP, &name).unwrap(),
        shard: shard(&name),
        name,
    };
    layout.names(POLLER).into_iter().map(part).collect()
}

/// Of a document by its name.
pub(crate) fn shard(name: &str) -> Option<Shard> {
    Shard::parse(name).map(|(_, shard)| shard)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A document of the poller itself.
    State,
    /// That of a range of the backfill.
    Range,
    Plan,
    Marker,
}

fn backfill() -> String {
    let whole = StoreKey::state(APP, POLLER).unwrap();
    format!("{}{BACKFILL}/", whole.backfills())
}

pub(crate) fn plan_key() -> StoreKey {
    StoreKey::new(format!("{}plan.json", backfill())).unwrap()
}

/// Of whom this document is.
pub(crate) fn marker_of(document: &StoreKey) -> StoreKey {
    let path = document.as_str().strip_suffix(".json").unwrap();
    StoreKey::new(format!("{path}.born")).unwrap()
}

pub(crate) fn kind(key: &StoreKey) -> Kind {
    match key.as_str() {
        path if path.ends_with(".born") => Kind::Marker,
        path if path.starts_with("state/") => Kind::State,
        _ if range(key).is_some() => Kind::Range,
        _ => Kind::Plan,
    }
}

/// Counted from one.
pub(crate) fn range(key: &StoreKey) -> Option<usize> {
    let number = key.as_str().strip_prefix(&backfill())?;
    let number = number.strip_prefix("range-")?.strip_suffix(".json")?;
    number.parse().ok()
}

/// Whose document this is, as it says itself.
pub(crate) fn name(key: &StoreKey) -> String {
    if let Some(number) = range(key) {
        return format!("{POLLER}/{BACKFILL}/{number:02}");
    }
    let path = key.as_str().strip_suffix(".json").unwrap();
    let (_, name) = path.rsplit_once('/').unwrap();
    name.to_owned()
}
