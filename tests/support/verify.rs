//! Judges of what is sent that share no code with us: the libraries that receivers use.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use super::installed;

/// What a receiver runs.
#[derive(Debug, Clone, Copy)]
pub enum Receiver {
    Python,
    Node,
}

impl Receiver {
    pub const ALL: [Self; 2] = [Self::Python, Self::Node];

    /// Runs the file that the docs show: what it makes of the delivery, or what it says against it.
    pub fn verify(self, secret: &str, headers: &Value, body: &[u8]) -> Result<Value, String> {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify");
        let mut command = match self {
            Self::Python => {
                let mut command = Command::new(python());
                command.arg(docs.join("verify.py"));
                command
            }
            Self::Node => {
                let libraries = installed("verify", "verify/package-lock.json");
                let mut command = Command::new("node");
                command.arg(docs.join("verify.mjs"));
                command.env("NODE_PATH", libraries.join("node_modules"));
                command
            }
        };
        let input = [headers.to_string().as_bytes(), b"\n", body].concat();
        let output = run(command.env("WEBHOOK_SECRET", secret), &input);
        if output.status.success() {
            return Ok(serde_json::from_slice(&output.stdout).unwrap());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The Python that has the libraries.
pub fn python() -> PathBuf {
    installed("python", "verify/requirements.txt").join("bin/python")
}

pub fn run(command: &mut Command, input: &[u8]) -> Output {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}
