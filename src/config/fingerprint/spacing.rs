//! SQL without its layout: runs of white space become one space, except where white space may mean
//! something. Taking two different texts for equal would put a checkpoint onto another source, so
//! whatever cannot be told for sure in every dialect is left as it is written.

/// White space collapsed outside of quotes and comments, and none around the whole.
pub(super) fn one_space(sql: &str) -> String {
    let text = sql.trim_ascii();
    collapsed(text).unwrap_or_else(|| text.to_owned())
}

/// `None` where quotes end differently from dialect to dialect: backslashes (MySQL), brackets
/// (SQLite, arrays elsewhere), dollar quotes (PostgreSQL), hash comments (MySQL), nested comments.
fn collapsed(text: &str) -> Option<String> {
    if text.contains(['\\', '[', '$', '#']) {
        return None;
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '\'' | '"' | '`' => 1 + rest[1..].find(first)? + 1,
            '-' if rest.starts_with("--") => rest.find('\n').map_or(rest.len(), |end| end + 1),
            '/' if rest.starts_with("/*") => {
                let end = 2 + rest[2..].find("*/")?;
                if rest[2..end].contains("/*") {
                    return None;
                }
                end + 2
            }
            blank if blank.is_ascii_whitespace() => {
                // Behind the line of a comment there is a line break already.
                if !out.ends_with('\n') {
                    out.push(' ');
                }
                let after = rest.trim_ascii_start();
                rest = after;
                continue;
            }
            other => other.len_utf8(),
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::one_space;

    #[test]
    fn only_white_space_that_means_nothing_is_collapsed() {
        for (written, expected) in [
            ("a = 1", "a = 1"),
            ("  a\t=\r\n 1 \n", "a = 1"),
            ("a = 'x  y'  AND b", "a = 'x  y' AND b"),
            ("a = 'it''s  so'  AND b", "a = 'it''s  so' AND b"),
            ("\"a  b\"  = `c  d`", "\"a  b\" = `c  d`"),
            ("a -- it's  so\n   AND  b", "a -- it's  so\nAND b"),
            ("a /* it's  so */   AND  b", "a /* it's  so */ AND b"),
            ("a  = 'open", "a  = 'open"),
            ("a  = 'it\\'s  so'", "a  = 'it\\'s  so'"),
            ("[a  b]  = 1", "[a  b]  = 1"),
            ("a  = $x$it's$x$", "a  = $x$it's$x$"),
            ("a  # it's", "a  # it's"),
            ("/* /* x */ */  a", "/* /* x */ */  a"),
            ("a\u{a0}\u{a0}b", "a\u{a0}\u{a0}b"),
            ("", ""),
        ] {
            assert_eq!(one_space(written), expected, "{written:?}");
            assert_eq!(
                one_space(expected),
                expected,
                "once is enough: {expected:?}"
            );
        }
    }
}
