//! What readers of Debezium expect, as far as a poller knows it.
//!
//! There is no `ts_ms` and no position of a log, because a poller has neither; no `c` either, because
//! it cannot tell an insert from an update. A deleted row has its key in `before`, as Debezium does
//! where the database logs no more than that.

use bytes::Bytes;
use serde::Serialize;

use super::{Batch, Fence, opened};
use crate::model::page::Op;

#[derive(Serialize)]
struct Head<'a> {
    batch_id: &'a str,
    fence: Fence,
}

#[derive(Serialize)]
struct Source<'a> {
    connector: &'static str,
    name: &'a str,
}

pub(super) fn encode(batch: &Batch) -> Bytes {
    let source = opened(&Source {
        connector: "dbtick",
        name: &batch.poller,
    });
    let mut out = opened(&Head {
        batch_id: batch.id.as_str(),
        fence: batch.fence,
    });
    out.reserve(batch.body.len() + batch.places.len() * 160);
    out.extend_from_slice(b",\"events\":[");
    for (index, event) in batch.events().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let (before, after, op): (&[u8], &[u8], &[u8]) = match event.op {
            Op::Upsert => (b"null", event.data(), b"u"),
            Op::Delete => (event.key(), b"null", b"d"),
        };
        for part in [
            b"{\"id\":\"".as_slice(),
            event.id.to_string().as_bytes(),
            b"\",\"key\":",
            event.key(),
            b",\"payload\":{\"before\":",
            before,
            b",\"after\":",
            after,
            b",\"op\":\"",
            op,
            b"\",\"source\":",
            &source,
            b"}}}",
        ] {
            out.extend_from_slice(part);
        }
    }
    out.extend_from_slice(b"]}");
    out.into()
}
