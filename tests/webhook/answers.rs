//! Every kind of answer that a receiver can give, and what is made of it.

use std::io::Write;
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use dbtick::model::envelope::Batch;
use dbtick::sink::{FailureKind, Stance, Unaccepted, Verdict};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::future::join_all;

use crate::{ECHO, PATIENT, Play, RawReceiver, batch, deliver, deliver_batch, sink};

use FailureKind::{Broken, Gone, Passing, Refused, Rejected, TooLarge};

/// Tries inside the tick.
const ATTEMPTS: u32 = 2;

#[derive(Debug, Clone, PartialEq)]
enum Outcome {
    Acknowledged,
    Partly(Vec<Unaccepted>),
    /// Kind, seconds to wait, requests.
    Failed(FailureKind, Option<i64>, usize),
}

use Outcome::{Acknowledged, Failed, Partly};

async fn outcome(play: Play, batch: &Batch, timeout: Duration) -> Outcome {
    let receiver = RawReceiver::playing(vec![play]).await;
    let before = SystemClock.now();
    match deliver_batch(&sink(receiver.port, timeout, ATTEMPTS), batch).await {
        Verdict::Acknowledged => Acknowledged,
        Verdict::Partly(unaccepted) => Partly(unaccepted),
        Verdict::Failed(failure) => {
            let wait = failure.not_before.map(|then| (then - before).num_seconds());
            // To the minute: the clock of these tests strides.
            let wait = wait.map(|seconds| seconds / 60 * 60);
            Failed(failure.kind, wait, receiver.count())
        }
    }
}

fn answer(head: &str, body: &str) -> Play {
    let length = body.len();
    Play::Say(format!(
        "HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

#[tokio::test]
async fn every_status_has_its_verdict() {
    let once = |kind| Failed(kind, None, 1);
    let again = |kind| Failed(kind, None, 2);
    let later = |kind| Failed(kind, Some(120), 1);
    let cases = [
        ("200 OK", Acknowledged),
        ("200 OK\r\nRetry-After: 120", Acknowledged),
        ("202 Accepted", Acknowledged),
        ("207 Multi-Status", Acknowledged),
        ("301 Moved Permanently\r\nLocation: /", once(Refused)),
        ("302 Found\r\nRetry-After: 120", later(Refused)),
        ("304 Not Modified", once(Refused)),
        ("400 Bad Request", once(Rejected)),
        ("400 Bad Request\r\nRetry-After: 120", once(Rejected)),
        ("401 Unauthorized", once(Refused)),
        ("403 Forbidden", once(Refused)),
        ("403 Forbidden\r\nRetry-After: 120", later(Refused)),
        ("404 Not Found", once(Refused)),
        ("405 Method Not Allowed", once(Refused)),
        ("408 Request Timeout", again(Passing)),
        ("409 Conflict", once(Refused)),
        ("410 Gone", once(Gone)),
        ("410 Gone\r\nRetry-After: 120", once(Gone)),
        ("413 Content Too Large", once(TooLarge)),
        ("413 Content Too Large\r\nRetry-After: 120", once(TooLarge)),
        ("415 Unsupported Media Type", once(Rejected)),
        ("422 Unprocessable Content", once(Rejected)),
        ("429 Too Many Requests", again(Passing)),
        ("429 Too Many Requests\r\nRetry-After: 120", later(Passing)),
        ("500 Internal Server Error", again(Broken)),
        ("500 Error\r\nRetry-After: 120", later(Broken)),
        ("502 Bad Gateway", again(Broken)),
        ("503 Service Unavailable", again(Passing)),
        ("503 Busy\r\nRetry-After: 120", later(Passing)),
        ("503 Busy\r\nRetry-After: soon", again(Passing)),
        ("504 Gateway Timeout", once(Broken)),
    ];
    let batch = &batch();
    let found = cases.iter().map(|(head, expected)| async move {
        // 304 has no body, whatever its length says.
        let body = if head.starts_with("304") { "" } else { ECHO };
        let found = outcome(answer(head, body), batch, PATIENT).await;
        assert_eq!(found, *expected, "{head}");
    });
    join_all(found).await;
}

#[tokio::test]
async fn a_2xx_acknowledges_every_event_but_those_that_it_names() {
    let batch = batch();
    let [first, second] = batch.event_ids[..] else {
        panic!("two events");
    };
    let not = |id, reason: &str, never| Unaccepted {
        id,
        reason: reason.to_owned(),
        stance: if never { Stance::Never } else { Stance::NotNow },
    };
    let cases = [
        (String::new(), Acknowledged),
        (r#"{"taken":2}"#.to_owned(), Acknowledged),
        (r#"{"failed":[]}"#.to_owned(), Acknowledged),
        (
            format!(r#"{{"failed":[{{"id":"{second}","reason":"no stock"}}]}}"#),
            Partly(vec![not(second, "no stock", false)]),
        ),
        (
            format!(r#"{{"failed":[{{"id":"{second}","retry":false}},{{"id":"{first}"}}]}}"#),
            Partly(vec![not(first, "", false), not(second, "", true)]),
        ),
        (
            format!(r#"{{"failed":["{first}"]}}"#),
            Failed(Refused, None, 1),
        ),
        (
            format!(r#"{{"failed":[{{"id":"{first}"}},{{"id":"another"}}]}}"#),
            Failed(Refused, None, 1),
        ),
        (
            format!(r#"{{"failed":[{{"id":"{first}""#),
            Failed(Refused, None, 1),
        ),
    ];
    for (body, expected) in cases {
        for head in [
            "200 OK\r\nContent-Type: application/json",
            "207 Multi-Status",
        ] {
            let found = outcome(answer(head, &body), &batch, PATIENT).await;
            assert_eq!(found, expected, "{body}");
        }
        // Only a 2xx acknowledges anything.
        let refused = outcome(answer("422 Not All", &body), &batch, PATIENT).await;
        assert_eq!(refused, Failed(Rejected, None, 1), "{body}");
    }
}

#[tokio::test]
async fn an_answer_that_we_do_not_read_is_not_taken_for_an_acknowledgement() {
    let whole = batch();
    let one = whole.part(0..1, whole.fence);
    let id = whole.event_ids[0];
    let named = format!(r#"{{"id":"{id}","reason":"no stock"}},"#);
    let long = format!(r#"{{"failed":[{}"#, named.repeat(2000));
    let endless = || {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"failed\":[".to_owned();
        Play::Endless(head, b"                                ")
    };
    let packed = "200 OK\r\nContent-Encoding: gzip";
    for (play, batch, kind) in [
        (answer("200 OK", &long), &whole, TooLarge),
        (answer("200 OK", &long), &one, Refused),
        (endless(), &whole, TooLarge),
        (endless(), &one, Refused),
        (answer(packed, "\u{1f}packed"), &whole, Refused),
    ] {
        let found = outcome(play, batch, PATIENT).await;
        assert_eq!(found, Failed(kind, None, 1));
    }
    for (head, body) in [
        (packed, ""),
        ("200 OK\r\nContent-Encoding: Identity", "plain"),
    ] {
        let found = outcome(answer(head, body), &whole, PATIENT).await;
        assert_eq!(found, Acknowledged, "{head}");
    }
}

/// S14: to the byte. Whoever stops there would be waited for if more were read.
#[tokio::test]
async fn an_answer_is_read_to_64_kib_and_not_further() {
    let batch = batch();
    let stalled_after = |length: usize| {
        let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
        Play::Stall(format!("{head}{}", "x".repeat(length)))
    };
    let limit = 64 * 1024;
    let beyond = outcome(stalled_after(limit + 1), &batch, PATIENT).await;
    assert_eq!(beyond, Acknowledged);
    let up_to = outcome(stalled_after(limit), &batch, Duration::from_millis(300)).await;
    assert_eq!(up_to, Failed(Passing, None, 1));
}

/// S14: a kilobyte that is a megabyte when it is unpacked, and acknowledges everything then.
#[tokio::test]
async fn a_compressed_answer_is_never_unpacked() {
    let mut bomb = GzEncoder::new(Vec::new(), Compression::best());
    bomb.write_all(b"{\"failed\":[]").unwrap();
    bomb.write_all(&vec![b' '; 1 << 20]).unwrap();
    bomb.write_all(b"}").unwrap();
    let bomb = bomb.finish().unwrap();
    assert!(bomb.len() < 2000, "{}", bomb.len());
    for encoding in ["gzip", "x-gzip", "deflate", "br", "zstd", "gzip, gzip"] {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            bomb.len()
        );
        let play = Play::Bytes([head.as_bytes(), &bomb].concat());
        let found = outcome(play, &batch(), PATIENT).await;
        assert_eq!(found, Failed(Refused, None, 1), "{encoding}");
    }
}

#[tokio::test]
async fn a_receiver_that_is_slow_late_or_cut_off_acknowledges_nothing() {
    let batch = batch();
    let id = batch.event_ids[0];
    let ok = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let half = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n\
         {{\"failed\":[{{\"id\":\"{id}\"}},"
    );
    let chunk = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n";
    let impatient = Duration::from_millis(300);
    for play in [
        Play::Drip(ok.to_owned(), Duration::from_millis(50)),
        Play::Stall(chunk.to_owned()),
        Play::Stall(half.clone()),
        Play::Say(half),
        Play::Say(chunk.to_owned()),
        Play::Late(ok.to_owned()),
        Play::Say("\u{0}\u{1}garbage\r\n\r\n".to_owned()),
        Play::Say(String::new()),
    ] {
        let found = outcome(play.clone(), &batch, impatient).await;
        assert_eq!(found, Failed(Passing, None, 1), "{play:?}");
    }
    // The same bytes in time are an answer.
    let dripped = Play::Drip(ok.to_owned(), Duration::from_millis(1));
    assert_eq!(outcome(dripped, &batch, PATIENT).await, Acknowledged);
}

#[tokio::test]
async fn nothing_of_an_answer_that_is_not_understood_is_quoted() {
    for body in [
        format!(r#"{{"failed":"{ECHO}"}}"#),
        format!(r#"{{"failed":[{{"id":"{ECHO}"}}]}}"#),
        format!(r#"{{"failed":[{{"{ECHO}""#),
    ] {
        let receiver = RawReceiver::playing(vec![answer("200 OK", &body)]).await;
        // `deliver` looks for the echo.
        let verdict = deliver(&sink(receiver.port, PATIENT, 1)).await;
        let Verdict::Failed(failure) = verdict else {
            panic!("{verdict:?}");
        };
        assert!(failure.reason.contains("200 OK, but"), "{failure}");
    }
}
