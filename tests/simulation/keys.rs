//! What lies where in the store.

use dbtick::store::StoreKey;

use super::instance::POLLER;

/// The only backfill of a world.
pub(crate) const BACKFILL: &str = "again";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The document of the poller itself.
    State,
    /// That of a range of the backfill.
    Range,
    Plan,
    /// A birth marker.
    Other,
}

pub(crate) fn state_key() -> StoreKey {
    StoreKey::state("shop", POLLER).unwrap()
}

pub(crate) fn birth_marker() -> StoreKey {
    marker_of(&state_key())
}

/// Of whom this document is.
pub(crate) fn marker_of(document: &StoreKey) -> StoreKey {
    let path = document.as_str().strip_suffix(".json").unwrap();
    StoreKey::new(format!("{path}.born")).unwrap()
}

pub(crate) fn plan_key() -> StoreKey {
    StoreKey::new(format!("{}{BACKFILL}/plan.json", state_key().backfills())).unwrap()
}

pub(crate) fn kind(key: &StoreKey) -> Kind {
    match range(key) {
        Some(_) => Kind::Range,
        None if *key == state_key() => Kind::State,
        None if *key == plan_key() => Kind::Plan,
        None => Kind::Other,
    }
}

/// Counted from one.
pub(crate) fn range(key: &StoreKey) -> Option<usize> {
    let path = format!("{}{BACKFILL}/range-", state_key().backfills());
    let number = key.as_str().strip_prefix(&path)?.strip_suffix(".json")?;
    number.parse().ok()
}

/// Whose document this is, as it says itself.
pub(crate) fn name(key: &StoreKey) -> String {
    match range(key) {
        Some(number) => format!("{POLLER}/{BACKFILL}/{number:02}"),
        None => POLLER.to_owned(),
    }
}
