//! What the host sends, and what nobody should.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::http::{chunked, exchange, timer_body, with_length};
use crate::support::within;
use crate::support::world::World;

const ID: &str = "11111111-2222-3333-4444-555555555555";

#[tokio::test]
async fn every_form_of_a_timer_invocation_runs_a_tick() {
    let world = World::with_orders(json!({})).await;
    let handler = world.serve().await;
    let mut table = world.writer().await;
    let status = json!({
        "Last": "0001-01-01T00:00:00+00:00", "Next": "2026-11-16T10:20:00+00:00",
        "LastUpdated": "0001-01-01T00:00:00+00:00"
    });
    let plain = timer_body(&Value::Null);
    let mut in_a_string = plain.clone();
    in_a_string["Data"]["tick"] = plain["Data"]["tick"].to_string().into();
    let mut retried = timer_body(&status);
    retried["Metadata"]["RetryContext"] = json!({ "RetryCount": 0, "Exception": null });
    let bodies = [plain, timer_body(&status), in_a_string, retried, json!({})];
    for (index, body) in bodies.iter().enumerate() {
        for request in [
            chunked("Orders", ID, &body.to_string()),
            with_length("Orders", ID, &body.to_string()),
        ] {
            table.insert(1).await;
            let before = world.receiver.acknowledged_count();
            let answer = exchange(handler.port, request).await;
            assert_eq!(answer.status, 200, "{index}: {answer:?}");
            assert_eq!(world.receiver.acknowledged_count(), before + 1, "{index}");
        }
    }
    assert_eq!(world.state("orders").committed(), 2 * bodies.len() as i64);
}

#[tokio::test]
async fn the_line_of_a_tick_says_which_retry_and_which_trace_it_belongs_to() {
    let world = World::with_orders(json!({})).await;
    let handler = world.serve().await;
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let mut retried = timer_body(&Value::Null);
    retried["Metadata"]["RetryContext"] = json!({ "RetryCount": 2, "MaxRetryCount": 3 });
    let header = format!("\r\nTraceparent: 00-{trace}-b7ad6b7169203331-01\r\n");
    let request = with_length("Orders", "retried", &retried.to_string());
    let request = request.replacen("\r\n", &header, 1);
    for (request, id, retry, of) in [
        (request, "retried", json!(2), Some(trace)),
        (
            with_length("Orders", "first", "{}"),
            "first",
            Value::Null,
            None,
        ),
    ] {
        assert_eq!(exchange(handler.port, request).await.status, 200);
        let line = handler.stdout.line(&["dbtick.tick", id]).await;
        let line: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["host_retry"], retry, "{line}");
        let trace = line["trace_id"].as_str().unwrap();
        // Where the host has no trace, one begins here.
        assert!(
            of.is_none_or(|of| trace == of) && trace.len() == 32,
            "{line}"
        );
    }
}

#[tokio::test]
async fn an_answer_is_a_json_object_with_logs() {
    let world = World::with_orders(json!({})).await.rows(3).await;
    let handler = world.serve().await;
    let answer = handler.tick("Orders").await;
    assert_eq!(answer.status, 200);
    assert!(
        answer.head.contains("content-type: application/json"),
        "{}",
        answer.head
    );
    let json = answer.json();
    assert_eq!(json["Outputs"], json!({}));
    assert_eq!(json["ReturnValue"], Value::Null);
    let logs = answer.logs();
    assert!(logs.contains("orders") && logs.contains("3 rows"), "{logs}");
}

/// S9.
#[tokio::test]
async fn a_probe_is_answered_and_the_port_is_on_loopback_only() {
    let world = World::new().await;
    let handler = world.serve().await;
    let probe = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    assert_eq!(exchange(handler.port, probe).await.status, 200);
    let listening = listeners(handler.port);
    assert_eq!(listening, ["0100007F"], "one listener, on 127.0.0.1");
}

/// The local addresses that listen on a port, as the kernel writes them.
fn listeners(port: u16) -> Vec<String> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
    let text: String = tables
        .map(|file| std::fs::read_to_string(file).unwrap())
        .concat();
    let port = format!("{port:04X}");
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            let (address, found) = fields.next()?.split_once(':')?;
            (found == port && fields.nth(1)? == "0A").then(|| address.to_owned())
        })
        .collect()
}

#[tokio::test]
async fn a_name_keeps_its_case_and_an_unknown_one_is_told_the_known() {
    let world = World::with_orders(json!({}))
        .await
        .poller("invoices", json!({}));
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 200);
    for unknown in ["orders", "ORDERS", "Orders2", "api%2FOrders"] {
        let answer = handler.tick(unknown).await;
        assert_eq!(answer.status, 404, "{unknown}");
        let logs = answer.logs();
        assert!(
            logs.contains("Orders") && logs.contains("invoices"),
            "{logs}"
        );
    }
    let answer = handler.tick("api/Orders").await;
    assert_eq!(answer.status, 404);
    assert!(answer.logs().contains("/api/Orders"), "{answer:?}");
}

#[tokio::test]
async fn a_malformed_request_gets_a_clear_error_and_costs_nothing_else() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    let mut handler = world.serve().await;
    for body in [
        "",
        "null",
        "[]",
        "{",
        "\"text\"",
        r#"{"Data":5}"#,
        "\u{feff}{}",
        "{}{}",
    ] {
        for request in [chunked("Orders", ID, body), with_length("Orders", ID, body)] {
            let answer = exchange(handler.port, request).await;
            assert_eq!(answer.status, 400, "{body:?}: {answer:?}");
            let logs = answer.logs();
            assert!(logs.contains("not an invocation"), "{body:?}: {logs}");
        }
    }
    assert_eq!(world.receiver.count(), 0, "none of these is a tick");
    for request in [
        "GET /Orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "DELETE /Orders HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    ] {
        let answer = exchange(handler.port, request).await;
        assert_eq!(answer.status, 405, "{request}");
        assert!(answer.logs().contains("POST"), "{request}: {answer:?}");
    }
    assert!(handler.is_running());
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.acknowledged_count(), 1);
}

#[tokio::test]
async fn an_oversized_body_is_refused_and_costs_nothing_else() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    let mut handler = world.serve().await;
    let large = format!(r#"{{"Data":{{"tick":"{}"}}}}"#, "x".repeat(2 << 20));
    for request in [
        with_length("Orders", ID, &large),
        chunked("Orders", ID, &large),
    ] {
        let answer = exchange(handler.port, request).await;
        assert_eq!(answer.status, 413);
        assert!(answer.logs().contains("Orders"), "{answer:?}");
    }
    assert!(handler.is_running());
    assert_eq!(handler.tick("Orders").await.status, 200);
}

#[tokio::test]
async fn a_request_cannot_forge_a_line_of_the_log() {
    let world = World::with_orders(json!({})).await;
    let handler = world.serve().await;
    for path in [
        "x%0Aforged%20line",
        "x%0D%0Aforged%20line",
        "a%1B%5B31m/forged%20line",
    ] {
        let answer = handler.tick(path).await;
        assert_eq!(answer.status, 404, "{path}");
    }
    let id = "id\u{85}\tforged line";
    handler.tick_as("Orders", id).await;
    handler.stdout.line(&["dbtick.tick"]).await;
    handler.stderr.line(&["no such function"]).await;
    for line in [handler.stdout.all(), handler.stderr.all()].concat() {
        assert!(!line.starts_with("forged"), "{line}");
        assert!(!line.contains('\u{1b}'), "{line:?}");
    }
}

#[tokio::test]
async fn a_connection_that_sends_nothing_does_not_keep_others_waiting() {
    let world = World::with_orders(json!({})).await;
    let handler = world.serve().await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", handler.port))
            .await
            .unwrap();
        stream
            .write_all(b"POST /Orders HTTP/1.1\r\nX-")
            .await
            .unwrap();
        idle.push(stream);
    }
    assert_eq!(handler.tick("Orders").await.status, 200);
}

#[tokio::test]
async fn a_kept_connection_serves_one_invocation_after_another() {
    let world = World::with_orders(json!({})).await;
    let handler = world.serve().await;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", handler.port))
        .await
        .unwrap();
    for _ in 0..3 {
        let body = timer_body(&Value::Null).to_string();
        let request = chunked("Orders", ID, &body).replace("Connection: close\r\n", "");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let mut buffer = [0; 1024];
        while !answer.ends_with('}') {
            let read = within("an answer", stream.read(&mut buffer)).await.unwrap();
            assert_ne!(read, 0, "closed after {answer}");
            answer.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}
