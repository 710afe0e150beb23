#![doc = "dbtick"]
pub mod cli;
pub mod clock;
pub mod config;
pub mod local;
pub mod model;
pub mod source;
pub mod store;
