//! Ticks that are spread over instances: a timer that puts messages, and functions that take them.

use std::sync::Arc;

use crate::azure::connection::ServiceEndpoint;
use crate::schedule::Schedule;

/// A timer function with a `fan_out` block.
#[derive(Debug, Clone)]
pub struct FanOutFunction {
    pub name: String,
    pub schedule: Schedule,
    /// Where the messages go.
    pub queue: MessageQueue,
    /// Each gets a message of its own.
    pub pollers: Vec<String>,
}

/// What lets the pollers of a function tick.
#[derive(Debug, Clone)]
pub enum PollTrigger {
    /// A tick of the timer is one of each poller.
    Timer,
    /// A message names the poller that ticks.
    Queue {
        /// The name of the binding that brings it.
        binding: String,
        queue: MessageQueue,
    },
}

#[derive(Debug, Clone)]
pub struct MessageQueue {
    pub endpoint: Arc<ServiceEndpoint>,
    pub queue: String,
}
