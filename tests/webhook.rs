//! The webhook sink against real sockets: what acknowledges, what is tried again, what is given up,
//! and what never shows in an error.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "webhook/answers.rs"]
mod answers;
#[path = "webhook/authorization.rs"]
mod authorization;
#[path = "webhook/body.rs"]
mod body;
#[path = "webhook/receivers.rs"]
mod receivers;
#[path = "webhook/signature.rs"]
mod signature;
#[path = "webhook/trust.rs"]
mod trust;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::TimeDelta;
use dbtick::azure::Azure;
use dbtick::clock::{Clock, SystemClock, Timestamp};
use dbtick::config::WebhookConfig;
use dbtick::config::secret::SecretUrl;
use dbtick::model::envelope::{Batch, Fence};
use dbtick::model::lease::FencingToken;
use dbtick::model::page::{Op, PageWriter};
use dbtick::model::position::{Position, Scalar};
use dbtick::sink::webhook::client;
use dbtick::sink::{DeliveryFailure, Sink, Verdict, WebhookSink};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;

use support::identity::CANARY;
use support::within;

const SECRETS: [&str; 8] = [
    "user-canary",
    "pass-canary",
    "path-canary",
    "query-canary",
    "Y2FuYXJ5",
    "header-canary",
    CANARY,
    ECHO,
];
/// Receivers echo row data in their errors.
const ECHO: &str = "body-canary";

/// What the receiver does once it has read a request.
#[derive(Debug, Clone)]
enum Play {
    /// Writes this and closes.
    Say(String),
    /// Writes this, then the same bytes over and over.
    Endless(String, &'static [u8]),
    /// Writes these bytes and closes.
    Bytes(Vec<u8>),
    /// Writes this and keeps the connection open.
    Stall(String),
    /// Writes this, one byte at a time, with this pause before each.
    Drip(String, Duration),
    /// Writes this when the caller has gone.
    Late(String),
}

fn status(line: &str) -> Play {
    Play::Say(format!(
        "HTTP/1.1 {line}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{ECHO}",
        ECHO.len()
    ))
}

struct Seen {
    head: String,
    body: Vec<u8>,
    at: Instant,
}

impl Seen {
    fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    /// All of them, by their names in lower case.
    fn headers(&self) -> Value {
        let lines = self.head.lines().skip(1);
        lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_lowercase(), Value::from(value.trim())))
            .collect::<serde_json::Map<_, _>>()
            .into()
    }
}

/// A TCP server that plays its script, the last entry for ever.
struct RawReceiver {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    written: Arc<AtomicUsize>,
}

impl RawReceiver {
    async fn playing(script: Vec<Play>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            port: listener.local_addr().unwrap().port(),
            seen: Arc::default(),
            written: Arc::default(),
        };
        let (seen, written) = (Arc::clone(&receiver.seen), Arc::clone(&receiver.written));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, written) = (Arc::clone(&seen), Arc::clone(&written));
                let script = script.clone();
                tokio::spawn(async move { converse(stream, &script, &seen, &written).await });
            }
        });
        receiver
    }

    fn count(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The pauses between requests.
    fn pauses(&self) -> Vec<Duration> {
        let seen = self.seen.lock().unwrap();
        seen.windows(2)
            .map(|pair| pair[1].at - pair[0].at)
            .collect()
    }
}

async fn converse(
    mut stream: TcpStream,
    script: &[Play],
    seen: &Mutex<Vec<Seen>>,
    written: &AtomicUsize,
) {
    let mut request = Vec::new();
    let mut buffer = [0; 8192];
    let (head, body) = loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        request.extend_from_slice(&buffer[..read]);
        let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8(request[..end].to_vec()).unwrap();
        let body = &request[end + 4..];
        let length = header(&head, "content-length").map_or(0, |value| value.parse().unwrap());
        if body.len() >= length {
            break (head, body.to_vec());
        }
    };
    let play = {
        let mut seen = seen.lock().unwrap();
        let at = SystemClock.monotonic();
        seen.push(Seen { head, body, at });
        script[(seen.len() - 1).min(script.len() - 1)].clone()
    };
    match play {
        Play::Say(text) => {
            stream.write_all(text.as_bytes()).await.ok();
        }
        Play::Bytes(bytes) => {
            stream.write_all(&bytes).await.ok();
        }
        Play::Stall(text) => {
            stream.write_all(text.as_bytes()).await.ok();
            std::future::pending::<()>().await;
        }
        Play::Drip(text, pause) => {
            for byte in text.bytes() {
                tokio::time::sleep(pause).await;
                if stream.write_all(&[byte]).await.is_err() {
                    return;
                }
            }
        }
        Play::Late(text) => {
            while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {}
            stream.write_all(text.as_bytes()).await.ok();
        }
        Play::Endless(text, bytes) => {
            stream.write_all(text.as_bytes()).await.ok();
            while stream.write_all(bytes).await.is_ok() {
                written.fetch_add(bytes.len(), Ordering::Relaxed);
            }
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn batch() -> Batch {
    let mut writer = PageWriter::new("orders", 10, 1 << 20);
    for id in 1..=2_i64 {
        let at = || vec![Scalar::Integer(id.into())];
        writer.push(
            Op::Upsert,
            Position::new(at(), at()),
            |out| out.extend_from_slice(id.to_string().as_bytes()),
            |out| out.extend_from_slice(format!("{{\"id\":{id}}}").as_bytes()),
            |out| out.extend_from_slice(b"{\"note\":\"x\\r\\nX-Injected: 1\"}"),
        );
    }
    let types = [("id".to_owned(), "INTEGER".to_owned())];
    let fence = Fence {
        token: FencingToken::default().next(),
        sequence: 1,
        shard: None,
    };
    Batch::assemble("orders", &types, &writer.finish(), fence, 1, None)
}

/// A second later whenever it is looked at.
#[derive(Debug, Default)]
struct Striding(AtomicI64);

impl Clock for Striding {
    fn now(&self) -> Timestamp {
        let strides = self.0.fetch_add(1, Ordering::Relaxed);
        SystemClock.now() + TimeDelta::seconds(strides)
    }

    fn random(&self) -> u128 {
        SystemClock.random()
    }
}

fn webhook(port: u16) -> WebhookConfig {
    let url =
        format!("http://user-canary:pass-canary@127.0.0.1:{port}/path-canary?code=query-canary");
    WebhookConfig::new(SecretUrl::new(url.parse().unwrap()))
}

fn sink(port: u16, timeout: Duration, attempts: u32) -> WebhookSink {
    open(WebhookConfig {
        timeout,
        attempts,
        ..webhook(port)
    })
}

fn open(webhook: WebhookConfig) -> WebhookSink {
    open_by(webhook, Arc::new(Striding::default()))
}

fn open_by(webhook: WebhookConfig, clock: Arc<dyn Clock>) -> WebhookSink {
    let azure = Azure::new(Arc::new(SystemClock)).unwrap();
    WebhookSink::new("hook", &webhook, client().unwrap(), &azure, clock)
}

const PATIENT: Duration = Duration::from_secs(10);

async fn deliver(sink: &WebhookSink) -> Verdict {
    deliver_batch(sink, &batch()).await
}

async fn deliver_batch(sink: &WebhookSink, batch: &Batch) -> Verdict {
    let verdict = within("a verdict", sink.deliver(batch)).await;
    let said = format!("{verdict:?} {sink:?}");
    for secret in SECRETS {
        assert!(!said.contains(secret), "{said}");
    }
    verdict
}

/// The failure, and the requests that it took.
async fn failure(script: Vec<Play>, attempts: u32) -> (DeliveryFailure, RawReceiver) {
    let receiver = RawReceiver::playing(script).await;
    match deliver(&sink(receiver.port, PATIENT, attempts)).await {
        Verdict::Failed(failure) => (failure, receiver),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn any_2xx_acknowledges() {
    for line in [
        "200 OK",
        "201 Created",
        "202 Accepted",
        "204 No Content",
        "299 Fine",
    ] {
        let answer = Play::Say(format!("HTTP/1.1 {line}\r\nConnection: close\r\n\r\n"));
        let receiver = RawReceiver::playing(vec![answer]).await;
        let verdict = deliver(&sink(receiver.port, PATIENT, 3)).await;
        assert_eq!(verdict, Verdict::Acknowledged, "{line}");
        assert_eq!(receiver.count(), 1, "{line}");
    }
}

#[tokio::test]
async fn a_request_is_what_receivers_are_promised() {
    let receiver = RawReceiver::playing(vec![status("200 OK")]).await;
    deliver(&sink(receiver.port, PATIENT, 3)).await;
    let seen = receiver.seen.lock().unwrap();
    let Seen { head, body, .. } = &seen[0];
    assert!(
        head.starts_with("POST /path-canary?code=query-canary HTTP/1.1\r\n"),
        "{head}"
    );
    let batch = batch();
    for (name, expected) in [
        ("content-type", "application/json"),
        ("idempotency-key", batch.id.as_str()),
        ("content-length", &body.len().to_string()),
    ] {
        assert_eq!(header(head, name), Some(expected), "{head}");
    }
    assert_eq!(header(head, "transfer-encoding"), None);
    assert_eq!(
        header(head, "x-injected"),
        None,
        "row data stays in the body"
    );
    assert_eq!(
        header(head, "accept-encoding"),
        Some("identity"),
        "answers are not decompressed"
    );
    assert_eq!(header(head, "traceparent"), None);
    assert_eq!(body, &batch.body);
    let body: Value = serde_json::from_slice(body).unwrap();
    let schema = serde_json::from_str(include_str!("../schema/batch.schema.json")).unwrap();
    if let Err(error) = jsonschema::validate(&schema, &body) {
        panic!("{error}: {body}");
    }
    assert_eq!(body["batch_id"], batch.id.as_str());
}

/// S2.
#[tokio::test]
async fn a_redirect_is_a_failure_and_is_not_followed() {
    let elsewhere = RawReceiver::playing(vec![status("200 OK")]).await;
    for code in [301, 302, 303, 307, 308, 304] {
        let answer = Play::Say(format!(
            "HTTP/1.1 {code} Elsewhere\r\nLocation: http://127.0.0.1:{}/\r\n\
             Connection: close\r\nContent-Length: 0\r\n\r\n",
            elsewhere.port
        ));
        let (failure, receiver) = failure(vec![answer], 3).await;
        assert_eq!(receiver.count(), 1, "{code}");
        assert!(failure.reason.contains(&code.to_string()), "{failure}");
    }
    assert_eq!(elsewhere.count(), 0);
}

#[tokio::test]
async fn a_4xx_is_given_up_at_once() {
    for line in [
        "400 Bad Request",
        "401 Unauthorized",
        "404 Not Found",
        "410 Gone",
        "413 Large",
    ] {
        let (failure, receiver) = failure(vec![status(line)], 3).await;
        assert_eq!(receiver.count(), 1, "{line}");
        assert!(failure.reason.contains(&line[..3]), "{failure}");
        assert_eq!(failure.not_before, None);
    }
}

#[tokio::test]
async fn a_5xx_or_429_is_tried_again_with_growing_pauses() {
    for line in ["500 Broken", "503 Busy", "429 Slow Down"] {
        let (failure, receiver) = failure(vec![status(line)], 3).await;
        assert!(failure.reason.contains(&line[..3]), "{failure}");
        let pauses = receiver.pauses();
        assert_eq!(pauses.len(), 2, "{line}: {pauses:?}");
        // 200 ms and 400 ms, with up to half taken off.
        assert!(pauses[0] >= Duration::from_millis(100), "{pauses:?}");
        assert!(pauses[1] >= Duration::from_millis(200), "{pauses:?}");
    }
}

#[tokio::test]
async fn a_receiver_that_recovers_inside_the_tick_acknowledges() {
    let receiver = RawReceiver::playing(vec![status("503 Busy"), status("200 OK")]).await;
    let verdict = deliver(&sink(receiver.port, PATIENT, 3)).await;
    assert_eq!(verdict, Verdict::Acknowledged);
    let seen = receiver.seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].body, seen[1].body);
    let key = |seen: &Seen| header(&seen.head, "idempotency-key").unwrap().to_owned();
    assert_eq!(key(&seen[0]), key(&seen[1]));
}

#[tokio::test]
async fn retry_after_ends_the_tries_of_this_tick() {
    for (line, header, expected) in [
        ("503 Busy", "Retry-After: 120", Some(120)),
        ("429 Slow Down", "retry-after: 30", Some(30)),
        (
            "503 Busy",
            "Retry-After: 99999999999999999999",
            Some(86_400),
        ),
        (
            "429 Slow Down",
            "Retry-After: Fri, 31 Dec 2100 23:59:59 GMT",
            Some(86_400),
        ),
        ("503 Busy", "Retry-After: -5", None),
        ("503 Busy", "Retry-After: soon", None),
    ] {
        let answer = Play::Say(format!(
            "HTTP/1.1 {line}\r\n{header}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        ));
        let before = SystemClock.now();
        let (failure, receiver) = failure(vec![answer], 2).await;
        match expected {
            None => {
                assert_eq!(
                    (failure.not_before, receiver.count()),
                    (None, 2),
                    "{header}"
                );
            }
            Some(seconds) => {
                assert_eq!(receiver.count(), 1, "{header}");
                let wait = (failure.not_before.unwrap() - before).num_seconds();
                assert!((seconds..seconds + 5).contains(&wait), "{header}: {wait}");
            }
        }
    }
}

#[tokio::test]
async fn a_short_retry_after_is_waited_for_inside_the_tick() {
    let busy = "HTTP/1.1 503 Busy\r\nRetry-After: 1\r\nConnection: close\r\n\r\n";
    let script = vec![Play::Say(busy.to_owned()), status("200 OK")];
    let receiver = RawReceiver::playing(script).await;
    let sink = open_by(webhook(receiver.port), Arc::new(SystemClock));
    assert_eq!(deliver(&sink).await, Verdict::Acknowledged);
    let pauses = receiver.pauses();
    // The time between the answer and the request is not counted.
    assert!(
        matches!(pauses[..], [pause] if pause >= Duration::from_millis(990)),
        "{pauses:?}"
    );
}

#[tokio::test]
async fn a_trace_goes_with_every_attempt() {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let receiver = RawReceiver::playing(vec![status("503 Busy"), status("200 OK")]).await;
    let mut batch = batch();
    batch.trace = Some(trace.into());
    deliver_batch(&sink(receiver.port, PATIENT, 3), &batch).await;
    let seen = receiver.seen.lock().unwrap();
    let traces: Vec<_> = seen.iter().map(|seen| seen.header("traceparent")).collect();
    assert_eq!(traces, [Some(trace); 2]);
}

#[tokio::test]
async fn an_attempt_that_timed_out_is_not_repeated_in_the_tick() {
    let slow_body = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab";
    for text in ["", "HTTP/1.1 200 OK\r\nX-", slow_body] {
        let receiver = RawReceiver::playing(vec![Play::Stall(text.to_owned())]).await;
        let verdict = deliver(&sink(receiver.port, Duration::from_millis(200), 3)).await;
        let Verdict::Failed(failure) = verdict else {
            panic!("acknowledged after {text:?}");
        };
        assert!(failure.reason.contains("200ms"), "{failure}");
        assert_eq!(receiver.count(), 1, "{text:?}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_tried_again_and_named() {
    let port = support::handler::free_port();
    let started = SystemClock.monotonic();
    let Verdict::Failed(failure) = deliver(&sink(port, PATIENT, 2)).await else {
        panic!("acknowledged");
    };
    assert!(failure.reason.contains("refused"), "{failure}");
    assert!(
        SystemClock.monotonic() - started >= Duration::from_millis(100),
        "one pause"
    );
}

#[tokio::test]
async fn an_answer_that_is_cut_off_acknowledges_nothing() {
    for text in [
        "",
        "HTTP/1.1 200",
        "HTTP/1.1 200 OK\r\nContent-Le",
        "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        "nonsense\r\n\r\n",
    ] {
        let (failure, _) = failure(vec![Play::Say(text.to_owned())], 1).await;
        assert!(failure.reason.contains("127.0.0.1"), "{failure}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_read_to_a_limit() {
    const CHUNK: &[u8] = &[b'x'; 1024];
    for (line, acknowledged) in [("200 OK", true), ("400 Bad Request", false)] {
        let head = format!("HTTP/1.1 {line}\r\nConnection: close\r\n\r\n");
        let receiver = RawReceiver::playing(vec![Play::Endless(head, CHUNK)]).await;
        let verdict = deliver(&sink(receiver.port, PATIENT, 1)).await;
        assert_eq!(
            verdict == Verdict::Acknowledged,
            acknowledged,
            "{verdict:?}"
        );
        // What the sockets buffer is not ours to bound; an unbounded reader would take all of it.
        let written = receiver.written.load(Ordering::Relaxed);
        assert!(written < 32 << 20, "{written}");
    }
}

#[tokio::test]
async fn endless_headers_are_a_failure() {
    let head = "HTTP/1.1 200 OK\r\n".to_owned();
    let line = b"X-Padding: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\r\n";
    let (failure, _) = failure(vec![Play::Endless(head, line)], 1).await;
    assert!(failure.reason.contains("127.0.0.1"), "{failure}");
}
