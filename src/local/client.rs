//! The HTTP client that talks to the handler: loopback only, no proxy, redirects followed.

use std::sync::Once;

/// One client per handler process, so that no pooled connection outlives the process.
pub(super) fn new() -> Result<reqwest::Client, reqwest::Error> {
    install_tls_provider();
    reqwest::Client::builder()
        .no_proxy()
        .http1_only()
        .tls_certs_only(std::iter::empty())
        .build()
}

/// reqwest wants a provider even for plain HTTP; one that is there already is as good.
fn install_tls_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}
