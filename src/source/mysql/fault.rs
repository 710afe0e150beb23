//! What the errors of MySQL and MariaDB mean for the caller, in words that a person can act on.

use sqlx::Error;
use sqlx::mysql::MySqlDatabaseError;

use super::value::Misfit;
use crate::config::SourceConfig;
use crate::source::SourceError;

/// Error numbers of the servers; the words for each are below.
mod number {
    pub(super) const TOO_MANY_CONNECTIONS: u16 = 1040;
    pub(super) const DATABASE_DENIED: u16 = 1044;
    pub(super) const SHUTDOWN: u16 = 1053;
    pub(super) const UNKNOWN_COLUMN: u16 = 1054;
    pub(super) const DUPLICATE_COLUMN: u16 = 1060;
    pub(super) const TABLE_DENIED: u16 = 1142;
    pub(super) const COLUMN_DENIED: u16 = 1143;
    pub(super) const NO_SUCH_TABLE: u16 = 1146;
    pub(super) const LOCK_WAIT: u16 = 1205;
    pub(super) const DEADLOCK: u16 = 1213;
    pub(super) const FUNCTION_DENIED: u16 = 1370;
    pub(super) const READ_ONLY: u16 = 1290;
    pub(super) const INTERRUPTED: u16 = 1317;
    pub(super) const READ_ONLY_TRANSACTION: u16 = 1792;
    pub(super) const KILLED: u16 = 1927;
    pub(super) const STATEMENT_TIME_MARIADB: u16 = 1969;
    pub(super) const TABLE_CHANGED: u16 = 1412;
    pub(super) const STATEMENT_TIME_MYSQL: u16 = 3024;
    pub(super) const SERVER_ISOLATED: u16 = 3168;
    pub(super) const IDLE: u16 = 4031;
}

/// A table was altered between the look at the catalogue and the read.
#[derive(Debug, thiserror::Error)]
#[error("what arrived is not what the catalogue announced")]
pub(super) struct Changed;

/// Names the app setting instead of what is in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults<'a> {
    pub(super) setting: &'a str,
    pub(super) database: &'a str,
}

impl Faults<'_> {
    pub(super) fn of(self, doing: &'static str, error: Error) -> SourceError {
        let setting = self.setting;
        let Some(database) = database_error(&error) else {
            return match &error {
                Error::Decode(cause) if cause.is::<Changed>() || cause.is::<Misfit>() => {
                    let context = format!("a table of {setting} was altered while it was read");
                    unreachable(context, error)
                }
                _ => unreachable(setting.to_owned(), error),
            };
        };
        match database.number() {
            number::TABLE_DENIED
            | number::COLUMN_DENIED
            | number::DATABASE_DENIED
            | number::FUNCTION_DENIED => SourceError::Mismatch {
                what: format!(
                    "the user of {setting} may not read this, or it does not exist: {}",
                    database.message()
                ),
                remedy: format!(
                    "run GRANT SELECT ON `{}`.* TO the user, or on the one table",
                    self.database
                ),
            },
            number::READ_ONLY | number::READ_ONLY_TRANSACTION => SourceError::Mismatch {
                what: format!("the database of {setting} is only ever read, and {doing} writes"),
                remedy: "make source.query and source.filter plain SELECT code".into(),
            },
            number::DUPLICATE_COLUMN => SourceError::Mismatch {
                what: format!(
                    "source.query selects two columns of one name: {}",
                    database.message()
                ),
                remedy: "name the columns one by one, and give one of them another name by AS"
                    .into(),
            },
            number::UNKNOWN_COLUMN | number::NO_SUCH_TABLE => {
                let text = database.message().to_owned();
                query(format!("{doing} on {setting}: {text}"), error)
            }
            number::LOCK_WAIT | number::DEADLOCK => {
                unreachable(format!("{setting} is locked by a writer"), error)
            }
            number::STATEMENT_TIME_MARIADB | number::STATEMENT_TIME_MYSQL | number::INTERRUPTED => {
                unreachable(
                    format!(
                        "{doing} on {setting} was stopped by the statement time-out; dbtick check tells \
                     whether an index is missing"
                    ),
                    error,
                )
            }
            number::TABLE_CHANGED => unreachable(
                format!("a table of {setting} was altered while it was read"),
                error,
            ),
            number::TOO_MANY_CONNECTIONS => unreachable(
                format!("the server of {setting} takes no more connections"),
                error,
            ),
            number::SHUTDOWN | number::KILLED | number::SERVER_ISOLATED | number::IDLE => {
                unreachable(
                    format!("the server of {setting} closed the connection"),
                    error,
                )
            }
            _ => {
                let text = database.message().to_owned();
                query(format!("{doing} on {setting}: {text}"), error)
            }
        }
    }

    pub(super) fn is_forbidden(self, error: &Error) -> bool {
        database_error(error).is_some_and(|error| {
            matches!(
                error.number(),
                number::TABLE_DENIED | number::COLUMN_DENIED | number::DATABASE_DENIED
            )
        })
    }
}

impl<'a> Faults<'a> {
    pub(super) fn of_source(config: &'a SourceConfig) -> Self {
        let database = match &config.connection {
            crate::config::Connection::MySql(server) => server.database.as_str(),
            _ => "",
        };
        Self {
            setting: &config.connection_name,
            database,
        }
    }
}

fn database_error(error: &Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

fn unreachable(context: String, error: Error) -> SourceError {
    SourceError::Unreachable {
        context,
        cause: Some(Box::new(error)),
    }
}

fn query(context: String, error: Error) -> SourceError {
    SourceError::Query {
        context,
        cause: Box::new(error),
    }
}
