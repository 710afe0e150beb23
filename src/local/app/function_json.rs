//! `<function>/function.json`, one level below the root. Unknown keys are ignored, as the host
//! does: our own `poller` block lives there.

use std::path::Path;

use serde_json::{Map, Value};

use super::json_file::JsonFile;
use super::{
    AuthLevel, Fault, Function, HttpTrigger, OutputBinding, QueueOutput, Route, Settings,
    TimerTrigger, Trigger,
};
use crate::local::retry::{RetryPolicy, RetryStrategy};
use crate::schedule::Schedule;
use crate::schedule::time_span;

/// All functions that have no fault, by name.
pub(super) fn read_all(root: &Path, settings: &Settings, faults: &mut Vec<Fault>) -> Vec<Function> {
    let mut functions: Vec<Function> = Vec::new();
    for name in directories(root) {
        let path = root.join(&name).join("function.json");
        let Some(file) = JsonFile::read(&path, faults) else {
            continue;
        };
        if let Some(twin) = functions
            .iter()
            .find(|known| known.name.eq_ignore_ascii_case(&name))
        {
            let why = format!("the names '{}' and '{name}' differ only in case", twin.name);
            faults.push(file.fault("", why, "rename one directory"));
        }
        let mut reader = Reader {
            file: &file,
            settings,
            faults,
        };
        functions.extend(reader.function(name));
    }
    functions
}

fn directories(root: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| root.join(name).join("function.json").is_file())
        .collect();
    names.sort();
    names
}

struct Reader<'a> {
    file: &'a JsonFile,
    settings: &'a Settings,
    faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    fn fault(&mut self, path: impl Into<String>, why: impl Into<String>, remedy: &str) {
        let fault = self.file.fault(path, why, remedy);
        self.faults.push(fault);
    }

    fn function(&mut self, name: String) -> Option<Function> {
        if !is_function_name(&name) {
            self.fault(
                "",
                format!("'{name}' is not a function name"),
                "name the directory by a letter, then letters, digits, _ or -, at most 128 characters, not 'host'",
            );
        }
        let bindings = self.bindings();
        let retry = self.retry();
        let (index, trigger) = self.the_trigger(&bindings)?;
        let outputs = bindings
            .iter()
            .enumerate()
            .filter(|(_, binding)| binding.direction != Direction::In);
        let outputs = outputs
            .map(|(index, binding)| OutputBinding {
                name: binding.name.clone(),
                kind: binding.kind.clone(),
                queue: self.queue(index, binding),
            })
            .collect();
        let input = bindings
            .iter()
            .find(|binding| binding.direction != Direction::Out && !binding.is_trigger());
        let trigger = match input {
            Some(input) => Trigger::NotRunHere(format!(
                "its input binding '{}' has the type '{}', which the local host does not read",
                input.name, input.kind
            )),
            None => self.trigger(index, trigger, &name)?,
        };
        let disabled = [
            format!("AzureWebJobs.{name}.Disabled"),
            format!("AzureWebJobs_{name}_Disabled"),
        ]
        .iter()
        .any(|setting| self.settings.is_on(setting));
        Some(Function {
            binding: bindings[index].name.clone(),
            name,
            trigger,
            outputs,
            retry,
            disabled,
        })
    }

    fn bindings(&mut self) -> Vec<Binding> {
        let items = match self.file.root.get("bindings") {
            Some(Value::Array(items)) if !items.is_empty() => items.clone(),
            _ => {
                self.fault(
                    "bindings",
                    "it has no binding",
                    "write an array with one trigger",
                );
                return Vec::new();
            }
        };
        let mut bindings: Vec<Binding> = Vec::new();
        for (index, item) in items.into_iter().enumerate() {
            let Some(binding) = self.binding(index, item) else {
                continue;
            };
            let twin = bindings
                .iter()
                .any(|known| known.name.eq_ignore_ascii_case(&binding.name));
            if twin {
                self.fault(
                    format!("bindings[{index}].name"),
                    format!("'{}' is used twice", binding.name),
                    "give each binding its own name",
                );
            }
            bindings.push(binding);
        }
        bindings
    }

    fn binding(&mut self, index: usize, item: Value) -> Option<Binding> {
        let at = |member: &str| format!("bindings[{index}]{member}");
        let Value::Object(raw) = item else {
            self.fault(
                at(""),
                "it is not an object",
                "write { \"type\": …, \"name\": … }",
            );
            return None;
        };
        let text = |member: &str| {
            raw.get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let (kind, name, direction) = (text("type"), text("name"), text("direction"));
        if kind.is_empty() {
            self.fault(at(".type"), "it is missing", "for example \"timerTrigger\"");
        }
        if !is_binding_name(&name) {
            self.fault(
                at(".name"),
                format!("'{name}' is not a binding name"),
                "write a letter, then letters and digits, at most 128, or $return",
            );
        }
        let direction = match direction.to_ascii_lowercase().as_str() {
            "" | "in" => Direction::In,
            "out" => Direction::Out,
            "inout" => Direction::InOut,
            _ => {
                let why = format!("'{direction}' is not a direction");
                self.fault(at(".direction"), why, "write in, out or inout");
                return None;
            }
        };
        Some(Binding {
            name,
            kind,
            direction,
            raw,
        })
    }

    fn the_trigger<'b>(&mut self, bindings: &'b [Binding]) -> Option<(usize, &'b Binding)> {
        let mut triggers = bindings
            .iter()
            .enumerate()
            .filter(|(_, binding)| binding.is_trigger());
        match (triggers.next(), triggers.next()) {
            (Some(trigger), None) => Some(trigger),
            (None, _) => {
                if !bindings.is_empty() {
                    self.fault(
                        "bindings",
                        "no binding is a trigger",
                        "add a timerTrigger, an httpTrigger or a queueTrigger",
                    );
                }
                None
            }
            (Some((_, one)), Some((_, two))) => {
                let why = format!("'{}' and '{}' are both triggers", one.name, two.name);
                self.fault("bindings", why, "keep exactly one trigger");
                None
            }
        }
    }

    fn trigger(&mut self, index: usize, binding: &Binding, function: &str) -> Option<Trigger> {
        match binding.kind.to_ascii_lowercase().as_str() {
            "timertrigger" => self.timer(index, binding).map(Trigger::Timer),
            "httptrigger" => self.http(index, binding, function).map(Trigger::Http),
            "queuetrigger" => self.messages(index, binding).map(Trigger::Queue),
            _ => Some(Trigger::NotRunHere(format!(
                "its trigger has the type '{}', which the local host does not fire",
                binding.kind
            ))),
        }
    }

    fn timer(&mut self, index: usize, binding: &Binding) -> Option<TimerTrigger> {
        let at = format!("bindings[{index}].schedule");
        let Some(text) = binding.raw.get("schedule").and_then(Value::as_str) else {
            self.fault(at, "it is missing", "for example \"0 */5 * * * *\"");
            return None;
        };
        let resolved = match self.settings.resolve(text) {
            Ok(resolved) => resolved,
            Err(error) => {
                self.fault(
                    at,
                    error.to_string(),
                    "add the app setting, or write the schedule itself",
                );
                return None;
            }
        };
        match Schedule::parse(&resolved) {
            Ok(schedule) => Some(TimerTrigger {
                schedule,
                run_on_startup: binding.flag("runOnStartup", false),
                use_monitor: binding.flag("useMonitor", true),
            }),
            Err(error) => {
                let remedy =
                    "write {second} {minute} {hour} {day} {month} {day of week}, or hh:mm:ss";
                self.fault(at, error.to_string(), remedy);
                None
            }
        }
    }

    fn http(&mut self, index: usize, binding: &Binding, function: &str) -> Option<HttpTrigger> {
        let at = |member: &str| format!("bindings[{index}].{member}");
        let text = |member: &str| binding.raw.get(member).and_then(Value::as_str);
        let auth_level = match text("authLevel").map(str::to_ascii_lowercase).as_deref() {
            None | Some("function") => AuthLevel::Function,
            Some("anonymous") => AuthLevel::Anonymous,
            Some("admin") => AuthLevel::Admin,
            Some(other) => {
                let why = format!("'{other}' is not a level");
                self.fault(at("authLevel"), why, "write anonymous, function or admin");
                return None;
            }
        };
        let route = match Route::parse(text("route").unwrap_or(function)) {
            Ok(route) => route,
            Err(why) => {
                self.fault(
                    at("route"),
                    why,
                    "use plain segments, {name}, {name?} or {*name}",
                );
                return None;
            }
        };
        let methods = match binding.raw.get("methods") {
            Some(Value::Array(methods)) => methods
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_ascii_uppercase)
                .collect(),
            _ => Vec::new(),
        };
        Some(HttpTrigger {
            route,
            methods,
            auth_level,
        })
    }

    fn queue(&mut self, index: usize, binding: &Binding) -> Option<QueueOutput> {
        match binding.kind.eq_ignore_ascii_case("queue") {
            true => self.messages(index, binding),
            false => None,
        }
    }

    fn messages(&mut self, index: usize, binding: &Binding) -> Option<QueueOutput> {
        const DEFAULT_CONNECTION: &str = "AzureWebJobsStorage";
        let text = |member: &str| binding.raw.get(member).and_then(Value::as_str);
        let at = format!("bindings[{index}].queueName");
        let queue = match self.settings.resolve(text("queueName").unwrap_or_default()) {
            Ok(queue) => queue.to_lowercase(),
            Err(error) => {
                let remedy = "add the app setting, or write the name itself";
                self.fault(at, error.to_string(), remedy);
                return None;
            }
        };
        if !is_queue_name(&queue) {
            let why = format!("'{queue}' is not the name of a queue");
            let remedy = "write 3 to 63 letters, digits and single -, with none at the ends";
            self.fault(at, why, remedy);
            return None;
        }
        let connection = text("connection").filter(|name| !name.is_empty());
        Some(QueueOutput {
            queue,
            connection: connection.unwrap_or(DEFAULT_CONNECTION).to_owned(),
        })
    }

    fn retry(&mut self) -> Option<RetryPolicy> {
        let raw = self.file.root.get("retry")?.as_object()?.clone();
        let strategy = raw
            .get("strategy")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let strategy = match strategy.to_ascii_lowercase().as_str() {
            "fixeddelay" => RetryStrategy::FixedDelay(self.retry_span(&raw, "delayInterval")?),
            "exponentialbackoff" => RetryStrategy::ExponentialBackoff {
                minimum: self.retry_span(&raw, "minimumInterval")?,
                maximum: self.retry_span(&raw, "maximumInterval")?,
            },
            other => {
                let why = format!("'{other}' is not a strategy");
                self.fault(
                    "retry.strategy",
                    why,
                    "write fixedDelay or exponentialBackoff",
                );
                return None;
            }
        };
        let count = raw.get("maxRetryCount").and_then(Value::as_i64);
        match count
            .and_then(|count| i32::try_from(count).ok())
            .filter(|count| *count >= -1)
        {
            Some(max_retry_count) => Some(RetryPolicy {
                max_retry_count,
                strategy,
            }),
            None => {
                self.fault(
                    "retry.maxRetryCount",
                    "it is not a count",
                    "write a number, or -1 for no end",
                );
                None
            }
        }
    }

    fn retry_span(
        &mut self,
        raw: &Map<String, Value>,
        member: &str,
    ) -> Option<std::time::Duration> {
        let text = raw.get(member).and_then(Value::as_str).unwrap_or_default();
        match time_span::parse(text) {
            Ok(span) => Some(span),
            Err(error) => {
                self.fault(
                    format!("retry.{member}"),
                    error.to_string(),
                    "for example 00:00:10",
                );
                None
            }
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
    InOut,
}

struct Binding {
    name: String,
    kind: String,
    direction: Direction,
    raw: Map<String, Value>,
}

impl Binding {
    fn is_trigger(&self) -> bool {
        self.kind.to_ascii_lowercase().ends_with("trigger")
    }

    fn flag(&self, member: &str, default: bool) -> bool {
        match self.raw.get(member) {
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => text.eq_ignore_ascii_case("true"),
            _ => default,
        }
    }
}

fn is_function_name(name: &str) -> bool {
    let tail = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.len() <= 128
        && name.chars().all(tail)
        && !name.eq_ignore_ascii_case("host")
}

/// Of lower-cased names.
fn is_queue_name(name: &str) -> bool {
    (3..=63).contains(&name.len())
        && name.split('-').all(|part| {
            let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            !part.is_empty() && part.bytes().all(legal)
        })
}

fn is_binding_name(name: &str) -> bool {
    name == "$return"
        || name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.len() <= 128
            && name.chars().all(|c| c.is_ascii_alphanumeric())
}
