//! `dbtick schema`: for editors and for receivers.

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use super::say;

const BATCH: &str = include_str!("../../schema/batch.schema.json");
const MESSAGE: &str = include_str!("../../schema/queue-message.schema.json");

#[derive(Debug, Args)]
pub(super) struct Schema {
    /// Which one
    #[arg(value_enum, default_value = "poller")]
    of: Of,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Of {
    /// The poller block of a function.json
    Poller,
    /// A batch as receivers get it
    Batch,
    /// One event as a message of a queue
    Message,
    /// The addresses of a status function: an OpenAPI document
    Openapi,
}

impl Schema {
    pub(super) fn run(self) -> ExitCode {
        match self.of {
            Of::Poller => say(&format!("{:#}\n", crate::config::schema())),
            Of::Batch => say(BATCH),
            Of::Message => say(MESSAGE),
            Of::Openapi => say(&format!("{:#}\n", crate::host::openapi("api/dbtick"))),
        }
        ExitCode::SUCCESS
    }
}
