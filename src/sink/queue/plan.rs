//! Which messages a batch becomes. Nothing is encoded here: a message is made when it is put.

use std::ops::Range;

use crate::config::{MessageEncoding, Per};
use crate::model::envelope::Batch;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Message {
    /// Of the batch; never empty.
    pub(super) events: Range<usize>,
    pub(super) form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One event and the head of its batch.
    Event,
    /// A native batch.
    Packed,
    /// One event without its data, which is elsewhere.
    Claimed,
}

impl Message {
    pub(super) fn first(&self) -> usize {
        self.events.start
    }
}

/// In the order of the batch, every event once.
pub(super) fn of(batch: &Batch, per: Per, encoding: MessageEncoding) -> Vec<Message> {
    let frame = match per {
        Per::Event => Batch::MESSAGE_FRAME,
        Per::Packed => Batch::FRAME,
    };
    // What is around the events is as long in every part of a batch, since ids and fences are.
    let room = encoding
        .most()
        .saturating_sub(encoding.weight(batch.head()) + frame);
    let mut messages: Vec<Message> = Vec::new();
    let mut left = 0;
    for index in 0..batch.len() {
        let weight = encoding.weight(batch.event_json(index));
        let alone = |form| Message {
            events: index..index + 1,
            form,
        };
        match (per, messages.last_mut()) {
            _ if weight > room => messages.push(alone(Form::Claimed)),
            (Per::Event, _) => messages.push(alone(Form::Event)),
            (Per::Packed, Some(last)) if last.form == Form::Packed && weight < left => {
                last.events.end += 1;
                // And the comma before it.
                left -= weight + 1;
            }
            (Per::Packed, _) => {
                messages.push(alone(Form::Packed));
                left = room - weight;
            }
        }
    }
    messages
}
