//! An app directory as `dev` and `check` see it: with local.settings.json, and with a place for
//! state that is not below the app root, where a changing file could restart the host.

use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::config::{Settings, environment};
use crate::local::{AppDirectory, AppError, Environment};

pub(super) const STATE_DIR: &str = "DBTICK_STATE_DIR";

/// Reads the app; pollers without a `state` block get the default directory for local state.
pub(super) fn read(root: &Path, state: Option<&Path>) -> Result<AppDirectory, AppError> {
    let mut environment = environment::process();
    if let Some(state) = state {
        let state = std::path::absolute(state).unwrap_or_else(|_| state.to_owned());
        environment.insert(STATE_DIR.to_owned(), state.display().to_string());
    }
    let mut app = AppDirectory::read(root, environment)?;
    let default = default_state_directory(&app.root, &app.environment);
    app.environment
        .entry(STATE_DIR.to_owned())
        .or_insert_with(|| default.display().to_string());
    Ok(app)
}

/// The settings of a directory that may not be an app yet: the environment, and local.settings.json.
pub(super) fn settings(root: &Path) -> Result<Settings, AppError> {
    let mut values = crate::local::app::local_values(root)?;
    values.extend(environment::process());
    Ok(values.iter().collect())
}

/// One directory per app, kept between runs: `~/.local/state/dbtick/shop-1a2b3c4d`.
fn default_state_directory(root: &Path, environment: &Environment) -> PathBuf {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let name = root.file_name().unwrap_or_default().to_string_lossy();
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    let base = match (environment.get("XDG_STATE_HOME"), environment.get("HOME")) {
        (Some(state), _) if !state.is_empty() => PathBuf::from(state),
        (_, Some(home)) if !home.is_empty() => Path::new(home).join(".local/state"),
        _ => std::env::temp_dir(),
    };
    base.join("dbtick")
        .join(format!("{name}-{}", HEXLOWER.encode(&digest[..4])))
}
