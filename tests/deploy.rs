//! What is deployed, and how: templates for Azure, the image, manifests, the package, workflows.
//!
//! No Azure, no Bicep compiler and no container engine is here. So this holds what can be seen without: everything parses,
//! the parts agree with each other and with dbtick, and the package runs.

#![allow(clippy::unwrap_used)]

mod support;

#[path = "deploy/azd.rs"]
mod azd;
#[path = "deploy/bicep.rs"]
mod bicep;
#[path = "deploy/container.rs"]
mod container;
#[path = "deploy/package.rs"]
mod package;
#[path = "deploy/relay_key.rs"]
mod relay_key;
#[path = "deploy/runs.rs"]
mod runs;
#[path = "deploy/workflows.rs"]
mod workflows;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn json(path: &str) -> Value {
    serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Below the root, in the order of their names.
fn files(directory: &str, extension: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(directory)).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<_> = names
        .filter(|name| {
            Path::new(name)
                .extension()
                .is_some_and(|it| it == extension)
        })
        .collect();
    assert!(!names.is_empty(), "no .{extension} in {directory}");
    let below = |name| format!("{directory}/{name}");
    names.into_iter().map(below).collect()
}

/// What these files say, by file: Bicep as `parse.py` tells it, YAML as its documents.
fn parsed(paths: &[String]) -> Value {
    let python = support::installed("deploy", "deploy/requirements.txt").join("bin/python");
    let output = Command::new(python)
        .arg(root().join("tests/deploy/parse.py"))
        .args(paths)
        .current_dir(root())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The one document of a YAML file.
fn yaml(path: &str) -> Value {
    let mut said = parsed(&[path.to_owned()]);
    let documents = said[path].as_array_mut().unwrap();
    assert_eq!(documents.len(), 1, "{path}");
    documents.remove(0)
}

fn keys(object: &Value) -> BTreeSet<&str> {
    object
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

fn texts(list: &Value) -> BTreeSet<&str> {
    let list = list.as_array().unwrap();
    list.iter().map(|text| text.as_str().unwrap()).collect()
}

fn is_executable(path: impl AsRef<Path>) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let path: PathBuf = root().join(path);
    std::fs::metadata(path).is_ok_and(|file| file.permissions().mode() & 0o111 == 0o111)
}
