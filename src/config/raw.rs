//! The shape of function.json as it is written. Its doc comments are the schema's descriptions.
//!
//! Nothing is judged here beyond the shape; `shape` enforces the schema that these types generate,
//! `parse` turns them into what runs.

mod deletes;
mod fan_out;
mod queue;
mod relay;
mod shards;
mod status;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

pub(super) use deletes::{CleanUp, CleanUpWord, Deletes, Mark, Outbox, Tombstones};
pub(super) use fan_out::FanOut;
pub(super) use queue::{ClaimCheck, MessageEncoding, Per, PoisonQueue, Queue};
pub(super) use relay::{Relay, RelayFunction};
pub(super) use shards::{Shards, ShardsBy};
pub(super) use status::StatusFunction;

/// A function of dbtick: the host's own keys, and one poller or several; or a relay; or the status.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(title = "function.json of a dbtick poller")]
pub(super) struct FunctionFile {
    /// The bindings of the function. Of a poller: one timerTrigger, or a queueTrigger that a fan-out
    /// puts messages for, and no output. Of a fan-out: one timerTrigger. Of a relay: one
    /// httpTrigger, one http output, and the output that messages go to. Of the status: one httpTrigger
    /// and one http output.
    pub(super) bindings: Vec<Binding>,
    /// The retry policy of the host.
    pub(super) retry: Option<Value>,
    /// The poller that each tick of the timer runs.
    pub(super) poller: Option<Poller>,
    /// Several pollers in one function, in place of `poller`.
    #[schemars(length(min = 1))]
    pub(super) pollers: Option<Vec<Poller>>,
    /// How many of `pollers`, or of the shards of a poller, tick at the same time; 4 unless told.
    #[schemars(range(min = 1, max = 64))]
    pub(super) parallel: Option<u32>,
    /// Makes this a timer function that lets the pollers of another function tick, each by a message of
    /// its own, so that the platform spreads them over instances.
    pub(super) fan_out: Option<FanOut>,
    /// Makes this an HTTP function that hands batches to an output binding, for `deliver[].relay`.
    pub(super) relay: Option<RelayFunction>,
    /// Makes this an HTTP function that shows the pollers of the app: a page, and JSON.
    pub(super) status: Option<StatusFunction>,
}

/// A binding of the host.
#[derive(Debug, Deserialize, JsonSchema)]
pub(super) struct Binding {
    /// Such as timerTrigger.
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) direction: Option<String>,
    pub(super) name: Option<String>,
    /// Of the timerTrigger: when it fires, such as `*/15 * * * * *`.
    pub(super) schedule: Option<String>,
    /// Of the queueTrigger of a poller: the queue that its fan-out puts messages into.
    #[serde(rename = "queueName")]
    pub(super) queue_name: Option<String>,
    /// Of the queueTrigger of a poller: the name of the app setting of the storage account;
    /// AzureWebJobsStorage unless told.
    pub(super) connection: Option<String>,
    /// Of the httpTrigger of a relay or of the status: `function`, which it is unless told; `admin`
    /// is for the status only.
    #[serde(rename = "authLevel")]
    pub(super) auth_level: Option<String>,
    /// Of the httpTrigger: a relay needs `post`, the status `get`, and `post` to act.
    pub(super) methods: Option<Vec<String>>,
    /// Of the httpTrigger: of a relay plain, without parameters; of the status such as `dbtick/{*path}`.
    pub(super) route: Option<String>,
    /// Of the output of a relay: not `binary`.
    #[serde(rename = "dataType")]
    pub(super) data_type: Option<String>,
}

/// One table or query, watched. `%NAME%` in a text is the app setting NAME, except in SQL and where
/// the choices are fixed.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Poller {
    /// Unique in the app; the name of the function's directory unless told.
    pub(super) name: Option<String>,
    /// The name in events, which their ids are made for; `name` unless told. For a poller that goes on
    /// where another one stood, so that its receivers know the events again.
    pub(super) events_as: Option<String>,
    /// Where the rows come from: connection, table or query, cursor and key.
    pub(super) source: Source,
    /// Parts the rows by their key: each shard has its own checkpoint, lease and document, and ticks by
    /// itself; the rows of one key stay in order, and event ids are what they were. Once there is state, it is changed
    /// by `dbtick reshard` (docs/scale.md).
    pub(super) shards: Option<Shards>,
    pub(super) batch: Option<Batch>,
    /// Who receives the rows.
    #[schemars(length(min = 1))]
    pub(super) deliver: Vec<Sink>,
    /// Whose acknowledgement moves the checkpoint; `required` unless told.
    pub(super) commit: Option<Commit>,
    pub(super) poison: Option<Poison>,
    /// Whether each delivered event is written down beside the state; `off` unless told.
    pub(super) ledger: Option<Ledger>,
    pub(super) lease: Option<Lease>,
    pub(super) state: Option<State>,
    /// Who is told when stuck work is resolved by hand: one JSON object for each, not a batch. The keys are
    /// those of `deliver[].webhook`.
    pub(super) warnings: Option<Webhook>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ledger {
    /// Not at all.
    Off,
    /// Each one, with its receivers and the time, before its batch is committed.
    Full,
}

/// Where the rows come from.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Source {
    /// The name of the app setting that holds the connection; never the connection itself.
    #[schemars(length(min = 1))]
    pub(super) connection: String,
    /// `table` or `schema.table`; a part with a dot in it is put into double quotes.
    pub(super) table: Option<String>,
    /// A SELECT in place of `table`. Taken as it is: `%` is SQL, not an app setting.
    #[schemars(length(min = 1))]
    pub(super) query: Option<String>,
    /// The column that grows with every change, or several, most significant first.
    pub(super) cursor: Names,
    /// The column or columns that identify a row.
    pub(super) key: Names,
    /// The columns to deliver; all of them unless told.
    #[schemars(length(min = 1))]
    pub(super) columns: Option<Vec<String>>,
    /// A condition in SQL. Taken as it is: `%` is SQL, not an app setting.
    #[schemars(length(min = 1))]
    pub(super) filter: Option<String>,
    /// Where a poller without state begins; `beginning` unless told.
    pub(super) start: Option<Start>,
    /// What to do about rows whose cursor is NULL; `fail` unless told.
    pub(super) nulls: Option<Nulls>,
    /// How deleted rows are noticed; without it they are not.
    pub(super) deletes: Option<Deletes>,
    /// The table is an outbox: one column is the message.
    pub(super) outbox: Option<Outbox>,
    /// How rows that are committed after later ones were read are met; `auto` unless told.
    pub(super) late_commits: Option<LateCommits>,
    /// Whether rows go out as soon as they are visible; `visible` unless told.
    pub(super) ordering: Option<Ordering>,
    /// Who gives a row its cursor; told by the catalogue, as far as it can, unless told.
    pub(super) stamped_by: Option<StampedBy>,
    /// What happens to rows whose cursor is ahead of the database's clock or sequence; `hold` unless told.
    pub(super) future: Option<FutureRows>,
    /// In which writers write a cursor without zone, such as `Europe/Berlin` or `+02:00`; UTC unless told.
    #[schemars(length(min = 1))]
    pub(super) time_zone: Option<String>,
    /// How much a replica may lack when it takes over; 60s unless told.
    pub(super) recovery_point: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum LateCommits {
    Word(LateWord),
    Times(LateTimes),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LateWord {
    /// By the evidence that the database gives; refused where it gives none.
    Auto,
    /// Not at all: rows that commit late are lost.
    Off,
}

/// One of the two.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct LateTimes {
    /// Rows that may come before others are looked for during so long, such as `30s`.
    pub(super) window: Option<String>,
    /// Rows go out when they are so old, such as `2s`.
    pub(super) settle: Option<String>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Ordering {
    /// As soon as they are visible; a row that commits late comes late.
    Visible,
    /// In the order of the cursor, as late as the slowest transaction.
    Cursor,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum StampedBy {
    /// The database, inside the writing statement, and nobody overrides it.
    Database,
    /// The database, with the time at which the transaction began: now() of PostgreSQL.
    Transaction,
    /// The database, with the number of the transaction.
    TransactionId,
    /// Whoever writes the row.
    Application,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum FutureRows {
    /// They wait until their time has come.
    Hold,
    /// They go out at once.
    Deliver,
}

/// One name, or several.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Names {
    One(#[schemars(length(min = 1))] String),
    Many(#[schemars(length(min = 1))] Vec<String>),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Start {
    Word(StartWord),
    From(StartFrom),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StartWord {
    /// With the first row of the table.
    Beginning,
    /// With the first change after the first tick.
    Now,
}

/// With the first row whose cursor is this one or greater.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct StartFrom {
    /// A value of the cursor; a number, or text as events show it.
    pub(super) from: CursorValue,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum CursorValue {
    Integer(i64),
    Text(#[schemars(length(min = 1))] String),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Nulls {
    /// Stop and say so.
    Fail,
    /// Leave these rows out.
    Ignore,
}

/// How many rows travel together.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Batch {
    /// How many rows a batch has at the most; 1000 unless told.
    #[schemars(range(min = 1, max = 100_000))]
    pub(super) max_rows: Option<u32>,
    /// How large its events may be, from 1KiB to 64MiB; 1MiB unless told. A larger row goes alone.
    pub(super) max_bytes: Option<String>,
    /// A batch that fills slowly is closed after this; 5s unless told.
    pub(super) max_wait: Option<String>,
    /// How many batches are on their way at once; 1 unless told. With more, only the rows of one key
    /// arrive in order, and a crash repeats more of them.
    #[schemars(range(min = 1, max = 32))]
    pub(super) max_inflight: Option<u32>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum Commit {
    Word(CommitWord),
    Quorum(Quorum),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum CommitWord {
    /// That of every receiver.
    All,
    /// That of every receiver which is required.
    Required,
}

/// That of so many receivers, whichever they are.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Quorum {
    /// That of so many receivers, whichever they are.
    #[schemars(range(min = 1, max = 100))]
    pub(super) quorum: u32,
}

/// What happens to rows that a receiver never takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Poison {
    /// Failed ticks in a row at the same row before it is looked for; 5 unless told.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) attempts: Option<u32>,
    /// What becomes of such a row; `quarantine` unless told.
    pub(super) then: Option<Poisoned>,
    /// Of a thousand rows, so many may be set aside; more are taken for the receiver's fault, and
    /// the poller stays where it is. 10 unless told.
    #[schemars(range(min = 1, max = 1000))]
    pub(super) most: Option<u32>,
    /// A message for each row that is set aside, besides the quarantine itself.
    pub(super) queue: Option<PoisonQueue>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Poisoned {
    /// The row is kept aside, with the reason, and the others go on.
    Quarantine,
    /// Nothing behind the row goes on.
    Block,
}

/// One receiver.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Sink {
    /// Unique in the poller; its kind, with an index where there are several, unless told. Another name is
    /// another receiver.
    pub(super) name: Option<String>,
    /// Whether the checkpoint waits for it; true unless told.
    pub(super) required: Option<bool>,
    /// The URL to which batches are posted; a 2xx answer acknowledges.
    pub(super) webhook: Option<Webhook>,
    /// The queue of a storage account into which messages are put; the service's answer acknowledges.
    pub(super) queue: Option<Queue>,
    /// The function of this app whose output binding takes the rows.
    pub(super) relay: Option<Relay>,
}

/// Batches are posted to a URL; a 2xx answer acknowledges.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Webhook {
    /// https, or http to this machine. Keep tokens out of the file: use `%NAME%`.
    #[schemars(length(min = 1))]
    pub(super) url: String,
    /// For one attempt, from connect to the last byte of the answer; 30s unless told.
    pub(super) timeout: Option<String>,
    /// Tries inside one tick, the first included; 3 unless told.
    #[schemars(range(min = 1, max = 10))]
    pub(super) attempts: Option<u32>,
    /// Allow plain http to another machine, where rows travel readable; false unless told.
    pub(super) allow_http: Option<bool>,
    /// `%NAME%` of the app setting with the key that signs after Standard Webhooks: `whsec_…`.
    #[schemars(length(min = 1))]
    pub(super) secret: Option<String>,
    /// In place of `secret` while keys are exchanged: the new one, then the old one.
    #[schemars(length(min = 1))]
    pub(super) secrets: Option<Vec<String>>,
    /// More headers, such as `{ "x-tenant": "%TENANT%" }`; their values are not shown.
    pub(super) headers: Option<BTreeMap<String, String>>,
    /// `%NAME%` of the app setting with the token that is sent as `Authorization: Bearer`.
    #[schemars(length(min = 1))]
    pub(super) bearer: Option<String>,
    /// In place of `bearer`: a token of the app's managed identity.
    pub(super) entra: Option<Entra>,
    /// Authorities to trust besides those of the system: a PEM file, relative to the app root, or
    /// `%NAME%` of an app setting with the text.
    #[schemars(length(min = 1))]
    pub(super) ca: Option<String>,
    /// Refuse private addresses too, written out or behind a name; false unless told. Link-local and
    /// metadata addresses are always refused.
    pub(super) deny_private: Option<bool>,
    /// Compress bodies, for a receiver that knows `Content-Encoding: gzip`; false unless told.
    pub(super) gzip: Option<bool>,
    /// What a body looks like; `native` unless told.
    pub(super) envelope: Option<Envelope>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Envelope {
    /// One object with the batch id, the fence and the events.
    Native,
    /// A batch of CloudEvents 1.0.
    CloudEvents,
    /// As readers of Debezium expect it.
    Debezium,
}

/// A token of Microsoft Entra ID, fetched and renewed by the app's managed identity.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Entra {
    /// Whom the token is for, such as `api://orders-receiver`.
    #[schemars(length(min = 1))]
    pub(super) audience: String,
    /// Of the user-assigned identity; the system's own unless told.
    #[schemars(length(min = 1))]
    pub(super) client_id: Option<String>,
}

/// How long one instance may hold the poller without a sign of life.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Lease {
    /// A lease that was not renewed for so long, and for `margin`, is free; 24s unless told.
    pub(super) ttl: Option<String>,
    /// How often it is renewed, less than half of `ttl`; 7s unless told.
    pub(super) heartbeat: Option<String>,
    /// Less than `ttl` minus `heartbeat`; 5s unless told.
    pub(super) margin: Option<String>,
}

/// Where the checkpoint lives; in the storage account of the app unless told.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct State {
    /// What it is kept in; `blob` unless told.
    pub(super) kind: Option<StateKind>,
    /// blob: the name of the app setting of the storage account; AzureWebJobsStorage unless told.
    /// sql: the name of the app setting of the database.
    #[schemars(length(min = 1))]
    pub(super) connection: Option<String>,
    /// blob: created when it is missing; `db-state` unless told.
    pub(super) container: Option<String>,
    /// file: a directory outside the app root; a relative one starts at the app root.
    #[schemars(length(min = 1))]
    pub(super) path: Option<String>,
    /// sql: `table` or `schema.table`, created when it is missing; `dbtick_state` unless told.
    #[schemars(length(min = 1))]
    pub(super) table: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum StateKind {
    /// A blob in a storage account.
    Blob,
    /// Files in a directory; for one machine, refused on Azure.
    File,
    /// A table of PostgreSQL, MySQL or MariaDB, or, on one machine, of SQLite.
    Sql,
}
