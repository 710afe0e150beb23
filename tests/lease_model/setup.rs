//! How large a world is, what may go wrong in it, and which rule is broken.

/// What anybody may believe about time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clocks {
    /// Every lease may look expired to anybody at any moment: only the compare-and-swap is left.
    Lie,
    /// They agree, but whoever works may be held up for any time. The world ends at this moment.
    Agree { until: u8 },
    /// They agree, and heartbeats come in time: nothing goes wrong.
    Calm { until: u8 },
}

/// What a person may order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Wish {
    Pause,
    Resume,
    /// To the beginning; where the document is missing, it is made.
    Reset,
    /// To the first kept version.
    Rollback,
    /// The lease that was seen first, even if its holder is alive.
    Unlock,
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mutant {
    None,
    /// The store writes whatever the tag.
    NoCondition,
    UnknownClaimTrusted,
    UnknownCommitTrusted,
    UnknownOrderTrusted,
    /// Without an answer a write counts as failed, and nobody looks for it.
    UnknownTakenForFailed,
    CommitBeforeDelivery,
    FailureCountedAsDone,
    TokenNotBumped,
    /// Whoever finds its token takes the document for its own.
    MarkNotCompared,
    /// Who has lost the race to claim goes on with what it has read before.
    ClaimOutlasts,
    /// A heartbeat that finds the lease lost takes it back.
    LeaseRevived,
    OrderDoesNotFence,
    MarkerAfterCommit,
    /// An order that finds neither document nor marker begins with the first token.
    TokensCountedAgain,
    /// A lease counts from when its holder hears of it.
    TrustedFromAnswer,
    /// Nobody looks at the age of a lease.
    ExpiryIgnored,
}

#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) clocks: Clocks,
    pub(crate) processes: u8,
    pub(crate) rows: u8,
    /// Of all processes together.
    pub(crate) ticks: u8,
    /// Heartbeats of each tick, where clocks lie.
    pub(crate) beats: u8,
    /// Writes whose answer does not come, or lies.
    pub(crate) faults: u8,
    /// Of those that give up, too.
    pub(crate) crashes: u8,
    /// Deliveries that fail.
    pub(crate) refusals: u8,
    pub(crate) orders: u8,
    pub(crate) wishes: &'static [Wish],
    /// Reads that return what stood there before the last write.
    pub(crate) stale_reads: u8,
    /// Somebody deletes the document.
    pub(crate) deletions: u8,
    /// There is a document, and something was committed.
    pub(crate) born: bool,
    /// A commit may leave the checkpoint where it is, because somebody else may still commit a row.
    pub(crate) remembers: bool,
    pub(crate) mutant: Mutant,
}

impl Setup {
    pub(crate) const fn new(clocks: Clocks) -> Self {
        Self {
            clocks,
            processes: 2,
            rows: 2,
            ticks: 3,
            beats: 1,
            faults: 0,
            crashes: 0,
            refusals: 0,
            orders: 0,
            wishes: &[],
            stale_reads: 0,
            deletions: 0,
            born: true,
            remembers: false,
            mutant: Mutant::None,
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        matches!(self.clocks, Clocks::Calm { .. })
    }
}
