//! What HTTP functions of ours have in common: their bindings, and where the host serves them.

use serde_json::Value;

use crate::config::fault::{Faults, Place};
use crate::config::{Settings, raw};

/// host.json, and the settings that override it.
pub(super) struct Host<'a> {
    pub(super) json: &'a Value,
    pub(super) settings: &'a Settings,
}

/// A binding, and where it stands.
pub(super) struct Placed<'a> {
    pub(super) at: Place,
    pub(super) binding: &'a raw::Binding,
}

pub(super) struct Bindings<'a> {
    pub(super) at: Place,
    pub(super) all: Vec<Placed<'a>>,
}

impl<'a> Bindings<'a> {
    pub(super) fn of(bindings: &'a [raw::Binding]) -> Self {
        let at = Place::root().key("bindings");
        let placed = bindings.iter().enumerate().map(|(index, binding)| Placed {
            at: at.index(index),
            binding,
        });
        Self {
            all: placed.collect(),
            at,
        }
    }

    pub(super) fn response(&self, faults: &mut Faults) -> Option<&Placed<'a>> {
        let response = self.outputs().find(|placed| placed.is("http"));
        if response.is_none() {
            faults.add(
                &self.at,
                "has no http output, so that its answer could not be told from that of others",
                "add { \"type\": \"http\", \"direction\": \"out\", \"name\": \"res\" }",
            );
        }
        response
    }

    pub(super) fn outputs(&self) -> impl Iterator<Item = &Placed<'a>> {
        self.all.iter().filter(|placed| {
            let direction = placed.binding.direction.as_deref().unwrap_or("in");
            !direction.eq_ignore_ascii_case("in")
        })
    }
}

impl Placed<'_> {
    pub(super) fn is(&self, kind: &str) -> bool {
        self.binding.kind.eq_ignore_ascii_case(kind)
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.binding.name.as_deref()
    }

    /// `$return` is none: it is answered by another member, and tried as base64.
    pub(super) fn named(&self, faults: &mut Faults) -> Option<String> {
        let name = self.name().unwrap_or_default();
        let first = name.bytes().next();
        if first.is_some_and(|byte| byte.is_ascii_alphabetic())
            && name.len() <= 128
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
        {
            return Some(name.to_owned());
        }
        let problem = format!("is not a name that an answer can be given by: {name}");
        let hint = "write a letter, then letters and digits, at most 128";
        faults.add(&self.at.key("name"), problem, hint);
        None
    }
}

impl Host<'_> {
    pub(super) fn route_prefix(&self) -> String {
        let prefix = self.text("/extensions/http/routePrefix");
        prefix.unwrap_or("api").trim_matches('/').to_owned()
    }

    pub(super) fn text(&self, pointer: &str) -> Option<&str> {
        let setting = format!("AzureFunctionsJobHost{}", pointer.replace('/', "__"));
        let written = || self.json.pointer(pointer).and_then(Value::as_str);
        self.settings.get(&setting).or_else(written)
    }
}

pub(super) fn below(prefix: &str, route: &str) -> String {
    match prefix {
        "" => route.to_owned(),
        prefix => format!("{prefix}/{route}"),
    }
}

pub(super) fn is_function_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let first = name.bytes().next();
    first.is_some_and(|byte| byte.is_ascii_alphabetic())
        && name.len() <= 128
        && name.bytes().all(legal)
        && !name.eq_ignore_ascii_case("host")
}
