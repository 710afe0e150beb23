//! Which database, and how to reach it. Nothing in here prints a user or a password.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::azure::identity::IdentityConfig;

use super::secret::Secret;
use super::settings::Settings;

/// Which database, and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Connection {
    Sqlite {
        file: PathBuf,
    },
    Postgres(Server),
    /// MySQL and MariaDB.
    MySql(Server),
}

/// What is wrong with a connection, and what to do about it; shows none of its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} ({hint})")]
pub struct Refusal {
    pub problem: String,
    pub hint: String,
}

/// A database on a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Server {
    /// A name or an address, lower-cased, without brackets.
    pub host: String,
    pub port: u16,
    pub database: String,
    pub user: Secret,
    pub login: Login,
    pub tls: Tls,
    /// For opening one connection; `None`: the default of `database`.
    pub connect_timeout: Option<Duration>,
    /// Open at the same time, by one process; `None`: the default of `database`.
    pub most_connections: Option<u32>,
}

/// How a connection proves who it is.
#[derive(Clone, PartialEq, Eq)]
pub enum Login {
    /// The server trusts the user by other means.
    Nothing,
    Password(Secret),
    /// The password is a token of Entra ID, fetched when a connection is opened. Its server is
    /// always a verified one, or on this machine.
    Token(IdentityConfig),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    pub mode: TlsMode,
    /// Trusted beside the roots of the system; only with a mode that verifies.
    pub roots: Option<Roots>,
}

/// From weak to strong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsMode {
    Disable,
    /// If the server offers it.
    Prefer,
    /// Encrypted, to whoever answers.
    Require,
    /// The certificate must be trusted.
    VerifyCa,
    /// The certificate must be trusted and name the host.
    VerifyFull,
}

/// Certificates of authorities.
#[derive(Clone, PartialEq, Eq)]
pub enum Roots {
    File(PathBuf),
    Pem(String),
}

impl Connection {
    /// What the app setting `name` means; a relative path begins at `root`.
    pub fn resolve(settings: &Settings, root: &Path, name: &str) -> Result<Self, Refusal> {
        super::parse::named_connection(settings, root, name).map(|(_, connection)| connection)
    }
}

impl Refusal {
    pub(super) fn new(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            problem: problem.into(),
            hint: hint.into(),
        }
    }
}

impl Server {
    /// Without user, password, kind of login and TLS: what names the data (B7).
    #[must_use]
    pub fn identity(&self, scheme: &str) -> String {
        let Self {
            host,
            port,
            database,
            ..
        } = self;
        if host.contains(':') {
            format!("{scheme}://[{host}]:{port}/{database}")
        } else {
            format!("{scheme}://{host}:{port}/{database}")
        }
    }

    #[must_use]
    pub fn is_loopback(&self) -> bool {
        is_loopback(&self.host)
    }
}

/// Whether nothing leaves this machine on the way to the host.
pub(super) fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

impl TlsMode {
    #[must_use]
    pub fn verifies(self) -> bool {
        self >= Self::VerifyCa
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            host,
            port,
            database,
            user: _,
            login,
            tls,
            connect_timeout,
            most_connections,
        } = self;
        f.debug_struct("Server")
            .field("host", host)
            .field("port", port)
            .field("database", database)
            .field("login", login)
            .field("tls", tls)
            .field("connect_timeout", connect_timeout)
            .field("most_connections", most_connections)
            .finish_non_exhaustive()
    }
}

/// The kind alone.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Password(_) => "Password",
            Self::Token(_) => "Token",
        })
    }
}

/// A certificate is public, and long.
impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Pem(_) => f.write_str("Pem"),
        }
    }
}
