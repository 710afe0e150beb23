//! A receiver of batches by HTTP.

mod authorities;
mod authorization;
mod headers;
mod secrets;
mod url;

use super::Reader;
use crate::config::fault::Place;
use crate::config::secret::SecretUrl;
use crate::config::{WebhookConfig, raw};
use crate::model::address::Network;
use crate::model::envelope::Envelope;

pub(super) fn webhook(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: raw::Webhook,
) -> Option<WebhookConfig> {
    let raw::Webhook {
        url,
        timeout,
        attempts,
        allow_http,
        secret,
        secrets,
        headers,
        bearer,
        entra,
        ca,
        deny_private,
        gzip,
        envelope,
    } = raw;
    let network = match deny_private {
        Some(true) => Network::Public,
        Some(false) | None => Network::Any,
    };
    let allow_http = allow_http.unwrap_or(false);
    let url = reader.url(&at.key("url"), &url, allow_http, network);
    let authorities = reader.authorities(&at.key("ca"), ca.as_deref());
    let timeout = reader.positive(
        &at.key("timeout"),
        timeout.as_deref(),
        WebhookConfig::TIMEOUT,
    );
    let signing = reader.signing_keys(at, secret, secrets);
    let around = headers::Surroundings {
        authorized: bearer.is_some() || entra.is_some() || url.as_ref().is_some_and(url::has_user),
        readable: url.as_ref().is_some_and(url::leaves_in_the_clear),
    };
    let authorization = reader.authorization(at, url.as_ref(), bearer, entra);
    let headers = reader.headers(&at.key("headers"), headers.unwrap_or_default(), around);
    let url = url?;
    let identity = reader.identity_addresses(&url);
    let unless_told = WebhookConfig::new(SecretUrl::new(url));
    Some(WebhookConfig {
        timeout: timeout?,
        attempts: attempts.unwrap_or(unless_told.attempts),
        signing: signing?,
        headers: headers?,
        authorization: authorization?,
        network,
        identity,
        authorities: authorities?,
        gzip: gzip.unwrap_or(false),
        envelope: match envelope {
            Some(raw::Envelope::Native) | None => Envelope::Native,
            Some(raw::Envelope::CloudEvents) => Envelope::CloudEvents,
            Some(raw::Envelope::Debezium) => Envelope::Debezium,
        },
        ..unless_told
    })
}
