//! Events that are too large for a message: each is a blob, and its message says where.
//!
//! A blob holds the event exactly as it was encoded, so its bytes are told by the event's id, and
//! writing it again changes nothing but its age. That is done with every attempt: a clean-up rule
//! that goes by age must not take the blob of a message that was just put. The name has app, poller
//! and sink in it, because whoever handles a message may delete its blob.

use std::num::NonZero;
use std::sync::Arc;

use azure_core::http::{ClientOptions, NoFormat, RequestContent};
use azure_storage_blob::models::BlobClientUploadOptions;
use azure_storage_blob::{
    BlobClient, BlobClientOptions, BlobContainerClient, BlobContainerClientOptions,
};
use bytes::Bytes;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::{NotPut, Reach};
use crate::azure::Azure;
use crate::azure::advice::{Needs, about_rights};
use crate::azure::connection::ServiceEndpoint;
use crate::azure::failure::Failure;
use crate::clock::Clock;
use crate::config::Claims;
use crate::model::envelope::{Batch, ClaimCheck};
use crate::sink::{DeliveryFailure, FailureKind};

pub(crate) const NEEDS: Needs = Needs {
    to: "write claim checks",
    role: "Storage Blob Data Contributor",
    scope: "the container, or on the account where it is to create the container",
    permissions: "create and write on objects, and create on containers",
};
/// In one request: a blob is there whole, or not at all.
const ONE_PIECE: NonZero<u64> = NonZero::new(256 << 20).expect("it is not zero");

pub(super) struct ClaimStore {
    endpoint: Arc<ServiceEndpoint>,
    container: String,
    /// App and sink.
    owner: (String, String),
    options: ClientOptions,
    clock: Arc<dyn Clock>,
}

impl ClaimStore {
    pub(super) fn new(
        azure: &Azure,
        config: &Claims,
        app: &str,
        sink: &str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            options: azure.client_options(&config.endpoint),
            endpoint: Arc::clone(&config.endpoint),
            container: config.container.clone(),
            owner: (app.to_owned(), sink.to_owned()),
            clock,
        }
    }

    pub(super) fn name(&self, batch: &Batch, index: usize) -> String {
        let (app, sink) = &self.owner;
        let (poller, id) = (batch.poller(), batch.event_ids[index]);
        format!("{app}/{poller}/{sink}/{id}.json")
    }

    pub(super) fn check<'a>(&'a self, blob: &'a str, event: &[u8]) -> ClaimCheck<'a> {
        ClaimCheck {
            container: &self.container,
            blob,
            bytes: event.len(),
            sha256: HEXLOWER.encode(&Sha256::digest(event)),
        }
    }

    /// Durable when it returns.
    pub(super) async fn write(&self, name: &str, event: &[u8]) -> Result<(), NotPut> {
        let body = Bytes::copy_from_slice(event);
        let Err(failure) = self.upload(name, body.clone()).await else {
            return Ok(());
        };
        if !matches!(&failure, Failure::Answered(answer) if answer.code == "ContainerNotFound") {
            return Err(self.judge(failure));
        }
        match self.create().await {
            Ok(()) => {}
            Err(Failure::Answered(answer)) if answer.code == "ContainerAlreadyExists" => {}
            Err(failure) => return Err(self.judge(failure)),
        }
        let written = self.upload(name, body).await;
        written.map_err(|failure| self.judge(failure))
    }

    async fn upload(&self, name: &str, body: Bytes) -> Result<(), Failure> {
        let options = BlobClientOptions {
            client_options: self.options.clone(),
            ..BlobClientOptions::default()
        };
        let path = [&*self.container].into_iter().chain(name.split('/'));
        let client = BlobClient::new(self.endpoint.address(path), None, Some(options))?;
        let body: RequestContent<Bytes, NoFormat> = body.into();
        let options = BlobClientUploadOptions {
            blob_content_type: Some("application/json".to_owned()),
            partition_size: Some(ONE_PIECE),
            ..BlobClientUploadOptions::default()
        };
        client.upload(body, Some(options)).await?;
        Ok(())
    }

    async fn create(&self) -> Result<(), Failure> {
        let options = BlobContainerClientOptions {
            client_options: self.options.clone(),
            ..BlobContainerClientOptions::default()
        };
        let address = self.endpoint.address([&*self.container]);
        let client = BlobContainerClient::new(address, None, Some(options))?;
        client.create(None).await?;
        Ok(())
    }

    /// A write of which nobody knows is as good as one that failed: it is done again.
    fn judge(&self, failure: Failure) -> NotPut {
        let setting = self.endpoint.setting();
        let subject = format!("claim checks in {} of {setting}", self.container);
        let (kind, reason) = match failure {
            Failure::Answered(answer) if matches!(answer.status, 408 | 429 | 500..=599) => {
                (FailureKind::Passing, format!("{subject}: {answer}"))
            }
            Failure::Answered(answer) if answer.code == "ContainerBeingDeleted" => (
                FailureKind::Passing,
                format!("{subject}: the container is being deleted: {answer}"),
            ),
            Failure::Answered(answer) => {
                let now = self.clock.now();
                let advice = about_rights(&self.endpoint, &NEEDS, &answer, now);
                let advice = advice.unwrap_or_else(|| format!("check {setting}"));
                (
                    FailureKind::Refused,
                    format!("{subject}: {advice}: {answer}"),
                )
            }
            Failure::NoToken(error) if !error.is_passing() => {
                (FailureKind::Refused, format!("{subject}: {error}"))
            }
            Failure::NoToken(error) => (FailureKind::Passing, format!("{subject}: {error}")),
            Failure::NeverSent(cause) | Failure::Cut(cause) => {
                let host = self.endpoint.host();
                let reason = format!("{subject} at {host}: {}", super::story(&*cause));
                (FailureKind::Passing, reason)
            }
        };
        NotPut {
            failure: DeliveryFailure::new(kind, reason),
            reach: Reach::All,
        }
    }
}

impl std::fmt::Debug for ClaimStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClaimStore")
            .field("connection", &self.endpoint.setting())
            .field("container", &self.container)
            .finish_non_exhaustive()
    }
}
