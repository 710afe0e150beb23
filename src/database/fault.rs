//! What the errors of servers mean, in words that a person can act on.
//!
//! What a server says while a connection is opened quotes users and databases, which are parts of
//! the setting's value: of that only the code is shown.

use std::error::Error as StdError;
use std::io;

use rustls::CertificateError;
use sqlx::Error;

use super::Target;
use crate::config::connection::TlsMode;

/// What went wrong, by what the caller should do about it.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Nothing was done, or what was begun was undone: try again.
    #[error("{context}")]
    Unreachable {
        context: String,
        #[source]
        cause: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// A person must act.
    #[error("{what}; {remedy}")]
    Refused { what: String, remedy: String },
    /// The statement failed.
    #[error("{context}")]
    Query {
        context: String,
        #[source]
        cause: Box<dyn StdError + Send + Sync>,
    },
}

/// What became of a statement on an open connection. `doing` completes "… failed on SETTING".
#[must_use]
pub fn judge(setting: &str, doing: &str, error: Error) -> DatabaseError {
    let Error::Database(database) = &error else {
        return match error {
            Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed => {
                DatabaseError::Unreachable {
                    context: format!("the connection to {setting} broke: {doing}"),
                    cause: Some(Box::new(error)),
                }
            }
            _ => DatabaseError::Query {
                context: format!("{doing} failed on {setting}"),
                cause: Box::new(error),
            },
        };
    };
    match Meaning::of(&**database) {
        Meaning::Busy => DatabaseError::Unreachable {
            context: format!("{setting} cannot do it now: {doing}"),
            cause: Some(Box::new(error)),
        },
        Meaning::Locked => DatabaseError::Unreachable {
            context: format!("{setting} is locked by another transaction: {doing}"),
            cause: Some(Box::new(error)),
        },
        Meaning::NoRight => DatabaseError::Refused {
            what: format!(
                "the user of {setting} lacks a right: {}",
                database.message()
            ),
            remedy: "grant it, or name another user in the setting".into(),
        },
        Meaning::ReadOnly => DatabaseError::Refused {
            what: format!("the database of {setting} is only ever read, and {doing} writes"),
            remedy: "make source.query and source.filter plain SELECT code".into(),
        },
        Meaning::TooSlow => DatabaseError::Query {
            context: format!(
                "{doing} took too long on {setting}; an index on the cursor and the key makes it \
                 quick"
            ),
            cause: Box::new(error),
        },
        _ => DatabaseError::Query {
            context: format!("{doing} failed on {setting}"),
            cause: match unquoted(&**database) {
                Some(unquoted) => Box::new(unquoted),
                None => Box::new(error),
            },
        },
    }
}

/// What a server says about a value, without the value (S7).
#[derive(Debug, thiserror::Error)]
#[error("the database says: {0}")]
struct Unquoted(String);

/// Data exceptions, and what MySQL has no class for, quote the values that they are about. `None`: of no
/// such class, and a name or a word in quotes is what a person needs to know.
fn unquoted(error: &dyn sqlx::error::DatabaseError) -> Option<Unquoted> {
    let class = error.code()?;
    if !class.starts_with("22") && !class.starts_with("HY") {
        return None;
    }
    let text = error.message();
    let quotes = ['"', '\''];
    let text = match (text.find(quotes), text.rfind(quotes)) {
        // A value may hold quotes of its own.
        (Some(first), Some(last)) => format!("{}…{}", &text[..first], &text[last + 1..]),
        _ => text.to_owned(),
    };
    Some(Unquoted(format!("{text} (code {})", code(error))))
}

/// Why no connection could be opened.
pub(super) fn opening(target: &Target, error: Error) -> DatabaseError {
    let setting = &target.setting;
    match &error {
        Error::Database(database) => refusal(target, Meaning::of(&**database), &code(&**database)),
        Error::Io(io) => match certificate_fault(io) {
            Some((what, remedy)) => DatabaseError::Refused {
                what: format!("the certificate of the server of {setting} {what}"),
                remedy: remedy.replace("SETTING", setting),
            },
            None => DatabaseError::Unreachable {
                context: unreachable(setting, io),
                cause: Some(Box::new(error)),
            },
        },
        Error::Tls(cause) if cause.to_string().contains("does not support TLS") => {
            DatabaseError::Refused {
                what: format!("the server of {setting} offers no TLS"),
                remedy: "turn TLS on at the server; sslmode=disable in the connection sends \
                         password and rows readable"
                    .into(),
            }
        }
        Error::Tls(_) => DatabaseError::Refused {
            what: format!("TLS with the server of {setting} cannot be set up: {error}"),
            remedy: "check sslmode and sslrootcert in the connection".into(),
        },
        // How the client for PostgreSQL says that a password does not survive SASLprep (RFC 4013).
        Error::Configuration(cause) if !cause.to_string().contains("RSA") => {
            DatabaseError::Refused {
                what: format!("the user or the password in {setting} has characters that cannot be sent"),
                remedy: "choose another password (or user): letters, digits and signs of any script, but no \
                         emoji and no control characters"
                    .into(),
            }
        }
        // How the client for MySQL says that it would have to encrypt a password itself.
        Error::Configuration(_) => DatabaseError::Refused {
            what: format!("the server of {setting} takes this password over TLS only"),
            remedy: "write sslmode=verify-full or require into the connection, and turn TLS on at \
                     the server"
                .into(),
        },
        _ => DatabaseError::Unreachable {
            context: format!(
                "what answers at the address in {setting} does not speak the protocol of the \
                 database; check host and port"
            ),
            cause: Some(Box::new(error)),
        },
    }
}

fn unreachable(setting: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "nothing listens at the address in {setting}; check host and port, and that the server \
             runs"
        ),
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => {
            format!("the server of {setting} closed the connection; it may be starting or stopping")
        }
        _ if error.to_string().contains("lookup") => {
            format!("the host name in {setting} cannot be resolved; check it")
        }
        _ => format!("the server of {setting} cannot be reached; check host, port and firewall"),
    }
}

fn certificate_fault(error: &io::Error) -> Option<(&'static str, &'static str)> {
    let fault = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    const TRUST: &str = "put the certificate of its authority into the app setting \
        SETTING__sslrootcert (path or PEM text); sslmode=require in the connection encrypts without \
        looking at the certificate";
    Some(match fault {
        rustls::Error::InvalidCertificate(fault) => match fault {
            CertificateError::UnknownIssuer => {
                ("comes from an authority that is not trusted here", TRUST)
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                (
                    "names another host",
                    "write the host in SETTING as the certificate names it; sslmode=verify-ca trusts the \
                 authority without looking at the name",
                )
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => (
                "has expired",
                "renew it at the server, and check the clock of this machine",
            ),
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => (
                "is not valid yet",
                "check the clocks of the server and of this machine",
            ),
            _ => ("is not acceptable", TRUST),
        },
        _ => return None,
    })
}

/// What a server means with a code, by what one can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    WrongPassword,
    NotAdmitted,
    NoDatabase,
    NoRight,
    NeedsTls,
    Pooler,
    ReadOnly,
    /// Too many connections, starting, stopping.
    Busy,
    /// A lock or a deadlock: undone, and it may work next time.
    Locked,
    TooSlow,
    Other,
}

impl Meaning {
    fn of(error: &dyn sqlx::error::DatabaseError) -> Self {
        if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
            return Self::of_mysql(error.number());
        }
        match error.code().as_deref() {
            Some(code) => Self::of_postgres(code),
            None => Self::Other,
        }
    }

    /// By SQLSTATE: <https://www.postgresql.org/docs/current/errcodes-appendix.html>
    fn of_postgres(code: &str) -> Self {
        match code {
            "28P01" => Self::WrongPassword,
            "28000" => Self::NotAdmitted,
            "3D000" => Self::NoDatabase,
            "42501" => Self::NoRight,
            "25006" => Self::ReadOnly,
            "08P01" => Self::Pooler,
            "57014" => Self::TooSlow,
            "55P03" | "40001" | "40P01" => Self::Locked,
            "57P01" | "57P02" | "57P03" | "25P03" => Self::Busy,
            _ if code.starts_with("53") || code.starts_with("08") => Self::Busy,
            _ => Self::Other,
        }
    }

    /// By number: <https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html>,
    /// <https://mariadb.com/kb/en/mariadb-error-code-reference/>
    fn of_mysql(number: u16) -> Self {
        match number {
            1045 | 1698 => Self::WrongPassword,
            // Host blocked or not allowed; password to be changed; account locked; unknown plugin.
            1129 | 1130 | 1820 | 1862 | 3118 | 4151 | 1251 | 1524 => Self::NotAdmitted,
            1049 => Self::NoDatabase,
            1044 | 1142 | 1143 | 1227 | 1370 => Self::NoRight,
            3159 | 4160 => Self::NeedsTls,
            1792 | 1290 => Self::ReadOnly,
            1205 | 1213 => Self::Locked,
            // Too many connections, shutdown, connection or query killed.
            1040 | 1203 | 1226 | 1053 | 1077 | 1079 | 1080 | 1152 | 1184 | 1317 | 1927 => {
                Self::Busy
            }
            1969 | 3024 => Self::TooSlow,
            _ => Self::Other,
        }
    }
}

fn code(error: &dyn sqlx::error::DatabaseError) -> String {
    match error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        Some(error) => error.number().to_string(),
        None => error.code().unwrap_or_default().into_owned(),
    }
}

fn refusal(target: &Target, meaning: Meaning, code: &str) -> DatabaseError {
    let setting = &target.setting;
    let (what, remedy) = match meaning {
        Meaning::WrongPassword => (
            format!("the server of {setting} does not accept the user with this password"),
            format!(
                "check both in the app setting {setting}; in a URL they are percent-encoded, \
                 elsewhere special characters stand in quotes{}",
                // Numbers are those of MySQL and MariaDB.
                if code != "28P01" && target.server.tls.mode < TlsMode::Require {
                    "; MariaDB says the same where it takes TLS only: try sslmode=require"
                } else {
                    ""
                }
            ),
        ),
        Meaning::NotAdmitted => (
            format!("the server of {setting} admits no such connection"),
            "check the user in the setting, whether the server asks for TLS (sslmode), and its \
             rules for this machine (pg_hba.conf, firewall, account)"
                .to_owned(),
        ),
        Meaning::NoDatabase => (
            format!("the server of {setting} has no database of this name"),
            format!("check the name in the app setting {setting}; upper and lower case count"),
        ),
        Meaning::NoRight => (
            format!("the user of {setting} may not use this database"),
            "grant it CONNECT (PostgreSQL) or SELECT (MySQL), or name another user".to_owned(),
        ),
        Meaning::NeedsTls => (
            format!("the server of {setting} takes connections over TLS only"),
            "write sslmode=verify-full or require into the connection".to_owned(),
        ),
        Meaning::Pooler => (
            format!("what answers for {setting} refuses the settings of the session"),
            "connect to PostgreSQL itself, not to a pooler in transaction mode such as PgBouncer: \
             the session must be read-only, and a pooler would share that with others"
                .to_owned(),
        ),
        Meaning::Busy | Meaning::Locked | Meaning::TooSlow => {
            return DatabaseError::Unreachable {
                context: format!(
                    "the server of {setting} takes no connection now (code {code}): it is starting \
                     or stopping, or has too many"
                ),
                cause: None,
            };
        }
        Meaning::ReadOnly | Meaning::Other => (
            format!("the server of {setting} refused the connection"),
            "look up the code, and see the server's log".to_owned(),
        ),
    };
    DatabaseError::Refused {
        what: format!("{what} (code {code})"),
        remedy,
    }
}
