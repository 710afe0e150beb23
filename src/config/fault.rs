//! What is wrong with a configuration, where, and what to do about it.
//!
//! Faults are collected, never thrown: whoever reads a file reports everything at once. A fault
//! shows what is written in the file; it never shows the value of an app setting.

use std::fmt;
use std::path::{Path, PathBuf};

/// One thing to mend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Relative to the app root, e.g. `orders/function.json`.
    pub file: PathBuf,
    /// Inside the file, e.g. `poller.deliver[0].webhook.url`; empty for the file as a whole.
    pub path: String,
    pub problem: String,
    /// What to do.
    pub hint: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{} ({})", self.problem, self.hint)
    }
}

impl std::error::Error for Fault {}

/// A place inside a JSON document.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place(String);

impl Place {
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        if self.0.is_empty() {
            Self(key.to_owned())
        } else {
            Self(format!("{}.{key}", self.0))
        }
    }

    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// The name of the innermost object, without its index: `deliver` for `poller.deliver[0]`.
    pub(super) fn owner(&self) -> &str {
        let last = self.0.rsplit('.').next().unwrap_or_default();
        last.split('[').next().unwrap_or_default()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The faults of one file, in the order in which they were found.
#[derive(Debug)]
pub(super) struct Faults {
    file: PathBuf,
    found: Vec<Fault>,
}

impl Faults {
    pub(super) fn of(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            found: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, at: &Place, problem: impl Into<String>, hint: impl Into<String>) {
        self.found.push(Fault {
            file: self.file.clone(),
            path: at.0.clone(),
            problem: problem.into(),
            hint: hint.into(),
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    pub(super) fn into_vec(self) -> Vec<Fault> {
        self.found
    }
}
