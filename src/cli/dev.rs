//! `dbtick dev`: a Functions app on this machine, without Core Tools.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::local_app::{self, STATE_DIR};
use super::{fail, interrupted};
use crate::local::{Events, HostError, HostEvent, HostOptions, LocalHost, LogLevel, LogSource};

#[derive(Debug, Args)]
pub(super) struct Dev {
    /// Directory of the Functions app
    #[arg(default_value = ".")]
    app: PathBuf,
    /// Port for HTTP-triggered functions; 0 takes a free one [default: Host.LocalHttpPort, else 7071]
    #[arg(long)]
    port: Option<u16>,
    /// Where pollers without a state block keep their state
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Handler errors after which the host gives up [default: 3, as the real host]
    #[arg(long, value_name = "N")]
    restart_budget: Option<u32>,
}

impl Dev {
    pub(super) async fn run(self) -> ExitCode {
        let app = match local_app::read(&self.app, self.state_dir.as_deref()) {
            Ok(app) => app,
            Err(error) => return fail(&error.to_string()),
        };
        println!("app    {}", app.root.display());
        println!("state  {}", app.environment[STATE_DIR]);
        for function in &app.functions {
            let off = if function.disabled { " (disabled)" } else { "" };
            println!("       {}{off}", function.name);
        }
        let options = HostOptions {
            http_port: self.port,
            restart_budget: self.restart_budget,
            ..HostOptions::default()
        };
        let host = match start(app, options).await {
            Ok(host) => host,
            Err(error) => return fail(&with_cause(&error)),
        };
        println!("http   http://localhost:{}/", host.http_port());
        println!("Ctrl-C stops it.\n");
        let events = host.events();
        let reason = tokio::select! {
            biased;
            () = interrupted() => None,
            reason = host.wait() => Some(reason),
            () = print(events) => None,
        };
        match reason {
            Some(reason) => fail(&reason.to_string()),
            None => {
                println!("\nstopping");
                host.shutdown().await;
                ExitCode::SUCCESS
            }
        }
    }
}

/// host.json says `dbtick`; where no such file is in the app or on PATH, this very program serves.
async fn start(
    app: crate::local::AppDirectory,
    options: HostOptions,
) -> Result<LocalHost, HostError> {
    match LocalHost::start(app.clone(), options.clone()).await {
        Err(HostError::Executable(_)) if app.handler.executable == "dbtick" => {
            let executable = std::env::current_exe().ok();
            let options = HostOptions {
                executable,
                ..options
            };
            LocalHost::start(app, options).await
        }
        other => other,
    }
}

async fn print(mut events: Events) {
    while let Some(event) = events.next().await {
        match event {
            HostEvent::HandlerReady { pid } => println!("handler {pid} is ready"),
            HostEvent::HandlerExited {
                pid, code, signal, ..
            } => {
                let how = match (code, signal) {
                    (Some(code), _) => format!("exited with {code}"),
                    (None, Some(signal)) => format!("was ended by signal {signal}"),
                    (None, None) => "ended".to_owned(),
                };
                eprintln!("handler {pid} {how}");
            }
            HostEvent::InvocationEnded {
                function,
                result,
                duration,
                ..
            } => {
                let took = duration.as_millis();
                match &result.outcome {
                    Ok(_) => println!("{function}: ok ({took} ms)"),
                    Err(_) => eprintln!("{function}: FAILED ({took} ms)"),
                }
            }
            HostEvent::Log {
                source: LogSource::Stdout,
                line,
                ..
            } if line.starts_with("{\"event\":\"dbtick.tick\"") => {}
            HostEvent::Log { level, line, .. } => match level {
                LogLevel::Information => println!("  {line}"),
                LogLevel::Warning | LogLevel::Error => eprintln!("  {line}"),
            },
            HostEvent::Missed(count) => eprintln!("({count} events were not shown)"),
            HostEvent::HandlerStarted { .. }
            | HostEvent::InvocationStarted { .. }
            | HostEvent::ShuttingDown { .. } => {}
        }
    }
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
