//! One event as a message of its own: the head of its batch, and the event as it was encoded.

use super::Batch;

const EVENTS: &[u8] = b",\"events\":[";

impl Batch {
    /// The message of the event at `index`.
    #[must_use]
    pub fn message(&self, index: usize) -> Vec<u8> {
        let place = &self.places[index];
        let event = &self.body[place.start..place.end];
        let first = self.places[0].start;
        let head = &self.body[..first - EVENTS.len()];
        [head, b",\"event\":", event, b"}"].concat()
    }
}
