//! A disk that takes nothing more. The limit of a process for the size of files does the same to it as a full
//! disk: every write of a file fails, and nobody needs a disk of one's own.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

use crate::support::handler::{BINARY, free_port};
use crate::support::http::{RawAnswer, chunked, exchange, timer_body};
use crate::support::within;
use crate::support::world::World;

/// The handler, with no room for so much as a byte.
async fn serve_without_room(world: &World) -> (Child, u16) {
    let port = free_port();
    let mut child = Command::new("sh")
        .args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" serve", BINARY])
        .env_clear()
        .envs(&world.environment)
        .env("FUNCTIONS_CUSTOMHANDLER_PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    within("it is ready", async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert_eq!(child.try_wait().unwrap(), None, "it stays up");
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        }
    })
    .await;
    (child, port)
}

async fn tick(port: u16) -> RawAnswer {
    let body = timer_body(&Value::Null).to_string();
    exchange(port, chunked("Orders", "id", &body)).await
}

#[tokio::test]
async fn a_full_disk_fails_the_tick_delivers_nothing_and_tears_no_document() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    // Keeps the shared memory of the database there: a reader may not make it.
    let mut table = world.writer().await;
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    let file = world.state("orders").path;
    let before = std::fs::read(&file).unwrap();
    table.insert(2).await;

    let (child, port) = serve_without_room(&world).await;
    for _ in 0..2 {
        let answer = tick(port).await;
        assert_eq!(answer.status, 500, "{answer:?}");
        let logs = answer.logs();
        assert!(logs.contains("state"), "{logs}");
    }
    drop(child);
    assert_eq!(world.receiver.count(), 1, "nothing without a lease");
    assert_eq!(std::fs::read(&file).unwrap(), before, "to the byte");

    assert_eq!(handler.tick("Orders").await.status, 200);
    let rows: Vec<i64> = world.receiver.acknowledged_rows().into_keys().collect();
    assert_eq!(rows, [1, 2, 3, 4]);
    assert_eq!(world.receiver.count(), 2);
}

#[tokio::test]
async fn a_poller_whose_disk_is_full_from_the_first_day_begins_when_there_is_room() {
    let world = World::with_orders(json!({})).await.rows(2).await;
    let _table = world.writer().await;
    let (child, port) = serve_without_room(&world).await;
    let answer = tick(port).await;
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(world.receiver.count(), 0);
    drop(child);
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.state("orders").committed(), 2);
}
