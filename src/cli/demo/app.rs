//! The throw-away app: what a person would write by hand, in a temporary directory.

use std::fs;
use std::path::{Path, PathBuf};

use chrono::TimeDelta;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::config::environment;
use crate::local::{AppDirectory, Environment};

/// Function, poller and table.
pub(super) const FUNCTION: &str = "orders";
const STATUS: &str = include_str!("../../../function-templates/status/function.json");
/// `{app}` in the state's path.
pub(super) const APP: &str = "demo";
pub(super) const LEASE_MARGIN: TimeDelta = TimeDelta::milliseconds(500);

/// What the handler may inherit. Settings of a real app that happen to be set here stay out.
const INHERITED: [&str; 6] = [
    "PATH",
    "HOME",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
    "DBTICK_LOG",
];

#[derive(Debug)]
pub(super) struct DemoApp {
    directory: TempDir,
    pub(super) root: PathBuf,
    pub(super) database: PathBuf,
    /// Outside the app: a file that changes below its root can restart the host.
    pub(super) state: PathBuf,
}

/// Small enough that a tick has several batches, and that one second's rows fit into some of them.
pub(super) fn batch_rows(rate: u32) -> usize {
    (rate as usize * 2).div_ceil(5)
}

impl DemoApp {
    pub(super) fn build(webhook: &str, rate: u32) -> Result<Self, String> {
        let base = std::env::temp_dir();
        let directory = tempfile::Builder::new()
            .prefix("dbtick-demo-")
            .tempdir_in(&base)
            .map_err(|error| {
                let base = base.display();
                format!("no directory can be made in {base}: {error}; set TMPDIR to a writable one")
            })?;
        let at = |name| directory.path().join(name);
        let (root, database, state) = (at("app"), at("orders.db"), at("store"));
        let executable = std::env::current_exe()
            .map_err(|error| format!("the path of this program is unknown: {error}"))?;
        let settings = json!({
            "IsEncrypted": false,
            "Values": {
                "DBTICK_APP": APP,
                "DBTICK_STATE_DIR": state,
                "ORDERS_DB": format!("sqlite:{}", database.display()),
                "ORDERS_HOOK": webhook,
            }
        });
        write(&root.join("host.json"), &host_json(&executable))?;
        write(&root.join("local.settings.json"), &settings)?;
        write(
            &root.join(FUNCTION).join("function.json"),
            &function_json(rate),
        )?;
        let status = serde_json::from_str(STATUS).map_err(|error| error.to_string())?;
        write(&root.join("status/function.json"), &status)?;
        Ok(Self {
            directory,
            root,
            database,
            state,
        })
    }

    /// The app as the host sees it.
    pub(super) fn read(&self) -> Result<AppDirectory, String> {
        let mut environment: Environment = environment::process();
        environment.retain(|name, _| INHERITED.contains(&name.as_str()));
        AppDirectory::read(&self.root, environment).map_err(|error| error.to_string())
    }

    /// Removes everything, or says where it stays.
    pub(super) fn finish(self, keep: bool) -> Result<Option<PathBuf>, String> {
        if keep {
            return Ok(Some(self.directory.keep()));
        }
        let path = self.directory.path().to_owned();
        match self.directory.close() {
            Ok(()) => Ok(None),
            Err(error) => Err(format!("{} cannot be removed: {error}", path.display())),
        }
    }
}

fn host_json(executable: &Path) -> Value {
    json!({
        "version": "2.0",
        "functionTimeout": "00:01:00",
        "customHandler": {
            "description": { "defaultExecutablePath": executable, "arguments": ["serve"] }
        }
    })
}

/// The lease is short, so that a crash is over within seconds; real pollers keep the defaults.
fn function_json(rate: u32) -> Value {
    json!({
        "bindings": [
            { "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "* * * * * *" }
        ],
        "poller": {
            "source": { "connection": "ORDERS_DB", "table": "orders", "cursor": "id", "key": "id" },
            "batch": { "max_rows": batch_rows(rate) },
            "deliver": [{ "name": "hook", "webhook": { "url": "%ORDERS_HOOK%" } }],
            "lease": { "ttl": "3s", "heartbeat": "1s", "margin": format!("{}ms", LEASE_MARGIN.num_milliseconds()) }
        }
    })
}

fn write(path: &Path, document: &Value) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, format!("{document:#}\n")))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{App, Settings};

    #[test]
    fn the_app_is_one_that_dbtick_accepts() {
        let app = DemoApp::build("http://127.0.0.1:1/", 25).unwrap();
        let directory = app.read().unwrap();
        let settings: Settings = directory.environment.iter().collect();
        let loaded = App::load(&app.root, &settings);
        let faults: Vec<_> = loaded.faults().map(ToString::to_string).collect();
        assert_eq!(faults, [""; 0]);
    }

    #[test]
    fn every_rate_has_batches_that_fill_up() {
        for (rate, rows) in [(1, 1), (5, 2), (25, 10), (5000, 2000)] {
            assert_eq!(batch_rows(rate), rows, "{rate}");
        }
    }
}
