//! Which database a connection string means. Its value is a secret: no fault shows any of it, not
//! even the name of a parameter that is not known, for it may be a part of the password.

mod pairs;
mod server;
mod sqlite;

use std::path::{Path, PathBuf};

use super::{Reader, key_vault_hint};
use crate::config::Connection;
use crate::config::connection::Refusal;
use crate::config::fault::Place;
use crate::config::settings::{SettingError, Settings};
use pairs::Written;
use server::{Context, Kind};

pub(super) struct Named {
    pub(super) name: String,
    pub(super) identity: String,
    pub(super) connection: Connection,
}

pub(super) fn connection(reader: &mut Reader<'_>, at: &Place, written: &str) -> Option<Named> {
    let name = reader.text(at, written)?;
    // A connection where its name belongs is a leaked secret already; do not spread it.
    if name.contains(['/', ';', '=', '@']) {
        reader.faults.add(
            at,
            "is a connection, and must be the name of an app setting",
            "put the connection into an app setting and write the setting's name here",
        );
        return None;
    }
    match named(reader.settings, reader.root, &name) {
        Ok((identity, connection)) => Some(Named {
            name,
            identity,
            connection,
        }),
        Err(Refusal { problem, hint }) => {
            reader.faults.add(at, problem, hint);
            None
        }
    }
}

/// The identity and the connection that an app setting means.
pub(in crate::config) fn named(
    settings: &Settings,
    root: &Path,
    name: &str,
) -> Result<(String, Connection), Refusal> {
    let (prefix, value) = settings.typed_connection(name).map_err(|fault| {
        let hint = match fault {
            SettingError::KeyVault(_) => key_vault_hint(),
            _ => format!("add the app setting {name}, on this machine in local.settings.json"),
        };
        Refusal::new(fault.to_string(), hint)
    })?;
    let context = Context {
        settings,
        root,
        name,
    };
    recognised(prefix, value.trim(), &context).map_err(|Refusal { problem, hint }| Refusal {
        problem: format!("{problem}: {name}"),
        hint,
    })
}

fn recognised(
    prefix: &str,
    value: &str,
    context: &Context<'_>,
) -> Result<(String, Connection), Refusal> {
    if let Some(path) = sqlite::path(value)? {
        let file = context.root.join(PathBuf::from(path));
        // Whole: two apps with an `orders.db` each must not share a checkpoint.
        let identity = format!("sqlite:{}", file.display());
        return Ok((identity, Connection::Sqlite { file }));
    }
    let typed = match prefix {
        "POSTGRESQLCONNSTR_" => Some(Kind::Postgres),
        "MYSQLCONNSTR_" => Some(Kind::MySql),
        "SQLCONNSTR_" => return Err(sql_server()),
        _ => None,
    };
    let (kind, server) = server::server(Written::parse(value)?, typed, context)?;
    Ok(match kind {
        Kind::Postgres => (server.identity("postgres"), Connection::Postgres(server)),
        Kind::MySql => (server.identity("mysql"), Connection::MySql(server)),
    })
}

fn sql_server() -> Refusal {
    Refusal::new(
        "SQL Server is not available in this version",
        "use PostgreSQL, MySQL, MariaDB or SQLite",
    )
}

#[cfg(test)]
mod tests;
