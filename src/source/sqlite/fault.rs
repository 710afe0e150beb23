//! What SQLite's errors mean for the caller, in words that a person can act on.

use sqlx::Error;

use crate::source::SourceError;

/// Primary result codes (<https://sqlite.org/rescode.html>); extended ones hold them in the low byte.
mod code {
    pub(super) const BUSY: i32 = 5;
    pub(super) const LOCKED: i32 = 6;
    pub(super) const READONLY: i32 = 8;
    pub(super) const INTERRUPT: i32 = 9;
    pub(super) const IOERR: i32 = 10;
    pub(super) const CORRUPT: i32 = 11;
    pub(super) const CANTOPEN: i32 = 14;
    pub(super) const NOTADB: i32 = 26;
}

/// Names the app setting instead of what is in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults<'a> {
    pub(super) setting: &'a str,
}

impl Faults<'_> {
    pub(super) fn of(self, doing: &'static str, error: Error) -> SourceError {
        let setting = self.setting;
        match primary_code(&error) {
            Some(code::CANTOPEN) => SourceError::Mismatch {
                what: format!("the database file in app setting {setting} cannot be opened"),
                remedy: "check that the file exists and that this process may read it".into(),
            },
            Some(code::NOTADB) => SourceError::Mismatch {
                what: format!("the file in app setting {setting} is not an SQLite database"),
                remedy: "point the setting at the database file".into(),
            },
            Some(code::READONLY) => SourceError::Mismatch {
                what: format!("the database of {setting} is only ever read, and {doing} writes"),
                remedy: "make source.query and source.filter plain SELECT code".into(),
            },
            Some(code::INTERRUPT) => SourceError::Query {
                context: format!(
                    "{doing} on {setting} was ended because it took too long; see dbtick check for the \
                     index that is missing"
                ),
                cause: Box::new(error),
            },
            Some(code::BUSY | code::LOCKED) => {
                unreachable(format!("{setting} is locked by a writer"), error)
            }
            Some(code::IOERR) => {
                unreachable(format!("{setting} could not be read from its disk"), error)
            }
            Some(code::CORRUPT) => SourceError::Query {
                context: format!(
                    "the database of {setting} is damaged; run PRAGMA integrity_check on it"
                ),
                cause: Box::new(error),
            },
            Some(_) => SourceError::Query {
                context: format!("{doing} on {setting}"),
                cause: Box::new(error),
            },
            None => unreachable(setting.to_owned(), error),
        }
    }
}

fn unreachable(context: String, error: Error) -> SourceError {
    SourceError::Unreachable {
        context,
        cause: Some(Box::new(error)),
    }
}

fn primary_code(error: &Error) -> Option<i32> {
    let extended: i32 = error.as_database_error()?.code()?.parse().ok()?;
    Some(extended & 0xff)
}
