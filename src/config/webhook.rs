//! A receiver of batches by HTTP, as it is configured.

use std::net::IpAddr;
use std::time::Duration;

use reqwest::Certificate;
use reqwest::header::{HeaderMap, HeaderValue};

use crate::azure::identity::IdentityConfig;
use crate::model::address::Network;
use crate::model::envelope::Envelope;

use super::secret::{SecretUrl, SigningKey};

#[derive(Debug, Clone)]
pub struct WebhookConfig {
    pub url: SecretUrl,
    /// One attempt, from connect to the last byte of the answer.
    pub timeout: Duration,
    /// Tries inside one tick, the first included.
    pub attempts: u32,
    /// Nothing is signed without one; two while keys are exchanged, the new one first.
    pub signing: Vec<SigningKey>,
    /// None of them is one that we send ourselves; their values are marked as sensitive.
    pub headers: HeaderMap,
    pub authorization: Option<Authorization>,
    pub network: Network,
    /// Where, on the port of the url, somebody hands out tokens: a name must not lead there either.
    pub identity: Vec<IpAddr>,
    /// Whom to trust besides the authorities of the system.
    pub authorities: Vec<Certificate>,
    pub gzip: bool,
    pub envelope: Envelope,
}

/// Who we say that we are.
#[derive(Debug, Clone)]
pub enum Authorization {
    /// The whole header, marked as sensitive.
    Bearer(HeaderValue),
    /// With a token of an identity, for a scope.
    Entra {
        identity: IdentityConfig,
        scope: String,
    },
}

impl WebhookConfig {
    pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
    const ATTEMPTS: u32 = 3;

    /// As a webhook is unless told.
    #[must_use]
    pub fn new(url: SecretUrl) -> Self {
        Self {
            url,
            timeout: Self::TIMEOUT,
            attempts: Self::ATTEMPTS,
            signing: Vec::new(),
            headers: HeaderMap::new(),
            authorization: None,
            network: Network::Any,
            identity: Vec::new(),
            authorities: Vec::new(),
            gzip: false,
            envelope: Envelope::Native,
        }
    }
}
