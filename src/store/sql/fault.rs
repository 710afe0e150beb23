//! What a failed statement says about the state: done, not done, or nobody knows.

use std::error::Error as StdError;

use sqlx::Error;

use super::backend::Failure;
use super::statements::Statements;
use crate::database::{DatabaseError, judge};
use crate::store::StoreError;

/// Primary result codes of SQLite; extended ones hold them in the low byte.
mod sqlite {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const IOERR: i32 = 10;
}

/// Names the app setting instead of what is in it.
#[derive(Clone, Copy)]
pub(super) struct Faults<'a> {
    pub(super) setting: &'a str,
    pub(super) statements: &'a Statements,
}

impl Faults<'_> {
    pub(super) fn reading(self, failure: Failure) -> StoreError {
        match self.settled(failure, "reading the state") {
            Ok(error) => error,
            Err(error) => self.unreachable(error),
        }
    }

    /// A server that answered with an error has not committed; without an answer nobody knows.
    pub(super) fn writing(self, failure: Failure) -> StoreError {
        match self.settled(failure, "writing the state") {
            Ok(error) => error,
            Err(error) => StoreError::Unknown {
                context: format!("no answer came from {}", self.setting),
                cause: Box::new(error),
            },
        }
    }

    pub(super) fn creating(self, failure: Failure) -> StoreError {
        match self.settled(failure, "creating the table of the state") {
            Ok(StoreError::Refused { cause, .. }) => self.lacking(cause),
            Ok(error) => error,
            Err(error) => self.unreachable(error),
        }
    }

    /// The statements that end the lack of a right; a table that is there stays as it is.
    fn lacking(self, cause: Box<dyn StdError + Send + Sync>) -> StoreError {
        let Statements {
            create_table,
            grant,
            ..
        } = self.statements;
        let grant = match grant.as_str() {
            "" => String::new(),
            grant => format!("; {grant}"),
        };
        StoreError::Refused {
            context: format!(
                "the table of the state cannot be used on {}; let an owner of the database run: \
                 {create_table}{grant}",
                self.setting
            ),
            cause,
        }
    }

    /// `Err`: the connection broke before an answer came.
    fn settled(self, failure: Failure, doing: &str) -> Result<StoreError, Error> {
        let error = match failure {
            Failure::Opening(error) => return Ok(self.judged(error)),
            Failure::Statement(error) => error,
        };
        let unanswered = match &error {
            Error::Database(answer) => match sqlite_code(&**answer) {
                Some(sqlite::BUSY | sqlite::LOCKED) => return Ok(self.unreachable(error)),
                Some(sqlite::IOERR) => true,
                Some(_) => return Ok(self.refused(error)),
                None if is_lack_of_right(&**answer) => return Ok(self.lacking(Box::new(error))),
                None => is_end_of_connection(&**answer),
            },
            // SQLite's pool: the statement was not begun.
            Error::PoolTimedOut => return Ok(self.unreachable(error)),
            Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed => true,
            _ => false,
        };
        if unanswered {
            return Err(error);
        }
        Ok(self.judged(judge(self.setting, doing, error)))
    }

    fn judged(self, error: DatabaseError) -> StoreError {
        match error {
            DatabaseError::Unreachable { context, cause } => StoreError::Unreachable {
                context,
                cause: cause.unwrap_or_else(|| "no connection".into()),
            },
            DatabaseError::Refused { what, remedy } => StoreError::Refused {
                context: what,
                cause: remedy.into(),
            },
            DatabaseError::Query { context, cause } => StoreError::Refused { context, cause },
        }
    }

    fn unreachable(self, error: Error) -> StoreError {
        StoreError::Unreachable {
            context: self.setting.to_owned(),
            cause: Box::new(error),
        }
    }

    fn refused(self, error: Error) -> StoreError {
        StoreError::Refused {
            context: self.setting.to_owned(),
            cause: Box::new(error),
        }
    }
}

pub(super) fn is_missing_table(failure: &Failure) -> bool {
    answer(failure).is_some_and(|error| match mysql_number(error) {
        Some(number) => number == 1146,
        None => match sqlite_code(error) {
            Some(_) => error.message().contains("no such table"),
            None => error.code().as_deref() == Some("42P01"),
        },
    })
}

/// Two that create one table at the same moment meet in PostgreSQL's catalogue.
pub(super) fn is_existing_table(failure: &Failure) -> bool {
    answer(failure).is_some_and(|error| {
        mysql_number(error) == Some(1050)
            || matches!(error.code().as_deref(), Some("42P07" | "42710" | "23505"))
    })
}

fn is_lack_of_right(error: &dyn sqlx::error::DatabaseError) -> bool {
    match mysql_number(error) {
        Some(number) => matches!(number, 1044 | 1142 | 1143),
        None => error.code().as_deref() == Some("42501"),
    }
}

/// The server ends the connection, whatever it was doing.
fn is_end_of_connection(error: &dyn sqlx::error::DatabaseError) -> bool {
    match mysql_number(error) {
        Some(number) => matches!(number, 1053 | 1152 | 1184 | 1317 | 1927),
        None => error.code().is_some_and(|code| {
            code.starts_with("08") || matches!(&*code, "57P01" | "57P02" | "57P03" | "25P03")
        }),
    }
}

fn answer(failure: &Failure) -> Option<&dyn sqlx::error::DatabaseError> {
    match failure {
        Failure::Statement(Error::Database(error)) => Some(&**error),
        _ => None,
    }
}

fn mysql_number(error: &dyn sqlx::error::DatabaseError) -> Option<u16> {
    let error = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>()?;
    Some(error.number())
}

fn sqlite_code(error: &dyn sqlx::error::DatabaseError) -> Option<i32> {
    error.try_downcast_ref::<sqlx::sqlite::SqliteError>()?;
    let extended: i32 = error.code()?.parse().ok()?;
    Some(extended & 0xff)
}
