//! The template as a person runs it.

use std::process::Stdio;

use tokio::process::Command;

use super::support::handler::{BINARY, Lines};
use super::support::http::{RawAnswer, exchange};
use super::support::within;
use super::world;

async fn open(address: &str) -> RawAnswer {
    let rest = address.strip_prefix("http://localhost:").unwrap();
    let (port, path) = rest.split_once('/').unwrap();
    let request = format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    exchange(port.parse().unwrap(), request).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dev_says_where_the_page_is_and_asks_for_the_key() {
    let world = world().await.rows(2).await;
    let mut child = Command::new(BINARY)
        .args(["dev", "--port", "0"])
        .arg(world.app())
        .env_clear()
        .envs(&world.environment)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let stdout = Lines::of(child.stdout.take().unwrap());
    let line = stdout.line(&["page "]).await;
    let address = line.strip_prefix("page").unwrap().trim();
    let (path, key) = address.split_once("?code=").unwrap();
    let page = open(address).await;
    assert_eq!(page.status, 200, "{page:?}");
    assert!(
        page.head.contains("content-type: text/html"),
        "{}",
        page.head
    );
    assert!(page.body.contains("<title>dbtick</title>"));
    for (below, status) in [
        ("", 401),
        ("?code=wrong", 401),
        ("/checkpoints", 401),
        (&format!("/health?code={key}"), 200),
        (&format!("/checkpoints/orders?code={key}"), 200),
        (&format!("/checkpoints/nobody?code={key}"), 404),
    ] {
        let answer = open(&format!("{path}{below}")).await;
        assert_eq!(answer.status, status, "{below}: {answer:?}");
    }
    child.start_kill().unwrap();
    within("dev ends", child.wait()).await.unwrap();
    // A page that is open asks every few seconds.
    assert!(!stdout.text().contains("status: ok"), "{}", stdout.text());
}
