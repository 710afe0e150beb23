//! The pure core: no I/O, no clock, no randomness; everything it needs comes in as an argument.

pub mod envelope;
pub mod lease;
pub mod page;
pub mod position;
pub mod state;
pub mod transitions;
