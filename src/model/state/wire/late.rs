//! What is known about late commits, as JSON.

use serde::{Deserialize, Serialize};

use super::DocumentError;
use crate::clock::Timestamp;
use crate::model::late::{Epoch, Fence, Late, Segment, Witness};
use crate::model::position::Position;

#[derive(Serialize, Deserialize)]
pub(super) struct WireLate {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    fences: Vec<WireFence>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    epoch: Option<WireEpoch>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spilled: Vec<WireSegment>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    retired: Vec<String>,
}

/// Places on one line each, typed value by value.
#[derive(Serialize, Deserialize)]
struct WireFence {
    up_to: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    witnesses: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<Timestamp>,
    since: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct WireEpoch {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeline: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    started: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "is_exact")]
    started_within: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    transaction: Option<u64>,
    now: Timestamp,
}

#[derive(Serialize, Deserialize)]
struct WireSegment {
    name: String,
    ids: u64,
    from: String,
    to: String,
}

fn is_exact(seconds: &u32) -> bool {
    *seconds == 0
}

impl WireLate {
    pub(super) fn of(late: &Late) -> Option<Self> {
        let Late {
            fences,
            epoch,
            spilled,
            retired,
        } = late;
        (*late != Late::default()).then(|| Self {
            fences: fences.iter().map(WireFence::from).collect(),
            epoch: epoch.as_ref().map(WireEpoch::from),
            spilled: spilled.iter().map(WireSegment::from).collect(),
            retired: retired.clone(),
        })
    }
}

impl TryFrom<WireLate> for Late {
    type Error = DocumentError;

    fn try_from(wire: WireLate) -> Result<Self, DocumentError> {
        let fences = wire.fences.into_iter().map(Fence::try_from);
        let spilled = wire.spilled.into_iter().map(Segment::try_from);
        Ok(Self {
            fences: fences.collect::<Result<_, _>>()?,
            epoch: wire.epoch.map(Epoch::from),
            spilled: spilled.collect::<Result<_, _>>()?,
            retired: wire.retired,
        })
    }
}

impl From<&Fence> for WireFence {
    fn from(fence: &Fence) -> Self {
        let Fence {
            up_to,
            witnesses,
            until,
            since,
        } = fence;
        Self {
            up_to: up_to.to_tagged(),
            witnesses: witnesses.iter().map(ToString::to_string).collect(),
            until: *until,
            since: *since,
        }
    }
}

impl TryFrom<WireFence> for Fence {
    type Error = DocumentError;

    fn try_from(wire: WireFence) -> Result<Self, DocumentError> {
        Ok(Self {
            up_to: Position::from_tagged(&wire.up_to)?,
            witnesses: wire.witnesses.into_iter().map(Witness::new).collect(),
            until: wire.until,
            since: wire.since,
        })
    }
}

impl From<&Epoch> for WireEpoch {
    fn from(epoch: &Epoch) -> Self {
        let Epoch {
            timeline,
            started,
            started_within,
            transaction,
            written_down: _,
            now,
        } = epoch;
        Self {
            timeline: timeline.clone(),
            started: *started,
            started_within: *started_within,
            transaction: *transaction,
            now: *now,
        }
    }
}

impl From<WireEpoch> for Epoch {
    fn from(wire: WireEpoch) -> Self {
        Self {
            timeline: wire.timeline,
            started: wire.started,
            started_within: wire.started_within,
            transaction: wire.transaction,
            written_down: None,
            now: wire.now,
        }
    }
}

impl From<&Segment> for WireSegment {
    fn from(segment: &Segment) -> Self {
        let Segment {
            name,
            ids,
            from,
            to,
        } = segment;
        Self {
            name: name.clone(),
            ids: *ids,
            from: from.to_tagged(),
            to: to.to_tagged(),
        }
    }
}

impl TryFrom<WireSegment> for Segment {
    type Error = DocumentError;

    fn try_from(wire: WireSegment) -> Result<Self, DocumentError> {
        Ok(Self {
            name: wire.name,
            ids: wire.ids,
            from: Position::from_tagged(&wire.from)?,
            to: Position::from_tagged(&wire.to)?,
        })
    }
}
