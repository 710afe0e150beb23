//! What happens to the rows of an outbox that were delivered: by key *and* cursor, so that a row
//! which was written again since it was read stays as it is.

use super::{Dialect, From, Keyset, Parameters, Statement};
use crate::config::CleanUpHow;

impl Keyset {
    /// For this many rows, whose positions' values are the parameters, one after the other. `None` for
    /// a query, which has no rows of its own.
    pub(in crate::source) fn clean_up(&self, how: &CleanUpHow, rows: usize) -> Option<Statement> {
        let From::Table { .. } = &self.from else {
            return None;
        };
        let mut parameters = Parameters::of(self.dialect);
        let main = self.main();
        let width = self.order.len();
        let each: Vec<_> = (0..rows)
            .map(|row| {
                let terms: Vec<_> = (0..width)
                    .map(|place| {
                        let column = self.order[place];
                        let value = main.cast(column, parameters.value(row * width + place));
                        format!("{} = {value}", main.compared(column))
                    })
                    .collect();
                format!("({})", terms.join(" AND "))
            })
            .collect();
        let each = each.join(" OR ");
        let table = main.table();
        let sql = match how {
            CleanUpHow::Delete => format!("DELETE FROM {table} WHERE {each}"),
            CleanUpHow::Mark(column) => {
                let column = self.dialect.quote(column);
                let now = match self.dialect {
                    Dialect::Postgres => "now()",
                    Dialect::MySql => "UTC_TIMESTAMP(6)",
                    Dialect::Sqlite => "strftime('%Y-%m-%d %H:%M:%f', 'now')",
                };
                format!("UPDATE {table} SET {column} = {now} WHERE {column} IS NULL AND ({each})")
            }
        };
        Some(parameters.finish(sql))
    }
}
