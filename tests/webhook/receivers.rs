//! The receivers that the docs show, with real requests.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use dbtick::model::envelope::{Batch, Fence};
use dbtick::model::lease::FencingToken;
use dbtick::model::page::{Op, PageWriter};
use dbtick::model::position::{Position, Scalar};
use dbtick::sink::{FailureKind, Stance, Unaccepted, Verdict};
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::support::verify::python;
use crate::{PATIENT, deliver_batch, sink};

struct Example {
    port: u16,
    process: Child,
}

impl Example {
    fn start(name: &str, arguments: &[&Path]) -> Self {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/receivers");
        let mut process = Command::new(python())
            .arg(docs.join(name))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut port = String::new();
        BufReader::new(process.stdout.take().unwrap())
            .read_line(&mut port)
            .unwrap();
        let port = port.trim().parse().unwrap();
        Self { port, process }
    }

    async fn receive(&self, batch: &Batch) -> Verdict {
        deliver_batch(&sink(self.port, PATIENT, 1), batch).await
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

/// An upsert of row 1, 2, … with each of `data`.
fn batch(poller: &str, (token, sequence): (u64, u64), data: &[&str]) -> Batch {
    let mut writer = PageWriter::new(poller, 10, 1 << 20);
    for (id, data) in (1_i64..).zip(data) {
        let at = || vec![Scalar::Integer(id.into())];
        writer.push(
            Op::Upsert,
            Position::new(at(), at()),
            |out| out.extend_from_slice(id.to_string().as_bytes()),
            |out| out.extend_from_slice(format!("{{\"id\":{id}}}").as_bytes()),
            |out| out.extend_from_slice(data.as_bytes()),
        );
    }
    let token = (0..token).fold(FencingToken::default(), |token, _| token.next());
    let fence = Fence {
        token,
        sequence,
        shard: None,
    };
    Batch::assemble(poller, &[], &writer.finish(), fence, 1, None)
}

#[tokio::test]
async fn the_receiver_of_the_docs_names_the_events_that_it_has_not_taken() {
    let example = Example::start("partly.py", &[]);
    let (good, unknown, never) = (
        r#"{"customer":"ann"}"#,
        r#"{"customer":"new"}"#,
        r#"{"customer":null}"#,
    );
    let all = batch("orders", (1, 1), &[good, good]);
    assert_eq!(example.receive(&all).await, Verdict::Acknowledged);
    let some = batch("orders", (1, 2), &[unknown, good, never]);
    let not = |index: usize, reason: &str, never| Unaccepted {
        id: some.event_ids[index],
        reason: reason.to_owned(),
        stance: if never { Stance::Never } else { Stance::NotNow },
    };
    let expected = Verdict::Partly(vec![
        not(0, "the customer is not known yet", false),
        not(2, "an order needs a customer", true),
    ]);
    assert_eq!(example.receive(&some).await, expected);
}

#[tokio::test]
async fn a_receiver_that_compares_fences_rejects_a_late_older_attempt() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("rows.db");
    let example = Example::start("fence.py", &[&file]);
    // Each: the poller, its fence, whether it is taken, and what the receiver has for row 1 then.
    for (poller, fence, is_taken, expected) in [
        ("orders", (1, 4), true, "1.4"),
        ("orders", (1, 5), true, "1.5"),
        // Another instance has taken over, and what the first one had sent arrives after that.
        ("orders", (2, 1), true, "2.1"),
        ("orders", (1, 6), false, "2.1"),
        ("orders", (2, 2), true, "2.2"),
        // A request that seemed lost and was sent again as another.
        ("orders", (2, 1), false, "2.2"),
        // The same request again, because its answer was lost.
        ("orders", (2, 2), true, "2.2"),
        ("orders", (3, 1), true, "3.1"),
        // Each poller counts by itself.
        ("invoices", (1, 1), true, "1.1"),
        ("orders", (3, 2), true, "3.2"),
    ] {
        let data = format!("{}.{}", fence.0, fence.1);
        let verdict = example.receive(&batch(poller, fence, &[&data])).await;
        match verdict {
            Verdict::Acknowledged => assert!(is_taken, "{poller} {fence:?}"),
            Verdict::Failed(failure) => {
                assert!(!is_taken, "{poller} {fence:?}: {failure}");
                assert!(failure.reason.contains("409"), "{failure}");
                assert_eq!(failure.kind, FailureKind::Refused, "no row is to blame");
            }
            Verdict::Partly(_) => panic!("{poller} {fence:?}"),
        }
        let mut database = SqliteConnectOptions::new()
            .filename(&file)
            .connect()
            .await
            .unwrap();
        let kept: String =
            sqlx::query_scalar("SELECT data FROM copies WHERE poller = ? AND key = '{\"id\": 1}'")
                .bind(poller)
                .fetch_one(&mut database)
                .await
                .unwrap();
        assert_eq!(kept, expected, "{poller} {fence:?}");
    }
}
