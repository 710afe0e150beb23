//! local.settings.json, which Core Tools reads and Azure does not.

use std::path::Path;

use serde_json::Value;

use super::json_file::JsonFile;
use super::{Environment, Fault};

/// What the file adds.
#[derive(Debug, Default)]
pub(super) struct LocalSettings {
    pub(super) values: Environment,
    pub(super) http_port: Option<u16>,
}

/// Nothing when there is no such file.
pub(super) fn read(root: &Path, faults: &mut Vec<Fault>) -> LocalSettings {
    let Some(file) = JsonFile::read(&root.join("local.settings.json"), faults) else {
        return LocalSettings::default();
    };
    if file.root.get("IsEncrypted") != Some(&Value::Bool(false)) {
        faults.push(file.fault(
            "IsEncrypted",
            "the values are encrypted (absent means true), and only Core Tools can decrypt them",
            "run `func settings decrypt`, or write \"IsEncrypted\": false",
        ));
        return LocalSettings::default();
    }
    LocalSettings {
        values: values(&file, faults),
        http_port: http_port(&file, faults),
    }
}

fn values(file: &JsonFile, faults: &mut Vec<Fault>) -> Environment {
    let mut values = Environment::new();
    let members = match file.root.get("Values") {
        None | Some(Value::Null) => return values,
        Some(Value::Object(members)) => members,
        Some(_) => {
            faults.push(file.fault("Values", "it is not an object", "write names and strings"));
            return values;
        }
    };
    for (name, value) in members {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Null => continue,
            Value::Array(_) | Value::Object(_) => {
                faults.push(file.fault(
                    format!("Values.{name}"),
                    "an app setting is a string",
                    "write the value as a string, or use names with __ for nested settings",
                ));
                continue;
            }
        };
        values.insert(name.clone(), text);
    }
    values
}

fn http_port(file: &JsonFile, faults: &mut Vec<Fault>) -> Option<u16> {
    let value = file.root.get("Host")?.get("LocalHttpPort")?;
    let port = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    };
    let port = port.and_then(|port| u16::try_from(port).ok());
    if port.is_none() {
        faults.push(file.fault(
            "Host.LocalHttpPort",
            format!("{value} is not a port"),
            "write a number from 0 to 65535",
        ));
    }
    port
}
