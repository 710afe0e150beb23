//! host.json, flattened and overlaid with `AzureFunctionsJobHost__…` settings as .NET's
//! configuration does it: keys without case, arrays as `:0`, `:1`, every value a text.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::json_file::JsonFile;
use super::{Function, HandlerDescription, QueueOptions, Trigger};
use crate::config::{Fault, Settings};
use crate::schedule::time_span;

const SECTION: &str = "AzureFunctionsJobHost";
const DEFAULT_FUNCTION_TIMEOUT: Duration = Duration::from_secs(5 * 60);
const DEFAULT_INITIALIZATION_TIMEOUT: Duration = Duration::from_secs(30);

/// What the local host uses of host.json.
#[derive(Debug)]
pub(super) struct HostJson {
    pub(super) handler: HandlerDescription,
    pub(super) function_timeout: Option<Duration>,
    pub(super) initialization_timeout: Duration,
    pub(super) route_prefix: String,
    pub(super) queue_messages_in_base64: bool,
    pub(super) queues: QueueOptions,
    forwards_http: Option<&'static str>,
}

/// `None` when `faults` says why.
pub(super) fn read(root: &Path, settings: &Settings, faults: &mut Vec<Fault>) -> Option<HostJson> {
    let path = root.join("host.json");
    let before = faults.len();
    let Some(file) = JsonFile::read(&path, faults) else {
        if faults.len() == before {
            faults.push(Fault {
                file: path,
                path: String::new(),
                problem: "there is no such file".to_owned(),
                hint:
                    "run in the app's root, or write { \"version\": \"2.0\", \"customHandler\": … }"
                        .to_owned(),
            });
        }
        return None;
    };
    let config = Configuration::new(file, settings);
    config.check_version(faults);
    config.refuse_unsupported(faults);
    let handler = config.handler(faults);
    let function_timeout = match config.text("functionTimeout") {
        Some("-1") => None,
        _ => Some(config.span("functionTimeout", DEFAULT_FUNCTION_TIMEOUT, faults)),
    };
    Some(HostJson {
        handler: handler?,
        function_timeout,
        initialization_timeout: config.span(
            "customHandler.initializationTimeout",
            DEFAULT_INITIALIZATION_TIMEOUT,
            faults,
        ),
        route_prefix: config
            .text("extensions.http.routePrefix")
            .unwrap_or("api")
            .trim_matches('/')
            .to_owned(),
        queue_messages_in_base64: !config
            .text("extensions.queues.messageEncoding")
            .is_some_and(|encoding| encoding.eq_ignore_ascii_case("none")),
        queues: config.queues(faults),
        forwards_http: ["enableForwardingHttpRequest", "enableProxyingHttpRequest"]
            .into_iter()
            .find(|flag| config.is_on(&format!("customHandler.{flag}"))),
    })
}

impl HostJson {
    /// Forwarding concerns only functions with one HTTP trigger and one HTTP output.
    pub(super) fn refuse_forwarding(
        &self,
        root: &Path,
        functions: &[Function],
        faults: &mut Vec<Fault>,
    ) {
        let Some(flag) = self.forwards_http else {
            return;
        };
        let forwarded = functions.iter().find(|function| {
            let http = matches!(function.trigger, Trigger::Http(_));
            http && function.outputs.len() == 1 && function.outputs[0].is_http()
        });
        if let Some(function) = forwarded {
            faults.push(Fault {
                file: root.join("host.json"),
                path: format!("customHandler.{flag}"),
                problem: format!(
                    "the host would forward requests for '{}' unchanged, which the local host cannot do yet",
                    function.name
                ),
                hint: "set it to false".to_owned(),
            });
        }
    }
}

struct Configuration {
    file: JsonFile,
    flat: BTreeMap<String, Entry>,
}

struct Entry {
    origin: Option<String>,
    value: String,
}

impl Configuration {
    fn new(file: JsonFile, settings: &Settings) -> Configuration {
        let mut flat = BTreeMap::new();
        for (name, value) in &file.root {
            flatten(name.to_lowercase(), value, &mut flat);
        }
        for (key, name, value) in settings.under(SECTION) {
            let entry = Entry {
                origin: Some(name.to_owned()),
                value: value.to_owned(),
            };
            flat.insert(key.to_owned(), entry);
        }
        Configuration { file, flat }
    }

    fn entry(&self, path: &str) -> Option<&Entry> {
        self.flat.get(&path.replace('.', ":").to_lowercase())
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.entry(path).map(|entry| entry.value.as_str())
    }

    fn non_empty(&self, path: &str) -> Option<String> {
        self.text(path)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    }

    fn is_on(&self, path: &str) -> bool {
        self.text(path)
            .is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    fn list(&self, path: &str) -> Vec<String> {
        (0..)
            .map_while(|index| self.text(&format!("{path}.{index}")))
            .map(str::to_owned)
            .collect()
    }

    fn fault(&self, path: &str, why: String, remedy: &str) -> Fault {
        match self.entry(path).and_then(|entry| entry.origin.as_ref()) {
            None => self.file.fault(path, why, remedy),
            Some(setting) => Fault {
                file: PathBuf::from("app settings"),
                path: setting.clone(),
                problem: why,
                hint: remedy.to_owned(),
            },
        }
    }

    /// The batch is half of what may be worked on at once, unless told.
    fn queues(&self, faults: &mut Vec<Fault>) -> QueueOptions {
        let batch_size = self.count("extensions.queues.batchSize", 16, 1..=32, faults);
        let threshold = "extensions.queues.newBatchThreshold";
        let hidden = "extensions.queues.visibilityTimeout";
        QueueOptions {
            batch_size,
            new_batch_threshold: self.count(threshold, batch_size / 2, 0..=1000, faults),
            max_dequeue_count: self.count("extensions.queues.maxDequeueCount", 5, 1..=1000, faults),
            visibility_timeout: match self.text(hidden) {
                None | Some("00:00:00") => Duration::ZERO,
                Some(_) => self.span(hidden, Duration::ZERO, faults),
            },
        }
    }

    fn count(
        &self,
        path: &str,
        default: u16,
        range: RangeInclusive<u16>,
        faults: &mut Vec<Fault>,
    ) -> u16 {
        let Some(text) = self.text(path) else {
            return default;
        };
        match text.parse() {
            Ok(count) if range.contains(&count) => count,
            _ => {
                let why = format!(
                    "'{text}' is not a number from {} to {}",
                    range.start(),
                    range.end()
                );
                faults.push(self.fault(path, why, "write such a number"));
                default
            }
        }
    }

    fn span(&self, path: &str, default: Duration, faults: &mut Vec<Fault>) -> Duration {
        let Some(text) = self.text(path) else {
            return default;
        };
        match time_span::parse(text) {
            Ok(span) if !span.is_zero() => span,
            Ok(_) => {
                faults.push(self.fault(
                    path,
                    "it is zero".to_owned(),
                    "write a time span above zero",
                ));
                default
            }
            Err(error) => {
                faults.push(self.fault(path, error.to_string(), "for example 00:05:00"));
                default
            }
        }
    }

    /// Of the file alone: the host reads the version before any setting.
    fn check_version(&self, faults: &mut Vec<Fault>) {
        let version = self.file.root.get("version");
        if version.and_then(Value::as_str) != Some("2.0") {
            let why = match version {
                None => "it is missing".to_owned(),
                Some(other) => format!("it is {other}"),
            };
            faults.push(
                self.file
                    .fault("version", why, "write \"version\": \"2.0\""),
            );
        }
    }

    fn refuse_unsupported(&self, faults: &mut Vec<Fault>) {
        if self
            .flat
            .keys()
            .any(|key| key.starts_with("customhandler:http:routes:"))
        {
            faults.push(self.file.fault(
                "customHandler.http.routes",
                "it excludes function.json files, which the local host runs",
                "remove it and give each HTTP function its own function.json",
            ));
        }
    }

    fn handler(&self, faults: &mut Vec<Fault>) -> Option<HandlerDescription> {
        const DESCRIPTION: &str = "customHandler.description";
        if !self
            .flat
            .keys()
            .any(|key| key.starts_with("customhandler:description:"))
        {
            faults.push(self.file.fault(
                DESCRIPTION,
                "Missing worker Description.",
                "add { \"defaultExecutablePath\": \"dbtick\", \"arguments\": [\"serve\"] }",
            ));
            return None;
        }
        let at = |member: &str| format!("{DESCRIPTION}.{member}");
        let Some(executable) = self.non_empty(&at("defaultExecutablePath")) else {
            faults.push(self.fault(
                &at("defaultExecutablePath"),
                "it is missing or empty".to_owned(),
                "name the handler's executable",
            ));
            return None;
        };
        Some(HandlerDescription {
            executable,
            worker_path: self.non_empty(&at("defaultWorkerPath")),
            worker_directory: self.non_empty(&at("workerDirectory")),
            working_directory: self.non_empty(&at("workingDirectory")),
            arguments: self.list(&at("arguments")),
            worker_arguments: self.list(&at("workerArguments")),
        })
    }
}

fn flatten(key: String, value: &Value, flat: &mut BTreeMap<String, Entry>) {
    let text = match value {
        Value::Object(members) => {
            for (name, member) in members {
                flatten(format!("{key}:{}", name.to_lowercase()), member, flat);
            }
            return;
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                flatten(format!("{key}:{index}"), item, flat);
            }
            return;
        }
        Value::Null => return,
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
    };
    flat.insert(
        key,
        Entry {
            origin: None,
            value: text,
        },
    );
}
