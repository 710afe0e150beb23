//! The identity of a source (B7): a checkpoint of one source must never be used on another.

use sha2::{Digest, Sha256};

use super::{Rows, SourceConfig};

/// `sha256:…` over connection (without password), table or query, cursor, key and filter.
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
            part(query);
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
    part(source.filter.as_deref().unwrap_or_default());
    format!(
        "sha256:{}",
        data_encoding::HEXLOWER.encode(&hash.finalize())
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Connection, Deletes, NullPolicy, Start};

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
        }
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
        ];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
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
