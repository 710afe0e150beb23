//! The only reader of the process environment.

#![allow(clippy::disallowed_methods)]

use std::collections::BTreeMap;

/// The variables of this process. What is not UTF-8 cannot be an app setting and is left out.
#[must_use]
pub fn process() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}
