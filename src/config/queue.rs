//! A queue that receives messages, as it is configured.

use std::sync::Arc;

use crate::azure::connection::ServiceEndpoint;
use crate::azure::queue::Posting;

#[derive(Debug, Clone)]
pub struct QueueConfig {
    pub endpoint: Arc<ServiceEndpoint>,
    pub queue: String,
    pub per: Per,
    /// Whether a queue that is missing is created.
    pub create: bool,
    pub posting: Posting,
    pub encoding: MessageEncoding,
    /// For events that are too large for a message; `None` where the connection has no blobs.
    pub claims: Option<Claims>,
}

/// What a message holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// One event.
    Event,
    /// A native batch of as many events as fit.
    Packed,
}

/// How the JSON of a message is written into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageEncoding {
    /// As the Functions queue trigger expects it unless told.
    Base64,
    /// As it is.
    Text,
}

#[derive(Debug, Clone)]
pub struct Claims {
    pub endpoint: Arc<ServiceEndpoint>,
    pub container: String,
}
