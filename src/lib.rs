#![doc = "dbtick"]
pub mod cli;
pub mod clock;
pub mod local;
