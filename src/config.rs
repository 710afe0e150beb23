//! What a poller is told to do, parsed once at the edge.
//!
//! Nothing in here can be wrong: durations are durations, names are checked, secrets cannot be
//! printed, `%SETTINGS%` are resolved. The raw shape of the file is `raw`, its faults are `fault`.

pub mod app;
pub mod connection;
pub mod environment;
mod fan_out;
mod fault;
mod fingerprint;
pub mod human;
mod parse;
mod queue;
mod raw;
mod relay;
mod repeated;
mod schema;
pub mod secret;
mod settings;
mod shape;
mod sink;
mod status;
mod webhook;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use app::{App, Function, FunctionPollers, HostRetry};
pub use connection::Connection;
pub use fan_out::{FanOutFunction, MessageQueue, PollTrigger};
pub use fault::{Fault, Place};
pub use fingerprint::{definition, fingerprint};
pub use parse::table_name;
pub use queue::{Claims, MessageEncoding, Per, QueueConfig};
pub use relay::{RelayConfig, RelayFunction};
pub use schema::schema;
pub use settings::{SettingError, Settings};
pub use sink::{SinkConfig, Target};
pub use status::StatusFunction;
pub use webhook::{Authorization, WebhookConfig};

use crate::azure::connection::ServiceEndpoint;
use crate::model::late::Ordering;
use crate::model::ledger::LedgerMode;
use crate::model::policy::{CommitPolicy, PoisonPolicy};
use crate::model::position::Scalar;
use crate::model::shard::Shard;

/// One poller, ready to run.
#[derive(Debug, Clone)]
pub struct Poller {
    /// Lower-cased; unique in the app; the name of the state document.
    pub name: String,
    /// Its own name unless told: the name in events, which their ids are made for.
    pub events_as: String,
    pub source: SourceConfig,
    pub batch: Batch,
    /// At least one.
    pub deliver: Vec<SinkConfig>,
    pub commit: CommitPolicy,
    pub poison: PoisonPolicy,
    /// Where rows that are set aside are told of.
    pub poison_queue: Option<QueueConfig>,
    /// Whether what was delivered is written down; no part of the fingerprint.
    pub ledger: LedgerMode,
    pub lease: LeaseTimes,
    pub state: StateConfig,
    /// Who is told of stuck work that was resolved.
    pub warnings: Option<WebhookConfig>,
}

#[derive(Debug, Clone)]
pub struct SourceConfig {
    /// The app setting that holds the connection; errors name it instead of its value.
    pub connection_name: String,
    /// Which database it is, without user and password: what the fingerprint hashes. A file by its
    /// full path, because every app may have an `orders.db`; a server as `scheme://host:port/name`.
    pub connection_identity: String,
    pub connection: Connection,
    pub rows: Rows,
    /// One column, or several for a composite cursor.
    pub cursor: Vec<String>,
    pub key: Vec<String>,
    /// `None`: all of them.
    pub columns: Option<Vec<String>>,
    /// A condition in SQL; code by the owner of the configuration.
    pub filter: Option<String>,
    pub start: Start,
    pub nulls: NullPolicy,
    pub deletes: Deletes,
    pub outbox: Option<Outbox>,
    pub late: LateCommits,
    /// `None`: all rows.
    pub shard: Option<ShardConfig>,
}

/// Which of the rows a poller gives out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardConfig {
    pub shard: Shard,
    /// That holds the number of its shard for each row; `None`: told by a hash of the key.
    pub column: Option<String>,
}

/// How rows that commit late are met (B5).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateCommits {
    pub mode: LateMode,
    pub ordering: Ordering,
    /// Who gives a row its cursor, where the owner says so; else the catalogue is asked.
    pub stamped_by: Option<StampedBy>,
    pub future: FutureRows,
    /// In which writers write cursors that have none; a name or offset that the database knows.
    pub time_zone: Option<String>,
    /// How much a replica may lack when it takes over.
    pub recovery_point: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LateMode {
    /// By the evidence that there is; refused where there is none.
    Auto,
    /// Not at all.
    Off,
    /// By the evidence that there is, and for so long after a row was visible that may be behind
    /// others.
    Window(Duration),
    /// Rows go out when they are so old, without any evidence.
    Settle(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StampedBy {
    /// The database, inside the statement that writes the row; nobody overrides it.
    Database,
    /// The database, with the time at which the transaction began.
    Transaction,
    /// The database, with the number of the transaction.
    TransactionId,
    /// Whoever writes the row.
    Application,
}

/// What happens to rows whose cursor is ahead of the database's clock or sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FutureRows {
    /// They wait until their time has come.
    Hold,
    /// They go out at once, and are remembered until the checkpoint passes them.
    Deliver,
}

impl Default for LateCommits {
    fn default() -> Self {
        Self {
            mode: LateMode::Auto,
            ordering: Ordering::Visible,
            stamped_by: None,
            future: FutureRows::Hold,
            time_zone: None,
            recovery_point: Duration::from_secs(60),
        }
    }
}

/// How deleted rows are noticed (B6).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Deletes {
    /// Not at all.
    #[default]
    Unseen,
    /// By a column that is set in them.
    Soft(String),
    /// By a table that a trigger fills, merged in the order of the cursor.
    Tombstones(Tombstones),
}

/// As many cursor and key columns as the source has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tombstones {
    pub schema: Option<String>,
    pub table: String,
    pub cursor: Vec<String>,
    pub key: Vec<String>,
}

/// A table of messages.
#[derive(Debug, Clone)]
pub struct Outbox {
    pub payload: String,
    pub clean_up: Option<CleanUp>,
}

/// What happens to delivered rows after the commit, over a connection that may write.
#[derive(Debug, Clone)]
pub struct CleanUp {
    pub connection_name: String,
    pub connection: Connection,
    pub how: CleanUpHow,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CleanUpHow {
    Delete,
    /// The current time is written into this column.
    Mark(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rows {
    /// Schema (or attached database) and table.
    Table {
        schema: Option<String>,
        table: String,
    },
    Query(String),
}

/// Where a poller without state begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Start {
    Beginning,
    Now,
    /// With the first row whose cursor is this one or greater.
    From(Scalar),
}

/// What to do about rows whose cursor is NULL (B4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NullPolicy {
    Fail,
    Ignore,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    pub max_rows: NonZeroUsize,
    pub max_bytes: NonZeroUsize,
    pub max_wait: Duration,
    /// Batches on their way at once; more than one gives up the order between different keys.
    pub max_inflight: NonZeroUsize,
}

/// `heartbeat < ttl / 2` and `margin < ttl - heartbeat` hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTimes {
    pub ttl: Duration,
    pub heartbeat: Duration,
    pub margin: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StateConfig {
    /// Production: a container of a storage account.
    Blob {
        endpoint: Arc<ServiceEndpoint>,
        container: String,
    },
    /// Embedded: a directory outside the app root. Refused on Azure.
    File { directory: PathBuf },
    /// A table of a database; on Azure, of a server.
    Sql {
        connection_name: String,
        connection: Box<Connection>,
        table: TableName,
    },
}

/// `table` or `schema.table`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    pub schema: Option<String>,
    pub table: String,
}

/// Of the state.
impl Default for TableName {
    fn default() -> Self {
        Self {
            schema: None,
            table: "dbtick_state".to_owned(),
        }
    }
}
