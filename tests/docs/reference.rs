//! The tables of configuration.md are made from the schema, and the schema from the types.
//!
//! To write them anew: `DBTICK_WRITE_DOCS=1 cargo test --test docs reference`.

use std::fmt::Write;

use dbtick::config::Settings;
use serde_json::{Map, Value};

use super::pages::{read, root};

const PAGE: &str = "docs/configuration.md";
const BEGIN: &str =
    "<!-- made by tests/docs/reference.rs from src/config/raw.rs: do not edit -->\n";
const END: &str = "<!-- end of what is made -->\n";

#[test]
fn the_reference_is_what_the_types_say() {
    let page = read(PAGE);
    let (before, rest) = page.split_once(BEGIN).expect("the page has the first mark");
    let (_, after) = rest.split_once(END).expect("the page has the second mark");
    let schema = dbtick::config::schema();
    let made = format!(
        "{before}{BEGIN}{}{END}{after}",
        Reference { schema: &schema }.tables()
    );
    if Settings::process().filled("DBTICK_WRITE_DOCS").is_some() {
        std::fs::write(root().join(PAGE), &made).unwrap();
    }
    assert!(
        made == page,
        "{PAGE} is not what the types say: DBTICK_WRITE_DOCS=1 cargo test --test docs reference"
    );
}

#[test]
fn a_default_is_told_apart_from_the_meaning() {
    for (text, meaning, default) in [
        ("Its name; `a` unless told.", "Its name", "`a`"),
        ("5 unless told.", "", "5"),
        (
            "How many. 5 unless told. No more.",
            "How many. No more",
            "5",
        ),
        ("A name.", "A name", ""),
    ] {
        assert_eq!(
            parted(text),
            (meaning.to_owned(), default.to_owned()),
            "{text}"
        );
    }
}

struct Reference<'a> {
    schema: &'a Value,
}

impl Reference<'_> {
    fn tables(&self) -> String {
        let mut text = String::new();
        let mut function = self.schema["properties"].as_object().unwrap().clone();
        // What the host reads is the host's to document.
        function.retain(|name, _| !["$schema", "bindings", "retry"].contains(&name.as_str()));
        self.table("Beside `bindings`", "", &function, self.schema, &mut text);
        let poller = self.resolved(&self.schema["properties"]["poller"]);
        self.section("poller", poller, &mut text);
        for name in ["relay", "status"] {
            self.section(
                name,
                self.resolved(&self.schema["properties"][name]),
                &mut text,
            );
        }
        text
    }

    /// A table for the keys of an object, then one for each object in it.
    fn section(&self, path: &str, object: &Value, text: &mut String) {
        let properties = object["properties"].as_object().unwrap();
        self.table(&format!("`{path}`"), path, properties, object, text);
        for (name, property) in properties {
            // The same keys as those of a receiver's webhook.
            if name == "warnings" {
                continue;
            }
            let below = path
                .strip_prefix("poller")
                .unwrap_or(path)
                .trim_start_matches('.');
            let name = if below.is_empty() {
                name.clone()
            } else {
                format!("{below}.{name}")
            };
            let property = self.resolved(property);
            if is_object(property) {
                self.section(&name, property, text);
            } else if property["type"] == "array" && is_object(self.resolved(&property["items"])) {
                self.section(
                    &format!("{name}[]"),
                    self.resolved(&property["items"]),
                    text,
                );
            }
        }
    }

    fn table(
        &self,
        title: &str,
        path: &str,
        keys: &Map<String, Value>,
        object: &Value,
        text: &mut String,
    ) {
        writeln!(text, "\n### {title}\n").unwrap();
        if let (Some(about), false) = (object["description"].as_str(), path.is_empty()) {
            writeln!(text, "{}\n", one_line(about)).unwrap();
        }
        writeln!(
            text,
            "| key | value | unless told | meaning |\n|---|---|---|---|"
        )
        .unwrap();
        let required: Vec<_> = object["required"]
            .as_array()
            .into_iter()
            .flatten()
            .collect();
        let is_optional = |name: &str| !required.contains(&&Value::from(name));
        let mut keys: Vec<_> = keys.iter().collect();
        keys.sort_by_key(|(name, _)| is_optional(name));
        for (name, property) in keys {
            let inner = self.resolved(property);
            let about = property["description"]
                .as_str()
                .or(inner["description"].as_str());
            let (mut meaning, mut default) = parted(about.unwrap_or_default());
            if !is_optional(name) {
                default = "**required**".to_owned();
            }
            let choices: Vec<String> = self.choices(inner).collect();
            if !choices.is_empty() {
                meaning = format!("{meaning}. {}", choices.join("; "));
                meaning = meaning.trim_start_matches(". ").to_owned();
            }
            let value = self.value(inner);
            let row = [&format!("`{name}`"), &value, &default, &meaning]
                .map(|cell| cell.replace('|', "\\|"));
            writeln!(text, "| {} |", row.join(" | ")).unwrap();
        }
    }

    /// What may be written.
    fn value(&self, schema: &Value) -> String {
        let schema = self.resolved(schema);
        if let Some(branches) = branches(schema) {
            let mut all: Vec<String> = Vec::new();
            for branch in branches {
                let value = match branch["const"].as_str() {
                    Some(word) => format!("`{word}`"),
                    None => self.value(branch),
                };
                if !all.contains(&value) {
                    all.push(value);
                }
            }
            return all.join(", ");
        }
        match schema["type"].as_str() {
            Some("integer") => match (schema["minimum"].as_i64(), schema["maximum"].as_i64()) {
                (Some(least), Some(most)) if least > i64::MIN / 2 => format!("{least} to {most}"),
                _ => "number".to_owned(),
            },
            Some("boolean") => "true or false".to_owned(),
            Some("array") => match self.resolved(&schema["items"])["type"].as_str() {
                Some("string") => "list of texts".to_owned(),
                _ => "list".to_owned(),
            },
            Some("object") => match schema["properties"].as_object() {
                Some(keys) if keys.len() <= 2 && !keys.is_empty() => {
                    let keys: Vec<_> = keys.keys().map(|key| format!("`{key}`")).collect();
                    format!("object with {}", keys.join(" or "))
                }
                _ => "object".to_owned(),
            },
            Some("string") => "text".to_owned(),
            _ => "anything".to_owned(),
        }
    }

    /// What each fixed word means, and each key of an object that stands in place of one.
    fn choices<'s>(&'s self, schema: &'s Value) -> Box<dyn Iterator<Item = String> + 's> {
        let all = branches(schema)
            .into_iter()
            .flatten()
            .flat_map(move |branch| {
                let branch = self.resolved(branch);
                let about = branch["description"].as_str().map(|text| parted(text).0);
                let own: Box<dyn Iterator<Item = String>> = match (branch["const"].as_str(), about)
                {
                    (Some(word), Some(about)) => {
                        Box::new(std::iter::once(format!("`{word}`: {}", uncapital(&about))))
                    }
                    (None, _) if branch["properties"].is_object() => {
                        let keys = branch["properties"].as_object().into_iter().flatten();
                        Box::new(keys.filter_map(|(key, property)| {
                            let about = property["description"].as_str()?;
                            Some(format!("`{key}`: {}", uncapital(&parted(about).0)))
                        }))
                    }
                    (None, _) => self.choices(branch),
                    _ => Box::new(std::iter::empty()),
                };
                own
            });
        Box::new(all)
    }

    fn resolved<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str() {
            Some(reference) => self
                .schema
                .pointer(reference.trim_start_matches('#'))
                .unwrap(),
            None => schema,
        }
    }
}

fn is_object(schema: &Value) -> bool {
    schema["properties"].is_object()
}

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    schema["anyOf"]
        .as_array()
        .or_else(|| schema["oneOf"].as_array())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Behind a colon.
fn uncapital(text: &str) -> String {
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => first.to_lowercase().chain(letters).collect(),
        None => String::new(),
    }
}

/// `…; X unless told.` is a meaning and a default.
fn parted(text: &str) -> (String, String) {
    let text = one_line(text);
    let Some((before, after)) = text.split_once(" unless told") else {
        return (text.trim_end_matches('.').to_owned(), String::new());
    };
    let at = before.rfind("; ").max(before.rfind(". ")).map(|at| at + 2);
    let (meaning, default) = before.split_at(at.unwrap_or(0));
    let after = after.trim_start_matches(['.', ';', ' ']);
    let meaning = meaning.trim_end().trim_end_matches([';', '.']);
    let meaning = [meaning, after].into_iter().filter(|part| !part.is_empty());
    let meaning: Vec<_> = meaning.collect();
    let meaning = meaning.join(". ").trim_end_matches('.').to_owned();
    (meaning, default.trim_end_matches(',').to_owned())
}
