//! What is known about sinks, as JSON.

use serde::{Deserialize, Serialize};

use super::{DocumentError, WireCursor, WireDelivered};
use crate::clock::Timestamp;
use crate::model::sinks::{Again, Failure, Lag, SinkState, SizeLimit};

#[derive(Serialize, Deserialize)]
pub(super) struct WireSink {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lag: Option<WireLag>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<SizeLimit>,
    #[serde(default)]
    rows: u64,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    set_aside: Vec<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    again: Option<Again>,
}

#[derive(Serialize, Deserialize)]
struct WireLag {
    cursor: Option<WireCursor>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    delivered: Vec<WireDelivered>,
    since: Timestamp,
}

impl From<&SinkState> for WireSink {
    fn from(state: &SinkState) -> Self {
        let SinkState {
            failure,
            lag,
            limit,
            rows,
            set_aside,
            again,
        } = state;
        let lag = lag.as_ref().map(|lag| {
            let Lag {
                position,
                delivered,
                since,
            } = lag;
            WireLag {
                cursor: position.as_ref().map(WireCursor::from),
                delivered: delivered.iter().map(WireDelivered::of).collect(),
                since: *since,
            }
        });
        Self {
            failure: failure.clone(),
            lag,
            limit: *limit,
            rows: *rows,
            set_aside: set_aside.clone(),
            again: again.clone(),
        }
    }
}

impl WireSink {
    pub(super) fn into_state(self, key_columns: &[String]) -> Result<SinkState, DocumentError> {
        let lag = self.lag.map(|lag| -> Result<Lag, DocumentError> {
            let cursor = lag.cursor.map(|cursor| cursor.into_mark(key_columns));
            let delivered = lag.delivered.iter().map(WireDelivered::parse);
            Ok(Lag {
                position: cursor.transpose()?,
                delivered: delivered.collect::<Result<_, _>>()?,
                since: lag.since,
            })
        });
        Ok(SinkState {
            failure: self.failure,
            lag: lag.transpose()?,
            limit: self.limit,
            rows: self.rows,
            set_aside: self.set_aside,
            again: self.again,
        })
    }
}
