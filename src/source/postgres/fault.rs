//! What PostgreSQL's errors mean for the caller, in words that a person can act on.

use sqlx::Error;

use crate::config::{CleanUpHow, Rows, SourceConfig};
use crate::database::judge;
use crate::source::keyset::Dialect;
use crate::source::{SourceError, clean_up};

/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>
const NO_RIGHT: &str = "42501";
const CANCELLED: &str = "57014";

/// The columns of an answer are not those that the catalogue had a moment ago.
#[derive(Debug, thiserror::Error)]
#[error("the columns have other types than the catalogue said")]
pub(super) struct Changed;

/// Names the app setting instead of what is in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Faults<'a> {
    setting: &'a str,
    rows: &'a Rows,
    /// The statement that makes the index which a page wants.
    index: Option<&'a str>,
}

impl<'a> Faults<'a> {
    pub(super) fn of(config: &'a SourceConfig) -> Self {
        Self {
            setting: &config.connection_name,
            rows: &config.rows,
            index: None,
        }
    }

    /// For a table that no configuration names yet.
    pub(super) fn named(setting: &'a str, rows: &'a Rows) -> Self {
        Self {
            setting,
            rows,
            index: None,
        }
    }

    pub(super) fn wanting(self, index: Option<&'a str>) -> Self {
        Self { index, ..self }
    }

    /// Needs another right than reading does.
    pub(super) fn cleaning_up(self, how: &CleanUpHow, error: Error) -> SourceError {
        let code = error.as_database_error().and_then(|error| error.code());
        match code.as_deref() {
            Some(NO_RIGHT) => clean_up::no_right(self.setting, how, &error),
            _ => self.explain("cleaning up", error),
        }
    }

    pub(super) fn explain(self, doing: &'static str, error: Error) -> SourceError {
        let setting = self.setting;
        if is_change(&error) {
            return SourceError::Unreachable {
                context: format!(
                    "the schema of {setting} changed during {doing}; it is looked at again"
                ),
                cause: None,
            };
        }
        let code = error.as_database_error().and_then(|error| error.code());
        match code.as_deref() {
            Some(NO_RIGHT) => self.no_right(&error),
            Some(CANCELLED) => SourceError::Query {
                context: format!(
                    "{doing} on {setting} was ended by statement_timeout; {}",
                    self.index.map_or_else(
                        || "see dbtick check for the index that is missing".to_owned(),
                        |index| format!("if no index has this order, make one: {index}")
                    )
                ),
                cause: Box::new(error),
            },
            _ => judge(setting, doing, error).into(),
        }
    }

    /// sqlx cannot name the types of some columns (multiranges, for one).
    pub(super) fn describing_query(self, error: Error) -> SourceError {
        match &error {
            Error::ColumnDecode { .. } | Error::Decode(_) | Error::TypeNotFound { .. } => {
                SourceError::Mismatch {
                    what: "source.query has a column of a type that is not known here".into(),
                    remedy: "cast multiranges and other new types to text in the query".into(),
                }
            }
            _ => self.explain("source.query", error),
        }
    }

    fn no_right(self, error: &Error) -> SourceError {
        let message = error
            .as_database_error()
            .map_or("", |error| error.message());
        let remedy = match self.rows {
            Rows::Table { schema, table } => {
                let quote = |name: &str| Dialect::Postgres.quote(name);
                let schema = quote(schema.as_deref().unwrap_or("public"));
                let table = quote(table);
                format!(
                    "as its owner, run GRANT USAGE ON SCHEMA {schema} TO <user>; \
                     GRANT SELECT ON {schema}.{table} TO <user>"
                )
            }
            Rows::Query(_) => {
                "grant SELECT on every table of source.query to the user, and EXECUTE on its \
                 functions"
                    .into()
            }
        };
        SourceError::Mismatch {
            what: format!("the user of {} may not read: {message}", self.setting),
            remedy,
        }
    }
}

fn is_change(error: &Error) -> bool {
    matches!(error, Error::Decode(cause) if cause.is::<Changed>())
}
