//! The JSON Schema of function.json, generated from `raw`: what editors show is what is enforced.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::raw::FunctionFile;

/// The schema that `schema/poller.schema.json` holds and that loading enforces.
#[must_use]
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<FunctionFile>()
        .to_value();
    forbid_null(&mut schema);
    schema
}

/// An optional key is left out; `null` is not another way to say so.
fn forbid_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            narrow_type(object);
            narrow_choice(object);
            object.values_mut().for_each(forbid_null);
        }
        Value::Array(items) => items.iter_mut().for_each(forbid_null),
        _ => {}
    }
}

fn narrow_type(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
}

fn narrow_choice(schema: &mut Map<String, Value>) {
    let Some(Value::Array(branches)) = schema.get_mut("anyOf") else {
        return;
    };
    branches.retain(|branch| branch.get("type") != Some(&Value::from("null")));
    if let [Value::Object(only)] = branches.as_slice() {
        let only = only.clone();
        schema.remove("anyOf");
        schema.extend(only);
    }
}
