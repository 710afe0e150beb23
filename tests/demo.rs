//! `dbtick demo` as a first-time visitor runs it: the real program, its output in a pipe.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// A finished demo.
struct Shown {
    code: Option<i32>,
    out: String,
    err: String,
    /// What it left in its temporary directory.
    left: Vec<PathBuf>,
    _temporary: TempDir,
}

fn demo(arguments: &[&str]) -> Shown {
    let temporary = TempDir::new().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_dbtick"))
        .arg("demo")
        .args(arguments)
        .env("TMPDIR", temporary.path())
        // Settings of a real app around it must not matter.
        .env("WEBSITE_SLOT_NAME", "staging")
        .env("WEBSITE_INSTANCE_ID", "abc")
        .env("DBTICK_STATE_DIR", "/nowhere")
        .output()
        .unwrap();
    let left = std::fs::read_dir(temporary.path()).unwrap();
    Shown {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
        left: left.map(|entry| entry.unwrap().path()).collect(),
        _temporary: temporary,
    }
}

impl Shown {
    /// A figure of the summary.
    #[track_caller]
    fn figure(&self, name: &str) -> u64 {
        let summary = self.out.split("\n\n").last().unwrap();
        let line = summary.lines().find(|line| line.trim().starts_with(name));
        let Some(line) = line else {
            panic!("no {name} in\n{}\n{}", self.out, self.err);
        };
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }

    #[track_caller]
    fn ended_well(&self) {
        assert_eq!(self.code, Some(0), "{}\n{}", self.out, self.err);
        assert_eq!(self.err, "");
        assert_eq!(self.left, [""; 0].map(PathBuf::from), "left behind");
        assert_eq!(self.figure("lost"), 0);
        assert!(self.figure("inserted") > 0, "{}", self.out);
        assert_eq!(self.figure("delivered"), self.figure("inserted"));
        assert_eq!(self.figure("checkpoint"), self.figure("inserted"));
        for line in self.out.lines() {
            assert!(!line.contains(char::is_control), "{line:?}");
            assert!(line.chars().count() <= 100, "{line}");
            assert_eq!(line, line.trim_end());
        }
    }
}

#[test]
fn it_delivers_every_row_and_ends_by_itself() {
    let shown = demo(&["--for", "3s"]);
    shown.ended_well();
    assert!(shown.figure("batches") > 1);
    assert_eq!(shown.figure("kills"), 0);
    for said in ["pseudo trigger", "at least once", "status", "to id"] {
        assert!(shown.out.contains(said), "{said}: {}", shown.out);
    }
}

#[test]
fn a_crash_in_the_middle_of_a_batch_loses_nothing() {
    let shown = demo(&["--crash"]);
    shown.ended_well();
    assert_eq!(shown.figure("kills"), 1);
    assert!(shown.figure("duplicates") > 0);
    let lines: Vec<&str> = shown.out.lines().collect();
    let place = |what: &str| {
        let found = lines.iter().position(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("{what}: {}", shown.out))
    };
    let story = [
        "received, not answered",
        "kill -9",
        "lease runs out",
        "again",
        "same batch id, same event ids",
        ": 0 rows lost",
    ]
    .map(place);
    assert!(story.is_sorted(), "{story:?}: {}", shown.out);
}

#[test]
fn a_length_that_is_none_is_wrong_usage_with_a_hint() {
    let shown = demo(&["--for", "soon"]);
    assert_eq!(shown.code, Some(2));
    assert!(shown.err.contains("write it like 500ms"), "{}", shown.err);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_dbtick"))
        .args(["demo", "--for", "1s"])
        .env("TMPDIR", "/does/not/exist")
        .output()
        .unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(err.contains("/does/not/exist"), "{err}");
    assert!(err.contains("set TMPDIR"), "{err}");
}

#[test]
fn what_is_kept_is_an_app_that_passes_the_check() {
    let shown = demo(&["--for", "1s", "--keep"]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    assert_eq!(shown.left.len(), 1, "{:?}", shown.left);
    let kept = format!("kept: {}", shown.left[0].display());
    assert!(shown.out.ends_with(&format!("{kept}\n")), "{}", shown.out);
    let check = Command::new(env!("CARGO_BIN_EXE_dbtick"))
        .arg("check")
        .arg(shown.left[0].join("app"))
        // In some containers a variable says that this is Azure.
        .env_clear()
        .output()
        .unwrap();
    let said = String::from_utf8(check.stdout).unwrap();
    assert_eq!(check.status.code(), Some(0), "{said}");
    assert!(!said.contains("WARN"), "{said}");
}

#[test]
fn ctrl_c_ends_it_with_a_summary() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dbtick"))
        .arg("demo")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let batch = lines.find(|line| line.as_ref().unwrap().contains("  batch  "));
    assert!(batch.is_some());
    kill(Pid::from_raw(child.id() as i32), Signal::SIGINT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(rest.contains(&"Nothing was lost.".to_owned()), "{rest:#?}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// `dbtick demo | head -1` must not run for ever.
#[test]
fn it_ends_when_nobody_reads() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_dbtick"))
        .arg("demo")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    for _ in 0..150 {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(0));
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    panic!("still running");
}
