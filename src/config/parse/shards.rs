//! One poller becomes several: each with a name, a document and a lease of its own, and a part of the rows.

use super::Reader;
use crate::config::fault::Place;
use crate::config::raw::{Shards, ShardsBy};
use crate::config::{Deletes, Poller, ShardConfig};
use crate::model::shard::{Shard, ShardBy};

/// `at`: of the poller.
pub(in crate::config) fn shards(
    reader: &mut Reader<'_>,
    at: &Place,
    raw: Option<Shards>,
    whole: Poller,
) -> Option<Vec<Poller>> {
    let (count, column) = match raw {
        None => (1, None),
        Some(Shards::Count(count)) => (count, None),
        Some(Shards::By(ShardsBy { count, column })) => (count, column),
    };
    // Of which the shape has told already.
    if count == 0 || count > Shard::MOST {
        return None;
    }
    if count == 1 {
        return Some(vec![whole]);
    }
    if column.is_some() && matches!(whole.source.deletes, Deletes::Tombstones(_)) {
        let problem = "a tombstone has no such column, and would be in no shard";
        let hint = "leave it out: rows are parted by their key then; or use a soft-delete column";
        reader
            .faults
            .add(&at.key("shards").key("column"), problem, hint);
        return None;
    }
    let by = match column {
        Some(_) => ShardBy::Column,
        None => ShardBy::Key,
    };
    let part = |shard: Shard| {
        let mut poller = whole.clone();
        poller.name = shard.name_in(&whole.name);
        poller.source.shard = Some(ShardConfig {
            shard,
            column: column.clone(),
        });
        poller
    };
    Some(Shard::all(count, by).map(part).collect())
}
