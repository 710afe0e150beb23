//! SIGTERM: what is being delivered is finished and committed, the lease is given back, and the
//! exit code is never 0 (G6, I18).

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::handler::{BINARY, free_port};
use crate::support::http::{chunked, exchange, timer_body};
use crate::support::receiver::Answer;
use crate::support::within;
use crate::support::world::World;

#[tokio::test]
async fn an_idle_handler_stops_with_a_code_that_is_not_0() {
    let world = World::with_orders(json!({})).await;
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut handler = world.serve().await;
        assert_eq!(handler.tick("Orders").await.status, 200);
        handler.signal(signal);
        let status = handler.ended().await;
        let code = status.code().or(status.signal().map(|signal| 128 + signal));
        assert_ne!(code, Some(0), "{signal}");
        assert_ne!(code, Some(200), "not an intentional restart");
    }
}

#[tokio::test]
async fn a_batch_in_flight_is_finished_and_committed_and_the_lease_released() {
    let world = World::with_orders(json!({ "batch": { "max_rows": 2 } }))
        .await
        .rows(10)
        .await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let mut handler = world.serve().await;
    let stopping = async {
        world.receiver.arrived(1).await;
        handler.signal(Signal::SIGTERM);
        // Once the port is closed the wish to stop has been seen.
        within("the port closes", async {
            while TcpStream::connect(("127.0.0.1", handler.port))
                .await
                .is_ok()
            {
                tokio::task::yield_now().await;
            }
        })
        .await;
        world.receiver.open_gate();
    };
    let (answer, ()) = tokio::join!(handler.tick("Orders"), stopping);
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_ne!(handler.ended().await.code(), Some(0));
    assert_eq!(world.receiver.count(), 1, "no further batch was begun");
    assert_eq!(world.state("orders").committed(), 2);
    assert_eq!(world.state("orders").document().lease.held, None);

    let handler = world.serve().await;
    assert_eq!(
        handler.tick("Orders").await.status,
        200,
        "the next one can claim at once"
    );
    assert_eq!(world.state("orders").committed(), 10);
    let rows = world.receiver.acknowledged_rows();
    assert!(rows.values().all(|events| events.len() == 1), "{rows:?}");
}

#[tokio::test]
async fn a_receiver_that_fails_while_we_stop_leaves_the_lease_free() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    world
        .receiver
        .answer(|_, _| Answer::Say(500, None, String::new()));
    let mut handler = world.serve().await;
    let stopping = async {
        world.receiver.arrived(1).await;
        handler.signal(Signal::SIGTERM);
    };
    let (answer, ()) = tokio::join!(handler.tick("Orders"), stopping);
    assert_eq!(answer.status, 500);
    assert_ne!(handler.ended().await.code(), Some(0));
    assert_eq!(world.state("orders").document().lease.held, None);
    assert_eq!(world.state("orders").committed(), 0);
}

#[tokio::test]
async fn connections_without_a_whole_request_do_not_keep_it_from_stopping() {
    let world = World::with_orders(json!({})).await;
    for sent in [
        "",
        "POST /Orders HT",
        "POST /Orders HTTP/1.1\r\nHost: x\r\n",
    ] {
        let mut handler = world.serve().await;
        let mut stream = TcpStream::connect(("127.0.0.1", handler.port))
            .await
            .unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        assert_eq!(handler.tick("Orders").await.status, 200);
        handler.signal(Signal::SIGTERM);
        assert_ne!(handler.ended().await.code(), Some(0), "{sent:?}");
    }
}

/// A host that dies leaves its handler with pipes that nobody reads.
#[tokio::test]
async fn rows_are_delivered_even_when_nobody_reads_the_log() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    let port = free_port();
    let mut child = Command::new(BINARY)
        .arg("serve")
        .env_clear()
        .envs(&world.environment)
        .env("FUNCTIONS_CUSTOMHANDLER_PORT", port.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    within("it is ready", async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert_eq!(child.try_wait().unwrap(), None, "it stays up");
            tokio::time::sleep(std::time::Duration::from_millis(25)).await;
        }
    })
    .await;
    let body = timer_body(&Value::Null).to_string();
    let unknown = exchange(port, chunked("Unknown", "id", &body)).await;
    assert_eq!(unknown.status, 404);
    let answer = exchange(port, chunked("Orders", "id", &body)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(world.state("orders").committed(), 1);
}

/// A pipe holds 64 KiB; whoever writes more into it waits for a reader.
#[tokio::test]
async fn a_log_that_nobody_reads_holds_up_neither_ticks_nor_the_stop() {
    let world = World::with_orders(json!({}))
        .await
        .poller("Missing", json!({ "source": { "table": "no_such_table" } }))
        .setting("DBTICK_LOG", "trace");
    let port = free_port();
    let mut child = tokio::process::Command::new(BINARY)
        .arg("serve")
        .env_clear()
        .envs(&world.environment)
        .env("FUNCTIONS_CUSTOMHANDLER_PORT", port.to_string())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
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
    let mut table = world.writer().await;
    let body = timer_body(&Value::Null).to_string();
    for tick in 1..=60 {
        table.insert(1).await;
        let answer = exchange(port, chunked("Orders", "id", &body)).await;
        assert_eq!(answer.status, 200, "tick {tick}");
        let long = "x".repeat(3000);
        let answer = exchange(port, chunked(&long, "id", &body)).await;
        assert_eq!(answer.status, 404, "tick {tick}");
    }
    assert_eq!(world.state("orders").committed(), 60);
    let pid = child.id().unwrap().cast_signed();
    kill(Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    let ended = within("it ends", child.wait()).await.unwrap();
    let mut said = String::new();
    let read = child.stdout.take().unwrap().read_to_string(&mut said).await;
    read.unwrap();
    assert_ne!(ended.code(), Some(0));
    assert!(said.contains("dbtick.tick"), "{said}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_a_clear_error_and_not_0() {
    let world = World::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = Command::new(BINARY)
        .arg("serve")
        .env_clear()
        .envs(&world.environment)
        .env("FUNCTIONS_CUSTOMHANDLER_PORT", &port)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains(&port) && error.contains("in use"), "{error}");
}

#[tokio::test]
async fn a_tick_whose_caller_hangs_up_goes_on_to_its_end() {
    let world = World::with_orders(json!({ "batch": { "max_rows": 2 } }))
        .await
        .rows(10)
        .await;
    world.receiver.answer(|_, _| Answer::WhenOpened);
    let handler = world.serve().await;
    tokio::select! {
        biased;
        answer = handler.tick("Orders") => panic!("nothing was answered yet: {answer:?}"),
        () = world.receiver.arrived(1) => {}
    }
    world.receiver.open_gate();
    within("the drain ends", async {
        while world.state("orders").committed() < 10 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(world.state("orders").document().lease.held, None);
}
