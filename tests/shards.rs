//! One poller in several parts, each with a document and a lease of its own: nothing is lost, nobody is
//! overtaken, and the platform may spread the parts over processes.

// Clippy does not know that the helpers of an integration test are tests.
#![allow(clippy::unwrap_used)]

mod support;

#[path = "shards/cut_off.rs"]
mod cut_off;
#[path = "shards/databases.rs"]
mod databases;
#[path = "shards/fan_out.rs"]
mod fan_out;
#[path = "shards/reshard.rs"]
mod reshard;
#[path = "shards/throughput.rs"]
mod throughput;
#[path = "shards/ticks.rs"]
mod ticks;

use std::collections::BTreeMap;

use dbtick::model::position::Scalar;
use dbtick::model::shard::{Shard, ShardBy};
use support::world::World;

/// Which of so many shards a row is in.
fn shard_of(row: i64, count: u16) -> Shard {
    let mut all = Shard::all(count, ShardBy::Key);
    all.find(|shard| shard.holds(&[Scalar::Integer(row.into())]))
        .unwrap()
}

/// Every row from 1 to `rows` was acknowledged; how often.
#[track_caller]
fn all_rows(world: &World, rows: i64) -> BTreeMap<i64, usize> {
    let got = world.receiver.acknowledged_rows();
    let missing: Vec<i64> = (1..=rows).filter(|row| !got.contains_key(row)).collect();
    assert!(missing.is_empty(), "lost: {missing:?}");
    got.into_iter().map(|(row, ids)| (row, ids.len())).collect()
}

/// The notes of each row in the order in which they were acknowledged.
fn versions(world: &World) -> BTreeMap<i64, Vec<String>> {
    let mut versions: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    let deliveries = world.receiver.deliveries();
    for delivery in deliveries.iter().filter(|it| it.acknowledged) {
        for event in delivery.body["events"].as_array().unwrap() {
            let row = event["key"]["id"].as_i64().unwrap();
            let note = event["data"]["note"].as_str().unwrap().to_owned();
            versions.entry(row).or_default().push(note);
        }
    }
    versions
}
