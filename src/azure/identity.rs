//! Tokens of Microsoft Entra ID, for storage and for databases.
//!
//! azure_identity fetches them, keeps them and renews them five minutes before they expire. What is
//! added here: which identity the settings mean, an end to waiting (an unreachable metadata service
//! would hold a tick for a minute and a half), and errors that say what to set and show no secret.

mod config;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::credentials::{AccessToken, Secret, TokenCredential, TokenRequestOptions};
use azure_core::error::ErrorKind;
use azure_core::http::{ClientOptions, FixedRetryOptions, RetryOptions, Transport};
use azure_identity::{
    ClientSecretCredential, ClientSecretCredentialOptions, ManagedIdentityCredential,
    ManagedIdentityCredentialOptions, UserAssignedId,
};
use chrono::DateTime;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::clock::Timestamp;
pub use config::IdentityConfig;
use config::Kind;

/// For one token, all tries included.
const PATIENCE: Duration = Duration::from_secs(3);
const TRIES_AGAIN: u32 = 2;
const PAUSE_MS: i64 = 200;

/// An identity that tokens can be asked for; clones share what was fetched.
#[derive(Debug, Clone)]
pub struct Credential(Arc<Inner>);

struct Inner {
    config: IdentityConfig,
    transport: Transport,
    made: OnceCell<Arc<dyn TokenCredential>>,
}

/// A token, for whoever sends it and for nobody else.
#[derive(Debug, Clone)]
pub struct SecretToken {
    secret: Secret,
    expires_on: Timestamp,
}

/// Why there is no token. Names settings, never values.
#[derive(Debug, Clone, thiserror::Error)]
#[error("no token for the identity of {setting}: {problem}; {hint}")]
pub struct IdentityError {
    setting: String,
    problem: String,
    hint: String,
    /// It may work in a moment, without anybody doing anything.
    passing: bool,
}

impl Credential {
    /// Fetches nothing yet.
    #[must_use]
    pub fn new(config: IdentityConfig, transport: Transport) -> Self {
        Self(Arc::new(Inner {
            config,
            transport,
            made: OnceCell::new(),
        }))
    }

    /// A token that is good for at least a few minutes; `scope` such as
    /// `https://ossrdbms-aad.database.windows.net/.default`.
    pub async fn token(&self, scope: &str) -> Result<SecretToken, IdentityError> {
        let token = self.access_token(&[scope], None).await?;
        let expires_on = token.expires_on.unix_timestamp();
        Ok(SecretToken {
            secret: token.token,
            expires_on: DateTime::from_timestamp(expires_on, 0).unwrap_or_default(),
        })
    }

    async fn access_token(
        &self,
        scopes: &[&str],
        options: Option<TokenRequestOptions<'_>>,
    ) -> Result<AccessToken, IdentityError> {
        let config = &self.0.config;
        let fetched = timeout(PATIENCE, async {
            let credential = self.0.made.get_or_try_init(|| self.make()).await?;
            credential.get_token(scopes, options).await
        });
        match fetched.await {
            Ok(Ok(token)) => Ok(token),
            Ok(Err(error)) => Err(judge(config, &error)),
            Err(_) => Err(IdentityError {
                setting: config.setting().to_owned(),
                problem: format!("no answer within {PATIENCE:?}"),
                hint: config.hint(),
                // Asking again at once would only wait again; the next tick does.
                passing: false,
            }),
        }
    }

    async fn make(&self) -> azure_core::Result<Arc<dyn TokenCredential>> {
        let client_options = ClientOptions {
            retry: RetryOptions::fixed(FixedRetryOptions {
                delay: azure_core::time::Duration::milliseconds(PAUSE_MS),
                max_retries: TRIES_AGAIN,
                ..FixedRetryOptions::default()
            }),
            transport: Some(self.0.transport.clone()),
            ..ClientOptions::default()
        };
        Ok(match self.0.config.kind() {
            Kind::ManagedIdentity { client_id } => {
                ManagedIdentityCredential::new(Some(ManagedIdentityCredentialOptions {
                    user_assigned_id: client_id.clone().map(UserAssignedId::ClientId),
                    client_options,
                }))?
            }
            Kind::ClientSecret {
                tenant_id,
                client_id,
                client_secret,
            } => ClientSecretCredential::new(
                tenant_id,
                client_id.clone(),
                client_secret.clone(),
                Some(ClientSecretCredentialOptions { client_options }),
            )?,
        })
    }
}

/// For the SDK's own clients.
#[async_trait]
impl TokenCredential for Credential {
    async fn get_token(
        &self,
        scopes: &[&str],
        options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        let token = self.access_token(scopes, options).await;
        token.map_err(|error| azure_core::Error::new(ErrorKind::Credential, error))
    }
}

impl SecretToken {
    #[must_use]
    pub fn expose(&self) -> &str {
        self.secret.secret()
    }

    #[must_use]
    pub fn expires_on(&self) -> Timestamp {
        self.expires_on
    }
}

impl IdentityError {
    #[must_use]
    pub fn is_passing(&self) -> bool {
        self.passing
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Says what went wrong by status and code. The text of an answer is not repeated: who knows what
/// it quotes.
fn judge(config: &IdentityConfig, error: &azure_core::Error) -> IdentityError {
    let innermost = error.downcast_ref::<azure_core::Error>().unwrap_or(error);
    let (problem, passing) = match innermost.kind() {
        ErrorKind::HttpResponse {
            status, error_code, ..
        } => {
            let status = u16::from(*status);
            let code = error_code
                .as_deref()
                .filter(|code| code.bytes().all(|b| b.is_ascii_digit() || b == b','))
                .map_or_else(String::new, |code| format!(" (AADSTS{code})"));
            (
                format!("the identity service answered {status}{code}"),
                status == 429 || status >= 500,
            )
        }
        ErrorKind::Connection => ("the identity service cannot be reached".to_owned(), true),
        ErrorKind::Io => ("the identity service was cut off".to_owned(), true),
        ErrorKind::DataConversion => (
            "the identity service answered something else than a token".to_owned(),
            false,
        ),
        _ => ("the identity cannot be used here".to_owned(), false),
    };
    IdentityError {
        setting: config.setting().to_owned(),
        problem,
        hint: config.hint(),
        passing,
    }
}
