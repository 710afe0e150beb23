//! Azure Blob Storage as a store: one blob per document, changed only under a condition.
//!
//! Creating is `If-None-Match: *`, replacing and deleting are `If-Match`; tags are the service's
//! ETags, times its `Date` and `Last-Modified`. The client below repeats nothing. A write is sent
//! again only after an answer that proves that it did not happen: the container was missing, or the
//! service was too busy to take it.

mod fault;

use std::fmt;
use std::future::Future;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::http::{ClientOptions, Etag, NoFormat, RequestContent};
use azure_storage_blob::models::{
    BlobClientDeleteOptions, BlobClientDownloadOptions, BlobClientUploadOptions,
    BlobContainerClientListBlobsOptions,
};
use azure_storage_blob::{
    BlobClient, BlobClientOptions, BlobContainerClient, BlobContainerClientOptions,
};
use bytes::Bytes;
use futures_util::TryStreamExt;
use tokio::time::sleep;

use super::{Deleted, Loaded, ObjectStore, Put, StateStore, StoreError, StoreKey, Swap, Tag};
use crate::azure::Azure;
use crate::azure::connection::ServiceEndpoint;
use crate::azure::failure::{Failure, date, http_date};
use crate::clock::Clock;
use crate::model::lease::StoreClock;
pub(crate) use fault::NEEDS;
use fault::{Faults, Verdict};

/// Objects live apart from documents, so that neither listing shows the other's.
const OBJECTS: &str = "objects/";
/// In one request each: an upload in parts would not be one conditional write, and the parts of a
/// download would not be one answer.
const ONE_PIECE: u64 = 256 << 20;
/// A service that asks for more patience than this is given back to the caller, who has a lease to
/// think of.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
const MOST_WAITS: u32 = 2;

/// Cheap to clone; the container is created with the first write.
#[derive(Clone)]
pub struct BlobStore {
    endpoint: Arc<ServiceEndpoint>,
    container: Arc<str>,
    options: ClientOptions,
    clock: Arc<dyn Clock>,
}

impl BlobStore {
    /// Connects to nothing yet.
    #[must_use]
    pub fn new(
        azure: &Azure,
        endpoint: Arc<ServiceEndpoint>,
        container: &str,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            options: azure.client_options(&endpoint),
            endpoint,
            container: container.into(),
            clock,
        }
    }

    fn blob(&self, name: &str) -> Result<BlobClient, StoreError> {
        let path = [&*self.container].into_iter().chain(name.split('/'));
        let options = BlobClientOptions {
            client_options: self.options.clone(),
            ..BlobClientOptions::default()
        };
        BlobClient::new(self.endpoint.address(path), None, Some(options))
            .map_err(|error| self.faults(name).read(error.into()))
    }

    fn container(&self) -> Result<BlobContainerClient, StoreError> {
        let options = BlobContainerClientOptions {
            client_options: self.options.clone(),
            ..BlobContainerClientOptions::default()
        };
        BlobContainerClient::new(
            self.endpoint.address([&*self.container]),
            None,
            Some(options),
        )
        .map_err(|error| self.faults("").read(error.into()))
    }

    fn faults<'a>(&'a self, name: &'a str) -> Faults<'a> {
        Faults {
            endpoint: &self.endpoint,
            container: &self.container,
            name,
            now: self.clock.now(),
        }
    }

    async fn read(&self, name: &str) -> Result<Option<Loaded>, StoreError> {
        let options = BlobClientDownloadOptions {
            partition_size: usize::try_from(ONE_PIECE).ok().and_then(NonZero::new),
            ..BlobClientDownloadOptions::default()
        };
        let result = self.blob(name)?.download(Some(options)).await;
        let found = match result.map_err(Failure::from) {
            Ok(found) => found,
            Err(failure) if fault::is_missing(&failure) => return Ok(None),
            Err(failure) => return Err(self.faults(name).read(failure)),
        };
        let header = |name: &'static str| found.headers.get_optional_str(&name.into());
        let tag = header("etag").map(Tag::new);
        let clock = date(&found.headers)
            .zip(header("last-modified").and_then(http_date))
            .map(|(now, last_write)| StoreClock { now, last_write });
        let body = found.body.collect().await;
        let body = body.map_err(|error| self.faults(name).read(error.into()))?;
        let tag = tag.ok_or_else(|| self.faults(name).untold_tag())?;
        Ok(Some(Loaded { body, tag, clock }))
    }

    /// One conditional write: over `tag`, or where nothing is yet.
    async fn write(&self, name: &str, tag: Option<&Tag>, body: Bytes) -> Result<Swap, StoreError> {
        let client = self.blob(name)?;
        let send = || {
            let options = BlobClientUploadOptions {
                if_match: tag.map(etag),
                if_none_match: tag.is_none().then(|| Etag::from("*")),
                blob_content_type: name
                    .ends_with(".json")
                    .then(|| "application/json".to_owned()),
                partition_size: NonZero::new(ONE_PIECE),
                ..BlobClientUploadOptions::default()
            };
            let body: RequestContent<Bytes, NoFormat> = body.clone().into();
            let client = &client;
            async move {
                match client.upload(body, Some(options)).await {
                    Ok(result) => Ok(result.etag),
                    Err(error) => Err(Failure::from(error)),
                }
            }
        };
        let mut made_container = false;
        loop {
            match self.patiently(name, &send).await {
                Ok(Some(tag)) => return Ok(Swap::Won(Tag::new(tag.to_string()))),
                // Written, under a tag that only a read can tell.
                Ok(None) => return Err(self.faults(name).untold_tag()),
                Err(Verdict::Lost) => return Ok(Swap::Lost),
                // Nothing can match in a container that does not exist.
                Err(Verdict::NoContainer) if tag.is_some() => return Ok(Swap::Lost),
                Err(Verdict::NoContainer) if !made_container => {
                    self.create_container().await?;
                    made_container = true;
                }
                Err(Verdict::NoContainer) => return Err(self.faults(name).container_gone()),
                Err(Verdict::Failed(error)) => return Err(error),
            }
        }
    }

    async fn erase(&self, name: &str, tag: Option<&Tag>) -> Result<Deleted, StoreError> {
        let client = self.blob(name)?;
        let send = || {
            let options = BlobClientDeleteOptions {
                if_match: tag.map(etag),
                ..BlobClientDeleteOptions::default()
            };
            let client = &client;
            async move {
                match client.delete(Some(options)).await {
                    Ok(_) => Ok(()),
                    Err(error) => Err(Failure::from(error)),
                }
            }
        };
        match self.patiently(name, &send).await {
            Ok(()) => Ok(Deleted::Gone),
            Err(Verdict::Lost | Verdict::NoContainer) => Ok(Deleted::Lost),
            Err(Verdict::Failed(error)) => Err(error),
        }
    }

    /// One write, sent again only where the service says that it was too busy to take it, and asks
    /// for a short wait.
    async fn patiently<T, F>(&self, name: &str, send: &impl Fn() -> F) -> Result<T, Verdict>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut waits = 0;
        loop {
            let failure = match send().await {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            match fault::turned_away(&failure) {
                Some(wait) if wait <= LONGEST_WAIT && waits < MOST_WAITS => {
                    sleep(wait).await;
                    waits += 1;
                }
                _ => return Err(self.faults(name).write(failure)),
            }
        }
    }

    async fn create_container(&self) -> Result<(), StoreError> {
        match self.container()?.create(None).await.map_err(Failure::from) {
            Ok(_) => Ok(()),
            Err(failure) => self.faults("").create_container(failure),
        }
    }

    async fn keys(&self, prefix: String) -> Result<Vec<String>, StoreError> {
        let options = BlobContainerClientListBlobsOptions {
            // Servers disagree on how to sign a parameter without a value.
            prefix: Some(prefix).filter(|prefix| !prefix.is_empty()),
            ..BlobContainerClientListBlobsOptions::default()
        };
        let container = self.container()?;
        let listed: azure_core::Result<Vec<_>> = async {
            let names = container.list_blobs(Some(options))?;
            names.map_ok(|item| item.name).try_collect().await
        }
        .await;
        match listed.map_err(Failure::from) {
            Ok(names) => Ok(names.into_iter().flatten().collect()),
            Err(failure) if fault::is_missing(&failure) => Ok(Vec::new()),
            Err(failure) => Err(self.faults("").read(failure)),
        }
    }
}

#[async_trait]
impl StateStore for BlobStore {
    async fn load(&self, key: &StoreKey) -> Result<Option<Loaded>, StoreError> {
        self.read(key.as_str()).await
    }

    async fn create(&self, key: &StoreKey, body: Bytes) -> Result<Swap, StoreError> {
        self.write(key.as_str(), None, body).await
    }

    async fn replace(&self, key: &StoreKey, tag: &Tag, body: Bytes) -> Result<Swap, StoreError> {
        self.write(key.as_str(), Some(tag), body).await
    }

    async fn delete(&self, key: &StoreKey, tag: &Tag) -> Result<Deleted, StoreError> {
        self.erase(key.as_str(), Some(tag)).await
    }

    async fn list(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        let names = self.keys(prefix.to_owned()).await?;
        let documents = names.iter().filter(|name| !name.starts_with(OBJECTS));
        Ok(in_order(documents.map(String::as_str)))
    }
}

#[async_trait]
impl ObjectStore for BlobStore {
    async fn put(&self, key: &StoreKey, body: Bytes) -> Result<Put, StoreError> {
        Ok(match self.write(&object(key), None, body).await? {
            Swap::Won(_) => Put::Created,
            Swap::Lost => Put::Exists,
        })
    }

    async fn get(&self, key: &StoreKey) -> Result<Option<Bytes>, StoreError> {
        let found = self.read(&object(key)).await?;
        Ok(found.map(|loaded| loaded.body))
    }

    async fn remove(&self, key: &StoreKey) -> Result<(), StoreError> {
        // Lost: it was not there.
        self.erase(&object(key), None).await.map(|_| ())
    }

    async fn names(&self, prefix: &str) -> Result<Vec<StoreKey>, StoreError> {
        let names = self.keys(format!("{OBJECTS}{prefix}")).await?;
        Ok(in_order(
            names.iter().filter_map(|name| name.strip_prefix(OBJECTS)),
        ))
    }
}

impl fmt::Debug for BlobStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlobStore")
            .field("connection", &self.endpoint.setting())
            .field("container", &self.container)
            .finish_non_exhaustive()
    }
}

fn object(key: &StoreKey) -> String {
    format!("{OBJECTS}{key}")
}

fn etag(tag: &Tag) -> Etag {
    Etag::from(tag.as_str())
}

/// What other programs keep in the container is not ours to show.
fn in_order<'a>(names: impl Iterator<Item = &'a str>) -> Vec<StoreKey> {
    let mut keys: Vec<StoreKey> = names.filter_map(|name| StoreKey::new(name).ok()).collect();
    keys.sort();
    keys
}
