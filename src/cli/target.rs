//! One poller of an app directory, ready to be looked at or moved.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::local_app;
use super::problem::Problem;
use crate::clock::{SystemClock, Timestamp};
use crate::config::{App, Settings};
use crate::overview::Overview;
use crate::sink::WebhookSink;
use crate::tick::Poller;
use crate::wiring::Parts;

#[derive(Debug, Args)]
pub(super) struct Target {
    /// Name of the poller
    pub(super) poller: String,
    #[command(flatten)]
    pub(super) place: AppPlace,
}

#[derive(Debug, Args)]
pub(super) struct AppPlace {
    /// Directory of the Functions app
    #[arg(long, value_name = "DIR", default_value = ".")]
    app: PathBuf,
    /// Where pollers without a state block keep their state
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
}

/// An app whose pollers can be opened by name.
#[derive(Debug)]
pub(super) struct Opened {
    app: App,
    parts: Parts,
    pub(super) who: String,
}

impl Target {
    pub(super) fn open(&self) -> Result<(Opened, Poller), Problem> {
        let opened = self.place.open()?;
        let poller = opened.poller(&self.poller)?;
        Ok((opened, poller))
    }
}

impl AppPlace {
    pub(super) fn open(&self) -> Result<Opened, Problem> {
        let directory =
            local_app::read(&self.app, self.state_dir.as_deref()).map_err(Problem::from_error)?;
        let settings: Settings = directory.environment.iter().collect();
        let parts = Parts::new(Arc::new(SystemClock)).map_err(Problem::from_error)?;
        Ok(Opened {
            app: App::load(&directory.root, &settings),
            parts,
            who: who(&settings),
        })
    }

    /// The same place as arguments of another command, to be pasted into a shell.
    pub(super) fn arguments(&self) -> String {
        let mut text = String::new();
        if self.app.as_os_str() != "." {
            text += &format!(" --app {}", quoted(&self.app.display().to_string()));
        }
        if let Some(state) = &self.state_dir {
            text += &format!(" --state-dir {}", quoted(&state.display().to_string()));
        }
        text
    }
}

impl Opened {
    pub(super) fn poller(&self, name: &str) -> Result<Poller, Problem> {
        if let Some(poller) = self.configured(name)? {
            return Ok(poller);
        }
        let known: Vec<&str> = self.app.pollers().map(|p| p.name.as_str()).collect();
        let mut text = match known.as_slice() {
            [] => format!("there is no poller {name:?}: no function of this app has a good one"),
            known => format!(
                "there is no poller {name:?} in this app; there is {}",
                known.join(", ")
            ),
        };
        for fault in self.app.faults() {
            text += &format!("\n{fault}");
        }
        Err(Problem::new(text))
    }

    /// `None`: the app has no such poller.
    pub(super) fn configured(&self, name: &str) -> Result<Option<Poller>, Problem> {
        let name = name.to_lowercase();
        let config = self.app.pollers().find(|poller| poller.name == name);
        config
            .map(|config| self.parts.poller(&self.app, config))
            .transpose()
            .map_err(Problem::from_error)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.app.pollers().map(|poller| poller.name.as_str())
    }

    /// Who is told of stuck work of a poller that was resolved.
    pub(super) fn warnings(&self, poller: &str) -> Option<WebhookSink> {
        let config = self.app.pollers().find(|config| config.name == poller)?;
        self.parts.warnings(config)
    }

    /// All of its pollers, to be looked at.
    pub(super) fn overview(&self) -> Result<Overview, Problem> {
        Overview::new(&self.app, &self.parts).map_err(Problem::from_error)
    }

    pub(super) fn now(&self) -> Timestamp {
        self.parts.clock.now()
    }

    /// What the host would give a tick, and `None` where it sets no limit.
    pub(super) fn function_timeout(&self) -> Option<Duration> {
        self.app.function_timeout
    }

    /// The app's name in state paths.
    pub(super) fn app_name(&self) -> &str {
        &self.app.name
    }
}

/// `ada@ship`, for the audit trail.
fn who(settings: &Settings) -> String {
    let named = ["USER", "LOGNAME", "USERNAME"]
        .iter()
        .find_map(|name| settings.filled(name));
    let user = match named {
        Some(name) => name.to_owned(),
        None => format!("uid{}", nix::unistd::getuid()),
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let host = host.as_deref().or(settings.filled("HOSTNAME"));
    format!("{user}@{}", host.unwrap_or("unknown").trim())
}

/// As a POSIX shell reads it back.
pub(super) fn quoted(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}
