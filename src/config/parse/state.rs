//! Where a checkpoint may live: in a storage account, or, on one machine, outside the app root.
//!
//! A connection that does not resolve is a fault and never a reason to look elsewhere: a poller that
//! finds no state begins at the beginning.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Reader;
use super::connection::{self, Named};
use crate::azure::connection::Service;
use crate::config::app::on_azure;
use crate::config::fault::Place;
use crate::config::{Connection, LeaseTimes, StateConfig, TableName, human, raw};

const DEFAULT_CONTAINER: &str = "db-state";
/// The service tells the time in whole seconds, twice: what was written and what is now.
const LEAST_BLOB_MARGIN: Duration = Duration::from_secs(2);

pub(super) fn state(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: Option<raw::State>,
) -> Option<StateConfig> {
    let Some(raw) = raw else {
        return match reader.settings.filled("DBTICK_STATE_DIR") {
            Some(directory) => reader.directory(at, directory),
            None => reader.container(at, None, None),
        };
    };
    let raw::State {
        kind,
        connection,
        container,
        path,
        table,
    } = raw;
    let kind = match (kind, &path) {
        (Some(kind), _) => kind,
        (None, None) => raw::StateKind::Blob,
        (None, Some(_)) => {
            let hint = "add \"kind\": \"file\", or remove path for a storage account";
            reader.faults.add(&at.key("kind"), "is missing", hint);
            return None;
        }
    };
    match kind {
        raw::StateKind::Blob => {
            reader.only_for("file", &at.key("path"), path.is_some())?;
            reader.only_for("sql", &at.key("table"), table.is_some())?;
            reader.container(at, connection.as_deref(), container.as_deref())
        }
        raw::StateKind::File => {
            reader.only_for("blob", &at.key("connection"), connection.is_some())?;
            reader.only_for("blob", &at.key("container"), container.is_some())?;
            reader.only_for("sql", &at.key("table"), table.is_some())?;
            let at = at.key("path");
            let Some(path) = path else {
                let hint = "name a directory outside of the app root, such as ../state";
                reader.faults.add(&at, "is missing", hint);
                return None;
            };
            let directory = reader.text(&at, &path)?;
            reader.directory(&at, &directory)
        }
        raw::StateKind::Sql => {
            reader.only_for("file", &at.key("path"), path.is_some())?;
            reader.only_for("blob", &at.key("container"), container.is_some())?;
            reader.table_of_state(at, connection.as_deref(), table.as_deref())
        }
    }
}

/// What the clock of a store asks of a lease.
pub(super) fn margin(
    reader: &mut Reader<'_>,
    at: &Place,
    state: &StateConfig,
    lease: &LeaseTimes,
) -> Option<()> {
    let least = match state {
        StateConfig::Blob { .. } => LEAST_BLOB_MARGIN,
        StateConfig::File { .. } | StateConfig::Sql { .. } => Duration::ZERO,
    };
    if lease.margin >= least {
        return Some(());
    }
    let margin = human::show_duration(lease.margin);
    reader.faults.add(
        &at.key("margin"),
        format!(
            "is too short for the clock of a storage account, which counts whole seconds: {margin}"
        ),
        format!("write at least {}", human::show_duration(least)),
    );
    None
}

impl Reader<'_> {
    fn container(
        &mut self,
        at: &Place,
        connection: Option<&str>,
        container: Option<&str>,
    ) -> Option<StateConfig> {
        let named = container.unwrap_or(DEFAULT_CONTAINER);
        let container = self.container_name(&at.key("container"), named);
        let storage = self.storage(at, connection)?;
        let endpoint = self.service(&storage, Service::Blob)?;
        Some(StateConfig::Blob {
            endpoint: Arc::new(endpoint),
            container: container?,
        })
    }

    fn table_of_state(
        &mut self,
        at: &Place,
        connection: Option<&str>,
        table: Option<&str>,
    ) -> Option<StateConfig> {
        let table = match table {
            Some(written) => self.state_table(&at.key("table"), written),
            None => Some(TableName::default()),
        };
        let at = at.key("connection");
        let Some(connection) = connection else {
            let hint = "name the app setting that holds the connection to the database";
            self.faults.add(&at, "is missing", hint);
            return None;
        };
        let Named {
            name, connection, ..
        } = connection::connection(self, &at, connection)?;
        if matches!(connection, Connection::Sqlite { .. }) && on_azure(self.settings) {
            self.faults.add(
                &at,
                "files on an Azure instance vanish with it and are not shared, so the checkpoint would be lost",
                "keep the state on a database server or in a storage account",
            );
            return None;
        }
        Some(StateConfig::Sql {
            connection_name: name,
            connection: Box::new(connection),
            table: table?,
        })
    }

    fn state_table(&mut self, at: &Place, written: &str) -> Option<TableName> {
        match super::source::identifiers(&self.text(at, written)?).as_deref() {
            Some([table]) => Some(TableName {
                schema: None,
                table: table.clone(),
            }),
            Some([schema, table]) => Some(TableName {
                schema: Some(schema.clone()),
                table: table.clone(),
            }),
            _ => {
                self.faults.add(
                    at,
                    format!("is not the name of a table: {written}"),
                    "write table or schema.table",
                );
                None
            }
        }
    }

    fn only_for(&mut self, kind: &str, at: &Place, written: bool) -> Option<()> {
        if written {
            let problem = format!("means nothing here: it belongs to \"kind\": \"{kind}\"");
            self.faults.add(at, problem, "remove the key");
            return None;
        }
        Some(())
    }

    fn directory(&mut self, at: &Place, written: &str) -> Option<StateConfig> {
        if on_azure(self.settings) {
            self.faults.add(
                at,
                "files on an Azure instance vanish with it and are not shared, so the checkpoint would be lost",
                "keep the state in a storage account: remove poller.state and the app setting DBTICK_STATE_DIR",
            );
            return None;
        }
        let directory = settled(&self.root.join(written));
        if directory.starts_with(self.root) {
            self.faults.add(
                at,
                "is inside the app root, where a changed file can restart the host",
                "name a directory outside of it, such as ../state",
            );
            return None;
        }
        Some(StateConfig::File { directory })
    }
}

/// Without `.` and `..`, and without symbolic links in the part that exists already.
fn settled(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
        .ancestors()
        .find_map(|ancestor| {
            let real = ancestor.canonicalize().ok()?;
            let rest = plain.strip_prefix(ancestor).ok()?;
            Some(if rest.as_os_str().is_empty() {
                real
            } else {
                real.join(rest)
            })
        })
        .unwrap_or(plain)
}
