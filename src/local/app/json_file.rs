//! One JSON file of the app, and faults that name places in it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::Fault;

/// A file whose root is an object.
#[derive(Debug)]
pub(super) struct JsonFile {
    pub(super) path: PathBuf,
    pub(super) root: Map<String, Value>,
}

impl JsonFile {
    /// `None` when there is no such file, or when it is broken and `faults` says how.
    pub(super) fn read(path: &Path, faults: &mut Vec<Fault>) -> Option<JsonFile> {
        let fault = |why: String, remedy: &str| Fault {
            file: path.to_owned(),
            path: String::new(),
            problem: why,
            hint: remedy.to_owned(),
        };
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            Err(error) => {
                faults.push(fault(
                    format!("it cannot be read ({error})"),
                    "make it a readable file",
                ));
                return None;
            }
        };
        match serde_json::from_str(text.trim_start_matches('\u{feff}')) {
            Ok(Value::Object(root)) => Some(JsonFile {
                path: path.to_owned(),
                root,
            }),
            Ok(_) => {
                faults.push(fault(
                    "its root is not an object".to_owned(),
                    "wrap it in { }",
                ));
                None
            }
            Err(error) => {
                faults.push(fault(
                    format!("it is not valid JSON ({error})"),
                    "correct that place; comments and trailing commas are not allowed",
                ));
                None
            }
        }
    }

    /// A fault at a path inside this file.
    pub(super) fn fault(
        &self,
        path: impl Into<String>,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Fault {
        Fault {
            file: self.path.clone(),
            path: path.into(),
            problem: problem.into(),
            hint: hint.into(),
        }
    }
}
