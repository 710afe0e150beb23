//! The OpenAPI document: paths from the route table, schemas from the types that are sent.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::answers::{
    ActionAnswer, Because, CaseAnswer, HealthAnswer, HistoryAnswer, OrphansAnswer,
    QuarantineAnswer, Refusal, SchemaAnswer,
};
use super::routes::{Endpoint, ROUTES, Route};
use crate::overview::{AppView, PollerDetail};

/// Of the status function at this path: route prefix and the plain part of its route.
#[must_use]
pub fn openapi(path: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
    });
    let mut schemas = settings.for_serialize().into_generator();
    let mut paths = Map::new();
    for route in ROUTES {
        let address = format!("/{}", route.path);
        let operation = operation(route, &mut schemas);
        let methods = paths.entry(address).or_insert_with(|| json!({}));
        methods[route.method.to_ascii_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "dbtick status",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What the pollers of an app are doing, and what can be done about it. Fields are added, never renamed.",
        },
        "servers": [{ "url": format!("/{path}") }],
        "security": [{ "key": [] }, { "code": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": { "type": "apiKey", "in": "header", "name": "x-functions-key" },
                "code": { "type": "apiKey", "in": "query", "name": "code" },
            },
            "schemas": schemas.take_definitions(true),
        },
    })
}

fn operation(route: &Route, schemas: &mut SchemaGenerator) -> Value {
    let mut responses = answers(route.endpoint, schemas);
    let refusal = json!({
        "description": "Refused: what is wrong, and what to do",
        "content": { "application/json": { "schema": schemas.subschema_for::<Refusal>() } },
    });
    responses.insert("default".to_owned(), refusal);
    let mut operation = json!({
        "operationId": format!("{:?}", route.endpoint).to_ascii_lowercase(),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses,
    });
    if route.method == "POST" {
        operation["requestBody"] = json!({
            "content": { "application/json": { "schema": schemas.subschema_for::<Because>() } },
        });
    }
    operation
}

fn parameters(route: &Route) -> Vec<Value> {
    let parameter = |place: &str, name: &str, says: &str, of: Value| json!({ "in": place, "name": name, "description": says, "required": place == "path", "schema": of });
    let mut all = Vec::new();
    if route.path.contains("{poller}") {
        let says = "The name of the poller";
        all.push(parameter(
            "path",
            "poller",
            says,
            json!({ "type": "string" }),
        ));
    }
    if route.path.contains("{event}") {
        let says = "The id of the event, whole";
        all.push(parameter(
            "path",
            "event",
            says,
            json!({ "type": "string" }),
        ));
    }
    match route.endpoint {
        Endpoint::Schema => {
            let says = "Of a kept checkpoint; the newest unless told";
            let of = json!({ "type": "integer", "minimum": 0 });
            all.push(parameter("query", "version", says, of));
        }
        Endpoint::Case => {
            let says = "1: with the event as it was sent, which is row data";
            all.push(parameter("query", "data", says, json!({ "enum": ["1"] })));
            let says =
                "Only of the receiver with this name; of all that did not take it unless told";
            all.push(parameter(
                "query",
                "sink",
                says,
                json!({ "type": "string" }),
            ));
        }
        _ => {}
    }
    if route.method == "POST" {
        let mut header = parameter(
            "header",
            "x-dbtick-action",
            "Shows that no other site has made a browser send this",
            json!({ "const": "1" }),
        );
        header["required"] = true.into();
        all.push(header);
    }
    all
}

fn answers(endpoint: Endpoint, schemas: &mut SchemaGenerator) -> Map<String, Value> {
    let text = |kind: &str| json!({ "description": "As it is", "content": { kind: { "schema": { "type": "string" } } } });
    let json = |says: &str, schema: schemars::Schema| json!({ "description": says, "content": { "application/json": { "schema": schema } } });
    let good = match endpoint {
        Endpoint::Page => text("text/html"),
        Endpoint::Metrics => text("text/plain"),
        Endpoint::OpenApi => json(
            "This document",
            schemars::json_schema!({ "type": "object" }),
        ),
        Endpoint::Checkpoints => json("The app", schemas.subschema_for::<AppView>()),
        Endpoint::Poller => json("The poller", schemas.subschema_for::<PollerDetail>()),
        Endpoint::Orphans => json(
            "What is stuck",
            schemas.subschema_for::<OrphansAnswer<'_>>(),
        ),
        Endpoint::History => json("Its past", schemas.subschema_for::<HistoryAnswer<'_>>()),
        Endpoint::Schema => json("Its columns", schemas.subschema_for::<SchemaAnswer>()),
        Endpoint::Quarantine => {
            let schema = schemas.subschema_for::<QuarantineAnswer<'_>>();
            json("Its quarantine", schema)
        }
        Endpoint::Case => json("The rows", schemas.subschema_for::<CaseAnswer<'_>>()),
        Endpoint::Health => json("Nothing is stuck", schemas.subschema_for::<HealthAnswer>()),
        Endpoint::Pause | Endpoint::Resume | Endpoint::Redrive | Endpoint::Discard => {
            json("What it came to", schemas.subschema_for::<ActionAnswer>())
        }
    };
    let mut responses = Map::from_iter([("200".to_owned(), good)]);
    if endpoint == Endpoint::Health {
        let stuck = schemas.subschema_for::<HealthAnswer>();
        responses.insert("503".to_owned(), json("Something is stuck", stuck));
    }
    responses
}
