//! The tables that are written to, and the pollers that read them.

use std::sync::Arc;

use dbtick::model::position::{MomentKind, Position, Scalar, ScalarType};
use serde_json::{Value, json};

use super::support::world::merge;

/// Which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    Postgres,
    MariaDb,
}

/// App settings.
pub(crate) const POSTGRES: &str = "POSTGRES";
pub(crate) const MARIADB: &str = "MARIADB";
/// Of a user who may see metadata locks.
pub(crate) const MARIADB_WITH_LOCKS: &str = "MARIADB_WITH_LOCKS";
pub(crate) const STATE: &str = "STATE";
pub(crate) const HOOKS: &str = "HOOKS";

/// A debug build on a busy machine needs more than a second to renew a lease.
const TTL: &str = if cfg!(debug_assertions) { "4s" } else { "3s" };
/// So many failed ticks, and the row is looked for.
const POISON: u32 = 2;
/// Who refuses poison rows. The other receiver of a poller takes everything, and may fall behind.
pub(crate) const HOOK: &str = "hook";
pub(crate) const AUDIT: &str = "audit";

/// All have `name`, which stays, and `label`, which no two versions of rows share.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) source: Source,
    connection: &'static str,
    pub(crate) schema: &'static [&'static str],
    cursor: (&'static str, ScalarType),
    key: (&'static str, ScalarType),
    /// The cursor as events show it, in SQL.
    pub(crate) place: &'static str,
    /// Rows are changed too, and with them their cursor.
    pub(crate) changes: bool,
    source_settings: fn() -> Value,
}

/// Two of each table: the more leases there are, the more of the kills hit one.
#[derive(Debug)]
pub(crate) struct Poller {
    /// Of its function too.
    pub(crate) name: String,
    pub(crate) table: Arc<Table>,
    pub(crate) manners: Manners,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manners {
    /// Large batches for two receivers: one refuses a batch that has poison in it, the other takes everything, and
    /// nobody waits for it.
    Audited,
    /// Small batches for one receiver, who names the rows that it refuses; and a ledger.
    Recorded,
}

pub(crate) fn pollers(tables: &[Arc<Table>]) -> Vec<Arc<Poller>> {
    let each = tables.iter().flat_map(|table| {
        [Manners::Audited, Manners::Recorded].map(|manners| {
            let name = match manners {
                Manners::Audited => format!("{}-audited", table.name),
                Manners::Recorded => format!("{}-recorded", table.name),
            };
            let table = Arc::clone(table);
            Arc::new(Poller {
                name,
                table,
                manners,
            })
        })
    });
    each.collect()
}

pub(crate) fn of(source: Source) -> Vec<Table> {
    match source {
        Source::Postgres => vec![numbers(), moments()],
        Source::MariaDb => vec![counts(), seconds()],
    }
}

/// Drawn as rows are written.
fn numbers() -> Table {
    Table {
        name: "numbers",
        source: Source::Postgres,
        connection: POSTGRES,
        schema: &[
            "CREATE TABLE numbers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, label text NOT NULL,
                amount numeric(12,2) NOT NULL, note text, poison boolean NOT NULL)",
            "GRANT SELECT ON SEQUENCE numbers_id_seq TO reader",
            "GRANT SELECT ON numbers TO reader",
        ],
        cursor: ("id", ScalarType::Integer),
        key: ("id", ScalarType::Integer),
        place: "id::text",
        changes: false,
        source_settings: || json!({}),
    }
}

/// The time at which the transaction began: the same for all of its rows.
fn moments() -> Table {
    Table {
        name: "moments",
        source: Source::Postgres,
        connection: POSTGRES,
        schema: &[
            "CREATE TABLE moments (name text COLLATE \"C\" PRIMARY KEY, at timestamptz NOT NULL, label text NOT NULL,
                amount numeric(12,2) NOT NULL, note text, poison boolean NOT NULL)",
            "CREATE INDEX ON moments (at, name)",
            "CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.at := now(); RETURN NEW; END'",
            "CREATE TRIGGER stamped BEFORE INSERT OR UPDATE ON moments FOR EACH ROW EXECUTE FUNCTION stamp()",
            "GRANT SELECT ON moments TO reader",
        ],
        cursor: ("at", ScalarType::Moment(MomentKind::Instant)),
        key: ("name", ScalarType::Text),
        place: "to_char(at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
        changes: true,
        source_settings: || json!({}),
    }
}

/// Evidence by metadata locks.
fn counts() -> Table {
    Table {
        name: "counts",
        source: Source::MariaDb,
        connection: MARIADB_WITH_LOCKS,
        schema: &[
            "CREATE TABLE counts (id BIGINT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(60) NOT NULL, label VARCHAR(60) NOT NULL,
                amount DECIMAL(12,2) NOT NULL, note TEXT, poison BOOLEAN NOT NULL) CHARACTER SET utf8mb4",
        ],
        cursor: ("id", ScalarType::Integer),
        key: ("id", ScalarType::Integer),
        place: "CAST(id AS CHAR)",
        changes: false,
        source_settings: || json!({ "stamped_by": "database" }),
    }
}

/// Whole seconds, many rows in each, in no order. Evidence by dirty reads, and a window that is longer than
/// a statement waits for a lock on this server.
fn seconds() -> Table {
    Table {
        name: "seconds",
        source: Source::MariaDb,
        connection: MARIADB,
        schema: &[
            "CREATE TABLE seconds (name VARCHAR(60) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
                at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, label VARCHAR(60) NOT NULL,
                amount DECIMAL(12,2) NOT NULL, note TEXT, poison BOOLEAN NOT NULL, KEY (at, name)) CHARACTER SET utf8mb4",
        ],
        cursor: ("at", ScalarType::Moment(MomentKind::Local)),
        key: ("name", ScalarType::Text),
        place: "DATE_FORMAT(at, '%Y-%m-%dT%H:%i:%s')",
        changes: true,
        source_settings: || json!({ "late_commits": { "window": "5s" } }),
    }
}

impl Source {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
        }
    }
}

impl Table {
    /// Where a row stands, by its cursor and key as events show them.
    pub(crate) fn position(&self, cursor: &Value, key: &Value) -> Option<Position> {
        let scalar = |value, as_type| Scalar::from_json(value, as_type).ok();
        Some(Position::new(
            vec![scalar(cursor, self.cursor.1)?],
            vec![scalar(key, self.key.1)?],
        ))
    }

    /// Of an event.
    pub(crate) fn key_of<'a>(&self, event: &'a Value) -> &'a Value {
        &event["key"][self.key.0]
    }

    pub(crate) fn key_column(&self) -> &'static str {
        self.key.0
    }
}

impl Poller {
    pub(crate) fn sinks(&self) -> &'static [&'static str] {
        match self.manners {
            Manners::Audited => &[HOOK, AUDIT],
            Manners::Recorded => &[HOOK],
        }
    }

    /// Its function.json. Times are as short as a storage account allows: its clock counts whole seconds, so that
    /// margin is at least two.
    pub(crate) fn function(&self) -> Value {
        let Table { cursor, key, .. } = *self.table;
        let mut source = json!({
            "connection": self.table.connection, "table": self.table.name,
            "cursor": cursor.0, "key": key.0
        });
        merge(&mut source, (self.table.source_settings)());
        let deliver = self.sinks().iter().map(|sink| {
            json!({
                "name": sink, "required": *sink == HOOK,
                "webhook": {
                    "url": format!("%{HOOKS}%/{}/{sink}", self.name),
                    "timeout": "1500ms", "attempts": 1
                }
            })
        });
        let (max_rows, ledger) = match self.manners {
            Manners::Audited => (40, "off"),
            Manners::Recorded => (10, "full"),
        };
        json!({
            "bindings": [{
                "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 0 0 1 1 *"
            }],
            "poller": {
                "source": source,
                "batch": { "max_rows": max_rows, "max_wait": "1s" },
                "deliver": deliver.collect::<Value>(),
                "lease": { "ttl": TTL, "heartbeat": "300ms", "margin": "2s" },
                "poison": { "attempts": POISON, "most": 50 },
                "ledger": ledger,
                "state": { "connection": STATE, "container": "torture" }
            }
        })
    }
}
