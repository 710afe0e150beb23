//! A batch of CloudEvents 1.0: a JSON array of events, each with the native event as its data.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;

use super::{Batch, opened};
use crate::model::page::Op;
use crate::model::shard::Shard;

/// `subject` is the key as compact JSON. The fence is text, because an Integer of CloudEvents has 32
/// bits. There is no `time`: a poller does not know when a row changed.
#[derive(Serialize)]
struct Attributes<'a> {
    specversion: &'static str,
    id: String,
    source: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    subject: Cow<'a, str>,
    datacontenttype: &'static str,
    poller: &'a str,
    batchid: &'a str,
    fencetoken: &'a str,
    fencesequence: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    fenceshard: Option<Shard>,
}

pub(super) fn encode(batch: &Batch) -> Bytes {
    let source = format!("/dbtick/{}", batch.poller);
    let token = batch.fence.token.get().to_string();
    let sequence = batch.fence.sequence.to_string();
    let mut out = Vec::with_capacity(batch.body.len() + batch.places.len() * 384);
    out.push(b'[');
    for (index, event) in batch.events().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let attributes = Attributes {
            specversion: "1.0",
            id: event.id.to_string(),
            source: &source,
            kind: match event.op {
                Op::Upsert => "dbtick.row.upsert",
                Op::Delete => "dbtick.row.delete",
            },
            subject: String::from_utf8_lossy(event.key()),
            datacontenttype: "application/json",
            poller: &batch.poller,
            batchid: batch.id.as_str(),
            fencetoken: &token,
            fencesequence: &sequence,
            fenceshard: batch.fence.shard,
        };
        out.extend_from_slice(&opened(&attributes));
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(event.json);
        out.push(b'}');
    }
    out.push(b']');
    out.into()
}
