//! The document as JSON. Its core is fixed (version 1, shared with other readers); what we add is
//! optional, so a plain version-1 document loads. A document that is truncated, of another version,
//! of another poller or changed by hand is refused, never repaired (C8).

mod check;
mod format;
mod late;
mod past;
mod sinks;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{AuditEntry, Checkpoint, CursorMark, Review, StateDocument, Status, VERSION};
use crate::clock::Timestamp;
use crate::model::counters::Counters;
use crate::model::definition::SourceDefinition;
use crate::model::history::HistoryEntry;
use crate::model::late::Late;
use crate::model::lease::{FencingToken, Held, Lease, WriteMark};
use crate::model::ledger::Ledger;
use crate::model::page::EventId;
use crate::model::position::{
    CursorKind, Position, PositionError, Scalar, ScalarType, cursor_to_json, key_to_json,
};
use crate::model::pulse::Beat;
use crate::model::trouble::Trouble;
use late::WireLate;
use past::{WireColumn, WireEntry, WireSchema, columns_from, columns_of};
use sinks::WireSink;

/// Why a document cannot be trusted. It is left as it is; a person decides.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    #[error("the state document is not complete JSON; it may have been cut short")]
    Unreadable(#[source] serde_json::Error),
    #[error("the state document has version {found}, this program knows version {VERSION}")]
    Version { found: Value },
    #[error("the state document belongs to poller {found:?}, not to {expected:?}")]
    OtherPoller { found: String, expected: String },
    #[error(
        "the state document was changed by something other than dbtick: its check field does not match its content"
    )]
    Tampered,
    #[error("the state document is not legal: {0}")]
    Illegal(String),
    #[error("the state document has a position that cannot be read")]
    Position(#[from] PositionError),
}

#[derive(Serialize, Deserialize)]
struct Wire {
    /// Looked at in the bytes.
    #[serde(default, skip_serializing)]
    #[expect(dead_code, reason = "so that it is not taken for an unknown member")]
    check: Option<IgnoredAny>,
    version: u64,
    poller_name: String,
    source_fingerprint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    source: Option<SourceDefinition>,
    checkpoint: WireCheckpoint,
    #[serde(default)]
    lease: WireLease,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    holder: Option<WriteMark>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    delivered: Vec<WireDelivered>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    late: Option<WireLate>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    sinks: BTreeMap<String, WireSink>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ledger: Option<Ledger>,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    counters: Counters,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trouble: Option<Trouble>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pulse: Vec<Beat>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    schema: Option<WireSchema>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    server: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    history: Vec<WireEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    past_schemas: BTreeMap<String, Vec<WireColumn>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    audit: Vec<AuditEntry>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    reviews: BTreeMap<String, Review>,
    #[serde(flatten)]
    unknown: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct WireCheckpoint {
    cursor: Option<WireCursor>,
    last_successful_batch_id: Option<String>,
    updated_at: Option<Timestamp>,
    #[serde(default)]
    metadata: Map<String, Value>,
}

#[derive(Serialize, Deserialize)]
struct WireCursor {
    kind: CursorKind,
    value: Value,
    tiebreaker: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    types: Option<WireTypes>,
}

/// JSON alone cannot tell a long integer from text, nor the order of a composite key.
#[derive(Serialize, Deserialize)]
struct WireTypes {
    cursor: Vec<String>,
    key: Vec<(String, String)>,
}

#[derive(Serialize, Deserialize, Default)]
#[serde(default)]
struct WireLease {
    owner_id: Option<String>,
    fencing_token: FencingToken,
    acquired_at: Option<Timestamp>,
    heartbeat_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
}

/// Scalars as `i:5`, `t:text`, `b:base64`: short, and typed one by one.
#[derive(Serialize, Deserialize)]
struct WireDelivered {
    id: String,
    cursor: Vec<String>,
    key: Vec<String>,
}

/// No poller gets here by counting, and both only ever grow.
const LAST: u64 = u64::MAX / 2;

impl StateDocument {
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let wire = Wire::from(self);
        let value = serde_json::to_value(wire).expect("a document is always representable");
        check::sealed(value)
    }

    /// `key_columns` gives the order of a composite key in documents that do not carry it.
    pub fn from_bytes(
        bytes: &[u8],
        poller_name: &str,
        key_columns: &[String],
    ) -> Result<Self, DocumentError> {
        let mut wire = match Wire::as_written(bytes) {
            Some(wire) => wire,
            None => Wire::checked(bytes)?,
        };
        // Written before there were several sinks. What it counted is counted anew.
        wire.unknown.remove("failure");
        if wire.poller_name != poller_name {
            return Err(DocumentError::OtherPoller {
                found: wire.poller_name,
                expected: poller_name.to_owned(),
            });
        }
        wire.into_document(key_columns)
    }
}

impl From<&StateDocument> for Wire {
    fn from(document: &StateDocument) -> Self {
        let StateDocument {
            poller_name,
            source_fingerprint,
            source,
            checkpoint,
            lease,
            holder,
            delivered,
            late,
            sinks,
            ledger,
            status,
            counters,
            trouble,
            pulse,
            schema,
            server,
            history,
            past_schemas,
            audit,
            reviews,
            unknown,
        } = document;
        let held = lease.held.as_ref();
        Self {
            check: None,
            version: VERSION,
            poller_name: poller_name.clone(),
            source_fingerprint: source_fingerprint.clone(),
            source: source.clone(),
            checkpoint: WireCheckpoint {
                cursor: checkpoint.cursor.as_ref().map(WireCursor::from),
                last_successful_batch_id: checkpoint.last_successful_batch_id.clone(),
                updated_at: checkpoint.updated_at,
                metadata: checkpoint.metadata.clone(),
            },
            lease: WireLease {
                owner_id: held.map(|held| held.owner_id.clone()),
                fencing_token: lease.token,
                acquired_at: held.map(|held| held.acquired_at),
                heartbeat_at: held.map(|held| held.heartbeat_at),
                expires_at: held.map(|held| held.expires_at),
            },
            holder: holder.clone(),
            delivered: delivered.iter().map(WireDelivered::of).collect(),
            late: WireLate::of(late),
            sinks: sinks
                .iter()
                .map(|(name, sink)| (name.clone(), WireSink::from(sink)))
                .collect(),
            ledger: ledger.clone(),
            status: status.clone(),
            counters: counters.clone(),
            trouble: trouble.clone(),
            pulse: pulse.clone(),
            schema: schema.as_deref().map(WireSchema::from),
            server: server.clone(),
            history: history.iter().map(WireEntry::from).collect(),
            past_schemas: past_schemas
                .iter()
                .map(|(hash, schema)| (hash.clone(), columns_of(schema)))
                .collect(),
            audit: audit.clone(),
            reviews: reviews.clone(),
            unknown: unknown.clone(),
        }
    }
}

impl From<&CursorMark> for WireCursor {
    fn from(mark: &CursorMark) -> Self {
        let CursorMark {
            kind,
            position,
            key_columns,
        } = mark;
        let type_name = |scalar: &Scalar| scalar.scalar_type().name().to_owned();
        Self {
            kind: *kind,
            value: cursor_to_json(position.cursor()),
            tiebreaker: key_to_json(key_columns, position.key()),
            types: Some(WireTypes {
                cursor: position.cursor().iter().map(type_name).collect(),
                key: key_columns
                    .iter()
                    .cloned()
                    .zip(position.key().iter().map(type_name))
                    .collect(),
            }),
        }
    }
}

impl Wire {
    /// The short way, for a document that is byte for byte as we have written it.
    fn as_written(bytes: &[u8]) -> Option<Self> {
        if !check::is_intact(bytes) {
            return None;
        }
        let wire: Self = serde_json::from_slice(bytes).ok()?;
        (wire.version == VERSION).then_some(wire)
    }

    /// Whatever the layout; says what is wrong.
    fn checked(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut value: Value = serde_json::from_slice(bytes).map_err(DocumentError::Unreadable)?;
        let Some(object) = value.as_object_mut() else {
            return Err(DocumentError::Illegal("it is not an object".to_owned()));
        };
        let check = object.remove(check::MEMBER);
        match object.get("version") {
            Some(version) if *version == VERSION => {}
            other => {
                return Err(DocumentError::Version {
                    found: other.cloned().unwrap_or(Value::Null),
                });
            }
        }
        // A plain version-1 document carries no check; the first write of ours adds it, and counters.
        let intact = match check {
            Some(check) => check == check::sum(&value),
            None => value.get("counters").is_none(),
        };
        if !intact {
            return Err(DocumentError::Tampered);
        }
        serde_json::from_value(value).map_err(|error| DocumentError::Illegal(error.to_string()))
    }

    fn into_document(self, key_columns: &[String]) -> Result<StateDocument, DocumentError> {
        let checkpoint = Checkpoint {
            cursor: self
                .checkpoint
                .cursor
                .map(|cursor| cursor.into_mark(key_columns))
                .transpose()?,
            last_successful_batch_id: self.checkpoint.last_successful_batch_id,
            updated_at: self.checkpoint.updated_at,
            metadata: self.checkpoint.metadata,
        };
        let delivered = self
            .delivered
            .iter()
            .map(WireDelivered::parse)
            .collect::<Result<BTreeMap<_, _>, _>>()?;
        let history = self
            .history
            .into_iter()
            .map(HistoryEntry::try_from)
            .collect::<Result<Vec<_>, _>>()?;
        if self.lease.fencing_token.get() > LAST || history.iter().any(|entry| entry.version > LAST)
        {
            let room = "its token or a version has no room to grow";
            return Err(DocumentError::Illegal(room.to_owned()));
        }
        if !history.is_sorted_by(|one, next| one.version < next.version) {
            let order = "the versions of its history are not in order";
            return Err(DocumentError::Illegal(order.to_owned()));
        }
        let sinks = self
            .sinks
            .into_iter()
            .map(|(name, sink)| Ok((name, sink.into_state(key_columns)?)));
        let past_schemas = self.past_schemas.into_iter().map(|(hash, columns)| {
            let schema = columns_from(hash.clone(), columns);
            (hash, Arc::new(schema))
        });
        Ok(StateDocument {
            poller_name: self.poller_name,
            source_fingerprint: self.source_fingerprint,
            source: self.source,
            checkpoint,
            lease: self.lease.into_lease()?,
            holder: self.holder,
            delivered,
            late: self
                .late
                .map(Late::try_from)
                .transpose()?
                .unwrap_or_default(),
            sinks: sinks.collect::<Result<_, DocumentError>>()?,
            ledger: self.ledger,
            status: self.status,
            counters: self.counters,
            trouble: self.trouble,
            pulse: self.pulse,
            schema: self.schema.map(|schema| Arc::new(schema.into())),
            server: self.server,
            history,
            past_schemas: past_schemas.collect(),
            audit: self.audit,
            reviews: self.reviews,
            unknown: self.unknown,
        })
    }
}

impl WireCursor {
    fn into_mark(self, key_columns: &[String]) -> Result<CursorMark, DocumentError> {
        let values = match self.value {
            Value::Array(values) => values,
            single => vec![single],
        };
        let columns: Vec<String> = match &self.types {
            Some(types) => types.key.iter().map(|(name, _)| name.clone()).collect(),
            None => key_columns.to_vec(),
        };
        if columns.len() != self.tiebreaker.len() {
            return Err(PositionError::WrongCount {
                expected: columns.len(),
                found: self.tiebreaker.len(),
            }
            .into());
        }
        let keys = columns
            .iter()
            .map(|column| {
                self.tiebreaker.get(column).ok_or_else(|| {
                    DocumentError::Illegal(format!("the tiebreaker has no {column:?}"))
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let position = match &self.types {
            Some(types) => {
                if types.cursor.len() != values.len() {
                    return Err(PositionError::WrongCount {
                        expected: types.cursor.len(),
                        found: values.len(),
                    }
                    .into());
                }
                let typed = |value: &Value, name: &str| {
                    Scalar::from_json(value, ScalarType::from_name(name)?)
                };
                Position::new(
                    values
                        .iter()
                        .zip(&types.cursor)
                        .map(|(value, name)| typed(value, name))
                        .collect::<Result<_, _>>()?,
                    keys.into_iter()
                        .zip(&types.key)
                        .map(|(value, (_, name))| typed(value, name))
                        .collect::<Result<_, _>>()?,
                )
            }
            None => Position::new(
                values
                    .iter()
                    .map(Scalar::guess_from_json)
                    .collect::<Result<_, _>>()?,
                keys.into_iter()
                    .map(Scalar::guess_from_json)
                    .collect::<Result<_, _>>()?,
            ),
        };
        Ok(CursorMark {
            kind: self.kind,
            position,
            key_columns: columns,
        })
    }
}

impl WireLease {
    /// No owner means a free lease; an owner without its times is a damaged document.
    fn into_lease(self) -> Result<Lease, DocumentError> {
        let held = match self.owner_id.filter(|owner| !owner.is_empty()) {
            None => None,
            Some(owner_id) => match (self.acquired_at, self.heartbeat_at, self.expires_at) {
                (Some(acquired_at), Some(heartbeat_at), Some(expires_at))
                    if acquired_at <= heartbeat_at && heartbeat_at <= expires_at =>
                {
                    Some(Held {
                        owner_id,
                        acquired_at,
                        heartbeat_at,
                        expires_at,
                    })
                }
                _ => {
                    return Err(DocumentError::Illegal(
                        "the lease has an owner, but its times are missing or out of order"
                            .to_owned(),
                    ));
                }
            },
        };
        Ok(Lease {
            token: self.fencing_token,
            held,
        })
    }
}

impl WireDelivered {
    fn of((id, position): (&EventId, &Position)) -> Self {
        Self {
            id: id.to_string(),
            cursor: position.cursor().iter().map(Scalar::to_tagged).collect(),
            key: position.key().iter().map(Scalar::to_tagged).collect(),
        }
    }

    fn parse(&self) -> Result<(EventId, Position), DocumentError> {
        let id = EventId::parse(&self.id)
            .ok_or_else(|| DocumentError::Illegal(format!("{:?} is no event id", self.id)))?;
        let scalars = |texts: &[String]| -> Result<Vec<Scalar>, PositionError> {
            texts.iter().map(|text| Scalar::from_tagged(text)).collect()
        };
        let position = Position::new(scalars(&self.cursor)?, scalars(&self.key)?);
        Ok((id, position))
    }
}
