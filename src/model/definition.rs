//! What a checkpoint was made from, in words (B7): the fingerprint says that a source has changed,
//! this says what.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Longer texts are cut in messages; the document has them whole.
const SHOWN: usize = 160;

/// The parts of a source that its fingerprint is made of. No password is among them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceDefinition {
    pub connection: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    pub cursor: Vec<String>,
    pub key: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<String>,
    /// Parts that a newer version knows (I15).
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A source as it is configured now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceIdentity {
    pub fingerprint: String,
    pub definition: SourceDefinition,
}

/// One part that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub part: &'static str,
    pub was: Option<String>,
    pub is: Option<String>,
}

impl SourceDefinition {
    /// What has changed from this definition to `now`.
    #[must_use]
    pub fn differences(&self, now: &Self) -> Vec<Difference> {
        let list = |names: &[String]| Some(names.join(", "));
        let parts = [
            (
                "connection",
                Some(self.connection.clone()),
                Some(now.connection.clone()),
            ),
            ("table", self.table.clone(), now.table.clone()),
            ("query", self.query.clone(), now.query.clone()),
            ("cursor", list(&self.cursor), list(&now.cursor)),
            ("key", list(&self.key), list(&now.key)),
            ("filter", self.filter.clone(), now.filter.clone()),
            ("shard", self.shard.clone(), now.shard.clone()),
        ];
        parts
            .into_iter()
            .filter(|(_, was, is)| was != is)
            .map(|(part, was, is)| Difference { part, was, is })
            .collect()
    }
}

/// `table was "orders", is "orders_v2"`
impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { part, was, is } = self;
        write!(f, "{part} was {}, is {}", shown(was), shown(is))
    }
}

fn shown(value: &Option<String>) -> String {
    match value {
        None => "not set".to_owned(),
        Some(text) if text.chars().count() > SHOWN => {
            let start: String = text.chars().take(SHOWN).collect();
            format!("{start:?}…")
        }
        Some(text) => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn orders() -> SourceDefinition {
        SourceDefinition {
            connection: "sqlite:/orders.db".to_owned(),
            table: Some("orders".to_owned()),
            cursor: vec!["seq".to_owned()],
            key: vec!["id".to_owned()],
            ..SourceDefinition::default()
        }
    }

    #[test]
    fn each_part_that_changed_is_named_with_both_values() {
        let now = SourceDefinition {
            table: None,
            query: Some("x".repeat(500)),
            key: vec!["id".to_owned(), "line".to_owned()],
            filter: Some("a = 'b'".to_owned()),
            ..orders()
        };
        let said: Vec<_> = orders()
            .differences(&now)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(said[0], "table was \"orders\", is not set");
        assert!(said[1].starts_with("query was not set, is \"xxx") && said[1].len() < 220);
        assert_eq!(said[2], "key was \"id\", is \"id, line\"");
        assert_eq!(said[3], "filter was not set, is \"a = 'b'\"");
        assert_eq!(orders().differences(&orders()), []);
    }

    #[test]
    fn parts_of_a_newer_writer_survive() {
        let mut value = serde_json::to_value(orders()).unwrap();
        value["partition"] = serde_json::json!([1]);
        let read: SourceDefinition = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), value);
    }
}
