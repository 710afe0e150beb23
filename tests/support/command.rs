//! `dbtick` as a person runs it, in the app directory of a world.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::handler::BINARY;
use super::world::World;

#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// In the app directory, without a terminal.
pub fn run(world: &World, arguments: &[&str]) -> Said {
    let mut command = Command::new(BINARY);
    command.args(arguments);
    said(world, command, "")
}

/// The same, while the receiver answers in the meantime.
pub async fn run_beside(world: &World, arguments: &[&str]) -> Said {
    let output = beside(world, arguments).spawn().unwrap().wait_with_output();
    let output = output.await.unwrap();
    Said {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Not started yet.
pub fn beside(world: &World, arguments: &[&str]) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(BINARY);
    command
        .args(arguments)
        .current_dir(world.app())
        .env_clear()
        .envs(&world.environment)
        .env("USER", "ada")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

pub fn said(world: &World, mut command: Command, input: &str) -> Said {
    let mut child = command
        .current_dir(world.app())
        .env_clear()
        .envs(&world.environment)
        .env("USER", "ada")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    Said {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// As a shell reads it, with our binary under its name.
pub fn paste(world: &World, line: &str) -> Said {
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("dbtick() {{ {BINARY} \"$@\"; }}; {line}"));
    said(world, command, "")
}

#[track_caller]
pub fn good(said: &Said) -> &str {
    assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{said:?}");
    &said.stdout
}

#[track_caller]
pub fn refused(said: &Said, code: i32, words: &[&str]) {
    assert_eq!(said.code, Some(code), "{said:?}");
    for words in words {
        assert!(said.stderr.contains(words), "{words:?} in {}", said.stderr);
    }
}

#[track_caller]
pub fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}
