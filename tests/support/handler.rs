//! `dbtick serve` as a child process, with everything it says.

use std::collections::BTreeMap;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use super::http::{RawAnswer, chunked, exchange, timer_body, try_exchange};
use super::within;

/// Of tests; an example finds one beside itself.
pub const BINARY: &str = match option_env!("CARGO_BIN_EXE_dbtick") {
    Some(path) => path,
    None => "dbtick",
};
/// The host's own interval between two readiness probes.
const PROBE: Duration = Duration::from_millis(25);

pub struct HandlerProcess {
    pub port: u16,
    pub pid: Pid,
    pub stdout: Lines,
    pub stderr: Lines,
    child: Child,
}

/// What a stream has said so far.
#[derive(Clone)]
pub struct Lines {
    lines: Arc<Mutex<Vec<String>>>,
    changed: watch::Receiver<usize>,
}

impl Lines {
    pub fn of(stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (sender, changed) = watch::channel(0);
        let said = Arc::clone(&lines);
        tokio::spawn(async move {
            let mut reader = BufReader::new(stream).lines();
            while let Ok(Some(line)) = reader.next_line().await {
                said.lock().unwrap().push(line);
                sender.send_modify(|n| *n += 1);
            }
        });
        Self { lines, changed }
    }

    pub fn all(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub fn text(&self) -> String {
        self.all().join("\n")
    }

    /// Whether there is more to come than there was at the time of this call; waits for it.
    pub fn changed(&self) -> impl Future<Output = bool> + use<> {
        let mut changed = self.changed.clone();
        changed.mark_unchanged();
        async move { changed.changed().await.is_ok() }
    }

    /// The first line that holds all parts.
    #[track_caller]
    pub fn line(&self, parts: &[&str]) -> impl Future<Output = String> + use<> {
        let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
        let (this, mut changed) = (self.clone(), self.changed.clone());
        within(&format!("a line with {parts:?}"), async move {
            loop {
                changed.borrow_and_update();
                let found = this
                    .all()
                    .into_iter()
                    .find(|line| parts.iter().all(|part| line.contains(part)));
                if let Some(line) = found {
                    return line;
                }
                assert!(
                    changed.changed().await.is_ok(),
                    "the stream ended without {parts:?}: {:#?}",
                    this.all()
                );
            }
        })
    }
}

/// Below the ephemeral range, so that no other socket of a parallel test is given it meanwhile.
pub fn free_port() -> u16 {
    loop {
        let port = 10_000 + u16::try_from(SystemClock.random() % 20_000).unwrap();
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl HandlerProcess {
    /// Starts it and waits until it answers, as the host does.
    pub async fn start(environment: &BTreeMap<String, String>) -> Self {
        let port = free_port();
        let mut child = Command::new(BINARY)
            .arg("serve")
            .env_clear()
            .envs(environment)
            .env("FUNCTIONS_CUSTOMHANDLER_PORT", port.to_string())
            .env(
                "FUNCTIONS_CUSTOMHANDLER_WORKER_ID",
                format!("worker-{port}"),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdout = Lines::of(child.stdout.take().unwrap());
        let stderr = Lines::of(child.stderr.take().unwrap());
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
        let mut handler = Self {
            port,
            pid,
            stdout,
            stderr,
            child,
        };
        within("the handler is ready", handler.until_ready()).await;
        handler
    }

    async fn until_ready(&mut self) {
        while tokio::net::TcpStream::connect(("127.0.0.1", self.port))
            .await
            .is_err()
        {
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the handler ended with {status}: {}", self.stderr.text());
            }
            tokio::time::sleep(PROBE).await;
        }
    }

    /// A tick as Azure's host asks for it.
    pub async fn tick(&self, function: &str) -> RawAnswer {
        self.tick_as(function, "00000000-0000-0000-0000-000000000000")
            .await
    }

    pub async fn tick_as(&self, function: &str, id: &str) -> RawAnswer {
        let body = timer_body(&Value::Null).to_string();
        exchange(self.port, chunked(function, id, &body)).await
    }

    /// A tick of which the process may die.
    pub async fn try_tick(&self, function: &str) -> Option<RawAnswer> {
        let body = timer_body(&Value::Null).to_string();
        let id = "00000000-0000-0000-0000-000000000000";
        try_exchange(self.port, chunked(function, id, &body)).await
    }

    /// The host repeats a failed tick for the n-th time.
    pub async fn retry(&self, function: &str, count: u32) -> RawAnswer {
        let mut body = timer_body(&Value::Null);
        body["Metadata"]["RetryContext"] =
            json!({ "RetryCount": count, "MaxRetryCount": 9, "Exception": null });
        let id = "00000000-0000-0000-0000-000000000000";
        exchange(self.port, chunked(function, id, &body.to_string())).await
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid, signal).unwrap();
    }

    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    pub async fn ended(&mut self) -> ExitStatus {
        within("the handler ends", self.child.wait()).await.unwrap()
    }

    /// Both streams.
    pub fn everything_said(&self) -> String {
        format!("{}\n{}", self.stdout.text(), self.stderr.text())
    }
}
