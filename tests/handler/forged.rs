//! What whoever reaches the port can bring about: an ordinary tick, and nothing else (S10).

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::json;
use tokio::net::TcpStream;

use crate::support::command::run;
use crate::support::http::{exchange, try_exchange, with_length};
use crate::support::receiver::Answer;
use crate::support::world::World;

/// Nobody should ever connect here.
struct Trap(TcpListener);

impl Trap {
    fn set() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    fn url(&self) -> String {
        format!("http://{}/", self.0.local_addr().unwrap())
    }

    #[track_caller]
    fn is_untouched(&self) {
        let came = self.0.accept();
        let nobody = matches!(&came, Err(error) if error.kind() == ErrorKind::WouldBlock);
        assert!(nobody, "{came:?}");
    }
}

#[tokio::test]
async fn a_forged_tick_can_only_cause_an_ordinary_tick() {
    let world = World::with_orders(json!({})).await.rows(3).await;
    world
        .writer()
        .await
        .sql("CREATE TABLE others AS SELECT * FROM orders")
        .await;
    let handler = world.serve().await;
    let trap = Trap::set();
    let wish = json!({
        "name": "others", "start": "beginning", "reset": true, "state": { "directory": "/tmp" },
        "source": { "connection": "OTHER_DB", "table": "others", "query": "DELETE FROM orders" },
        "deliver": [{ "webhook": { "url": trap.url() } }],
    });
    let forged = json!({
        "Data": { "tick": { "IsPastDue": true, "poller": wish }, "poller": wish, "req": { "Url": trap.url() } },
        "Metadata": { "poller": wish, "sys": { "MethodName": "Others" }, "RetryContext": { "RetryCount": -1 } },
        "poller": wish, "pollers": [wish], "checkpoint": { "cursor": { "value": 0 } },
    });
    let path = format!("Orders?url={}&reset=1&poller=others", trap.url());
    let request = with_length(&path, "forged", &forged.to_string());
    let headers = format!(
        "\r\nX-Forwarded-Host: {0}\r\nX-Original-URL: /admin\r\nX-HTTP-Method-Override: DELETE\r\nOrigin: {0}\r\n",
        trap.url()
    );
    let request = request.replacen("\r\n", &headers, 1);
    assert_eq!(exchange(handler.port, &request).await.status, 200);
    let rows: Vec<i64> = world.receiver.acknowledged_rows().into_keys().collect();
    assert_eq!(rows, [1, 2, 3], "to the receiver of the configuration");
    assert_eq!(world.receiver.deliveries()[0].body["poller"], "orders");
    assert_eq!(world.state("orders").committed(), 3);
    let tag = world.state("orders").read().unwrap().tag;
    for _ in 0..3 {
        assert_eq!(exchange(handler.port, &request).await.status, 200);
    }
    assert_eq!(world.receiver.count(), 1, "and then there is nothing to do");
    assert_eq!(world.state("orders").read().unwrap().tag, tag);
    trap.is_untouched();
}

/// S1: where batches go is said by the configuration alone.
#[tokio::test]
async fn nothing_that_rows_or_answers_say_leads_a_batch_elsewhere() {
    let world = World::with_orders(json!({ "source": { "table": "links" } })).await;
    let trap = Trap::set();
    let mut table = world.writer().await;
    table
        .sql("CREATE TABLE links (id INTEGER PRIMARY KEY, seq INTEGER NOT NULL UNIQUE, url TEXT, webhook TEXT, deliver TEXT)")
        .await;
    for row in 1..=4 {
        sqlx::query("INSERT INTO links VALUES (?1, ?1, ?2, ?2, ?2)")
            .bind(row)
            .bind(trap.url())
            .execute(&mut table.0)
            .await
            .unwrap();
    }
    let there = trap.url();
    world.receiver.answer(move |index, _| {
        let header = |name| Some((name, there.clone()));
        match index {
            0 => Answer::Say(307, header("location"), String::new()),
            1 => Answer::Say(503, header("location"), String::new()),
            2 => Answer::Say(400, header("content-location"), String::new()),
            3 => Answer::Say(201, header("location"), format!(r#"{{"url":"{there}"}}"#)),
            _ => Answer::Ok,
        }
    });
    let handler = world.serve().await;
    for status in [500, 500, 200] {
        assert_eq!(handler.tick("Orders").await.status, status);
    }
    assert_eq!(world.receiver.count(), 4);
    assert_eq!(world.state("orders").committed(), 4);
    trap.is_untouched();
}

/// Two programs that read a request differently are how one is smuggled past the first of them.
#[tokio::test]
async fn a_request_that_could_be_read_in_two_ways_is_refused() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    let mut handler = world.serve().await;
    let post = |headers: &str, rest: &str| {
        format!("POST /Orders HTTP/1.1\r\nHost: x\r\n{headers}\r\n\r\n{rest}")
    };
    let endless = "X-Padding: x\r\n".repeat(100_000);
    for (request, expected) in [
        (post("Content-Length: 2\r\nContent-Length: 7", "{}"), 400),
        (post("Content-Length: 2, 7", "{}"), 400),
        (post("Content-Length: +2", "{}"), 400),
        (post("Content-Length: -1", "{}"), 400),
        (post("Content-Length: 99999999999999999999", "{}"), 400),
        (
            post("Transfer-Encoding: xchunked", "2\r\n{}\r\n0\r\n\r\n"),
            400,
        ),
        (
            post("Transfer-Encoding: chunked, gzip", "2\r\n{}\r\n0\r\n\r\n"),
            400,
        ),
        (post("Content-Length : 2", "{}"), 400),
        (post("X-A: b\r\n c\r\nContent-Length: 2", "{}"), 400),
        (post("X-A: b\rc\r\nContent-Length: 2", "{}"), 400),
        (post("X-A: \0\r\nContent-Length: 2", "{}"), 400),
        ("POST /Orders HTTP/9.9\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("POST /Ord ers HTTP/1.1\r\nHost: x\r\n\r\n".to_owned(), 400),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 400),
        (post(&endless, "{}"), 431),
        (post(&format!("X-Long: {}", "x".repeat(1 << 20)), "{}"), 431),
    ] {
        // Whoever is hung up on while it still sends may not see the answer.
        let answer = try_exchange(handler.port, &request).await;
        let shown = &request[..request.len().min(120)];
        let status = answer.as_ref().map(|answer| answer.status);
        assert!(
            status.is_none_or(|status| status == expected),
            "{shown:?}: {answer:?}"
        );
        assert_eq!(world.receiver.count(), 0, "{shown:?}");
    }
    // Chunks win over a length, as the standard says, and nothing behind them is read.
    let smuggled = "POST /Orders HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
    let chunks = format!("2\r\n[]\r\n0\r\n\r\n{smuggled}");
    for headers in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 5",
    ] {
        let answer = exchange(handler.port, post(headers, &chunks)).await;
        assert_eq!(answer.status, 400, "a list is no invocation: {answer:?}");
        assert_eq!(answer.body.matches("HTTP/1.1").count(), 0, "{answer:?}");
        assert_eq!(world.receiver.count(), 0);
    }
    assert!(handler.is_running());
    assert_eq!(handler.tick("Orders").await.status, 200);
}

#[tokio::test]
async fn a_body_of_a_hundred_thousand_brackets_is_refused_like_any_other() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    let mut handler = world.serve().await;
    let deep = "[".repeat(100_000);
    let quoted = serde_json::to_string(&deep).unwrap();
    for (body, status) in [
        (deep.clone(), 400),
        (format!("{{\"Data\":{deep}"), 400),
        (format!("{{\"Data\":{{\"tick\":{deep}}}}}"), 400),
        // Text that is no JSON is no timer either, and none is needed.
        (format!("{{\"Data\":{{\"tick\":{quoted}}}}}"), 200),
    ] {
        let answer = exchange(handler.port, with_length("Orders", "deep", &body)).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert!(handler.is_running());
}

#[tokio::test]
async fn hundreds_of_connections_that_say_nothing_hold_up_no_tick() {
    let world = World::with_orders(json!({})).await.rows(1).await;
    let handler = world.serve().await;
    let mut idle = Vec::new();
    for _ in 0..300 {
        idle.push(
            TcpStream::connect(("127.0.0.1", handler.port))
                .await
                .unwrap(),
        );
    }
    assert_eq!(handler.tick("Orders").await.status, 200);
    assert_eq!(world.receiver.count(), 1);
}

/// S15: a row says what it likes; it begins no line of the log, no header, and commands no terminal.
#[tokio::test]
async fn what_rows_hold_begins_no_line_no_header_and_commands_no_terminal() {
    let source = json!({ "source": { "table": "notes", "cursor": "at", "key": "name" } });
    let world = World::with_orders(source).await;
    let mut table = world.writer().await;
    table
        .sql("CREATE TABLE notes (name TEXT PRIMARY KEY, at TEXT NOT NULL, note TEXT)")
        .await;
    table
        .sql("CREATE UNIQUE INDEX notes_at ON notes (at, name)")
        .await;
    let hostile = "\r\nforged: line\r\n\r\n\u{1b}[31m\u{85}\u{2028}forged\u{0}";
    for row in 1..=3 {
        sqlx::query("INSERT INTO notes VALUES (?1, ?2, ?1)")
            .bind(format!("name{row}{hostile}"))
            .bind(format!("2026-01-0{row}{hostile}"))
            .execute(&mut table.0)
            .await
            .unwrap();
    }
    world.receiver.answer(|index, _| match index {
        0 => Answer::Say(400, None, String::new()),
        _ => Answer::Ok,
    });
    let handler = world.serve().await;
    assert_eq!(handler.tick("Orders").await.status, 500);
    let before = [
        run(&world, &["status", "orders"]),
        run(&world, &["peek", "orders"]),
    ];
    assert_eq!(handler.tick("Orders").await.status, 200);
    handler.stdout.line(&["dbtick.tick", "drained"]).await;
    handler.stderr.line(&["400"]).await;
    let mut said: Vec<_> = before
        .into_iter()
        .map(|said| ("before", said.stdout))
        .collect();
    for command in [
        &["status", "orders"][..],
        &["history", "orders"],
        &["check"],
        &["reset", "orders", "--to", "beginning", "--dry-run"],
    ] {
        let found = run(&world, command);
        said.push((command[0], found.stdout));
        said.push((command[0], found.stderr));
    }
    said.push(("log", handler.everything_said()));
    assert!(
        said.iter().any(|(_, text)| text.contains("2026-01-03")),
        "{said:#?}"
    );
    for (from, text) in &said {
        for line in text.split(['\n', '\r', '\u{85}', '\u{2028}']) {
            assert!(!line.starts_with("forged"), "{from}: {line}");
        }
        assert!(!text.contains(['\u{1b}', '\u{0}']), "{from}: {text:?}");
    }
    for delivery in world.receiver.deliveries() {
        assert!(delivery.headers.get("forged").is_none());
        let headers = format!("{:?}", delivery.headers);
        assert!(!headers.contains("name1"), "{headers}");
        assert_eq!(
            delivery.body["events"][0]["data"]["note"],
            format!("name1{hostile}")
        );
    }
}
