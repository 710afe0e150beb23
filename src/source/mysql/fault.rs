//! What the errors of MySQL and MariaDB mean for a source, in words that a person can act on. What
//! they mean for any user of a connection is in `database`.

use sqlx::Error;
use sqlx::mysql::MySqlDatabaseError;

use super::value::Misfit;
use crate::config::{Connection, SourceConfig};
use crate::database::judge;
use crate::source::SourceError;

/// Error numbers of the servers.
mod number {
    pub(super) const DATABASE_DENIED: u16 = 1044;
    pub(super) const UNKNOWN_COLUMN: u16 = 1054;
    pub(super) const DUPLICATE_COLUMN: u16 = 1060;
    pub(super) const SYNTAX: u16 = 1064;
    pub(super) const TABLE_DENIED: u16 = 1142;
    pub(super) const COLUMN_DENIED: u16 = 1143;
    pub(super) const NO_SUCH_TABLE: u16 = 1146;
    pub(super) const INVALID_VIEW: u16 = 1356;
    pub(super) const FUNCTION_DENIED: u16 = 1370;
    pub(super) const TABLE_CHANGED: u16 = 1412;
    pub(super) const RIGHT_DENIED: u16 = 1227;
    pub(super) const NOT_SUPPORTED: u16 = 1235;
    /// MySQL's word for a right to XA RECOVER that is missing.
    pub(super) const XA_ERROR: u16 = 1401;
}

/// A table was altered between the look at the catalogue and the read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Changed(pub(super) String);

/// Names the app setting instead of what is in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults<'a> {
    setting: &'a str,
    pub(super) database: &'a str,
}

impl<'a> Faults<'a> {
    pub(super) fn of_source(config: &'a SourceConfig) -> Self {
        let database = match &config.connection {
            Connection::MySql(server) => server.database.as_str(),
            _ => "",
        };
        Self {
            setting: &config.connection_name,
            database,
        }
    }

    /// For a table that no configuration names yet.
    pub(super) fn named(setting: &'a str, database: &'a str) -> Self {
        Self { setting, database }
    }

    pub(super) fn of(self, doing: &'static str, error: Error) -> SourceError {
        let setting = self.setting;
        if matches!(&error, Error::Decode(cause) if cause.is::<Changed>() || cause.is::<Misfit>()) {
            return altered(setting, error);
        }
        let Some(database) = database_error(&error) else {
            return SourceError::from(judge(setting, doing, error));
        };
        let text = database.message().to_owned();
        match database.number() {
            number::TABLE_DENIED
            | number::COLUMN_DENIED
            | number::DATABASE_DENIED
            | number::FUNCTION_DENIED => SourceError::Mismatch {
                what: format!(
                    "the user of {setting} may not read this, or it is not there: {text}"
                ),
                remedy: format!(
                    "run GRANT SELECT ON `{}`.* TO the user, or on the one table",
                    self.database
                ),
            },
            number::DUPLICATE_COLUMN => SourceError::Mismatch {
                what: format!("source.query selects two columns of one name: {text}"),
                remedy: "name the columns one by one, and rename one of the two by AS".into(),
            },
            number::TABLE_CHANGED => altered(setting, error),
            // The message says which name or word.
            number::UNKNOWN_COLUMN
            | number::NO_SUCH_TABLE
            | number::INVALID_VIEW
            | number::SYNTAX => SourceError::Query {
                context: format!("{doing} failed on {setting}: {text}"),
                cause: Box::new(error),
            },
            _ => SourceError::from(judge(setting, doing, error)),
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

/// The user may not ask this, or this server knows no such question.
pub(super) fn is_unanswered(error: &Error) -> bool {
    database_error(error).is_some_and(|error| {
        matches!(
            error.number(),
            number::TABLE_DENIED
                | number::COLUMN_DENIED
                | number::DATABASE_DENIED
                | number::RIGHT_DENIED
                | number::XA_ERROR
                | number::NOT_SUPPORTED
                | number::NO_SUCH_TABLE
                | number::SYNTAX
        )
    })
}

fn altered(setting: &str, error: Error) -> SourceError {
    SourceError::Unreachable {
        context: format!("a table of {setting} was altered while it was read: {error}"),
        cause: Some(Box::new(error)),
    }
}

fn database_error(error: &Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}
