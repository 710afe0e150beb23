//! A shard by key reads past the rows of others, and has nothing of them.

use std::collections::BTreeSet;

use dbtick::config::{ShardConfig, SourceConfig};
use dbtick::model::shard::{Shard, ShardBy};

use crate::fixture::{Engine, MANY_BYTES, find, open, read};

pub(crate) async fn shards_part_all_rows_in_any_order_and_none_finds_one_of_another(
    engine: &Engine,
) {
    let text = engine.collated_text();
    let mut fixture = engine
        .fixture(&format!(
            "CREATE TABLE t (n INTEGER PRIMARY KEY, k {text} NOT NULL);"
        ))
        .await;
    for n in 0..20 {
        let row = format!("INSERT INTO t VALUES ({n}, 'row {n:02}')");
        fixture.run(&row).await;
    }
    for (cursor, key) in [("n", "n"), ("n", "k"), ("k", "n"), ("k", "k")] {
        let whole = fixture.table("t", &[cursor], &[key]);
        let whole_source = open(&whole);
        let mut owners = Vec::new();
        // So many that most pages have rows of others alone.
        for shard in Shard::all(16, ShardBy::Key) {
            let column = None;
            let config = SourceConfig {
                shard: Some(ShardConfig { shard, column }),
                ..whole.clone()
            };
            let source = open(&config);
            let mut after = None;
            let mut own = BTreeSet::new();
            loop {
                let page = read(source.as_ref(), after.as_ref(), 1, MANY_BYTES)
                    .await
                    .unwrap();
                own.extend(page.page.events().iter().map(|it| it.position.clone()));
                after = page.page.reached().cloned();
                if page.end {
                    break;
                }
                assert!(after.is_some(), "a page without progress");
            }
            owners.push((source, own));
        }
        let all = read(whole_source.as_ref(), None, 100, MANY_BYTES).await;
        for event in all.unwrap().page.events() {
            let place = &event.position;
            let mut has = 0;
            for (source, own) in &owners {
                let found = find(source.as_ref(), place).await.unwrap().page;
                assert_eq!(!found.is_empty(), own.contains(place), "{place}");
                has += found.len();
            }
            assert_eq!(has, 1, "{place} by {cursor}, {key}");
        }
    }
}
