//! All that is wrong with an app directory.

use std::fmt::{self, Display};

use crate::config::Fault;

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
