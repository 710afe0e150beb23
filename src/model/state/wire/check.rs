//! The `check` of a document: SHA-256 over its canonical form, which is keys sorted, no white space, and
//! without the check itself.
//!
//! What we write is that form with line breaks and indents, so the sum is made from the bytes; only a
//! document that somebody else has laid out is brought into canonical form by its values.

use data_encoding::HEXLOWER;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::format;

pub(super) const MEMBER: &str = "check";
const PREFIX: &str = "sha256:";
const DIGITS: usize = 64;
/// As `format` lays out a member of the document; text has no raw line break, so that nothing else
/// looks like it.
const BEFORE: &[u8] = b"\n  \"check\": \"sha256:";
const BEHIND: &[u8] = b"\",";

pub(super) fn sum(value: &Value) -> String {
    let canonical = serde_json::to_vec(value).expect("a JSON value is always printable");
    format!("{PREFIX}{}", digits(&canonical))
}

/// The document as bytes, with its check.
pub(super) fn sealed(mut value: Value) -> Vec<u8> {
    value[MEMBER] = Value::from(format!("{PREFIX}{}", "0".repeat(DIGITS)));
    let mut bytes = format::to_bytes(&value);
    let at = find(&bytes).expect("a document has members behind its check");
    let digits = digits(&canonical(&bytes, at));
    bytes[at..at + DIGITS].copy_from_slice(digits.as_bytes());
    bytes
}

/// Whether these are bytes of ours, unchanged. If not, they may still be a good document.
pub(super) fn is_intact(bytes: &[u8]) -> bool {
    let Some(at) = find(bytes) else {
        return false;
    };
    bytes[at..at + DIGITS] == *digits(&canonical(bytes, at)).as_bytes()
}

fn digits(canonical: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(canonical))
}

/// Where the digits of the check begin.
fn find(bytes: &[u8]) -> Option<usize> {
    let found = bytes.windows(BEFORE.len()).position(|it| it == BEFORE)?;
    let at = found + BEFORE.len();
    let behind = bytes.get(at + DIGITS..)?;
    behind.starts_with(BEHIND).then_some(at)
}

/// Without white space between tokens and without the check, whose digits are at `at`.
fn canonical(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut canonical = Vec::with_capacity(bytes.len());
    append_tokens(&bytes[..at - BEFORE.len()], &mut canonical);
    append_tokens(&bytes[at + DIGITS + BEHIND.len()..], &mut canonical);
    canonical
}

/// Begins and ends between tokens.
fn append_tokens(bytes: &[u8], tokens: &mut Vec<u8>) {
    let (mut from, mut in_text, mut escaped) = (0, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        if in_text {
            (in_text, escaped) = match byte {
                _ if escaped => (true, false),
                b'\\' => (true, true),
                b'"' => (false, false),
                _ => (true, false),
            };
        } else if *byte == b'"' {
            in_text = true;
        } else if matches!(byte, b' ' | b'\n') {
            tokens.extend_from_slice(&bytes[from..at]);
            from = at + 1;
        }
    }
    tokens.extend_from_slice(&bytes[from..]);
}
