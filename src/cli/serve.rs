//! `dbtick serve`: the custom handler.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::{fail, interrupted};
use crate::clock::SystemClock;
use crate::config::{App, Settings};
use crate::host::{Handler, serve};
use crate::stop;
use crate::wiring::Parts;

/// The host takes an exit code of 0 for "never start it again", so a clean stop is not 0 either.
const STOPPED: u8 = 143;

const WRONG_USAGE: u8 = 2;

#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Loopback port to serve on
    #[arg(long, env = "FUNCTIONS_CUSTOMHANDLER_PORT")]
    port: Option<u16>,
    /// Directory of the Functions app: host.json, and a function.json per function
    #[arg(long, env = "FUNCTIONS_APP_ROOT_PATH", default_value = ".")]
    app: PathBuf,
}

impl Serve {
    pub(super) async fn run(self, settings: &Settings) -> ExitCode {
        let Some(port) = self.port else {
            fail(
                "no port to serve on: the Functions host sets FUNCTIONS_CUSTOMHANDLER_PORT; \
                 run the app with `func start` or `dbtick dev`, or pass --port",
            );
            return ExitCode::from(WRONG_USAGE);
        };
        let app = App::load(&self.app, settings);
        for fault in app.faults() {
            tracing::error!("{fault}");
        }
        let parts = match Parts::new(Arc::new(SystemClock)) {
            Ok(parts) => parts,
            Err(error) => return fail(&error.to_string()),
        };
        let (switch, stop) = stop::channel();
        let handler = Handler::new(&app, parts, stop.clone());
        tracing::info!(port, app = %app.name, "dbtick is the custom handler");
        let signals = async {
            interrupted().await;
            switch.raise();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            served = serve(handler, port, stop) => match served {
                Ok(()) => ExitCode::from(STOPPED),
                Err(error) => {
                    let cause = std::error::Error::source(&error).map(|c| format!(": {c}"));
                    fail(&format!("{error}{}", cause.unwrap_or_default()))
                }
            },
            () = signals => unreachable!("signals only raise the switch"),
        }
    }
}
