//! What is fuzzed: one function for each kind of input that comes from outside, each with promises that hold for any
//! bytes. `fuzz/` runs them by libFuzzer, `tests/fuzz_corpus.rs` with the corpus.

// The replay of the corpus uses more than one target does.
#![allow(clippy::unwrap_used, dead_code, unused_imports)]

mod answer;
mod configuration;
mod invocation;
mod kept;
mod names;
mod row;
mod state;
mod wire_value;

pub(crate) use answer::{answer, retry_after};
pub(crate) use configuration::{configuration, connection, settings};
pub(crate) use invocation::invocation;
pub(crate) use kept::{ledger, quarantine};
pub(crate) use names::{schedule, store_key, trace_parent};
pub(crate) use row::row;
pub(crate) use state::{sealed, state};
pub(crate) use wire_value::wire_value;

pub(crate) type Target = fn(&[u8]);

pub(crate) const ALL: [(&str, Target); 13] = [
    ("answer", answer),
    ("configuration", configuration),
    ("connection", connection),
    ("invocation", invocation),
    ("ledger", ledger),
    ("quarantine", quarantine),
    ("retry_after", retry_after),
    ("row", row),
    ("schedule", schedule),
    ("state", state),
    ("store_key", store_key),
    ("trace_parent", trace_parent),
    ("wire_value", wire_value),
];

/// What must never be seen where people look.
const CANARY: &str = "cAnArY";

/// One runtime for all inputs of a thread, and time that is ours.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    thread_local! {
        static RUNTIME: tokio::runtime::Runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
    }
    RUNTIME.with(|runtime| runtime.block_on(work))
}
