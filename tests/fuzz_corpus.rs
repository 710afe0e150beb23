//! The corpus of the fuzzer, again: every input that is worth keeping, and thousands that are a little off. What the
//! fuzzer itself does, and how long, is in fuzz/README.md.

#![allow(clippy::unwrap_used)]

#[path = "fuzzing/targets.rs"]
mod targets;

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use dbtick::config::App;
use dbtick::model::quarantine::Case;
use dbtick::model::state::StateDocument;
use sha2::{Digest, Sha256};
use targets::Target;

fn corpus(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut files: Vec<_> = fs::read_dir(&directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has no corpus");
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    files.into_iter().map(read).collect()
}

fn run(name: &str, target: Target, input: &[u8], what: &str) {
    if catch_unwind(|| target(input)).is_err() {
        let file = std::env::temp_dir().join(format!("dbtick-fuzz-{name}"));
        fs::write(&file, input).unwrap();
        panic!(
            "{name} breaks a promise with {what}; the input is in {}",
            file.display()
        );
    }
}

/// The same numbers with every run.
struct Dice(u64);

impl Dice {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// What breaks parsers: values at their ends, and pieces of other inputs.
const PIECES: [&[u8]; 14] = [
    b"0",
    b"-1",
    b"18446744073709551615",
    b"9223372036854775808",
    b"4294967295",
    b"1e999",
    b"null",
    b"\"\"",
    b"[]",
    b"{}",
    b"\\ud800",
    b"\xff\xfe",
    b"\0",
    b"+262142-12-31T23:59:59Z",
];

fn mutated(dice: &mut Dice, inputs: &[(PathBuf, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = inputs[dice.below(inputs.len())].1.clone();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len() + 1);
        match dice.below(6) {
            0 if at < bytes.len() => bytes[at] ^= 1 << dice.below(8),
            1 if at < bytes.len() => bytes[at] = dice.next() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.splice(at..at, PIECES[dice.below(PIECES.len())].iter().copied())),
            // In the place of a number, a word or a text.
            4 => {
                let is_word = |byte: &u8| byte.is_ascii_alphanumeric();
                let length = bytes[at..].iter().take_while(|byte| is_word(byte)).count();
                let piece = PIECES[dice.below(PIECES.len())];
                bytes.splice(at..at + length, piece.iter().copied());
            }
            _ => {
                let other = &inputs[dice.below(inputs.len())].1;
                let from = dice.below(other.len() + 1);
                let to = (from + dice.below(64)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
    bytes
}

/// How many times as many mutations as always, for who has the time and no nightly compiler.
#[allow(clippy::disallowed_methods)] // a switch of the test, not a setting of the program
fn times() -> u32 {
    std::env::var("DBTICK_MUTATIONS").map_or(1, |times| times.parse().unwrap())
}

fn replay(name: &str, mutations: u32) {
    let (_, target) = targets::ALL
        .into_iter()
        .find(|(known, _)| *known == name)
        .unwrap();
    let inputs = corpus(name);
    for (path, input) in &inputs {
        run(name, target, input, &path.display().to_string());
    }
    let seed = Sha256::digest(name)[..8].try_into().unwrap();
    let mut dice = Dice(u64::from_le_bytes(seed));
    for number in 0..mutations * times() {
        run(
            name,
            target,
            &mutated(&mut dice, &inputs),
            &format!("mutation {number}"),
        );
    }
}

macro_rules! targets {
    ($($test:ident: $target:literal, $mutations:literal;)*) => {
        $(#[test] fn $test() { replay($target, $mutations); })*

        #[test]
        fn every_target_is_replayed() {
            let replayed = [$($target),*];
            let all: Vec<_> = targets::ALL.iter().map(|(name, _)| *name).collect();
            assert_eq!(all, replayed);
        }
    };
}

targets! {
    any_answer_of_a_receiver_has_a_verdict: "answer", 500;
    any_function_json_is_an_app_or_faults_without_secrets: "configuration", 1000;
    any_connection_is_taken_or_refused_without_showing_it: "connection", 1000;
    any_invocation_has_an_answer: "invocation", 500;
    any_segment_is_refused_or_read_back_as_it_is: "ledger", 5000;
    any_quarantined_row_is_refused_or_can_be_sent_again: "quarantine", 5000;
    any_retry_after_is_a_wait_of_a_day_at_the_most: "retry_after", 5000;
    any_row_is_one_json_object_with_a_stable_id: "row", 500;
    any_schedule_goes_forward: "schedule", 5000;
    any_state_document_is_refused_or_keeps_the_rules: "state", 400;
    any_store_key_stays_inside: "store_key", 5000;
    any_trace_parent_is_read_back: "trace_parent", 5000;
    any_value_on_the_wire_is_json_or_refused: "wire_value", 5000;
}

#[test]
fn the_corpus_stays_small() {
    let (mut files, mut bytes) = (0, 0);
    for (name, _) in targets::ALL {
        for (_, input) in corpus(name) {
            files += 1;
            bytes += input.len();
        }
    }
    assert!(
        files < 300 && bytes < 1_000_000,
        "{files} files, {bytes} bytes"
    );
}

/// A corpus that is refused at the door would keep every promise.
#[test]
fn the_seeds_reach_what_is_behind_the_door() {
    let seed = |target: &str, name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
        fs::read(path.join(target).join(name)).unwrap()
    };
    for name in [
        "plain",
        "rich",
        "free",
        "cursor-instant",
        "cursor-decimal",
        "cursor-bytes",
    ] {
        let sealed = targets::sealed(&seed("state", name)).unwrap();
        let read = StateDocument::from_bytes(&sealed, "orders", &["id".to_owned()]);
        assert!(read.is_ok(), "{name}: {read:?}");
    }
    Case::from_bytes(&seed("quarantine", "case")).unwrap();
    let app = tempfile::tempdir().unwrap();
    fs::create_dir(app.path().join("orders")).unwrap();
    fs::write(
        app.path().join("orders/function.json"),
        seed("configuration", "full"),
    )
    .unwrap();
    let settings = targets::settings(&app.path().join("../state"));
    let app = App::load(app.path(), &settings);
    let faults: Vec<_> = app.faults().map(ToString::to_string).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    assert_eq!(app.pollers().count(), 1);
}
