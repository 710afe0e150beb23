//! The pure core: no I/O, no clock, no randomness; everything it needs comes in as an argument.

pub mod page;
pub mod position;
