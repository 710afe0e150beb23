//! Connections to database servers: opened when first needed, pinned to known settings, checked
//! before they are used again, closed when nobody needs them.
//!
//! Nothing in here tries twice: who asks knows how often, and for how long.

mod fault;
mod mysql;
mod pool;
mod postgres;
mod shared;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::azure::Azure;
use crate::azure::identity::Credential;
use crate::clock::Clock;
use crate::config::connection::{Login, Roots, Server};
use crate::config::secret::Secret;

pub use fault::{DatabaseError, judge};
pub use pool::{Lent, Pool};
pub use shared::{Databases, Pools};

/// For opening a connection, unless the connection says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// To one server by one way of use, unless the connection says otherwise. Each is lent for one read, so
/// a few serve many pollers, and the smallest servers of Azure have 35 for everybody.
const MOST_CONNECTIONS: u32 = 8;
/// Nobody who reads rows or keeps state waits longer for a lock; the next tick comes soon.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// A transaction that nobody goes on with holds back the clean-up of the whole database.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(60);

/// Of Azure Database for PostgreSQL and for MySQL.
const TOKEN_SCOPE: &str = "https://ossrdbms-aad.database.windows.net/.default";

/// How a connection is used; pinned when it is opened, whatever the server, the database and the
/// role have as defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// As the server's list of connections shows it, e.g. `dbtick`.
    pub application: String,
    pub access: Access,
    /// The server ends a statement that takes longer.
    pub statement_timeout: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// Everything that opening a connection needs.
#[derive(Debug)]
pub struct Target {
    /// The app setting; errors name it in place of its value.
    setting: String,
    server: Server,
    session: Session,
    credential: Option<Credential>,
    clock: Arc<dyn Clock>,
}

/// A kind of server.
pub trait Engine: sqlx::Database {
    /// Its own among the pools of a process.
    fn among(pools: &mut Pools) -> &mut Vec<Pool<Self>>
    where
        Self: Sized;

    /// One try, which the caller bounds.
    fn open(
        target: &Target,
    ) -> impl Future<Output = Result<Self::Connection, DatabaseError>> + Send;
}

impl Target {
    #[must_use]
    pub fn new(
        setting: impl Into<String>,
        server: Server,
        session: Session,
        azure: &Azure,
    ) -> Self {
        Self {
            setting: setting.into(),
            credential: match &server.login {
                Login::Token(identity) => Some(azure.credential(identity)),
                Login::Nothing | Login::Password(_) => None,
            },
            server,
            session,
            clock: azure.clock(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.setting, &self.server, &self.session)
            == (&other.setting, &other.server, &other.session)
    }

    fn most_connections(&self) -> u32 {
        self.server.most_connections.unwrap_or(MOST_CONNECTIONS)
    }

    fn connect_timeout(&self) -> Duration {
        self.server.connect_timeout.unwrap_or(CONNECT_TIMEOUT)
    }

    /// What to send as the password. A token is kept by its credential and renewed before it expires.
    async fn password(&self) -> Result<Secret, DatabaseError> {
        if let Some(credential) = &self.credential {
            return match credential.token(TOKEN_SCOPE).await {
                Ok(token) => Ok(Secret::new(token.expose())),
                Err(error) if error.is_passing() => Err(DatabaseError::Unreachable {
                    context: format!("no token for {}", self.setting),
                    cause: Some(Box::new(error)),
                }),
                Err(error) => Err(DatabaseError::Refused {
                    what: format!("no token for {}", self.setting),
                    remedy: error.to_string(),
                }),
            };
        }
        Ok(match &self.server.login {
            Login::Password(password) => password.clone(),
            // Not left open: the client would look for one in the environment and in a file.
            Login::Nothing | Login::Token(_) => Secret::new(""),
        })
    }

    /// The certificates to trust beside those of the system, read here so that a missing file is
    /// told from a server that cannot be reached.
    async fn roots(&self) -> Result<Option<Vec<u8>>, DatabaseError> {
        match &self.server.tls.roots {
            None => Ok(None),
            Some(Roots::Pem(text)) => Ok(Some(text.clone().into_bytes())),
            Some(Roots::File(path)) => match tokio::fs::read(path).await {
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(DatabaseError::Refused {
                    what: format!(
                        "the certificate to trust for {} cannot be read: {error}",
                        self.setting
                    ),
                    remedy: format!(
                        "check the path in sslrootcert (relative to the app root), or put the \
                         certificate itself into the app setting {}__sslrootcert",
                        self.setting
                    ),
                }),
            },
        }
    }
}

/// Milliseconds, as servers want them; never zero, which means "for ever" to them.
fn milliseconds(duration: Duration) -> u128 {
    duration.as_millis().max(1)
}
