//! Which database a connection string means. Its value is a secret: no fault shows it.

use std::path::PathBuf;

use super::{Reader, key_vault_hint};
use crate::config::Connection;
use crate::config::fault::Place;
use crate::config::settings::SettingError;

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
    let value = match reader.settings.connection(&name) {
        Ok(value) => value,
        Err(fault) => {
            let hint = match fault {
                SettingError::KeyVault(_) => key_vault_hint(),
                _ => format!("add the app setting {name}, on this machine in local.settings.json"),
            };
            reader.faults.add(at, fault.to_string(), hint);
            return None;
        }
    };
    match sqlite_path(value.trim()) {
        Ok(path) => {
            let file = reader.root.join(PathBuf::from(path));
            Some(Named {
                name,
                // Whole: two apps with an `orders.db` each must not share a checkpoint.
                identity: format!("sqlite:{}", file.display()),
                connection: Connection::Sqlite { file },
            })
        }
        Err(refusal) => {
            let (problem, hint) = refusal.explain();
            reader.faults.add(at, format!("{problem}: {name}"), hint);
            None
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    OtherDatabase,
    InMemory,
    Parameters,
    Unknown,
}

impl Refusal {
    fn explain(&self) -> (&'static str, &'static str) {
        const FORMS: &str = "write sqlite:PATH, a path that ends in .db, or Data Source=PATH";
        match self {
            Self::OtherDatabase => (
                "PostgreSQL and MySQL/MariaDB sources are not available in this version",
                "use an SQLite database",
            ),
            Self::InMemory => ("the database would be gone with each tick", "use a file"),
            Self::Parameters => (
                "the connection has parameters that are not known here",
                FORMS,
            ),
            Self::Unknown => ("the connection names no database that is known here", FORMS),
        }
    }
}

/// The path as it is written.
fn sqlite_path(value: &str) -> Result<&str, Refusal> {
    let path = if let Some(rest) = strip_prefix_ignoring_case(value, "sqlite:") {
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if path.contains('?') {
            return Err(Refusal::Parameters);
        }
        path
    } else if value.contains("://") {
        return Err(match value.split_once("://").map(|(scheme, _)| scheme) {
            Some("postgres" | "postgresql" | "mysql" | "mariadb") => Refusal::OtherDatabase,
            _ => Refusal::Unknown,
        });
    } else if value.contains('=') {
        data_source(value)?
    } else if [".db", ".sqlite", ".sqlite3"]
        .iter()
        .any(|extension| value.to_lowercase().ends_with(extension))
    {
        value
    } else {
        return Err(Refusal::Unknown);
    };
    match path.trim() {
        "" => Err(Refusal::Unknown),
        ":memory:" => Err(Refusal::InMemory),
        path => Ok(path),
    }
}

/// `Key=Value;…` as the portal hands it out; for SQLite that is `Data Source=PATH` alone.
fn data_source(value: &str) -> Result<&str, Refusal> {
    let pairs: Vec<(String, &str)> = value
        .split(';')
        .filter(|pair| !pair.trim().is_empty())
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (key.trim().to_lowercase(), value.trim())
        })
        .collect();
    let has = |names: &[&str]| pairs.iter().any(|(key, _)| names.contains(&key.as_str()));
    if has(&[
        "host",
        "server",
        "user id",
        "uid",
        "username",
        "database",
        "initial catalog",
    ]) {
        return Err(Refusal::OtherDatabase);
    }
    match pairs.as_slice() {
        [(key, path)] if matches!(key.as_str(), "data source" | "datasource" | "filename") => {
            Ok(path)
        }
        _ if has(&["data source", "datasource", "filename"]) => Err(Refusal::Parameters),
        _ => Err(Refusal::Unknown),
    }
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let start = text.get(..prefix.len())?;
    start
        .eq_ignore_ascii_case(prefix)
        .then(|| &text[prefix.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlite_is_recognised_in_every_spelling_and_nothing_else_is() {
        for (value, expected) in [
            ("sqlite:orders.db", Ok("orders.db")),
            ("sqlite:data", Ok("data")),
            ("sqlite://data/orders.db", Ok("data/orders.db")),
            ("sqlite:///var/orders.db", Ok("/var/orders.db")),
            ("SQLite:/var/orders", Ok("/var/orders")),
            ("../orders.sqlite3", Ok("../orders.sqlite3")),
            ("orders.SQLITE", Ok("orders.SQLITE")),
            ("Data Source=orders.dat", Ok("orders.dat")),
            ("data source = a b.db ;", Ok("a b.db")),
            ("sqlite::memory:", Err(Refusal::InMemory)),
            ("Data Source=:memory:", Err(Refusal::InMemory)),
            ("sqlite:", Err(Refusal::Unknown)),
            ("sqlite:a.db?mode=rwc", Err(Refusal::Parameters)),
            ("Data Source=a.db;Password=x", Err(Refusal::Parameters)),
            ("postgres://u:p@h/d", Err(Refusal::OtherDatabase)),
            ("postgresql://u:p@h/d", Err(Refusal::OtherDatabase)),
            ("mysql://u:p@h/d", Err(Refusal::OtherDatabase)),
            ("mariadb://u:p@h/d.db", Err(Refusal::OtherDatabase)),
            ("Server=h;Uid=u;Pwd=p", Err(Refusal::OtherDatabase)),
            ("Host=h;Password=p", Err(Refusal::OtherDatabase)),
            ("Data Source=h;User Id=u", Err(Refusal::OtherDatabase)),
            ("https://example.org/x.db", Err(Refusal::Unknown)),
            ("orders", Err(Refusal::Unknown)),
        ] {
            assert_eq!(sqlite_path(value), expected, "{value}");
        }
    }
}
