//! The table and its statements, in the words of each database. Keys compare byte by byte.

use crate::config::TableName;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
    MySql,
}

#[derive(Debug)]
pub(super) struct Statements {
    pub(super) create_table: String,
    /// What an owner of the database runs, when we may not create the table.
    pub(super) grant: String,
    pub(super) read: String,
    pub(super) insert: String,
    pub(super) replace: String,
    pub(super) delete: String,
    pub(super) remove: String,
    pub(super) keys: String,
    /// Whether its clock is another one than this process has.
    pub(super) tells_time: bool,
}

impl Statements {
    pub(super) fn new(dialect: Dialect, name: &TableName) -> Self {
        let table = dialect.quoted(name);
        let (now, name_bytes) = match dialect {
            Dialect::Sqlite => (
                "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')",
                "CAST(name AS BLOB)",
            ),
            Dialect::Postgres => ("clock_timestamp()", "convert_to(name, 'UTF8')"),
            Dialect::MySql => ("UTC_TIMESTAMP(6)", "name"),
        };
        // Microseconds since 1970, both from one statement.
        let clocks = match dialect {
            Dialect::Sqlite => "0, 0",
            Dialect::Postgres => {
                "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, \
                 (extract(epoch FROM written_at) * 1000000)::bigint"
            }
            Dialect::MySql => {
                "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), \
                 TIMESTAMPDIFF(MICROSECOND, '1970-01-01', written_at)"
            }
        };
        // MySQL has no such words; there the error of the duplicate says it.
        let unless_there = match dialect {
            Dialect::Sqlite | Dialect::Postgres => " ON CONFLICT DO NOTHING",
            Dialect::MySql => "",
        };
        let text = |statement: String| dialect.numbered(&statement);
        Self {
            create_table: dialect.create_table(&table),
            grant: match dialect {
                Dialect::Sqlite => String::new(),
                Dialect::Postgres | Dialect::MySql => {
                    format!("GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO the_user")
                }
            },
            read: text(format!(
                "SELECT body, etag, {clocks} FROM {table} WHERE kind = ? AND name = ?"
            )),
            insert: text(format!(
                "INSERT INTO {table} (kind, name, etag, body, written_at) \
                 VALUES (?, ?, ?, ?, {now}){unless_there}"
            )),
            replace: text(format!(
                "UPDATE {table} SET etag = ?, body = ?, written_at = {now} \
                 WHERE kind = ? AND name = ? AND etag = ?"
            )),
            delete: text(format!(
                "DELETE FROM {table} WHERE kind = ? AND name = ? AND etag = ?"
            )),
            remove: text(format!("DELETE FROM {table} WHERE kind = ? AND name = ?")),
            keys: text(format!(
                "SELECT {name_bytes}, etag, {clocks} FROM {table} \
                 WHERE kind = ? AND name >= ? AND substr(name, 1, ?) = ? ORDER BY name"
            )),
            tells_time: dialect != Dialect::Sqlite,
        }
    }
}

impl Dialect {
    fn create_table(self, table: &str) -> String {
        match self {
            Self::Sqlite => format!(
                "CREATE TABLE IF NOT EXISTS {table} (kind TEXT NOT NULL, name TEXT NOT NULL, \
                 etag TEXT NOT NULL, body BLOB NOT NULL, written_at TEXT NOT NULL, \
                 PRIMARY KEY (kind, name)) WITHOUT ROWID"
            ),
            Self::Postgres => format!(
                "CREATE TABLE IF NOT EXISTS {table} (kind text COLLATE \"C\" NOT NULL, \
                 name text COLLATE \"C\" NOT NULL, etag text NOT NULL, body bytea NOT NULL, \
                 written_at timestamptz NOT NULL, PRIMARY KEY (kind, name))"
            ),
            Self::MySql => format!(
                "CREATE TABLE IF NOT EXISTS {table} (kind VARBINARY(16) NOT NULL, \
                 name VARBINARY(1024) NOT NULL, \
                 etag VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, \
                 body LONGBLOB NOT NULL, written_at DATETIME(6) NOT NULL, \
                 PRIMARY KEY (kind, name)) ENGINE=InnoDB ROW_FORMAT=DYNAMIC"
            ),
        }
    }

    fn quoted(self, name: &TableName) -> String {
        let quote = match self {
            Self::Sqlite | Self::Postgres => '"',
            Self::MySql => '`',
        };
        let part = |text: &str| {
            let doubled = text.replace(quote, &format!("{quote}{quote}"));
            format!("{quote}{doubled}{quote}")
        };
        match &name.schema {
            Some(schema) => format!("{}.{}", part(schema), part(&name.table)),
            None => part(&name.table),
        }
    }

    /// No `?` stands in any other place: of the configuration only quoted names come in.
    fn numbered(self, statement: &str) -> String {
        if self != Self::Postgres {
            return statement.to_owned();
        }
        let mut numbered = String::with_capacity(statement.len() + 8);
        let (mut quoted, mut number) = (false, 0);
        for character in statement.chars() {
            match character {
                '"' => quoted = !quoted,
                '?' if !quoted => {
                    number += 1;
                    numbered.push_str(&format!("${number}"));
                    continue;
                }
                _ => {}
            }
            numbered.push(character);
        }
        numbered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_names_stay_names() {
        let name = TableName {
            schema: Some("a\"?b".into()),
            table: "c`d".into(),
        };
        let postgres = Statements::new(Dialect::Postgres, &name);
        assert_eq!(
            postgres.remove,
            "DELETE FROM \"a\"\"?b\".\"c`d\" WHERE kind = $1 AND name = $2"
        );
        let mysql = Statements::new(Dialect::MySql, &name);
        assert_eq!(
            mysql.remove,
            "DELETE FROM `a\"?b`.`c``d` WHERE kind = ? AND name = ?"
        );
    }
}
