//! What can go wrong, and how often. A new fault gets a row here and a place where it is drawn.

use std::time::Duration;

use super::world::Rng;

/// How far a wall clock is off, in either direction.
pub(crate) const MOST_SKEW: Duration = Duration::from_secs(8);
pub(crate) const MOST_NOT_BEFORE: Duration = Duration::from_secs(15);
/// How late a write or a delivery lands.
pub(crate) const MOST_LATE: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Chaos,
    /// No faults, no skew, no crashes: overlapping ticks and slow receivers only.
    Calm,
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident: $odds:literal,)+) => {
        /// In per mille of the times that each could happen.
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct Odds {
            $($(#[$doc])* pub(crate) $name: u64,)+
        }

        impl Odds {
            /// Each fault is left out of two seeds in five, and common in one: a world with few
            /// kinds of faults goes deeper into each.
            pub(crate) fn drawn(rng: &mut Rng) -> Self {
                Self {
                    $($name: match rng.below(5) {
                        0 | 1 => 0,
                        2 | 3 => $odds,
                        _ => ($odds * 4).min(400),
                    },)+
                }
            }
        }
    };
}

faults! {
    /// Any request takes seconds, not milliseconds.
    slow_request: 10,
    store_unreachable: 30,
    write_request_lost: 30,
    write_answer_lost: 40,
    /// The caller gives up, the write arrives later, perhaps after a takeover.
    write_lands_late: 30,
    /// No answer until the caller has gone, and the write is applied.
    write_hangs: 20,
    source_unreachable: 30,
    source_breaks: 20,
    source_hangs: 10,
    /// A page closes early because it filled slowly.
    source_short_page: 100,
    sink_refuses: 80,
    sink_asks_to_wait: 20,
    sink_answer_lost: 50,
    /// It fails at the batch, whatever is in it.
    sink_breaks: 30,
    /// It takes some events, and others not this time.
    sink_takes_part: 60,
    /// The same, and nobody hears of it.
    sink_part_answer_lost: 30,
    /// The attempt is reported failed and arrives later.
    sink_lands_late: 30,
    /// Longer than a lease, sometimes longer than the invocation may take.
    sink_slow: 60,
    tick_doubled: 150,
    tick_gap: 60,
    process_crashes: 100,
    clock_skewed: 300,
}

/// Bugs that are planted at the seams, to prove that the invariants find them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    /// The store replaces whatever the tag.
    IfMatchIgnored,
    /// The store creates over what is there.
    IfNoneMatchIgnored,
    /// The store says that a lost write has won.
    UnknownTrusted,
    /// A tag is used again: the content's length stands in for a hash.
    TagsReused,
    FailureCountedAsDone,
    /// The receiver answers first, and a crash of it loses the batch.
    AcknowledgedBeforeStored,
    /// One of two sinks never gets a batch, and its silence counts as success.
    SecondSinkForgotten,
    /// The source goes on behind the cursor alone.
    TiesSkipped,
    /// Rows become visible behind the checkpoint, and nobody looks for them.
    LateCommits,
    /// Who begins between the two is not seen.
    EvidenceBeforeBound,
    /// A witness that goes on under another name has gone.
    PreparedForgotten,
    RowsInFlightIgnored,
    WindowTooShort,
    /// Event ids change with every process.
    IdsPerProcess,
    /// The store's clock makes every lease look expired. Duplicates, but no loss.
    LeaseExpiryIgnored,
    /// The store says that a row is in quarantine, and has not kept it.
    QuarantineNotKept,
    /// Events that a receiver has named as not taken count as taken.
    NamedCountedAsTaken,
    TooLargeCountedAsTaken,
    /// A sink that is behind fails, and that counts as success.
    LagFailureCountedAsDone,
    /// The next write of the document forgets who is behind.
    LagDropped,
    /// The store says that a segment of the ledger is kept, and has not kept it.
    SegmentNotKept,
    /// A write of the document leaves out that there is a new segment.
    HeadDropped,
}

impl Bug {
    pub(crate) const ALL: [Self; 22] = [
        Self::IfMatchIgnored,
        Self::IfNoneMatchIgnored,
        Self::UnknownTrusted,
        Self::TagsReused,
        Self::FailureCountedAsDone,
        Self::AcknowledgedBeforeStored,
        Self::SecondSinkForgotten,
        Self::TiesSkipped,
        Self::LateCommits,
        Self::EvidenceBeforeBound,
        Self::PreparedForgotten,
        Self::RowsInFlightIgnored,
        Self::WindowTooShort,
        Self::IdsPerProcess,
        Self::LeaseExpiryIgnored,
        Self::QuarantineNotKept,
        Self::NamedCountedAsTaken,
        Self::TooLargeCountedAsTaken,
        Self::LagFailureCountedAsDone,
        Self::LagDropped,
        Self::SegmentNotKept,
        Self::HeadDropped,
    ];

    /// It shows only where receivers have manners of their own.
    pub(crate) fn is_about_receivers(self) -> bool {
        matches!(
            self,
            Self::QuarantineNotKept
                | Self::NamedCountedAsTaken
                | Self::TooLargeCountedAsTaken
                | Self::LagFailureCountedAsDone
                | Self::LagDropped
        )
    }
}
