//! What MySQL and MariaDB read differently. Double quotes are strings and backslashes escape: the
//! session says so.

use super::{FragmentFault, Kind, Token, closed_by};

pub(super) fn token(text: &str) -> Result<Option<Token>, FragmentFault> {
    let token = |kind, length| Ok(Some(Token { kind, length }));
    match text.as_bytes() {
        [quote @ (b'\'' | b'"'), ..] => token(Kind::Other, string(text, *quote)?),
        [b'#', ..] => token(Kind::Blank, line(text)),
        [b'-', b'-'] => token(Kind::Blank, 2),
        [b'-', b'-', next, ..] if next.is_ascii_whitespace() || next.is_ascii_control() => {
            token(Kind::Blank, line(text))
        }
        [b'-', ..] => token(Kind::Other, 1),
        // It is code, and which servers run it depends on a number in it.
        [b'/', b'*', b'!', ..] | [b'/', b'*', b'M', b'!', ..] => Err(FragmentFault::Executable),
        [b'/', b'*', ..] => token(Kind::Blank, closed_by(text, 2, "*/")?),
        [b'?' | b'@', ..] => token(Kind::Placeholder, 1),
        [b'[' | b':' | b'$', ..] => token(Kind::Other, 1),
        _ => Ok(None),
    }
}

fn line(text: &str) -> usize {
    text.find('\n').map_or(text.len(), |newline| newline + 1)
}

/// A doubled quote reads as two strings side by side, which ends at the same place.
fn string(text: &str, quote: u8) -> Result<usize, FragmentFault> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            byte if byte == quote => return Ok(at + 1),
            _ => {}
        }
    }
    Err(FragmentFault::Open)
}
