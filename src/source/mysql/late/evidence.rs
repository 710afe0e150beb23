//! Which evidence there is.

use std::time::Duration;

use sqlx::mysql::MySqlConnection;

use super::locks::{self, Watch};
use crate::source::late::Evidence;
use crate::source::mysql::catalogue::{self, Variables, status};
use crate::source::mysql::fault::is_unanswered;
use crate::source::mysql::shape::MySqlShape;

/// Engines of which all writers are on this server.
const LOCAL: [&str; 4] = ["InnoDB", "MyISAM", "Aria", "MEMORY"];
/// From the end of the longest wait for a lock to a commit.
const AFTER_WAITING: Duration = Duration::from_secs(10);
/// Where the server does not tell: the default.
const LOCK_WAIT: u64 = 50;

const SETTINGS: [&str; 6] = [
    "performance_schema",
    "innodb_lock_wait_timeout",
    "read_only",
    "wsrep_on",
    "group_replication_group_name",
    "group_replication_single_primary_mode",
];

pub(super) async fn of(
    connection: &mut MySqlConnection,
    shape: &MySqlShape,
) -> Result<(Evidence, Watch), sqlx::Error> {
    let variables = catalogue::variables(connection, &SETTINGS).await?;
    if let Some(why) = written_elsewhere(connection, &variables).await? {
        return Ok((Evidence::Nothing(why.to_owned()), Watch::Off));
    }
    let seconds = variables.get("innodb_lock_wait_timeout");
    let seconds = seconds.and_then(|seconds| seconds.parse().ok());
    let rows = Evidence::Rows {
        hidden_for: Duration::from_secs(seconds.unwrap_or(LOCK_WAIT)) + AFTER_WAITING,
    };
    let watch = match variables.is_on("performance_schema") {
        true => locks::watch(connection).await?,
        false => Watch::Off,
    };
    // What is behind a view or query is not known.
    let Some(tables) = shape.tables() else {
        return Ok((rows, Watch::Unknown));
    };
    let engines = || tables.iter().map(|table| table.engine.as_deref());
    let is_local = |engine: Option<&str>| engine.is_some_and(|engine| LOCAL.contains(&engine));
    let other = engines().find(|engine| *engine != Some("InnoDB"));
    let evidence = match other {
        _ if watch == Watch::All && engines().all(is_local) => {
            Evidence::Writers("every transaction that writes to the table is seen by its lock")
        }
        None => rows,
        Some(engine) => Evidence::Nothing(format!(
            "the table is stored in {}, which shows nothing of rows that are on their way",
            engine.unwrap_or("an unknown engine")
        )),
    };
    Ok((evidence, watch))
}

/// Whether rows are written on a server that is not asked.
async fn written_elsewhere(
    connection: &mut MySqlConnection,
    variables: &Variables,
) -> Result<Option<&'static str>, sqlx::Error> {
    if variables.is_on("wsrep_on") {
        return Ok(Some(
            "the server is a node of a Galera cluster, and writers on the other nodes are not seen",
        ));
    }
    let group = variables.get("group_replication_group_name");
    let in_group = group.is_some_and(|name| !name.is_empty());
    if in_group && !variables.is_on("group_replication_single_primary_mode") {
        return Ok(Some(
            "the server is a member of a group with several primaries, and writers on the others are not seen",
        ));
    }
    let replicates = is_replica(connection, variables).await?;
    Ok(replicates.then_some(
        "the server is a replica, or may be one because it is read-only, and writers on its primary are not seen",
    ))
}

/// The status of a replica is not for everybody; without it a server that may not be written to is
/// taken for one.
async fn is_replica(
    connection: &mut MySqlConnection,
    variables: &Variables,
) -> Result<bool, sqlx::Error> {
    let running = status(connection, "Slaves_running").await?;
    if running.is_some_and(|count| count != "0") {
        return Ok(true);
    }
    // Old servers know only the second.
    for sql in ["SHOW REPLICA STATUS", "SHOW SLAVE STATUS"] {
        match sqlx::raw_sql(sql).fetch_all(&mut *connection).await {
            Ok(rows) => return Ok(!rows.is_empty()),
            Err(error) if is_unanswered(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(variables.is_on("read_only"))
}
