//! The pure core: no I/O, no clock, no randomness; everything it needs comes in as an argument.

pub mod address;
pub mod counters;
pub mod definition;
pub mod envelope;
pub mod halt;
pub mod history;
pub mod late;
pub mod lease;
pub mod ledger;
pub mod page;
pub mod parting;
pub mod plain;
pub mod policy;
pub mod position;
pub mod pulse;
pub mod quarantine;
pub mod schema;
pub mod shard;
pub mod sinks;
pub mod state;
pub mod trace;
pub mod trail;
pub mod transitions;
pub mod trouble;
