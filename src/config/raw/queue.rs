//! A queue that receives messages, as it is written.

use schemars::JsonSchema;
use serde::Deserialize;

/// Messages are put into a queue of a storage account; the service's answer acknowledges.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct Queue {
    /// Its name: 3 to 63 lower-case letters, digits and single dashes.
    #[schemars(length(min = 1))]
    pub(in crate::config) queue: String,
    /// The name of the app setting of the storage account; AzureWebJobsStorage unless told.
    #[schemars(length(min = 1))]
    pub(in crate::config) connection: Option<String>,
    /// What a message holds; `event` unless told.
    pub(in crate::config) per: Option<Per>,
    /// Whether a queue that is missing is created; true unless told.
    pub(in crate::config) create: Option<bool>,
    /// How long a message stays, such as `12h` or `30d`; as long as it takes, `never`, unless told.
    pub(in crate::config) ttl: Option<String>,
    /// How long nobody sees a message, up to `7d` and shorter than `ttl`; 0s unless told.
    pub(in crate::config) visible_after: Option<String>,
    /// How a message is written; `base64` unless told.
    pub(in crate::config) encoding: Option<MessageEncoding>,
    /// Where events go that are too large for a message.
    pub(in crate::config) claim_check: Option<ClaimCheck>,
}

/// Where rows that are set aside are told of.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct PoisonQueue {
    /// Its name; it is created when it is missing.
    #[schemars(length(min = 1))]
    pub(in crate::config) queue: String,
    /// The name of the app setting of the storage account; AzureWebJobsStorage unless told.
    #[schemars(length(min = 1))]
    pub(in crate::config) connection: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum Per {
    /// One event.
    Event,
    /// As many events as fit, as a batch that is complete in itself.
    Packed,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum MessageEncoding {
    /// As the Functions queue trigger expects it by default; 48 KiB of JSON fit.
    Base64,
    /// The JSON as it is, for `messageEncoding: none`; 64 KiB fit.
    Text,
}

/// Events that are too large for a message are blobs of the same storage account, named by their
/// messages. They are never deleted by dbtick.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(in crate::config) struct ClaimCheck {
    /// Created when it is missing; `db-claims` unless told.
    pub(in crate::config) container: Option<String>,
}
