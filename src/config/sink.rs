//! A receiver of rows, as it is configured.

use super::queue::QueueConfig;
use super::relay::RelayConfig;
use super::webhook::WebhookConfig;

#[derive(Debug, Clone)]
pub struct SinkConfig {
    /// Unique in its poller.
    pub name: String,
    /// Whether rows wait for it; which of them count is told by the poller's `commit`.
    pub required: bool,
    pub to: Target,
}

#[derive(Debug, Clone)]
pub enum Target {
    Webhook(Box<WebhookConfig>),
    Queue(QueueConfig),
    Relay(Box<RelayConfig>),
}
