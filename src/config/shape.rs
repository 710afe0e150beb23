//! Checks a JSON document against our own schema and reports every difference at once.
//!
//! serde stops at the first fault and knows no suggestions. This walker knows only the keywords
//! that our schema uses; a test keeps that true, another compares it with an independent validator.
//! It never shows a text of the document except where the choices are fixed.

mod suggest;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::fault::{Faults, Place};
use suggest::unknown_key;

/// Adds a fault for everything in `document` that `schema` does not allow.
pub(super) fn check(document: &Value, schema: &Value, faults: &mut Faults) {
    Walker { root: schema }.walk(document, schema, &Place::root(), faults);
}

struct Walker<'a> {
    root: &'a Value,
}

impl Walker<'_> {
    fn walk(&self, value: &Value, schema: &Value, at: &Place, faults: &mut Faults) {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            return self.walk(value, self.definition(reference), at, faults);
        }
        if let Some(branches) = branches(schema) {
            return self.walk_choice(value, branches, at, faults);
        }
        if !fits_type(value, schema) {
            let expected = type_name(schema);
            let problem = format!("must be {expected}, not {}", kind_of(value));
            return faults.add(at, problem, about(schema, &format!("write {expected}")));
        }
        match value {
            Value::Object(object) => self.walk_object(object, schema, at, faults),
            Value::Array(items) => self.walk_array(items, schema, at, faults),
            Value::String(text) => check_text(text, schema, at, faults),
            Value::Number(_) => check_range(value, schema, at, faults),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn walk_object(
        &self,
        object: &Map<String, Value>,
        schema: &Value,
        at: &Place,
        faults: &mut Faults,
    ) {
        let none = Map::new();
        let known = schema
            .get("properties")
            .and_then(Value::as_object)
            .unwrap_or(&none);
        for required in strings(schema.get("required")) {
            if !object.contains_key(required) {
                let hint = known
                    .get(required)
                    .map(|property| about(property, "add it"));
                faults.add(&at.key(required), "is missing", hint.unwrap_or_default());
            }
        }
        let others = schema.get("additionalProperties");
        for (key, value) in object {
            match (known.get(key), others) {
                (Some(property), _) => self.walk(value, property, &at.key(key), faults),
                (None, Some(Value::Bool(false))) => unknown_key(key, known, at, faults),
                (None, Some(each @ Value::Object(_))) => {
                    self.walk(value, each, &at.key(key), faults);
                }
                (None, _) => {}
            }
        }
    }

    fn walk_array(&self, items: &[Value], schema: &Value, at: &Place, faults: &mut Faults) {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            faults.add(at, "is empty", format!("write at least {least}"));
        }
        if let Some(schema) = schema.get("items") {
            for (index, item) in items.iter().enumerate() {
                self.walk(item, schema, &at.index(index), faults);
            }
        }
    }

    /// Fixed words are reported together; otherwise the branch of the same type says what is wrong.
    fn walk_choice(&self, value: &Value, branches: &[Value], at: &Place, faults: &mut Faults) {
        let words: Vec<&str> = branches
            .iter()
            .filter_map(|branch| branch.get("const").and_then(Value::as_str))
            .collect();
        if words.len() == branches.len() {
            return check_word(value, &words, at, faults);
        }
        match branches.iter().find(|branch| self.admits(value, branch)) {
            Some(branch) => self.walk(value, branch, at, faults),
            None => {
                let expected: Vec<String> = branches
                    .iter()
                    .map(|branch| type_name(self.example(branch)))
                    .collect();
                let expected = expected.join(" or ");
                let problem = format!("must be {expected}, not {}", kind_of(value));
                faults.add(at, problem, format!("write {expected}"));
            }
        }
    }

    /// Whether a branch, or one of the branches inside it, is of the value's type.
    fn admits(&self, value: &Value, branch: &Value) -> bool {
        let branch = self.resolved(branch);
        match branches(branch) {
            Some(inner) => inner.iter().any(|inner| self.admits(value, inner)),
            None => fits_type(value, branch),
        }
    }

    /// A schema with a type, for a branch that may be a choice itself.
    fn example<'s>(&'s self, branch: &'s Value) -> &'s Value {
        let branch = self.resolved(branch);
        match branches(branch).and_then(|inner| inner.first()) {
            Some(inner) => self.example(inner),
            None => branch,
        }
    }

    fn resolved<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema.get("$ref").and_then(Value::as_str) {
            Some(reference) => self.definition(reference),
            None => schema,
        }
    }

    fn definition(&self, reference: &str) -> &Value {
        reference
            .strip_prefix('#')
            .and_then(|pointer| self.root.pointer(pointer))
            .expect("the generated schema refers only to itself")
    }
}

fn branches(schema: &Value) -> Option<&Vec<Value>> {
    schema
        .get("anyOf")
        .or_else(|| schema.get("oneOf"))
        .and_then(Value::as_array)
}

/// The description, which says what belongs here.
fn about(schema: &Value, otherwise: &str) -> String {
    let description = schema.get("description").and_then(Value::as_str);
    description.unwrap_or(otherwise).to_owned()
}

fn check_word(value: &Value, words: &[&str], at: &Place, faults: &mut Faults) {
    let choices = words.join(", ");
    match value.as_str() {
        Some(word) if words.contains(&word) => {}
        Some(word) => faults.add(
            at,
            format!("is not one of the choices: {word}"),
            format!("write one of: {choices}"),
        ),
        None => faults.add(
            at,
            format!("must be a string, not {}", kind_of(value)),
            format!("write one of: {choices}"),
        ),
    }
}

fn check_text(text: &str, schema: &Value, at: &Place, faults: &mut Faults) {
    let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
    if (text.chars().count() as u64) < least {
        faults.add(at, "is empty", "write a value, or leave the key out");
    }
}

fn check_range(value: &Value, schema: &Value, at: &Place, faults: &mut Faults) {
    let bound = |key| schema.get(key).and_then(Value::as_f64);
    let (least, most) = (bound("minimum"), bound("maximum"));
    let number = value.as_f64().unwrap_or(f64::NAN);
    if least.is_some_and(|least| number < least) || most.is_some_and(|most| number > most) {
        let hint = match (least, most) {
            (Some(least), Some(most)) => format!("from {least} to {most}"),
            (Some(least), None) => format!("at least {least}"),
            (None, most) => format!("at most {}", most.unwrap_or_default()),
        };
        faults.add(at, format!("is out of range: {value}"), hint);
    }
}

/// Stricter than JSON Schema in one point: `1.0` is not an integer, because serde says so too.
fn fits_type(value: &Value, schema: &Value) -> bool {
    match schema.get("type").and_then(Value::as_str) {
        None => true,
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some(_) => false,
    }
}

fn type_name(schema: &Value) -> String {
    match schema.get("type").and_then(Value::as_str) {
        Some("object") => "an object".to_owned(),
        Some("array") => match schema.pointer("/items/type").and_then(Value::as_str) {
            Some("string") => "an array of strings".to_owned(),
            _ => "an array".to_owned(),
        },
        Some("integer") => "a whole number".to_owned(),
        Some("boolean") => "true or false".to_owned(),
        Some(other) => format!("a {other}"),
        None => "something else".to_owned(),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn strings(list: Option<&Value>) -> impl Iterator<Item = &str> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}
