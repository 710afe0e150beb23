//! What is wrong with an app directory: where, why, and what to do.

use std::fmt::{self, Display};
use std::path::PathBuf;

/// One thing to repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// The path inside it, or the app setting; empty for the whole file.
    pub path: String,
    /// What is wrong there.
    pub why: String,
    /// What to do about it.
    pub remedy: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file.display())?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        write!(f, "{}; {}", self.why, self.remedy)
    }
}

/// Every fault of an app directory, in reading order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppError {
    /// Never empty.
    pub faults: Vec<Fault>,
}

impl std::error::Error for AppError {}

impl Display for AppError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{fault}")?;
        }
        Ok(())
    }
}
