//! The identity of a source (B7): a checkpoint of one source must never be used on another.

mod spacing;

use sha2::{Digest, Sha256};

use super::{Rows, ShardConfig, SourceConfig};
use crate::model::definition::SourceDefinition;
use spacing::one_space;

/// What the fingerprint is made of, for people: stored beside it, compared when it differs.
#[must_use]
pub fn definition(source: &SourceConfig) -> SourceDefinition {
    let (table, query) = match &source.rows {
        Rows::Table { schema, table } => {
            let parts = schema.iter().chain([table]).map(|part| quoted(part));
            (Some(parts.collect::<Vec<_>>().join(".")), None)
        }
        Rows::Query(query) => (None, Some(one_space(query))),
    };
    SourceDefinition {
        connection: source.connection_identity.clone(),
        table,
        query,
        cursor: source.cursor.clone(),
        key: source.key.clone(),
        filter: source.filter.as_deref().map(one_space),
        shard: source.shard.as_ref().map(shard_in_words),
        ..SourceDefinition::default()
    }
}

/// `0of4`, `0of4c by column "part"`
fn shard_in_words(config: &ShardConfig) -> String {
    match &config.column {
        Some(column) => format!("{} by column {}", config.shard, quoted(column)),
        None => config.shard.to_string(),
    }
}

/// As a table is written in the configuration.
fn quoted(part: &str) -> String {
    match part.contains(['.', '"']) {
        true => format!("\"{}\"", part.replace('"', "\"\"")),
        false => part.to_owned(),
    }
}

/// `sha256:…` over connection (without password), table or query, cursor, key, filter and shard. How a
/// query or a filter is laid out does not count.
///
/// Every part is written with its length, so that no two sources share one input.
#[must_use]
pub fn fingerprint(source: &SourceConfig) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    };
    part("dbtick source 1");
    part(&source.connection_identity);
    match &source.rows {
        Rows::Table { schema, table } => {
            part(if schema.is_some() {
                "schema.table"
            } else {
                "table"
            });
            part(schema.as_deref().unwrap_or_default());
            part(table);
        }
        Rows::Query(query) => {
            part("query");
            part(&one_space(query));
        }
    }
    for names in [&source.cursor, &source.key] {
        part(&names.len().to_string());
        names.iter().for_each(|name| part(name));
    }
    part(if source.filter.is_some() {
        "filter"
    } else {
        "all"
    });
    let filter = source.filter.as_deref().map(one_space);
    part(&filter.unwrap_or_default());
    if let Some(shard) = &source.shard {
        part("shard");
        part(&shard_in_words(shard));
    }
    format!(
        "sha256:{}",
        data_encoding::HEXLOWER.encode(&hash.finalize())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Connection, Deletes, NullPolicy, Start};
    use crate::model::shard::{Shard, ShardBy};

    fn source() -> SourceConfig {
        SourceConfig {
            connection_name: "ORDERS_DB".into(),
            connection_identity: "sqlite:orders.db".into(),
            connection: Connection::Sqlite {
                file: "/data/orders.db".into(),
            },
            rows: Rows::Table {
                schema: None,
                table: "orders".into(),
            },
            cursor: vec!["updated_at".into()],
            key: vec!["id".into()],
            columns: None,
            filter: None,
            start: Start::Beginning,
            nulls: NullPolicy::Fail,
            deletes: Deletes::Unseen,
            outbox: None,
            late: crate::config::LateCommits::default(),
            shard: None,
        }
    }

    fn shard(index: u16, count: u16, column: Option<&str>) -> Option<ShardConfig> {
        let by = match column {
            Some(_) => ShardBy::Column,
            None => ShardBy::Key,
        };
        Some(ShardConfig {
            shard: Shard::all(count, by).nth(index.into())?,
            column: column.map(str::to_owned),
        })
    }

    fn changed(change: impl FnOnce(&mut SourceConfig)) -> String {
        let mut source = source();
        change(&mut source);
        fingerprint(&source)
    }

    #[test]
    fn a_fingerprint_stays_the_same_from_release_to_release() {
        assert_eq!(
            fingerprint(&source()),
            "sha256:9f6fd6d141d9dcbd21493863fe34541fadf4226afb8004a5e4e8a9a25c4ee7df"
        );
    }

    #[test]
    fn every_part_of_the_definition_changes_the_fingerprint() {
        let all = [
            changed(|_| {}),
            changed(|s| s.connection_identity = "sqlite:other.db".into()),
            changed(|s| {
                s.rows = Rows::Table {
                    schema: None,
                    table: "order".into(),
                }
            }),
            changed(|s| {
                s.rows = Rows::Table {
                    schema: Some("main".into()),
                    table: "orders".into(),
                }
            }),
            changed(|s| {
                s.rows = Rows::Table {
                    schema: Some(String::new()),
                    table: "orders".into(),
                }
            }),
            changed(|s| s.rows = Rows::Query("orders".into())),
            changed(|s| s.cursor = vec!["id".into()]),
            changed(|s| s.cursor = vec!["updated_at".into(), "id".into()]),
            changed(|s| s.cursor = vec!["updated_at".into(), "1".into()]),
            changed(|s| s.key = vec!["order_id".into()]),
            changed(|s| s.key = vec!["id".into(), "line".into()]),
            changed(|s| s.key = vec!["line".into(), "id".into()]),
            changed(|s| s.filter = Some(String::new())),
            changed(|s| s.filter = Some("status <> 'draft'".into())),
            changed(|s| s.shard = shard(0, 2, None)),
            changed(|s| s.shard = shard(1, 2, None)),
            changed(|s| s.shard = shard(0, 4, None)),
            changed(|s| s.shard = shard(0, 2, Some("part"))),
            changed(|s| s.shard = shard(0, 2, Some("other"))),
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn the_layout_of_a_query_or_filter_leaves_the_fingerprint_alone() {
        let filter = |text: &str| changed(|s| s.filter = Some(text.into()));
        let query = |text: &str| changed(|s| s.rows = Rows::Query(text.into()));
        assert_eq!(filter("a = 1 AND b = 2"), filter(" a = 1\n\t AND  b = 2\n"));
        assert_eq!(query("SELECT * FROM t"), query("SELECT *\n  FROM t"));
        assert_ne!(filter("a = 'x y'"), filter("a = 'x  y'"));
    }

    #[test]
    fn two_definitions_differ_in_words_exactly_when_their_fingerprints_differ() {
        let changes: [fn(&mut SourceConfig); 11] = [
            |_| {},
            |s| s.connection_identity = "sqlite:other.db".into(),
            |s| s.rows = Rows::Query("orders".into()),
            |s| s.filter = Some("a =  1".into()),
            |s| s.filter = Some("a = 1".into()),
            |s| s.cursor = vec!["id".into()],
            |s| {
                s.rows = Rows::Table {
                    schema: Some("a".into()),
                    table: "b".into(),
                }
            },
            |s| {
                s.rows = Rows::Table {
                    schema: None,
                    table: "a.b".into(),
                }
            },
            |s| s.columns = Some(vec!["id".into()]),
            |s| s.shard = shard(0, 2, None),
            |s| s.shard = shard(0, 2, Some("part")),
        ];
        let sources = changes.map(|change| {
            let mut source = source();
            change(&mut source);
            source
        });
        for one in &sources {
            for other in &sources {
                let same = definition(one).differences(&definition(other)).is_empty();
                assert_eq!(same, fingerprint(one) == fingerprint(other));
            }
        }
    }

    #[test]
    fn what_does_not_define_the_rows_leaves_the_fingerprint_alone() {
        for same in [
            changed(|s| s.connection_name = "RENAMED".into()),
            changed(|s| {
                s.connection = Connection::Sqlite {
                    file: "/moved/orders.db".into(),
                }
            }),
            changed(|s| s.columns = Some(vec!["id".into()])),
            changed(|s| s.start = Start::Now),
            changed(|s| s.nulls = NullPolicy::Ignore),
        ] {
            assert_eq!(same, fingerprint(&source()));
        }
    }
}
