//! Where rows are kept that a sink never takes: `quarantine/{app}/{poller}/{sink}/{event id}`, beside
//! the state, durable before the checkpoint passes them (I13).

use super::Poller;
use super::memory::tried;
use super::report::TickError;
use crate::model::quarantine::Case;
use crate::store::StoreKey;

/// An equal case that is there already is as good: a crash may have come before the commit.
pub(super) async fn keep(poller: &Poller, case: &Case) -> Result<(), TickError> {
    let key = key(poller, &case.sink, &case.event_id)?;
    let body = bytes::Bytes::from(case.to_bytes());
    tried(poller, &key, || poller.objects.put(&key, body.clone())).await?;
    tracing::warn!(
        poller = %poller.name,
        sink = %case.sink,
        event_id = %case.event_id,
        "a row is set aside, because {} does not take it: `dbtick quarantine show {} {}`",
        case.sink,
        poller.name,
        case.event_id,
    );
    Ok(())
}

fn key(poller: &Poller, sink: &str, event_id: &str) -> Result<StoreKey, TickError> {
    let prefix = poller.state_key.quarantine();
    StoreKey::new(format!("{prefix}{sink}/{event_id}")).map_err(|error| TickError::Bug {
        what: error.to_string(),
    })
}
