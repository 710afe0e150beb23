//! The figures. Names are added, never changed: dashboards and alerts use them.

use super::{From, Kind, Metric};
use crate::clock::Timestamp;
use crate::overview::health::{Health, Phase};
use crate::overview::view::{CountersView, LagBasis, PollerView};

/// In the order of the text.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "dbtick_faults",
        kind: Kind::Gauge,
        help: "Functions and settings of the app that are configured wrongly.",
        from: From::App(|app| app.faults.len() as u64),
    },
    Metric {
        name: "dbtick_up",
        kind: Kind::Gauge,
        help: "1 where the state of the poller could be read; 0: nothing else is known of it.",
        from: From::Poller(|poller, _| Some(u64::from(is_known(poller)))),
    },
    Metric {
        name: "dbtick_health",
        kind: Kind::Gauge,
        help: "0 all is well, 1 somebody should look at it, 2 stopped on purpose, 3 stuck.",
        from: From::Poller(|poller, _| {
            Some(match poller.health {
                Health::Ok => 0,
                Health::Attention => 1,
                Health::Stopped => 2,
                Health::Stuck => 3,
            })
        }),
    },
    Metric {
        name: "dbtick_trouble",
        kind: Kind::Gauge,
        help: "1 while ticks fail before they come to a delivery.",
        from: From::Poller(|poller, _| {
            is_known(poller).then(|| u64::from(poller.trouble.is_some()))
        }),
    },
    Metric {
        name: "dbtick_lag_rows",
        kind: Kind::Gauge,
        help: "Rows in the source that are not delivered; counting stops at 10000.",
        from: From::Poller(|poller, _| Some(poller.lag.as_ref()?.rows)),
    },
    Metric {
        name: "dbtick_lag_seconds",
        kind: Kind::Gauge,
        help: "How long the oldest of them has been waiting, by its cursor; none where cursors are no times.",
        from: From::Poller(|poller, _| {
            let lag = poller.lag.as_ref()?;
            // Counted from the last commit it says nothing about the rows.
            (lag.basis != LagBasis::LastCommit).then_some(lag.seconds)
        }),
    },
    Metric {
        name: "dbtick_checkpoint_bytes",
        kind: Kind::Gauge,
        help: "Size of the state document.",
        from: From::Poller(|poller, _| Some(poller.checkpoint.as_ref()?.bytes)),
    },
    Metric {
        name: "dbtick_checkpoint_age_seconds",
        kind: Kind::Gauge,
        help: "Since the last commit. It grows while a poller has nothing to do.",
        from: From::Poller(|poller, now| Some(since(poller.checkpoint.as_ref()?.updated_at?, now))),
    },
    Metric {
        name: "dbtick_last_success_timestamp_seconds",
        kind: Kind::Gauge,
        help: "When something was committed last, in seconds since 1970.",
        from: From::Poller(|poller, _| u64::try_from(poller.last_success?.timestamp()).ok()),
    },
    Metric {
        name: "dbtick_interval_seconds",
        kind: Kind::Gauge,
        help: "Between two ticks, where the schedule is known.",
        from: From::Poller(|poller, _| poller.interval_s),
    },
    Metric {
        name: "dbtick_batches_committed_total",
        kind: Kind::Counter,
        help: "Batches that were delivered and committed.",
        from: From::Poller(|poller, _| Some(counters(poller)?.batches)),
    },
    Metric {
        name: "dbtick_rows_committed_total",
        kind: Kind::Counter,
        help: "Rows (events) in them.",
        from: From::Poller(|poller, _| Some(counters(poller)?.rows)),
    },
    Metric {
        name: "dbtick_bytes_committed_total",
        kind: Kind::Counter,
        help: "Bytes of them, in our own envelope.",
        from: From::Poller(|poller, _| Some(counters(poller)?.bytes)),
    },
    Metric {
        name: "dbtick_rows_resent_total",
        kind: Kind::Counter,
        help: "Rows that were sent again to a receiver that may have them: duplicates, as far as they are known.",
        from: From::Poller(|poller, _| Some(counters(poller)?.resent)),
    },
    Metric {
        name: "dbtick_failed_ticks_total",
        kind: Kind::Counter,
        help: "Ticks that failed: at a receiver each one, before a delivery one in five minutes.",
        from: From::Poller(|poller, _| Some(counters(poller)?.failed_ticks)),
    },
    Metric {
        name: "dbtick_commits_failed_total",
        kind: Kind::Counter,
        help: "Writes of a lease holder that did not succeed, or whose answer was lost; counted with the next one \
               that does.",
        from: From::Poller(|poller, _| Some(counters(poller)?.failed_commits)),
    },
    Metric {
        name: "dbtick_read_seconds",
        kind: Kind::Summary,
        help: "Reading the batches that were committed.",
        from: From::Timing(|poller| Some(counters(poller)?.read)),
    },
    Metric {
        name: "dbtick_deliver_seconds",
        kind: Kind::Summary,
        help: "Delivering them, to all receivers.",
        from: From::Timing(|poller| Some(counters(poller)?.deliver)),
    },
    Metric {
        name: "dbtick_commit_seconds",
        kind: Kind::Summary,
        help: "Writes of lease holders: claims, commits, heartbeats. Without the last one of each tick.",
        from: From::Timing(|poller| Some(counters(poller)?.commit)),
    },
    Metric {
        name: "dbtick_quarantined_total",
        kind: Kind::Counter,
        help: "Rows that were set aside, because a receiver does not take them.",
        from: From::Poller(|poller, _| Some(counters(poller)?.quarantined)),
    },
    Metric {
        name: "dbtick_quarantine_rows",
        kind: Kind::Gauge,
        help: "Rows that are in quarantine now.",
        from: From::Poller(|poller, _| Some(poller.quarantine.as_ref()?.rows)),
    },
    Metric {
        name: "dbtick_quarantine_oldest_seconds",
        kind: Kind::Gauge,
        help: "How long the oldest of them has been there.",
        from: From::Poller(|poller, now| Some(since(poller.quarantine.as_ref()?.oldest?, now))),
    },
    Metric {
        name: "dbtick_lease_held",
        kind: Kind::Gauge,
        help: "1 while a tick holds the lease.",
        from: From::Poller(|poller, _| is_known(poller).then(|| u64::from(poller.lease.is_some()))),
    },
    Metric {
        name: "dbtick_lease_age_seconds",
        kind: Kind::Gauge,
        help: "Since the last sign of life of the holder of the lease.",
        from: From::Poller(|poller, _| Some(poller.lease.as_ref()?.age_s)),
    },
    Metric {
        name: "dbtick_lease_expired",
        kind: Kind::Gauge,
        help: "1 where the holder has not been heard of for so long that the next tick takes the lease.",
        from: From::Poller(|poller, _| {
            let expired = poller.lease.as_ref().is_some_and(|lease| lease.expired);
            is_known(poller).then(|| u64::from(expired))
        }),
    },
    Metric {
        name: "dbtick_remembered_rows",
        kind: Kind::Gauge,
        help: "Rows that were delivered and that the checkpoint may not pass yet, because of open transactions.",
        from: From::Poller(|poller, _| Some(poller.late.as_ref()?.remembered)),
    },
    Metric {
        name: "dbtick_transaction_wait_seconds",
        kind: Kind::Gauge,
        help: "How long the checkpoint has been waiting for the oldest of these transactions; 0: for none.",
        from: From::Poller(|poller, now| {
            let oldest = poller.late.as_ref()?.oldest_witness_since;
            Some(oldest.map_or(0, |at| since(at, now)))
        }),
    },
    Metric {
        name: "dbtick_sink_rows_total",
        kind: Kind::Counter,
        help: "Rows that the receiver has taken or will never take; those that it took twice, twice.",
        from: From::Sink(|sink, _| Some(sink.rows)),
    },
    Metric {
        name: "dbtick_sink_failing",
        kind: Kind::Gauge,
        help: "1 while the last answer of the receiver was not good.",
        from: From::Sink(|sink, _| Some(u64::from(sink.failure.is_some()))),
    },
    Metric {
        name: "dbtick_sink_attempts",
        kind: Kind::Gauge,
        help: "How often the same event has failed there.",
        from: From::Sink(|sink, _| {
            Some(
                sink.failure
                    .as_ref()
                    .map_or(0, |failure| failure.attempts.into()),
            )
        }),
    },
    Metric {
        name: "dbtick_sink_behind",
        kind: Kind::Gauge,
        help: "1 while it has not got what the others have.",
        from: From::Sink(|sink, _| Some(u64::from(sink.behind.is_some()))),
    },
    Metric {
        name: "dbtick_sink_behind_seconds",
        kind: Kind::Gauge,
        help: "Since when; 0: it is not behind.",
        from: From::Sink(|sink, now| {
            Some(
                sink.behind
                    .as_ref()
                    .map_or(0, |behind| since(behind.since, now)),
            )
        }),
    },
];

/// Its document was read, or there is none yet.
pub(super) fn is_known(poller: &PollerView) -> bool {
    poller.phase != Phase::Unknown
}

/// A document that cannot be read has no figures: zeros would look like a reset, and what comes after like
/// a flood.
fn counters(poller: &PollerView) -> Option<&CountersView> {
    is_known(poller).then_some(&poller.counters)
}

/// Clocks differ: what is from the future is from now.
fn since(then: Timestamp, now: Timestamp) -> u64 {
    u64::try_from((now - then).num_seconds()).unwrap_or(0)
}
