//! The server, and what the user may do there.

use sqlx::mysql::MySqlConnection;

use crate::source::findings::finding;
use crate::source::mysql::catalogue::{Server, text};
use crate::source::mysql::shape::MySqlShape;
use crate::source::{Finding, Grade};

/// The oldest that are known to work: major and minor.
const MARIADB: (u32, u32) = (10, 6);
const MYSQL: (u32, u32) = (8, 0);

/// Rights that reading needs, or that everybody has.
const HARMLESS: [&str; 4] = ["SELECT", "USAGE", "SHOW VIEW", "SHOW DATABASES"];

pub(super) fn name(server: &Server) -> String {
    match server.is_mariadb {
        true => format!("MariaDB {}", server.version),
        false => format!("MySQL {}", server.version),
    }
}

pub(super) async fn findings(
    connection: &mut MySqlConnection,
    shape: &MySqlShape,
) -> Result<Vec<Finding>, sqlx::Error> {
    let mut findings = vec![version(&shape.server)];
    findings.push(rights(connection, shape.server.is_mariadb).await?);
    let row = sqlx::query("SELECT CAST(@@global.read_only AS CHAR)")
        .fetch_one(&mut *connection)
        .await?;
    if text(&row, 0).is_some_and(|flag| flag != "0" && flag != "OFF") {
        let what = "the server is read-only, so it may be a replica: rows arrive as late as it lags, \
                    and a checkpoint taken here may be ahead of another replica";
        findings.push(finding(Grade::Warn, "replica", what));
    }
    if let Some((table, _)) = &shape.table {
        let engine = table.engine.as_deref().filter(|engine| *engine != "InnoDB");
        if let Some(engine) = engine.filter(|_| !table.is_view) {
            let what = format!(
                "the table is stored in {engine}, which has no transactions: rows can be seen before \
                 their statement is done; ALTER TABLE … ENGINE=InnoDB"
            );
            findings.push(finding(Grade::Warn, "engine", what));
        }
    }
    Ok(findings)
}

fn version(server: &Server) -> Finding {
    let oldest = if server.is_mariadb { MARIADB } else { MYSQL };
    // `5.5.5-` stood before MariaDB's own version once.
    let digits = server.version.trim_start_matches("5.5.5-");
    let mut parts = digits.split(['.', '-']).map(|part| part.parse().ok());
    let found = (parts.next().flatten(), parts.next().flatten());
    match found {
        (Some(major), Some(minor)) if (major, minor) >= oldest => {
            finding(Grade::Pass, "server", name(server))
        }
        _ => finding(
            Grade::Warn,
            "server",
            format!(
                "{} is older than what is known to work: MariaDB {}.{}, MySQL {}.{}",
                name(server),
                MARIADB.0,
                MARIADB.1,
                MYSQL.0,
                MYSQL.1
            ),
        ),
    }
}

/// Reading is enough (S8).
async fn rights(
    connection: &mut MySqlConnection,
    is_mariadb: bool,
) -> Result<Finding, sqlx::Error> {
    let rows = sqlx::query("SHOW GRANTS").fetch_all(connection).await?;
    let lines: Vec<String> = rows.iter().filter_map(|row| text(row, 0)).collect();
    let more: Vec<_> = lines
        .iter()
        .filter_map(|line| beyond_reading(line))
        .collect();
    let roles: Vec<_> = lines.iter().filter_map(|line| role(line)).collect();
    Ok(match more.as_slice() {
        // MariaDB lists what the active role may; MySQL only that there is one.
        [] if !is_mariadb && !roles.is_empty() => {
            let text = format!(
                "the user may read and nothing else by itself; what its roles may is not known here: {}",
                roles.join(", ")
            );
            finding(Grade::Warn, "rights", text)
        }
        [] => finding(Grade::Pass, "rights", "the user may read and nothing else"),
        more => finding(
            Grade::Warn,
            "rights",
            format!(
                "SELECT is enough, and the user may also: {}; REVOKE what is not needed",
                more.join("; ")
            ),
        ),
    })
}

/// Of a line that gives one: no right has a place without ON.
fn role(line: &str) -> Option<String> {
    let (role, _) = line.strip_prefix("GRANT ")?.split_once(" TO ")?;
    (!role.contains(" ON ")).then(|| role.replace('`', ""))
}

/// `INSERT, UPDATE ON shop.*`, of one line of SHOW GRANTS. What follows the user may be the hash of a
/// password, so that only what stands before is looked at.
fn beyond_reading(line: &str) -> Option<String> {
    let (granted, rest) = line.strip_prefix("GRANT ")?.split_once(" ON ")?;
    let (place, _) = rest.split_once(" TO ")?;
    let rights: Vec<_> = privileges(granted)
        .filter(|right| {
            let name = right.split('(').next().unwrap_or_default().trim();
            !HARMLESS.contains(&name)
        })
        .collect();
    let named = || format!("{} ON {place}", rights.join(", ")).replace('`', "");
    (!rights.is_empty()).then(named)
}

/// Commas inside parentheses separate columns.
fn privileges(granted: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    granted
        .split(move |letter| {
            match letter {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            letter == ',' && depth == 0
        })
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_named_and_hashes_are_not() {
        for (line, expect) in [
            (
                "GRANT USAGE ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*D82'",
                None,
            ),
            (
                "GRANT SELECT (`a`, `b`), SHOW VIEW ON `s`.`t` TO `a`@`%`",
                None,
            ),
            (
                "GRANT SELECT, INSERT (`a`, `b`), DELETE ON `s`.* TO `a`@`%`",
                Some("INSERT (a, b), DELETE ON s.*"),
            ),
            (
                "GRANT ALL PRIVILEGES ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*D82' WITH GRANT OPTION",
                Some("ALL PRIVILEGES ON *.*"),
            ),
            ("GRANT `role` TO `a`@`%`", None),
        ] {
            assert_eq!(beyond_reading(line).as_deref(), expect, "{line}");
            let named = line.starts_with("GRANT `role`").then(|| "role".to_owned());
            assert_eq!(role(line), named, "{line}");
        }
    }
}
