//! A poller that is moved by hand, over file state and with the real binary (G1, G2, G3, G7).

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "operate/lost.rs"]
mod lost;
#[path = "operate/moves.rs"]
mod moves;
#[path = "operate/pause.rs"]
mod pause;
#[path = "operate/source.rs"]
mod source;

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::Value;

use support::handler::{BINARY, HandlerProcess};
use support::world::World;

#[derive(Debug)]
struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// In the app directory, without a terminal.
fn run(world: &World, arguments: &[&str]) -> Said {
    let mut command = Command::new(BINARY);
    command.args(arguments);
    said(world, command, "")
}

fn said(world: &World, mut command: Command, input: &str) -> Said {
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
fn paste(world: &World, line: &str) -> Said {
    let mut command = Command::new("/bin/sh");
    command
        .arg("-c")
        .arg(format!("dbtick() {{ {BINARY} \"$@\"; }}; {line}"));
    said(world, command, "")
}

#[track_caller]
fn good(said: &Said) -> &str {
    assert_eq!((said.code, &*said.stderr), (Some(0), ""), "{said:?}");
    &said.stdout
}

#[track_caller]
fn refused(said: &Said, code: i32, words: &[&str]) {
    assert_eq!(said.code, Some(code), "{said:?}");
    for words in words {
        assert!(said.stderr.contains(words), "{words:?} in {}", said.stderr);
    }
}

#[track_caller]
fn json(said: &Said) -> Value {
    serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"))
}

/// Everything but the answer of a tick that must work.
async fn drain(handler: &HandlerProcess) {
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200, "{answer:?}");
}

/// Rows 1 to n, delivered three at a time.
async fn drained(rows: i64) -> (World, HandlerProcess) {
    let changes = serde_json::json!({ "batch": { "max_rows": 3 } });
    let world = World::with_orders(changes).await.rows(rows).await;
    let handler = world.serve().await;
    drain(&handler).await;
    (world, handler)
}

/// How often each row from 1 on was acknowledged.
fn deliveries(world: &World) -> Vec<usize> {
    let rows = world.receiver.acknowledged_rows();
    rows.values().map(Vec::len).collect()
}
