//! Whose acknowledgement counts, and when a row is given up on.

use std::num::NonZeroUsize;

use super::{Reader, queue};
use crate::config::fault::Place;
use crate::config::{QueueConfig, SinkConfig, raw};
use crate::model::policy::{CommitPolicy, PoisonPolicy, Poisoned};

/// A policy that no acknowledgement is needed for would move the checkpoint over undelivered rows.
pub(super) fn commit(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: Option<raw::Commit>,
    sinks: Option<&[SinkConfig]>,
) -> Option<CommitPolicy> {
    let policy = match raw {
        Some(raw::Commit::Word(raw::CommitWord::All)) => CommitPolicy::All,
        Some(raw::Commit::Word(raw::CommitWord::Required)) | None => CommitPolicy::Required,
        Some(raw::Commit::Quorum(raw::Quorum { quorum })) => {
            let quorum = NonZeroUsize::new(quorum as usize)?;
            CommitPolicy::Quorum(quorum)
        }
    };
    let sinks = sinks?;
    match policy {
        CommitPolicy::All => {}
        CommitPolicy::Required if sinks.iter().any(|sink| sink.required) => {}
        CommitPolicy::Required => {
            let problem = "no receiver is required, so the checkpoint would wait for nobody";
            let hint =
                "leave required out of one of deliver, or write \"commit\": { \"quorum\": 1 }";
            reader.faults.add(at, problem, hint);
            return None;
        }
        CommitPolicy::Quorum(quorum) if quorum.get() > sinks.len() => {
            let problem = format!("asks for {quorum} receivers, and there are {}", sinks.len());
            let hint = "write a smaller quorum, or add receivers";
            reader.faults.add(&at.key("quorum"), problem, hint);
            return None;
        }
        CommitPolicy::Quorum(_) => {}
    }
    Some(policy)
}

/// The policy, and the queue in which rows that are set aside are told of.
pub(super) fn poison(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::Poison,
) -> Option<(PoisonPolicy, Option<QueueConfig>)> {
    let raw::Poison {
        attempts,
        then,
        most,
        queue,
    } = raw;
    let at = at.key("queue");
    if queue.is_some() && matches!(then, Some(raw::Poisoned::Block)) {
        let problem = "means nothing with \"then\": \"block\": no row is set aside";
        reader.faults.add(&at, problem, "remove one of the two");
        return None;
    }
    let queue = match queue {
        Some(raw) => Some(queue::notices(reader, &at, raw)?),
        None => None,
    };
    let unless_told = PoisonPolicy::default();
    let policy = PoisonPolicy {
        attempts: attempts.unwrap_or(unless_told.attempts),
        then: match then {
            Some(raw::Poisoned::Quarantine) => Poisoned::Quarantine,
            Some(raw::Poisoned::Block) => Poisoned::Block,
            None => unless_told.then,
        },
        most: most.unwrap_or(unless_told.most),
    };
    Some((policy, queue))
}
