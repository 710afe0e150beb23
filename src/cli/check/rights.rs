//! Which rights to storage could go (S8); those to databases are told by their sources.

use std::collections::BTreeSet;

use crate::azure::advice::spare_rights;
use crate::azure::queue;
use crate::config::{Poller, QueueConfig, StateConfig, Target};
use crate::sink::queue::CLAIM_NEEDS;
use crate::store::blob;

/// Each once, however often a connection is used.
pub(super) fn spare(poller: &Poller) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if let StateConfig::Blob { endpoint, .. } = &poller.state {
        found.extend(spare_rights(endpoint, &blob::NEEDS));
    }
    let queues = poller.deliver.iter().filter_map(|sink| match &sink.to {
        Target::Queue(queue) => Some(queue),
        Target::Webhook(_) | Target::Relay(_) => None,
    });
    for QueueConfig {
        endpoint, claims, ..
    } in queues.chain(&poller.poison_queue)
    {
        found.extend(spare_rights(endpoint, &queue::NEEDS));
        // One word about a connection is enough.
        let claims = claims.iter().filter(|_| found.is_empty());
        let claims: Vec<_> = claims
            .filter_map(|claims| spare_rights(&claims.endpoint, &CLAIM_NEEDS))
            .collect();
        found.extend(claims);
    }
    found
}
