//! The shard that a configuration asks for: by key as it is, by column with conditions that the database keeps.

use std::sync::Arc;

use super::{Column, Sharded};
use crate::config::{Connection, ShardConfig, SourceConfig};
use crate::database::Databases;
use crate::source::{self, Source};

pub(in crate::source) fn open(
    config: &SourceConfig,
    shard: &ShardConfig,
    databases: &Databases,
) -> Arc<dyn Source> {
    let whole = |filter: Option<String>| {
        let config = SourceConfig {
            filter,
            shard: None,
            ..config.clone()
        };
        source::whole(config, databases)
    };
    let ShardConfig { shard, column } = shard;
    let Some(column) = column else {
        let inner = whole(config.filter.clone());
        return Arc::new(Sharded {
            is_outbox: config.outbox.is_some(),
            ..Sharded::by_key(inner, *shard)
        });
    };
    let quoted = quoted(&config.connection, column);
    let also = |condition: String| match &config.filter {
        // A line break ends a comment that the filter may end with.
        Some(filter) => Some(format!("({filter}\n) AND ({condition})")),
        None => Some(condition),
    };
    Arc::new(Sharded {
        inner: whole(also(format!("{quoted} = {}", shard.index()))),
        shard: *shard,
        column: Some(Column {
            name: column.clone(),
            strays: whole(also(no_shard_has(&quoted, shard.count()))),
            indexed: source::whole(in_its_index(config, column), databases),
        }),
        is_outbox: false,
    })
}

/// A page of it is a range of exactly the index that a shard needs.
fn in_its_index(config: &SourceConfig, column: &str) -> SourceConfig {
    let cursor = std::iter::once(column.to_owned());
    let rest = |name: &&String| !name.eq_ignore_ascii_case(column);
    SourceConfig {
        cursor: cursor
            .chain(config.cursor.iter().filter(rest).cloned())
            .collect(),
        shard: None,
        ..config.clone()
    }
}

/// Everything that is equal to no number of a shard, as ranges of an index: whatever the column can hold
/// is either one of the numbers or in one of these.
fn no_shard_has(column: &str, count: u16) -> String {
    let mut ranges = vec![format!("{column} IS NULL"), format!("{column} < 0")];
    let between = (1..count).map(|next| {
        let before = next - 1;
        format!("({column} > {before} AND {column} < {next})")
    });
    ranges.extend(between);
    ranges.push(format!("{column} > {}", count - 1));
    ranges.join(" OR ")
}

/// SQLite reads an unknown name in double quotes as a text, which no row would be equal to.
fn quoted(connection: &Connection, column: &str) -> String {
    match connection {
        Connection::Postgres(_) => format!("\"{}\"", column.replace('"', "\"\"")),
        Connection::MySql(_) | Connection::Sqlite { .. } => {
            format!("`{}`", column.replace('`', "``"))
        }
    }
}
