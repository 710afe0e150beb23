//! App settings by the host's rules: names without case, `A__B` is `A:B`, `%NAME%` in texts.

use std::collections::BTreeMap;

use super::Environment;

/// Settings as the host's configuration sees them.
#[derive(Debug, Clone, Default)]
pub struct Settings(BTreeMap<String, Entry>);

#[derive(Debug, Clone)]
struct Entry {
    name: String,
    value: String,
}

/// Why a text with `%NAME%` has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// No such setting.
    #[error("'%{0}%' does not resolve to a value.")]
    Missing(String),
    /// An odd number of percent signs.
    #[error("the '%' at position {0} does not have a closing '%'")]
    Unclosed(usize),
}

impl Settings {
    /// The settings in an environment.
    pub fn of(environment: &Environment) -> Settings {
        Settings(
            environment
                .iter()
                .map(|(name, value)| {
                    let entry = Entry {
                        name: name.clone(),
                        value: value.clone(),
                    };
                    (canonical(name), entry)
                })
                .collect(),
        )
    }

    /// The value of a setting.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(&canonical(name))
            .map(|entry| entry.value.as_str())
    }

    /// Whether a setting is `true` or `1`.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// The settings below a section: their canonical rest, the name as written, the value.
    pub(super) fn under(&self, section: &str) -> impl Iterator<Item = (&str, &str, &str)> {
        let prefix = format!("{}:", canonical(section));
        self.0.iter().filter_map(move |(key, entry)| {
            let rest = key.strip_prefix(&prefix)?;
            Some((rest, entry.name.as_str(), entry.value.as_str()))
        })
    }

    /// `text` with every `%NAME%` replaced.
    pub fn resolve(&self, text: &str) -> Result<String, Unresolved> {
        let mut resolved = String::new();
        let mut rest = text;
        while let Some(open) = rest.find('%') {
            let position = text.len() - rest.len() + open;
            let after = &rest[open + 1..];
            let close = after.find('%').ok_or(Unresolved::Unclosed(position))?;
            let name = &after[..close];
            let value = self
                .get(name)
                .ok_or_else(|| Unresolved::Missing(name.to_owned()))?;
            resolved.push_str(&rest[..open]);
            resolved.push_str(value);
            rest = &after[close + 1..];
        }
        resolved.push_str(rest);
        Ok(resolved)
    }
}

fn canonical(name: &str) -> String {
    name.replace("__", ":").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        let pairs = [("Poll__Every", "00:00:05"), ("HOUR", "9")];
        Settings::of(
            &pairs
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        )
    }

    #[test]
    fn names_have_no_case_and_two_underscores_are_a_colon() {
        for name in ["Poll__Every", "poll:every", "POLL__EVERY"] {
            assert_eq!(settings().get(name), Some("00:00:05"), "{name}");
        }
    }

    #[test]
    fn percent_names_are_replaced_or_refused() {
        for (text, expected) in [
            ("%poll:every%", Ok("00:00:05")),
            ("0 0 %hour% * * *", Ok("0 0 9 * * *")),
            ("plain", Ok("plain")),
            ("%X%", Err("'%X%' does not resolve to a value.")),
            (
                "a%b",
                Err("the '%' at position 1 does not have a closing '%'"),
            ),
        ] {
            let got = settings().resolve(text).map_err(|fault| fault.to_string());
            assert_eq!(got.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
