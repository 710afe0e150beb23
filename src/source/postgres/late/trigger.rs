//! Triggers that give a row its time, read from their source text.
//!
//! Only the plainest of functions is believed: assignments to columns of the new row and nothing
//! else. Whatever is more than that could leave the cursor as the writer gave it.

use serde::Deserialize;

/// Bits of `pg_trigger.tgtype`.
const INSERT: i32 = 4;
const UPDATE: i32 = 16;

/// A trigger that runs before a row is written.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct Trigger {
    /// `tgtype`
    events: i32,
    /// `tgenabled`
    enabled: String,
    /// Runs for some rows or columns only.
    conditional: bool,
    language: String,
    body: String,
}

/// Which time a row is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Time {
    /// As the row is written.
    Statement,
    /// As its statement or transaction began.
    Transaction,
}

/// The time that every new and every changed row is given; `triggers` are in the order in which they
/// run, and the last one has the last word.
pub(super) fn always(triggers: &[Trigger], column: &str) -> Option<Time> {
    let last = |event: i32| {
        triggers
            .iter()
            .rfind(|trigger| trigger.events & event != 0 && trigger.enabled != "D")
            .filter(|trigger| trigger.is_certain())
            .and_then(|trigger| assigned(&trigger.body, column))
    };
    Some(last(INSERT)?.max(last(UPDATE)?))
}

impl Trigger {
    fn is_certain(&self) -> bool {
        let runs = matches!(self.enabled.as_str(), "O" | "A");
        runs && !self.conditional && self.language == "plpgsql"
    }
}

fn assigned(body: &str, column: &str) -> Option<Time> {
    let plain = plain(body)?;
    let inner = plain.strip_prefix("begin ")?;
    let inner = inner.strip_suffix(';').unwrap_or(inner).trim_end();
    let mut statements: Vec<_> = inner
        .strip_suffix("end")?
        .split(';')
        .map(str::trim)
        .filter(|statement| !statement.is_empty())
        .collect();
    if statements.pop()? != "return new" {
        return None;
    }
    let mut found = None;
    for statement in statements {
        let (name, value) = assignment(statement)?;
        if name == column {
            found = Some(value);
        }
    }
    time(found?)
}

/// `new.name := value`
fn assignment(statement: &str) -> Option<(&str, &str)> {
    let rest = statement.strip_prefix("new.")?;
    let (name, rest) = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"')?,
        None => rest.split_at(rest.find(|letter: char| !is_word(letter))?),
    };
    let rest = rest.trim_start();
    let value = rest.strip_prefix(":=").or_else(|| rest.strip_prefix('='))?;
    Some((name, value.trim()))
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// What an expression of PostgreSQL comes to, also where it is a column's default.
pub(super) fn time(expression: &str) -> Option<Time> {
    let lower = expression.trim().to_lowercase();
    match lower.strip_prefix("pg_catalog.").unwrap_or(&lower) {
        "clock_timestamp()" => Some(Time::Statement),
        "now()"
        | "current_timestamp"
        | "transaction_timestamp()"
        | "statement_timestamp()"
        | "localtimestamp"
        | "current_date" => Some(Time::Transaction),
        _ => None,
    }
}

/// Without comments, in lower case except for quoted names, with single spaces; `None` if there are
/// strings in it, in which anything could look like anything else.
fn plain(body: &str) -> Option<String> {
    let mut plain = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(letter) = rest.chars().next() {
        let (taken, length) = match letter {
            '\'' | '$' => return None,
            '"' => {
                let name = &rest[..=rest[1..].find('"')? + 1];
                (name.to_owned(), name.len())
            }
            '-' if rest.starts_with("--") => {
                (" ".to_owned(), rest.find('\n').unwrap_or(rest.len()))
            }
            '/' if rest.starts_with("/*") => {
                let length = rest.find("*/")? + 2;
                if rest[2..length].contains("/*") {
                    return None;
                }
                (" ".to_owned(), length)
            }
            _ if letter.is_whitespace() => (" ".to_owned(), letter.len_utf8()),
            _ => (letter.to_lowercase().collect(), letter.len_utf8()),
        };
        if taken != " " || !(plain.is_empty() || plain.ends_with(' ')) {
            plain.push_str(&taken);
        }
        rest = &rest[length..];
    }
    Some(plain.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_assignments_are_believed() {
        for (body, expected) in [
            (
                "BEGIN NEW.at := clock_timestamp(); RETURN NEW; END",
                Some(Time::Statement),
            ),
            (
                "\n begin -- it's ours\n new.at = Now ( );\n return new;\nend;",
                None,
            ),
            (
                "\nbegin\n -- it's ours; really\n new.at = NOW();\n /* so */ return new;\nend;\n",
                Some(Time::Transaction),
            ),
            (
                "BEGIN NEW.version := coalesce(OLD.version, 0) + 1; NEW.\"at\" := CURRENT_TIMESTAMP; RETURN NEW; END;",
                Some(Time::Transaction),
            ),
            (
                "BEGIN NEW.at := now(); NEW.at := NEW.sent; RETURN NEW; END",
                None,
            ),
            ("BEGIN NEW.\"At\" := now(); RETURN NEW; END", None),
            ("BEGIN NEW.at_all := now(); RETURN NEW; END", None),
            ("BEGIN NEW.at := now() - '1 h'; RETURN NEW; END", None),
            (
                "BEGIN NEW.at := coalesce(NEW.at, now()); RETURN NEW; END",
                None,
            ),
            (
                "BEGIN IF NEW.at IS NULL THEN NEW.at := now(); END IF; RETURN NEW; END",
                None,
            ),
            (
                "DECLARE x int; BEGIN NEW.at := now(); RETURN NEW; END",
                None,
            ),
            ("BEGIN NEW.at := now(); RETURN OLD; END", None),
            ("BEGIN PERFORM f(); NEW.at := now(); RETURN NEW; END", None),
            ("BEGIN RETURN NEW; NEW.at := now(); END", None),
            ("", None),
        ] {
            assert_eq!(assigned(body, "at"), expected, "{body}");
        }
    }

    #[test]
    fn the_last_trigger_of_each_event_decides() {
        let trigger = |events: i32, body: &str| Trigger {
            events: events | 3,
            enabled: "O".to_owned(),
            conditional: false,
            language: "plpgsql".to_owned(),
            body: body.to_owned(),
        };
        let stamps = "BEGIN NEW.at := clock_timestamp(); RETURN NEW; END";
        let both = trigger(INSERT | UPDATE, stamps);
        let other = trigger(UPDATE, "BEGIN PERFORM f(); RETURN NEW; END");
        let is = |triggers: &[Trigger]| always(triggers, "at");
        assert_eq!(is(std::slice::from_ref(&both)), Some(Time::Statement));
        assert_eq!(is(&[other.clone(), both.clone()]), Some(Time::Statement));
        assert_eq!(is(&[both.clone(), other.clone()]), None);
        let off = Trigger {
            enabled: "D".to_owned(),
            ..other
        };
        assert_eq!(is(&[both.clone(), off]), Some(Time::Statement));
        let parted = [trigger(INSERT, stamps), trigger(UPDATE, stamps)];
        assert_eq!(is(&parted), Some(Time::Statement));
        assert_eq!(is(&parted[..1]), None);
        let conditional = Trigger {
            conditional: true,
            ..both
        };
        assert_eq!(is(&[conditional]), None);
    }
}
