//! The Python peer: azure-functions-db from PyPI, driven by benches/peer/drive.py.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use serde_json::Value;
use tokio::time::Instant;

use crate::process::Process;
use crate::support::installed;

const READY: &str = "ready";

pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    pub(crate) process: Process,
    pub(crate) started: Instant,
}

impl Peer {
    pub(crate) fn start(told: &Value) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peer/drive.py");
        let started = SystemClock.monotonic();
        let mut child = Command::new(python())
            .arg(script)
            .arg(told.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            process: Process(child.id()),
            child,
            started,
        }
    }

    /// Returns when everything is imported; nothing is connected yet.
    pub(crate) fn ready(&mut self) {
        assert_eq!(self.line(), READY);
    }

    /// How many rows, and how long it took. May be asked before it is ready.
    pub(crate) fn tick(&mut self) -> (usize, Duration) {
        let before = SystemClock.monotonic();
        self.input.write_all(b"\n").unwrap();
        let mut line = self.line();
        if line == READY {
            line = self.line();
        }
        let took = SystemClock.monotonic() - before;
        (line.parse().expect("the peer says how many rows"), took)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Where benches/run installs it.
fn python() -> PathBuf {
    installed("peer", "../benches/peer/requirements.txt").join("bin/python")
}
