//! What can be planted, by name. The crash test reads this very file, so that a name that one of the
//! two does not know does not compile.

/// Where the process dies: `commit.before`, or `commit.before:3` for the third time.
pub const CRASH_AT: &str = "DBTICK_CRASH_AT";
/// What it does wrong.
pub const BUG: &str = "DBTICK_BUG";

/// Right before a step, in the middle of it (it is sent, and nobody waits for the answer), or when it is done.
pub const POINTS: &[&str] = &[
    "load.after",
    "look.after",
    "read.after",
    "birth.during",
    "birth.after",
    "claim.before",
    "claim.during",
    "claim.after",
    "deliver.before",
    "deliver.during",
    "deliver.after",
    "quarantine.before",
    "quarantine.during",
    "quarantine.after",
    "remember.after",
    "ledger.after",
    "heartbeat.before",
    "heartbeat.during",
    "heartbeat.after",
    "commit.before",
    "commit.during",
    "commit.after",
    "release.before",
    "release.after",
    "settle.during",
    "settle.after",
    "rewind.before",
    "rewind.after",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// The sink says that it has taken a batch, and delivers it afterwards.
    CommitBeforeDeliver,
    /// What stands in the store is overwritten, whoever wrote it.
    IfMatchIgnored,
    /// A batch that was not taken counts as taken.
    FailureCountedAsDone,
    /// Nobody is asked who could still commit a row.
    LateCommits,
    /// A row that is never taken is left out, and kept nowhere.
    QuarantineNotKept,
    /// Each process has names of its own for the same events.
    IdsPerProcess,
}

impl Bug {
    pub const ALL: [Self; 6] = [
        Self::CommitBeforeDeliver,
        Self::IfMatchIgnored,
        Self::FailureCountedAsDone,
        Self::LateCommits,
        Self::QuarantineNotKept,
        Self::IdsPerProcess,
    ];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::CommitBeforeDeliver => "commit-before-deliver",
            Self::IfMatchIgnored => "if-match-ignored",
            Self::FailureCountedAsDone => "failure-counted-as-done",
            Self::LateCommits => "late-commits",
            Self::QuarantineNotKept => "quarantine-not-kept",
            Self::IdsPerProcess => "ids-per-process",
        }
    }

    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|bug| bug.name() == name)
    }
}
