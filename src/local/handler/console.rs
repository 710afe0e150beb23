//! The handler's stdout and stderr, line by line.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;
use tokio::task::JoinHandle;

use crate::local::event::{LogLevel, LogSource, Reporter};

const KEPT_ERRORS: usize = 3;
/// A grandchild may hold the pipes open after the handler is gone.
const PATIENCE: Duration = Duration::from_secs(1);

/// The readers of one process.
#[derive(Debug)]
pub(super) struct Console {
    stdout: Option<JoinHandle<Vec<String>>>,
    stderr: Option<JoinHandle<Vec<String>>>,
}

impl Console {
    pub(super) fn attach(child: &mut Child, reporter: &Arc<Reporter>) -> Console {
        let stdout = child.stdout.take();
        let stderr = child.stderr.take();
        Console {
            stdout: stdout
                .map(|pipe| tokio::spawn(read(pipe, LogSource::Stdout, reporter.clone()))),
            stderr: stderr
                .map(|pipe| tokio::spawn(read(pipe, LogSource::Stderr, reporter.clone()))),
        }
    }

    /// The last error lines, once both pipes are empty.
    pub(super) async fn finish(self) -> Vec<String> {
        collect(self.stdout).await;
        collect(self.stderr).await
    }
}

async fn collect(reader: Option<JoinHandle<Vec<String>>>) -> Vec<String> {
    let Some(mut reader) = reader else {
        return Vec::new();
    };
    match tokio::time::timeout(PATIENCE, &mut reader).await {
        Ok(lines) => lines.unwrap_or_default(),
        Err(_) => {
            reader.abort();
            Vec::new()
        }
    }
}

async fn read(
    pipe: impl AsyncRead + Unpin,
    source: LogSource,
    reporter: Arc<Reporter>,
) -> Vec<String> {
    let mut pipe = BufReader::new(pipe);
    let mut errors = VecDeque::new();
    let mut bytes = Vec::new();
    while pipe
        .read_until(b'\n', &mut bytes)
        .await
        .is_ok_and(|count| count > 0)
    {
        let line = String::from_utf8_lossy(&bytes)
            .trim_end_matches(['\n', '\r'])
            .to_owned();
        bytes.clear();
        let level = level(&source, &line);
        if level == LogLevel::Error {
            if errors.len() == KEPT_ERRORS {
                errors.pop_front();
            }
            errors.push_back(line.clone());
        }
        reporter.log(source.clone(), level, line);
    }
    errors.into()
}

fn level(source: &LogSource, line: &str) -> LogLevel {
    if *source != LogSource::Stderr {
        LogLevel::Information
    } else if line.to_ascii_lowercase().contains("warn") {
        LogLevel::Warning
    } else {
        LogLevel::Error
    }
}
