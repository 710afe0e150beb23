//! The HTTP client under every Azure client.

use std::sync::Arc;
use std::time::Duration;

use azure_core::http::Transport;
use reqwest::{Client, redirect, retry};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two bytes of an answer.
const READ_TIMEOUT: Duration = Duration::from_secs(15);
/// For one request, its answer included; callers with a lease are less patient than this.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Azure's front ends drop idle connections after minutes; a request on a dropped one has an
/// unknown outcome, so ours are dropped first.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) fn shared() -> reqwest::Result<Transport> {
    // Another part of the process may have installed the same provider first.
    drop(rustls::crypto::ring::default_provider().install_default());
    // Compiled without gzip and its siblings: a body arrives as it was stored.
    let client = Client::builder()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .timeout(TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .no_proxy()
        .build()?;
    Ok(Transport::new(Arc::new(client)))
}
