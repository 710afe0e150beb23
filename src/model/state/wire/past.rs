//! Kept checkpoints and schemas as JSON: short, since there are many of them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::DocumentError;
use crate::clock::Timestamp;
use crate::model::history::HistoryEntry;
use crate::model::position::{CursorKind, Position, PositionError, Scalar};
use crate::model::schema::{Column, Role, Schema};
use crate::model::state::CursorMark;

#[derive(Serialize, Deserialize)]
pub(super) struct WireSchema {
    hash: String,
    columns: Vec<WireColumn>,
}

/// Name, declared type, role.
#[derive(Serialize, Deserialize)]
pub(super) struct WireColumn(String, String, #[serde(default)] String);

#[derive(Serialize, Deserialize)]
pub(super) struct WireEntry {
    version: u64,
    at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cursor: Option<WirePlace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch_id: Option<String>,
    #[serde(default)]
    rows: u64,
    #[serde(default)]
    total_rows: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<String>,
    #[serde(default)]
    source: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    undo: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transaction: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    behind: BTreeMap<String, Option<WirePlace>>,
}

/// Scalars as in `delivered`: typed one by one.
#[derive(Serialize, Deserialize)]
struct WirePlace {
    kind: CursorKind,
    value: Vec<String>,
    key: Vec<(String, String)>,
}

impl From<&HistoryEntry> for WireEntry {
    fn from(entry: &HistoryEntry) -> Self {
        let HistoryEntry {
            version,
            at,
            cursor,
            batch_id,
            rows,
            total_rows,
            schema,
            source,
            by,
            undo,
            transaction,
            behind,
        } = entry;
        let place = |mark: &CursorMark| WirePlace {
            kind: mark.kind,
            value: mark
                .position
                .cursor()
                .iter()
                .map(Scalar::to_tagged)
                .collect(),
            key: mark
                .key_columns
                .iter()
                .cloned()
                .zip(mark.position.key().iter().map(Scalar::to_tagged))
                .collect(),
        };
        Self {
            version: *version,
            at: *at,
            cursor: cursor.as_ref().map(place),
            batch_id: batch_id.clone(),
            rows: *rows,
            total_rows: *total_rows,
            schema: schema.clone(),
            source: source.clone(),
            by: by.clone(),
            undo: *undo,
            transaction: *transaction,
            behind: behind
                .iter()
                .map(|(sink, mark)| (sink.clone(), mark.as_ref().map(place)))
                .collect(),
        }
    }
}

impl TryFrom<WireEntry> for HistoryEntry {
    type Error = DocumentError;

    fn try_from(entry: WireEntry) -> Result<Self, DocumentError> {
        let behind = entry.behind.into_iter().map(|(sink, place)| {
            let mark = place.map(CursorMark::try_from).transpose()?;
            Ok((sink, mark))
        });
        Ok(Self {
            version: entry.version,
            at: entry.at,
            cursor: entry.cursor.map(CursorMark::try_from).transpose()?,
            batch_id: entry.batch_id,
            rows: entry.rows,
            total_rows: entry.total_rows,
            schema: entry.schema,
            source: entry.source,
            by: entry.by,
            undo: entry.undo,
            transaction: entry.transaction,
            behind: behind.collect::<Result<_, DocumentError>>()?,
        })
    }
}

impl TryFrom<WirePlace> for CursorMark {
    type Error = PositionError;

    fn try_from(place: WirePlace) -> Result<Self, PositionError> {
        let cursor = place.value.iter().map(|text| Scalar::from_tagged(text));
        let key = place.key.iter().map(|(_, text)| Scalar::from_tagged(text));
        Ok(Self {
            kind: place.kind,
            position: Position::new(
                cursor.collect::<Result<_, _>>()?,
                key.collect::<Result<_, _>>()?,
            ),
            key_columns: place.key.into_iter().map(|(name, _)| name).collect(),
        })
    }
}

impl From<&Schema> for WireSchema {
    fn from(schema: &Schema) -> Self {
        Self {
            hash: schema.hash().to_owned(),
            columns: columns_of(schema),
        }
    }
}

impl From<WireSchema> for Schema {
    fn from(schema: WireSchema) -> Self {
        columns_from(schema.hash, schema.columns)
    }
}

pub(super) fn columns_of(schema: &Schema) -> Vec<WireColumn> {
    let columns = schema.columns().iter();
    columns
        .map(|column| {
            let Column {
                name,
                declared,
                role,
            } = column;
            WireColumn(name.clone(), declared.clone(), role.name().to_owned())
        })
        .collect()
}

pub(super) fn columns_from(hash: String, columns: Vec<WireColumn>) -> Schema {
    let column = |WireColumn(name, declared, role)| Column {
        name,
        declared,
        role: Role::from_name(&role),
    };
    Schema::recorded(hash, columns.into_iter().map(column).collect())
}
