//! argv → command → exit code.

use std::process::ExitCode;

pub fn main() -> ExitCode {
    ExitCode::FAILURE
}
