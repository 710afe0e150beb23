//! What a receiver says, to the last byte of it: status, headers, body.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use dbtick::azure::Azure;
use dbtick::clock::{Clock, SystemClock};
use dbtick::config::WebhookConfig;
use dbtick::config::secret::SecretUrl;
use dbtick::model::envelope::{Batch, Fence};
use dbtick::model::lease::FencingToken;
use dbtick::model::page::{Op, PageWriter};
use dbtick::model::position::{Position, Scalar};
use dbtick::sink::webhook::client;
use dbtick::sink::{FailureKind, Sink, Verdict, WebhookSink, retry_after};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{CANARY, block_on};

/// No receiver silences a poller for longer.
const LONGEST: TimeDelta = TimeDelta::hours(24);

pub(crate) fn retry_after(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for now in [
        DateTime::from_timestamp(1_775_000_000, 999_999_999).unwrap(),
        DateTime::UNIX_EPOCH,
    ] {
        if let Some(then) = retry_after::parse(&text, now) {
            let wait = then - now;
            assert!(
                wait > TimeDelta::zero() && wait <= LONGEST,
                "{text:?}: {wait}"
            );
        }
    }
}

/// The bytes are the whole answer, as they come from the socket.
pub(crate) fn answer(input: &[u8]) {
    let batch = batch();
    let verdict = block_on(exchange(input, &batch));
    let failure = match &verdict {
        // A 2xx, and nothing else: a status line that begins with one is the least that is needed.
        Verdict::Acknowledged => return assert!(has_success(input), "{verdict:?}"),
        Verdict::Partly(unaccepted) => {
            assert!(has_success(input), "{verdict:?}");
            assert!(!unaccepted.is_empty());
            let ids: Vec<_> = unaccepted.iter().map(|one| one.id).collect();
            let mut expected = batch.event_ids.clone();
            expected.retain(|id| ids.contains(id));
            assert_eq!(ids, expected, "those of the batch, in its order, each once");
            for one in unaccepted {
                assert!(!one.reason.contains(char::is_control) && one.reason.len() <= 800);
            }
            return;
        }
        Verdict::Failed(failure) => failure,
    };
    let now = SystemClock.now();
    if let Some(then) = failure.not_before {
        assert!(then - now <= LONGEST, "{then}");
        assert!(matches!(
            failure.kind,
            FailureKind::Passing | FailureKind::Broken | FailureKind::Refused
        ));
    }
    // What was answered may echo rows, and is not repeated; our own address has a secret.
    assert!(!failure.reason.contains(CANARY), "{}", failure.reason);
    assert!(!failure.reason.contains('\n') && failure.reason.len() < 1000);
}

fn has_success(input: &[u8]) -> bool {
    let lines = input
        .windows(10)
        .filter(|line| line.starts_with(b"HTTP/1."));
    lines.into_iter().any(|line| line[8..] == *b" 2")
}

async fn exchange(input: &[u8], batch: &Batch) -> Verdict {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}/{CANARY}?code={CANARY}");
    let config = WebhookConfig {
        attempts: 1,
        timeout: Duration::from_secs(5),
        ..WebhookConfig::new(SecretUrl::new(url.parse().unwrap()))
    };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    thread_local! {
        static PARTS: (reqwest::Client, Azure) = (
            client().unwrap(),
            Azure::new(Arc::new(SystemClock)).unwrap(),
        );
    }
    let sink = PARTS
        .with(|(client, azure)| WebhookSink::new("hook", &config, client.clone(), azure, clock));
    let play = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 64 * 1024];
        let mut length = 0;
        // The request is small: head and body are there when its last byte is.
        while !request[..length].ends_with(b"}") {
            match socket.read(&mut request[length..]).await {
                Ok(0) | Err(_) => return,
                Ok(read) => length += read,
            }
        }
        socket.write_all(input).await.ok();
        socket.shutdown().await.ok();
        // Closing with bytes unread would reset the connection.
        while socket.read(&mut request).await.is_ok_and(|read| read > 0) {}
    };
    let (verdict, ()) = tokio::join!(sink.deliver(batch), async {
        tokio::time::timeout(Duration::from_secs(5), play)
            .await
            .ok();
    });
    verdict
}

/// Three events, whose ids are in the corpus.
pub(crate) fn batch() -> Batch {
    let mut writer = PageWriter::new("orders", 10, 10_000);
    for number in 1..=3 {
        let scalars = || vec![Scalar::Integer(number)];
        let position = Position::new(scalars(), scalars());
        let json = |out: &mut Vec<u8>| out.extend_from_slice(number.to_string().as_bytes());
        let key = |out: &mut Vec<u8>| out.extend_from_slice(b"{}");
        writer.push(Op::Upsert, position, json, key, key);
    }
    let fence = Fence {
        token: FencingToken::default(),
        sequence: 1,
        shard: None,
    };
    Batch::assemble("orders", &[], &writer.finish(), fence, 1, None)
}
