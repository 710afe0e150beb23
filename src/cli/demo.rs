//! `dbtick demo`.

use std::process::ExitCode;

use clap::Args;

#[derive(Debug, Args)]
pub(super) struct Demo {}

impl Demo {
    pub(super) async fn run(self) -> ExitCode {
        ExitCode::FAILURE
    }
}
