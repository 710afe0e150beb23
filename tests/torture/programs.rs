//! The programs under test, built when they are not there or not up to date.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::processes::Programs;

const MEANT_FOR_CARGO: [&str; 4] = [
    "CARGO_HOME",
    "CARGO_TARGET_DIR",
    "CARGO_TERM_COLOR",
    "CARGO_INCREMENTAL",
];

/// Beside this program, in the same profile. What cargo says goes to standard error.
///
/// Both are asked for together with an example, as tests are: dependencies are then the same, and are built once.
pub(crate) fn build() -> Result<Programs, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let directory = program
        .ancestors()
        .nth(2)
        .ok_or("this program is nowhere")?;
    Ok(Programs {
        dbtick: built(
            directory,
            "dbtick",
            &["--bin", "dbtick", "--example", "torture"],
        )?,
        planted: built(
            directory,
            "examples/dbtick-planted",
            &["--features", "planted", "--example", "dbtick-planted"],
        )?,
    })
}

fn built(directory: &Path, name: &str, what: &[&str]) -> Result<PathBuf, String> {
    let mut cargo = Command::new("cargo");
    cargo
        .args(["build", "--locked", "--quiet"])
        .args(what)
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if directory.ends_with("release") {
        cargo.arg("--release");
    }
    // What cargo tells a program that it runs would make another cargo build everything again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_") && !MEANT_FOR_CARGO.contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    let path = directory.join(name);
    match cargo.status() {
        Ok(status) if status.success() && path.exists() => Ok(path),
        Ok(status) => Err(format!("{cargo:?}: {status}, and no {}", path.display())),
        Err(error) => Err(format!("{cargo:?}: {error}")),
    }
}
