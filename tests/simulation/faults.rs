//! What can go wrong, and how often. A new fault is a line in the table below: what happens to one write,
//! one delivery or one read is said there as data. A fault of another kind also needs a place where it is
//! drawn.

use std::time::Duration;

use super::rng::Rng;

/// How far a wall clock is off, in either direction.
pub(crate) const MOST_SKEW: Duration = Duration::from_secs(8);
/// By how much it goes too fast or too slow, until it is so far off.
pub(crate) const MOST_DRIFT_PER_MILLE: i32 = 100;
pub(crate) const HOST_OFF: Duration = Duration::from_secs(30 * 60);
pub(crate) const MOST_NOT_BEFORE: Duration = Duration::from_secs(15);
/// How late a write or a delivery lands.
pub(crate) const MOST_LATE: Duration = Duration::from_secs(40);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Chaos,
    /// No faults, no skew, no crashes: overlapping ticks and slow receivers only.
    Calm,
}

/// When a request comes to where it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrives {
    Never,
    Soon,
    /// When its sender has given up, or died, or somebody else has taken over.
    Late,
    /// A client sends it again by itself, and hears of the second time only.
    Twice,
}

/// What the sender of a write hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nobody is there.
    Refused,
    /// The connection is cut.
    Nothing,
    Answer,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Write {
    pub(crate) arrives: Arrives,
    pub(crate) heard: Heard,
}

impl Write {
    pub(crate) const FINE: Self = write(Arrives::Soon, Heard::Answer);
}

const fn write(arrives: Arrives, heard: Heard) -> Write {
    Write { arrives, heard }
}

/// What the sender of a batch hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// What the receiver itself says.
    Answer,
    Nothing,
    Refused,
    /// To wait.
    Wait,
    /// It fails, whatever is in the batch.
    Broken,
}

/// How much of a batch a receiver takes at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    All,
    /// Some events, and others not this time.
    Part,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Delivery {
    pub(crate) arrives: Arrives,
    pub(crate) takes: Takes,
    pub(crate) told: Told,
}

impl Delivery {
    pub(crate) const FINE: Self = delivery(Arrives::Soon, Takes::All, Told::Answer);

    /// Only a receiver with manners of its own does so.
    pub(crate) fn is_a_manner(self) -> bool {
        self.takes == Takes::Part || self.told == Told::Broken
    }
}

const fn delivery(arrives: Arrives, takes: Takes, told: Told) -> Delivery {
    Delivery {
        arrives,
        takes,
        told,
    }
}

/// What becomes of one statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    Unreachable,
    Breaks,
    Hangs,
}

/// What a fault does to the one request that it is drawn for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    Write(Write),
    Deliver(Delivery),
    Read(Read),
}

macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident: $odds:literal $(=> $effect:expr)?,)+) => {
        /// In per mille of the times that each could happen.
        #[derive(Debug, Clone, Copy, Default)]
        pub(crate) struct Odds {
            $($(#[$doc])* pub(crate) $name: u64,)+
        }

        impl Odds {
            pub(crate) const NAMES: &[&str] = &[$(stringify!($name)),+];

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

            pub(crate) fn without(mut self, left_out: LeftOut) -> Self {
                $(if left_out.has(stringify!($name)) {
                    self.$name = 0;
                })+
                self
            }

            /// What happens to single requests, with its odds.
            pub(crate) fn effects(&self) -> Vec<(u64, Effect)> {
                let all = [$($((self.$name, $effect),)?)+];
                all.into_iter().filter(|(odds, _)| *odds > 0).collect()
            }
        }
    };
}

faults! {
    /// Any request takes seconds, not milliseconds.
    slow_request: 10,
    store_unreachable: 30 => Effect::Write(write(Arrives::Never, Heard::Refused)),
    write_request_lost: 30 => Effect::Write(write(Arrives::Never, Heard::Nothing)),
    write_answer_lost: 40 => Effect::Write(write(Arrives::Soon, Heard::Nothing)),
    /// The caller gives up, the write arrives later, perhaps after a takeover.
    write_lands_late: 30 => Effect::Write(write(Arrives::Late, Heard::Nothing)),
    /// No answer until the caller has gone, and the write is applied.
    write_hangs: 20 => Effect::Write(write(Arrives::Late, Heard::Answer)),
    /// The library below sends it again, so that success looks like a lost race.
    write_resent: 20 => Effect::Write(write(Arrives::Twice, Heard::Answer)),
    /// A cache answers with what stood there before.
    read_is_stale: 15,
    /// The document is deleted, cut or spoiled, and put back after a while.
    document_spoiled: 300,
    source_unreachable: 30 => Effect::Read(Read::Unreachable),
    source_breaks: 20 => Effect::Read(Read::Breaks),
    source_hangs: 10 => Effect::Read(Read::Hangs),
    /// A page closes early because it filled slowly.
    source_short_page: 100,
    sink_refuses: 80 => Effect::Deliver(delivery(Arrives::Never, Takes::All, Told::Refused)),
    sink_asks_to_wait: 20 => Effect::Deliver(delivery(Arrives::Never, Takes::All, Told::Wait)),
    sink_answer_lost: 50 => Effect::Deliver(delivery(Arrives::Soon, Takes::All, Told::Nothing)),
    /// The attempt is reported failed and arrives later.
    sink_lands_late: 30 => Effect::Deliver(delivery(Arrives::Late, Takes::All, Told::Nothing)),
    sink_breaks: 30 => Effect::Deliver(delivery(Arrives::Never, Takes::All, Told::Broken)),
    sink_takes_part: 60 => Effect::Deliver(delivery(Arrives::Soon, Takes::Part, Told::Answer)),
    /// The same, and nobody hears of it.
    sink_part_answer_lost: 30 => Effect::Deliver(delivery(Arrives::Soon, Takes::Part, Told::Nothing)),
    /// Longer than a lease, sometimes longer than the invocation may take.
    sink_slow: 60,
    tick_doubled: 150,
    tick_gap: 60,
    /// Nobody ticks for half an hour, and then everybody at once.
    host_off: 100,
    process_crashes: 100,
    clock_skewed: 300,
    clock_drifts: 200,
}

/// Faults that a world is made without, by their place in `Odds::NAMES`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOut(u64);

impl LeftOut {
    pub(crate) const NOTHING: Self = Self(0);

    pub(crate) fn with(self, name: &str) -> Option<Self> {
        let at = Odds::NAMES.iter().position(|known| *known == name)?;
        Some(Self(self.0 | 1 << at))
    }

    pub(crate) fn has(self, name: &str) -> bool {
        self.with(name) == Some(self)
    }

    pub(crate) fn names(self) -> impl Iterator<Item = &'static str> {
        let names = Odds::NAMES.iter().copied();
        names.filter(move |name| self.has(name))
    }
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
    /// A claim leaves the token as it was.
    TokenNotBumped,
    /// The store says that the marker of the birth is kept, and has not kept it.
    MarkerNotKept,
    /// Neither who sends a range nor who reconciles it sees some of its rows.
    ReconciledBlindly,
    /// A receiver keeps of each row what came last.
    RowFencesIgnored,
    /// Two shards read the rows of one, and nobody those of the other.
    ShardsOverlap,
}

impl Bug {
    pub(crate) const ALL: [Self; 27] = [
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
        Self::TokenNotBumped,
        Self::MarkerNotKept,
        Self::ReconciledBlindly,
        Self::RowFencesIgnored,
        Self::ShardsOverlap,
    ];

    /// It shows only where rows are sent once more, beside the poller.
    pub(crate) fn is_about_backfills(self) -> bool {
        matches!(self, Self::ReconciledBlindly | Self::RowFencesIgnored)
    }

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
