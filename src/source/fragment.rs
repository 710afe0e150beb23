//! SQL that the owner of the configuration wrote: `query` and `filter`.
//!
//! It is code, and stays as it was written. What is checked here is only that it is *one* piece
//! which cannot end early and take our own SQL with it: no second statement, no parenthesis or
//! quote left open, nothing commented out behind it.

mod mysql;

use super::SourceError;
use super::keyset::Dialect;

/// A query or a condition that can be put between parentheses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fragment(String);

/// Why a piece of SQL cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum FragmentFault {
    #[error("is empty")]
    Empty,
    #[error("has more than one statement")]
    SecondStatement,
    #[error("has a parenthesis too many or too few")]
    Unbalanced,
    #[error("has a quote or comment that is never closed")]
    Open,
    #[error("has a placeholder (?, :name, @name or $name), for which there is no value")]
    Placeholder,
    #[error("has a comment that servers run (/*! … */)")]
    Executable,
}

impl Fragment {
    pub(super) fn parse(dialect: Dialect, text: &str) -> Result<Self, FragmentFault> {
        let mut end = 0;
        let mut depth = 0_usize;
        let mut ended = false;
        let mut at = 0;
        let mut last = Kind::Blank;
        while let Some(token) = next_token(dialect, &text[at..], last)? {
            let start = at;
            at += token.length;
            match token.kind {
                Kind::Blank => continue,
                Kind::Semicolon => {
                    ended = true;
                    continue;
                }
                _ if ended => return Err(FragmentFault::SecondStatement),
                Kind::Placeholder => return Err(FragmentFault::Placeholder),
                Kind::Opening => depth += 1,
                Kind::Closing => depth = depth.checked_sub(1).ok_or(FragmentFault::Unbalanced)?,
                Kind::Other | Kind::EscapeString => {}
            }
            last = token.kind;
            end = start + token.length;
        }
        match (end, depth) {
            (0, _) => Err(FragmentFault::Empty),
            (_, 0) => Ok(Self(text[..end].to_owned())),
            _ => Err(FragmentFault::Unbalanced),
        }
    }

    /// What stands in the configuration under `setting`.
    pub(super) fn of_setting(
        dialect: Dialect,
        setting: &str,
        text: &str,
    ) -> Result<Self, SourceError> {
        Self::parse(dialect, text).map_err(|fault| SourceError::Mismatch {
            what: format!("{setting} {fault}"),
            remedy: "write one plain SELECT, or one condition".into(),
        })
    }

    /// Without trailing semicolons and comments.
    pub(super) fn sql(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Blank,
    Semicolon,
    Opening,
    Closing,
    Placeholder,
    /// `E'…'` of PostgreSQL, in which a backslash keeps a quote from closing it.
    EscapeString,
    Other,
}

struct Token {
    kind: Kind,
    length: usize,
}

/// `last` is what stands before, blanks left out.
fn next_token(dialect: Dialect, text: &str, last: Kind) -> Result<Option<Token>, FragmentFault> {
    let special = match dialect {
        Dialect::Sqlite => None,
        Dialect::Postgres => postgres_token(text, last)?,
        Dialect::MySql => mysql::token(text)?,
    };
    if special.is_some() {
        return Ok(special);
    }
    let Some(first) = text.chars().next() else {
        return Ok(None);
    };
    let single = |kind| Token {
        kind,
        length: first.len_utf8(),
    };
    let token = match first {
        '\'' | '"' | '`' => Token {
            kind: Kind::Other,
            length: closed_by(text, 1, &first.to_string())?,
        },
        '[' => Token {
            kind: Kind::Other,
            length: closed_by(text, 1, "]")?,
        },
        '-' if text.starts_with("--") => Token {
            kind: Kind::Blank,
            length: text.find('\n').map_or(text.len(), |newline| newline + 1),
        },
        '/' if text.starts_with("/*") => Token {
            kind: Kind::Blank,
            length: closed_by(text, 2, "*/")?,
        },
        ';' => single(Kind::Semicolon),
        '(' => single(Kind::Opening),
        ')' => single(Kind::Closing),
        // All of SQLite's: `?`, `?1`, `:name`, `@name`, `$name`; `$1` would take one of our values.
        '?' | ':' | '@' | '$' => single(Kind::Placeholder),
        // The database's parser stops at a NUL, and would not see what we put behind it.
        '\0' => return Err(FragmentFault::Open),
        blank if blank.is_whitespace() => single(Kind::Blank),
        _ => single(Kind::Other),
    };
    Ok(Some(token))
}

/// What PostgreSQL reads differently. Its strings are standard ones: the session says so.
fn postgres_token(text: &str, last: Kind) -> Result<Option<Token>, FragmentFault> {
    let token = |kind, length| Ok(Some(Token { kind, length }));
    let bytes = text.as_bytes();
    match bytes {
        [b'e' | b'E', b'\'', ..] => token(Kind::EscapeString, escape_string(text, 2)?),
        // A string goes on behind a line break, in the way in which it began.
        [b'\'', ..] if last == Kind::EscapeString => {
            token(Kind::EscapeString, escape_string(text, 1)?)
        }
        [b'-', b'-', ..] => {
            let end = text.find(['\n', '\r']);
            token(Kind::Blank, end.map_or(text.len(), |end| end + 1))
        }
        [b'/', b'*', ..] => token(Kind::Blank, nested_comment(bytes)?),
        [b'$', ..] => match dollar_tag(text) {
            Some(tag) => token(Kind::Other, closed_by(text, tag.len(), tag)?),
            None => token(Kind::Placeholder, 1),
        },
        // Operators, subscripts and casts.
        [b'?' | b':' | b'@' | b'[' | b'`', ..] => token(Kind::Other, 1),
        _ => {
            let word = text
                .find(|letter: char| !is_of_word(letter))
                .unwrap_or(text.len());
            match word {
                0 => Ok(None),
                word => token(Kind::Other, word),
            }
        }
    }
}

/// A dollar inside a word is a part of it.
fn is_of_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
        || matches!(letter, '_' | '$')
        || (!letter.is_ascii() && !letter.is_whitespace())
}

fn escape_string(text: &str, opening: usize) -> Result<usize, FragmentFault> {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(opening) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'\'' => return Ok(at + 1),
            _ => {}
        }
    }
    Err(FragmentFault::Open)
}

fn nested_comment(bytes: &[u8]) -> Result<usize, FragmentFault> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(pair) = bytes.get(at..at + 2) {
        at += match pair {
            b"/*" => {
                depth += 1;
                2
            }
            b"*/" => {
                depth -= 1;
                2
            }
            _ => 1,
        };
        if depth == 0 {
            return Ok(at);
        }
    }
    Err(FragmentFault::Open)
}

/// `$$` or `$word$`, which ends where it stands again.
fn dollar_tag(text: &str) -> Option<&str> {
    let inner = text[1..].find('$')?;
    let word = &text[1..=inner];
    let is_word = word
        .chars()
        .all(|letter| is_of_word(letter) && letter != '$')
        && !word.starts_with(|first: char| first.is_ascii_digit());
    is_word.then(|| &text[..inner + 2])
}

/// The length up to and with the closing mark. A doubled quote reads as two quoted pieces side by
/// side, which ends at the same place.
fn closed_by(text: &str, opening: usize, mark: &str) -> Result<usize, FragmentFault> {
    text[opening..]
        .find(mark)
        .map(|found| opening + found + mark.len())
        .ok_or(FragmentFault::Open)
}

#[cfg(test)]
mod tests;
