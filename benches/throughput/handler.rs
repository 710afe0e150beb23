//! dbtick as the Functions host runs it: the release binary, a function.json, a POST for each tick.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::process::Process;
use crate::support::handler::free_port;
use crate::support::http::{chunked, timer_body, try_exchange};

const FUNCTION: &str = "Orders";
const INVOCATION: &str = "00000000-0000-0000-0000-000000000000";
const PROBE: Duration = Duration::from_micros(200);

/// An app with one poller, beside the settings that it is run with.
pub(crate) struct App {
    directory: TempDir,
    settings: BTreeMap<&'static str, String>,
    binary: PathBuf,
}

pub(crate) struct Handler {
    child: Child,
    port: u16,
    log: PathBuf,
    pub(crate) process: Process,
    pub(crate) started: Instant,
    /// From exec until `GET /` was answered.
    pub(crate) ready_after: Duration,
}

impl App {
    pub(crate) fn new(binary: &std::path::Path, poller: &Value) -> Self {
        let directory = TempDir::new().unwrap();
        let app = directory.path().join("app");
        std::fs::create_dir_all(app.join(FUNCTION)).unwrap();
        let host = json!({
            "version": "2.0", "functionTimeout": "01:00:00",
            "customHandler": { "description": { "defaultExecutablePath": "dbtick", "arguments": ["serve"] } }
        });
        std::fs::write(app.join("host.json"), host.to_string()).unwrap();
        let function = json!({
            "bindings": [{ "type": "timerTrigger", "direction": "in", "name": "tick", "schedule": "0 0 0 1 1 *" }],
            "poller": poller
        });
        let path = app.join(FUNCTION).join("function.json");
        std::fs::write(path, function.to_string()).unwrap();
        let settings = [("FUNCTIONS_APP_ROOT_PATH", app.display().to_string())];
        Self {
            directory,
            settings: settings.into(),
            binary: binary.to_owned(),
        }
    }

    #[must_use]
    pub(crate) fn setting(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.settings.insert(name, value.into());
        self
    }

    /// Returns when it has answered.
    pub(crate) fn start(&self) -> Handler {
        let port = free_port();
        let log = self.directory.path().join("log");
        let file = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(&self.binary);
        command
            .arg("serve")
            .env_clear()
            .envs(&self.settings)
            .env("PATH", "/usr/bin:/bin")
            .env("FUNCTIONS_CUSTOMHANDLER_PORT", port.to_string())
            .env("FUNCTIONS_CUSTOMHANDLER_WORKER_ID", "bench")
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file);
        let started = SystemClock.monotonic();
        let child = command.spawn().unwrap();
        let process = Process(child.id());
        let mut handler = Handler {
            child,
            port,
            log,
            process,
            started,
            ready_after: Duration::ZERO,
        };
        while !answers(port) {
            if let Some(status) = handler.child.try_wait().unwrap() {
                panic!("dbtick ended with {status}: {}", handler.said());
            }
            std::thread::sleep(PROBE);
        }
        handler.ready_after = SystemClock.monotonic() - started;
        handler
    }
}

fn answers(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else {
        return false;
    };
    let request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    let mut answer = [0; 12];
    stream.write_all(request).is_ok() && stream.read_exact(&mut answer).is_ok()
}

impl Handler {
    /// How long it took.
    pub(crate) async fn tick(&self) -> Duration {
        let body = timer_body(&Value::Null).to_string();
        let before = SystemClock.monotonic();
        let answer = try_exchange(self.port, chunked(FUNCTION, INVOCATION, &body)).await;
        let took = SystemClock.monotonic() - before;
        match answer {
            Some(answer) if answer.status == 200 => took,
            answer => panic!("a tick failed: {answer:?}: {}", self.said()),
        }
    }

    pub(crate) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Handler {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
