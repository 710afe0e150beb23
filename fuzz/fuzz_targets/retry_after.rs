#![no_main]

#[path = "../../tests/fuzzing/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::retry_after(input));
