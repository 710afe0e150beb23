//! App settings, looked up as the Functions host looks them up.
//!
//! Names ignore case and `A__B` is `A:B`. Values are secrets until proven otherwise: nothing in
//! here prints one.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

/// What Azure puts before the name of a connection string, by its type, in this order.
const CONNECTION_PREFIXES: [&str; 5] = [
    "",
    "POSTGRESQLCONNSTR_",
    "MYSQLCONNSTR_",
    "CUSTOMCONNSTR_",
    "SQLCONNSTR_",
];

/// The app settings of one process; they do not change while it runs.
#[derive(Clone, Default)]
pub struct Settings {
    values: BTreeMap<String, Setting>,
}

#[derive(Clone)]
struct Setting {
    /// As it was written.
    name: String,
    value: String,
}

/// Why a `%NAME%` or a connection has no value. Shows names, never values.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SettingError {
    #[error("'%{0}%' does not resolve to a value.")]
    Unresolved(String),
    #[error("the '%' has no closing '%', at position {0}")]
    Unclosed(usize),
    #[error("no app setting has this name: {0}")]
    NoConnection(String),
    #[error("the app setting is a Key Vault reference that the platform did not resolve: {0}")]
    KeyVault(String),
}

impl<N: AsRef<str>, V: Into<String>> FromIterator<(N, V)> for Settings {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let values = pairs
            .into_iter()
            .map(|(name, value)| {
                let name = name.as_ref().to_owned();
                let value = value.into();
                (canonical(&name), Setting { name, value })
            })
            .collect();
        Self { values }
    }
}

impl Settings {
    /// The settings of this process.
    #[must_use]
    pub fn process() -> Self {
        super::environment::process().into_iter().collect()
    }

    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let setting = self.values.get(&canonical(name))?;
        Some(setting.value.as_str())
    }

    /// Whether it is `true` or `1`.
    #[must_use]
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name)
            .is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("true"))
    }

    /// The settings below a section: the rest of their names, the names as written, the values.
    pub fn under(&self, section: &str) -> impl Iterator<Item = (&str, &str, &str)> {
        let prefix = format!("{}:", canonical(section));
        self.values.iter().filter_map(move |(key, setting)| {
            let rest = key.strip_prefix(&prefix)?;
            Some((rest, setting.name.as_str(), setting.value.as_str()))
        })
    }

    /// Like [`get`](Self::get), where an empty value means the same as none.
    #[must_use]
    pub fn filled(&self, name: &str) -> Option<&str> {
        self.get(name).filter(|value| !value.is_empty())
    }

    /// Replaces every `%NAME%` by its value, once: values are not searched again.
    ///
    /// As in the host there is no escape: `%%` is a setting without a name, and a `%` without a
    /// partner is an error. A text that needs a literal `%` is itself put into a setting.
    pub fn resolve(&self, text: &str) -> Result<String, SettingError> {
        let mut resolved = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            let position = text.len() - after.len() - 1;
            let (name, next) = after
                .split_once('%')
                .ok_or(SettingError::Unclosed(position))?;
            resolved.push_str(before);
            resolved.push_str(self.present(name)?);
            rest = next;
        }
        resolved.push_str(rest);
        Ok(resolved)
    }

    /// The connection called `name`: the app setting, else a connection string of the platform.
    pub fn connection(&self, name: &str) -> Result<&str, SettingError> {
        self.typed_connection(name).map(|(_, value)| value)
    }

    /// Like [`connection`](Self::connection), with the prefix under which it was found: the portal
    /// puts the type of a database there.
    pub(crate) fn typed_connection(
        &self,
        name: &str,
    ) -> Result<(&'static str, &str), SettingError> {
        CONNECTION_PREFIXES
            .into_iter()
            .map(|prefix| (prefix, format!("{prefix}{name}")))
            .find(|(_, candidate)| self.filled(candidate).is_some())
            .ok_or_else(|| SettingError::NoConnection(name.to_owned()))
            .and_then(|(prefix, candidate)| Ok((prefix, self.present(&candidate)?)))
    }

    /// The value, unless the platform left a Key Vault reference in its place.
    pub(crate) fn present(&self, name: &str) -> Result<&str, SettingError> {
        let value = self
            .get(name)
            .ok_or_else(|| SettingError::Unresolved(name.to_owned()))?;
        if is_key_vault_reference(value) {
            return Err(SettingError::KeyVault(name.to_owned()));
        }
        Ok(value)
    }
}

/// Names only.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Settings")?;
        f.debug_set().entries(self.values.keys()).finish()
    }
}

fn canonical(name: &str) -> String {
    name.replace("__", ":").to_lowercase()
}

fn is_key_vault_reference(value: &str) -> bool {
    const REFERENCE: &str = "@microsoft.keyvault(";
    value
        .trim_start()
        .get(..REFERENCE.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(REFERENCE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::from_iter([
            ("One", "1"),
            ("two", "2"),
            ("A__B", "nested"),
            ("empty", ""),
            ("percent", "%one%"),
            ("vault", "@Microsoft.KeyVault(SecretUri=canary)"),
            ("POSTGRESQLCONNSTR_pg", "postgres"),
            ("CUSTOMCONNSTR_ORDERS", "custom"),
            ("MYSQLCONNSTR_ORDERS", "mysql"),
            ("CUSTOMCONNSTR_EMPTY", "filled"),
        ])
    }

    #[test]
    fn names_are_resolved_by_the_rules_of_the_host() {
        let unresolved = |name: &str| Err(SettingError::Unresolved(name.to_owned()));
        for (text, expected) in [
            ("plain", Ok("plain")),
            ("%one%", Ok("1")),
            ("%ONE%%two%", Ok("12")),
            ("a %one% b %Two% c", Ok("a 1 b 2 c")),
            ("%a:b% %a__B%", Ok("nested nested")),
            ("[%empty%]", Ok("[]")),
            ("%percent%", Ok("%one%")),
            ("%missing%", unresolved("missing")),
            ("a%%b", unresolved("")),
            ("100%", Err(SettingError::Unclosed(3))),
            ("%one%%", Err(SettingError::Unclosed(5))),
            ("%vault%", Err(SettingError::KeyVault("vault".into()))),
        ] {
            assert_eq!(
                settings().resolve(text),
                expected.map(str::to_owned),
                "{text}"
            );
        }
        assert_eq!(
            settings().resolve("%X%").unwrap_err().to_string(),
            "'%X%' does not resolve to a value.",
        );
    }

    #[test]
    fn a_connection_is_a_setting_first_and_a_typed_connection_string_second() {
        for (name, expected) in [
            ("one", Ok("1")),
            ("PG", Ok("postgres")),
            ("orders", Ok("mysql")),
            ("empty", Ok("filled")),
            ("nope", Err(SettingError::NoConnection("nope".into()))),
            ("vault", Err(SettingError::KeyVault("vault".into()))),
        ] {
            assert_eq!(settings().connection(name), expected, "{name}");
        }
    }

    #[test]
    fn debug_shows_names_and_no_values() {
        let settings = Settings::from_iter([("ORDERS_DB", "canary")]);
        assert_eq!(format!("{settings:?}"), "Settings{\"orders_db\"}");
    }
}
