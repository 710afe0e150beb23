//! The three ways in which people write a connection to a server, read into names and values.
//!
//! - `postgres://user:password@host:port/database?name=value`, percent-encoded
//! - `Name=Value;…`, values in `"…"` or `'…'` with the quote doubled inside
//! - `name=value …` of libpq, values in `'…'`, backslash escapes

use super::server::Kind;
use super::{Refusal, sql_server};

/// Names as they were written, in order; values are secrets.
pub(super) struct Written {
    /// What a URL's scheme says.
    pub(super) kind: Option<Kind>,
    pub(super) pairs: Vec<(String, String)>,
}

const FORMS: &str = "write postgres://USER:PASSWORD@HOST/DATABASE or mysql://…, \
    Server=…;Database=…;User Id=…;Password=… as the portal shows it, or sqlite:PATH";
const QUOTE: &str = "put a value with special characters into quotes: Password=\"…\", with a quote \
    inside it doubled";
const ENCODE: &str = "percent-encode special characters in the user and the password of a URL \
    (@ is %40, / is %2F, # is %23, ? is %3F, % is %25), or use the Key=Value; form";

impl Written {
    pub(super) fn parse(value: &str) -> Result<Self, Refusal> {
        if value
            .get(..5)
            .is_some_and(|s| s.eq_ignore_ascii_case("jdbc:"))
        {
            return Err(Refusal::new(
                "the connection is written for JDBC",
                "leave out jdbc: and put user and password into it: postgres://USER:PASSWORD@HOST/DATABASE",
            ));
        }
        // An equals sign before it: a URL inside a value.
        let scheme = value.split_once("://").filter(|(s, _)| !s.contains('='));
        if let Some((scheme, rest)) = scheme {
            let kind = match scheme.to_lowercase().as_str() {
                "postgres" | "postgresql" => Kind::Postgres,
                "mysql" | "mariadb" => Kind::MySql,
                "sqlserver" | "mssql" => return Err(sql_server()),
                _ => {
                    return Err(Refusal::new(
                        "the connection names no database that is known here",
                        FORMS,
                    ));
                }
            };
            return Ok(Self {
                kind: Some(kind),
                pairs: url(rest)?,
            });
        }
        if !value.contains('=') {
            return Err(Refusal::new(
                "the connection names no database that is known here",
                FORMS,
            ));
        }
        let pairs = if is_libpq(value) {
            libpq(value)?
        } else {
            key_value(value)?
        };
        Ok(Self { kind: None, pairs })
    }
}

/// What follows `://`.
fn url(rest: &str) -> Result<Vec<(String, String)>, Refusal> {
    let refused = |problem: &str| Refusal::new(problem, ENCODE);
    if rest.contains('#') {
        return Err(refused("the URL of the connection has a # in it"));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    if database.contains('/') || query.contains('@') || database.contains('@') {
        return Err(refused("the URL of the connection cannot be read"));
    }
    let (login, address) = match authority.rsplit_once('@') {
        Some((login, address)) => (Some(login), address),
        None => (None, authority),
    };
    let mut pairs = Vec::new();
    let mut add = |name: &str, value: &str| -> Result<(), Refusal> {
        let value = percent_decoded(value)
            .ok_or_else(|| refused("the URL of the connection has a % without two hex digits"))?;
        pairs.push((name.to_owned(), value));
        Ok(())
    };
    if let Some(login) = login {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        add("user", user)?;
        add("password", password)?;
    }
    let (host, port) = match address.strip_prefix('[') {
        Some(v6) => {
            let (host, port) = v6
                .split_once(']')
                .ok_or_else(|| refused("the address in the URL of the connection has no ]"))?;
            (host, port.strip_prefix(':').unwrap_or(port))
        }
        None => address.split_once(':').unwrap_or((address, "")),
    };
    add("host", host)?;
    add("port", port)?;
    add("database", database)?;
    for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        add(name, value)?;
    }
    Ok(pairs)
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        decoded.extend_from_slice(before.as_bytes());
        let digits = after.get(..2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        decoded.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    decoded.extend_from_slice(rest.as_bytes());
    String::from_utf8(decoded).ok()
}

/// `Name=Value;…`
fn key_value(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    let mut pairs = Vec::new();
    let mut rest = text.trim_start_matches(is_separator);
    while !rest.is_empty() {
        let nameless = || Refusal::new("the connection has a part that is not Key=Value", QUOTE);
        let (name, after) = rest.split_once('=').ok_or_else(nameless)?;
        if name.contains(';') {
            return Err(nameless());
        }
        let after = after.trim_start();
        let (value, next) = match after.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                let (value, next) = quoted(&after[1..], quote).ok_or_else(|| {
                    Refusal::new("a quote in the connection is not closed", QUOTE)
                })?;
                let next = next.trim_start();
                if !next.is_empty() && !next.starts_with(';') {
                    return Err(Refusal::new(
                        "the connection has text behind a closing quote",
                        QUOTE,
                    ));
                }
                (value, next)
            }
            _ => {
                let end = after.find(';').unwrap_or(after.len());
                (after[..end].trim_end().to_owned(), &after[end..])
            }
        };
        pairs.push((name.trim().to_owned(), value));
        rest = next.trim_start_matches(is_separator);
    }
    Ok(pairs)
}

fn is_separator(c: char) -> bool {
    c == ';' || c.is_whitespace()
}

/// The value before the closing quote, and what follows it.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once(quote)?;
        value.push_str(before);
        match after.strip_prefix(quote) {
            Some(next) => {
                value.push(quote);
                rest = next;
            }
            None => return Some((value, after)),
        }
    }
}

/// Whether the first value is followed by a space and another of libpq's names, not by a semicolon.
fn is_libpq(text: &str) -> bool {
    const NAMES: [&str; 7] = [
        "host",
        "port",
        "dbname",
        "user",
        "password",
        "sslmode",
        "connect_timeout",
    ];
    let Some((_, value)) = text.split_once('=') else {
        return false;
    };
    let value = value.trim_start();
    if let Some(rest) = value.strip_prefix('\'') {
        return match quoted(rest, '\'') {
            Some((_, next)) => {
                let next = next.trim_start();
                !next.is_empty() && !next.starts_with(';')
            }
            None => false,
        };
    }
    let first = value.split(';').next().unwrap_or_default();
    NAMES.iter().any(|name| {
        first.match_indices(name).any(|(at, _)| {
            first[..at].ends_with(char::is_whitespace)
                && first[at + name.len()..].trim_start().starts_with('=')
        })
    })
}

/// `name=value …`
fn libpq(text: &str) -> Result<Vec<(String, String)>, Refusal> {
    const FORM: &str =
        "put a value with spaces into single quotes, with a backslash before ' and \\";
    let mut pairs = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, after) = rest
            .split_once('=')
            .filter(|(name, _)| !name.trim_end().contains(char::is_whitespace))
            .ok_or_else(|| Refusal::new("the connection has a part that is not key=value", FORM))?;
        let after = after.trim_start();
        let in_quotes = after.starts_with('\'');
        let mut value = String::new();
        let mut end = None;
        let mut characters = after.char_indices().skip(usize::from(in_quotes));
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
                '\'' if in_quotes => {
                    end = Some(at + 1);
                    break;
                }
                space if !in_quotes && space.is_whitespace() => {
                    end = Some(at);
                    break;
                }
                other => value.push(other),
            }
        }
        if in_quotes && end.is_none() {
            let problem = "a quote in the connection is not closed";
            return Err(Refusal::new(problem, FORM));
        }
        pairs.push((name.trim().to_owned(), value));
        rest = after[end.unwrap_or(after.len())..].trim_start();
    }
    Ok(pairs)
}
