//! SQL that the owner of the configuration wrote: `query` and `filter`.
//!
//! It is code, and stays as it was written. What is checked here is only that it is *one* piece
//! which cannot end early and take our own SQL with it: no second statement, no parenthesis or
//! quote left open, nothing commented out behind it.

use super::SourceError;

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
}

impl Fragment {
    pub(super) fn parse(text: &str) -> Result<Self, FragmentFault> {
        let mut end = 0;
        let mut depth = 0_usize;
        let mut ended = false;
        let mut at = 0;
        while let Some(token) = next_token(&text[at..])? {
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
                Kind::Other => {}
            }
            end = start + token.length;
        }
        match (end, depth) {
            (0, _) => Err(FragmentFault::Empty),
            (_, 0) => Ok(Self(text[..end].to_owned())),
            _ => Err(FragmentFault::Unbalanced),
        }
    }

    /// What stands in the configuration under `setting`.
    pub(super) fn of_setting(setting: &str, text: &str) -> Result<Self, SourceError> {
        Self::parse(text).map_err(|fault| SourceError::Mismatch {
            what: format!("{setting} {fault}"),
            remedy: "write one plain SELECT, or one condition".into(),
        })
    }

    /// Without trailing semicolons and comments.
    pub(super) fn sql(&self) -> &str {
        &self.0
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Blank,
    Semicolon,
    Opening,
    Closing,
    Placeholder,
    Other,
}

struct Token {
    kind: Kind,
    length: usize,
}

fn next_token(text: &str) -> Result<Option<Token>, FragmentFault> {
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

/// The length up to and with the closing mark. A doubled quote reads as two quoted pieces side by
/// side, which ends at the same place.
fn closed_by(text: &str, opening: usize, mark: &str) -> Result<usize, FragmentFault> {
    text[opening..]
        .find(mark)
        .map(|found| opening + found + mark.len())
        .ok_or(FragmentFault::Open)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&str, FragmentFault>) {
        let found = Fragment::parse(text);
        assert_eq!(found.as_ref().map(Fragment::sql), expect.as_ref().copied());
    }

    #[test]
    fn what_trails_a_query_is_left_out() {
        check("SELECT 1", Ok("SELECT 1"));
        check("SELECT 1 ;\n ; ", Ok("SELECT 1"));
        check("SELECT 1 -- all of it", Ok("SELECT 1"));
        check("SELECT 1; -- done; really\n", Ok("SELECT 1"));
        check("a = 1 /* x */", Ok("a = 1"));
    }

    #[test]
    fn marks_inside_quotes_and_comments_mean_nothing() {
        for text in [
            "a = 'x;)--?'",
            "a = 'it''s; fine'",
            "\"a;b\" = [c;d]",
            "`a;` = 1",
            "a -- ; ) '\n = 1",
            "a /* ; ( ' */ = 1",
        ] {
            check(text, Ok(text));
        }
    }

    #[test]
    fn a_piece_that_would_escape_its_parentheses_is_refused() {
        check("1; DELETE FROM t", Err(FragmentFault::SecondStatement));
        check("a = 1) OR (1 = 1", Err(FragmentFault::Unbalanced));
        check("(a = 1", Err(FragmentFault::Unbalanced));
        check("a = 'x", Err(FragmentFault::Open));
        check("a = 1 /* x", Err(FragmentFault::Open));
        check("a = 1\0 AND b", Err(FragmentFault::Open));
        for text in ["a = ?", "a > $1", "a > :min", "a > @min"] {
            check(text, Err(FragmentFault::Placeholder));
        }
        check(" ; -- nothing", Err(FragmentFault::Empty));
    }
}
