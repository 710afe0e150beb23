//! `dbtick dev`: a Functions app on this machine, without Core Tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::local_app::{self, STATE_DIR};
use super::{complain, fail, interrupted, say};
use crate::config::{App, Function, Settings, StatusFunction, Target};
use crate::local::app::{AuthLevel, Trigger};
use crate::local::{
    AppDirectory, Events, HostError, HostEvent, HostOptions, LocalHost, LogLevel, LogSource,
};

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
        say(&format!("app    {}\n", app.root.display()));
        say(&format!("state  {}\n", app.environment[STATE_DIR]));
        for function in &app.functions {
            let off = if function.disabled { " (disabled)" } else { "" };
            say(&format!("       {}{off}\n", function.name));
        }
        let has_keys = app.functions.iter().any(|function| {
            matches!(&function.trigger, Trigger::Http(http) if http.auth_level != AuthLevel::Anonymous)
        });
        let status = status_function(&app);
        let options = HostOptions {
            http_port: self.port,
            restart_budget: self.restart_budget,
            function_keys: relay_keys(&app),
            ..HostOptions::default()
        };
        let host = match start(app, options).await {
            Ok(host) => host,
            Err(error) => return fail(&with_cause(&error)),
        };
        say(&format!("http   http://localhost:{}/\n", host.http_port()));
        if has_keys {
            say(&format!("key    {} (x-functions-key)\n", host.http_key()));
        }
        if let Some(status) = &status {
            say(&format!("page   {}\n", page_address(&host, status)));
        }
        say("Ctrl-C stops it.\n\n");
        let events = host.events();
        let reason = tokio::select! {
            biased;
            () = interrupted() => None,
            reason = host.wait() => Some(reason),
            () = print(events, status.as_ref()) => None,
        };
        match reason {
            Some(reason) => fail(&reason.to_string()),
            None => {
                say("\nstopping\n");
                host.shutdown().await;
                ExitCode::SUCCESS
            }
        }
    }
}

/// Core Tools asks for no keys. This host does, and takes those that the app's own pollers show.
fn relay_keys(app: &AppDirectory) -> BTreeMap<String, String> {
    let settings: Settings = app.environment.iter().collect();
    let config = App::load(&app.root, &settings);
    let sinks = config.pollers().flat_map(|poller| &poller.deliver);
    let keys = sinks.filter_map(|sink| match &sink.to {
        Target::Relay(relay) => {
            let key = relay.key.to_str().ok()?;
            Some((relay.function.name.clone(), key.to_owned()))
        }
        Target::Webhook(_) | Target::Queue(_) => None,
    });
    keys.collect()
}

pub(super) fn status_function(app: &AppDirectory) -> Option<StatusFunction> {
    let settings: Settings = app.environment.iter().collect();
    let config = App::load(&app.root, &settings);
    let functions = config.functions.into_values();
    functions
        .filter_map(|function| match function {
            Function::Status(status) => Some(status),
            _ => None,
        })
        .next()
}

/// With the key, which is good for this run on this machine only.
pub(super) fn page_address(host: &LocalHost, status: &StatusFunction) -> String {
    let path = &status.path;
    format!(
        "http://localhost:{}/{path}?code={}",
        host.http_port(),
        host.http_key()
    )
}

/// host.json says `dbtick`; where no such file is in the app or on PATH, this very program serves.
async fn start(app: AppDirectory, options: HostOptions) -> Result<LocalHost, HostError> {
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

/// A page that is open asks every few seconds: that is no news.
async fn print(mut events: Events, status: Option<&StatusFunction>) {
    let asked = |function: &str| status.is_some_and(|status| status.name == function);
    while let Some(event) = events.next().await {
        match event {
            HostEvent::HandlerReady { pid } => say(&format!("handler {pid} is ready\n")),
            HostEvent::HandlerExited {
                pid, code, signal, ..
            } => {
                let how = match (code, signal) {
                    (Some(code), _) => format!("exited with {code}"),
                    (None, Some(signal)) => format!("was ended by signal {signal}"),
                    (None, None) => "ended".to_owned(),
                };
                complain(&format!("handler {pid} {how}\n"));
            }
            HostEvent::InvocationEnded {
                function,
                result,
                duration,
                ..
            } => {
                let took = duration.as_millis();
                match &result.outcome {
                    Ok(_) if asked(&function) => {}
                    Ok(_) => say(&format!("{function}: ok ({took} ms)\n")),
                    Err(failure) => {
                        complain(&format!("{function}: FAILED ({took} ms): {failure}\n"))
                    }
                }
            }
            HostEvent::Log {
                source: LogSource::Stdout,
                line,
                ..
            } if line.starts_with("{\"event\":\"dbtick.tick\"") => {}
            // Told by the end of the invocation, too.
            HostEvent::Log {
                source: LogSource::Invocation(_),
                level: LogLevel::Error,
                ..
            } => {}
            HostEvent::Log { level, line, .. } => match level {
                LogLevel::Information => say(&format!("  {line}\n")),
                LogLevel::Warning | LogLevel::Error => complain(&format!("  {line}\n")),
            },
            HostEvent::Missed(count) => complain(&format!("({count} events were not shown)\n")),
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
