//! A table, how it is written to, and how it is polled.

use dbtick::config::{LateCommits, LateMode};

/// In statements, `{key}`, `{body}` and `{drawn}` stand for what a writer has chosen.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Of the table too.
    pub(crate) name: &'static str,
    pub(crate) schema: &'static str,
    pub(crate) cursor: &'static str,
    pub(crate) key: &'static [&'static str],
    /// Ways to do it, taken by turns.
    pub(crate) inserts: &'static [&'static str],
    /// `None`: the cursor is the key and does not move.
    pub(crate) changes: Option<Changes>,
    pub(crate) drawn: Drawn,
    pub(crate) late: LateCommits,
    /// Whether the poller may see more than the table.
    pub(crate) reader: Reader,
    /// Of a page; few, so that a sweep takes several.
    pub(crate) max_rows: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Changes {
    pub(crate) update: &'static str,
    pub(crate) delete: &'static str,
}

/// What a writer takes before its transaction begins, to be the cursor.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Drawn {
    Nothing,
    /// By this question.
    FromDatabase(&'static str),
    FromOwnClock,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Reader {
    /// SELECT on tables and sequences.
    Plain,
    /// Everything.
    Owner,
}

impl Shape {
    pub(crate) fn unprotected(&self) -> LateCommits {
        LateCommits {
            mode: LateMode::Off,
            ..self.late.clone()
        }
    }
}
