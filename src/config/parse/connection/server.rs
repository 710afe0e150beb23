//! From names and values to a server: which database it is, who logs in, and how far TLS must go.

mod names;
mod tls;

use std::path::Path;
use std::time::Duration;

use super::pairs::Written;
use super::{Refusal, sql_server};
use crate::azure::identity::IdentityConfig;
use crate::config::Settings;
use crate::config::connection::{Login, Server, Tls, TlsMode, is_loopback};
use crate::config::secret::Secret;
use names::Name;

/// Where a connection was found, for what stands beside it.
pub(super) struct Context<'a> {
    pub(super) settings: &'a Settings,
    /// The app root: where a relative path begins.
    pub(super) root: &'a Path,
    /// Of the app setting.
    pub(super) name: &'a str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Postgres,
    /// MySQL and MariaDB.
    MySql,
}

/// `typed`: what the portal says with the prefix of the setting.
pub(super) fn server(
    written: Written,
    typed: Option<Kind>,
    context: &Context<'_>,
) -> Result<(Kind, Server), Refusal> {
    let values = Values::read(&written.pairs)?;
    let (host, port) = address(&values)?;
    let kind = match written.kind.or(typed) {
        Some(kind) => kind,
        None => names::kind(&written.pairs, &host, port)?,
    };
    let database = values.get(Name::Database).ok_or_else(|| {
        Refusal::new(
            "the connection names no database",
            "add it: Database=… or …/DATABASE at the end of a URL",
        )
    })?;
    let user = values.get(Name::User).ok_or_else(|| {
        Refusal::new(
            "the connection names no user",
            "add it: User Id=… or USER:PASSWORD@ in a URL",
        )
    })?;
    let tls = tls::tls(&values, is_loopback(&host), context)?;
    let (login, tls) = login(&values, tls, is_loopback(&host), context)?;
    let server = Server {
        port: port.unwrap_or(match kind {
            Kind::Postgres => 5432,
            Kind::MySql => 3306,
        }),
        database: database.to_owned(),
        user: Secret::new(user),
        login,
        tls,
        connect_timeout: connect_timeout(&values)?,
        most_connections: most_connections(&values)?,
        host,
    };
    Ok((kind, server))
}

/// A password, or the identity whose token takes its place. A token opens more than this database:
/// it goes to no server that has not proved who it is.
fn login(
    values: &Values<'_>,
    tls: Tls,
    loopback: bool,
    context: &Context<'_>,
) -> Result<(Login, Tls), Refusal> {
    const KEYS: [&str; 4] = ["credential", "tenantId", "clientId", "clientSecret"];
    let name = context.name;
    let by_token = KEYS
        .iter()
        .any(|key| context.settings.filled(&format!("{name}__{key}")).is_some());
    let password = values.get(Name::Password);
    if !by_token {
        let login = password.map_or(Login::Nothing, |text| Login::Password(Secret::new(text)));
        return Ok((login, tls));
    }
    if password.is_some() {
        return Err(Refusal::new(
            format!(
                "the connection has a password, and {name}__credential or its siblings ask for a token"
            ),
            "remove the one that is not meant",
        ));
    }
    let identity = IdentityConfig::resolve(context.settings, name)
        .map_err(|fault| Refusal::new(fault.problem, fault.hint))?;
    let mode = match tls.mode {
        _ if loopback => tls.mode,
        TlsMode::Disable | TlsMode::Prefer => {
            return Err(Refusal::new(
                "a token must not travel readable, and the sslmode of the connection allows that",
                "remove sslmode, or write sslmode=verify-full",
            ));
        }
        // What the portal hands out.
        TlsMode::Require => TlsMode::VerifyFull,
        verified => verified,
    };
    Ok((Login::Token(identity), Tls { mode, ..tls }))
}

/// At most one value for each name, and none that the portal left open.
struct Values<'a>(Vec<(Name, &'a str)>);

impl<'a> Values<'a> {
    fn read(pairs: &'a [(String, String)]) -> Result<Self, Refusal> {
        let mut read: Vec<(Name, &str)> = Vec::new();
        for (index, (written, value)) in pairs.iter().enumerate() {
            let name = Name::parse(written, index)?;
            if value.is_empty() {
                continue;
            }
            if read.iter().any(|(known, _)| *known == name) {
                return Err(Refusal::new(
                    format!("the connection says {} twice", name.example()),
                    "keep one of them; put a password with special characters into quotes",
                ));
            }
            let open = value.starts_with('{') && value.ends_with('}');
            if open && ["your", "path"].iter().any(|word| value.contains(word)) {
                return Err(Refusal::new(
                    format!("{} is still the portal's placeholder", name.example()),
                    "put the real value in its place, without braces",
                ));
            }
            read.push((name, value));
        }
        Ok(Self(read))
    }

    fn get(&self, name: Name) -> Option<&'a str> {
        let found = self.0.iter().find(|(known, _)| *known == name)?;
        Some(found.1)
    }
}

/// Host and port; `host:port` is understood as well.
fn address(values: &Values<'_>) -> Result<(String, Option<u16>), Refusal> {
    let host = values.get(Name::Host).ok_or_else(|| {
        Refusal::new(
            "the connection names no server",
            "add it: Server=… or Host=…, or HOST in a URL",
        )
    })?;
    let host = host.strip_prefix("tcp:").unwrap_or(host);
    if host.ends_with(".database.windows.net") || host.contains(".database.windows.net,") {
        return Err(sql_server());
    }
    if host.starts_with('/') {
        return Err(Refusal::new(
            "the connection names a unix socket",
            "name a host; on this machine 127.0.0.1",
        ));
    }
    if host.contains(',') {
        return Err(Refusal::new(
            "the connection names several servers",
            "name the one to read from",
        ));
    }
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let (host, beside) = match (bracketed, host.split_once(':')) {
        (Some(host), _) => (host, None),
        (None, Some((name, port))) if !port.contains(':') => (name, Some(port)),
        (None, _) => (host, None),
    };
    let legal = |b: u8| b.is_ascii_alphanumeric() || b"-_.:".contains(&b) || !b.is_ascii();
    if host.is_empty() || !host.bytes().all(legal) {
        return Err(Refusal::new(
            "the connection names no server that can be read",
            "check it for special characters in the user or the password: percent-encode them in a \
             URL, put them into quotes elsewhere",
        ));
    }
    let port = match (values.get(Name::Port), beside) {
        (Some(_), Some(_)) => {
            return Err(Refusal::new(
                "the connection says Port twice",
                "keep one of them",
            ));
        }
        (Some(port), None) | (None, Some(port)) => {
            let number = port.parse().ok().filter(|port| *port > 0);
            Some(number.ok_or_else(|| {
                Refusal::new(
                    "the port of the connection is not a number from 1 to 65535",
                    "correct it; in a URL, a : in the password is %3A and an @ is %40",
                )
            })?)
        }
        (None, None) => None,
    };
    Ok((host.to_lowercase(), port))
}

fn connect_timeout(values: &Values<'_>) -> Result<Option<Duration>, Refusal> {
    let Some(written) = values.get(Name::ConnectTimeout) else {
        return Ok(None);
    };
    let seconds = written.parse().ok().filter(|s| (1..=60).contains(s));
    let seconds = seconds.ok_or_else(|| {
        Refusal::new(
            "the connect time-out of the connection is not a number of seconds from 1 to 60",
            "correct it, or leave it out",
        )
    })?;
    Ok(Some(Duration::from_secs(seconds)))
}

fn most_connections(values: &Values<'_>) -> Result<Option<u32>, Refusal> {
    let Some(written) = values.get(Name::MostConnections) else {
        return Ok(None);
    };
    let most = written.parse().ok().filter(|n| (1..=1000).contains(n));
    let most = most.ok_or_else(|| {
        Refusal::new(
            "Max Pool Size of the connection is not a number from 1 to 1000",
            "correct it, or leave it out",
        )
    })?;
    Ok(Some(most))
}
