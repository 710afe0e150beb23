//! The bytes of a request: made once, sent by every attempt.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::config::WebhookConfig;
use crate::model::envelope::Batch;

/// So much is compressed without giving way to others: a heartbeat may be waiting.
const CHUNK: usize = 256 * 1024;

pub(super) async fn of(batch: &Batch, config: &WebhookConfig) -> Bytes {
    let body = batch.body_in(config.envelope);
    if config.gzip {
        compressed(body).await
    } else {
        body.clone()
    }
}

async fn compressed(body: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    for chunk in body.chunks(CHUNK) {
        encoder
            .write_all(chunk)
            .expect("a vector takes all that is written");
        tokio::task::yield_now().await;
    }
    let body = encoder.finish();
    body.expect("a vector takes all that is written").into()
}
