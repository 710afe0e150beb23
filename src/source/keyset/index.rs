//! The index that would serve a page, as the statement that makes it.

use super::{Dialect, From, Keyset};

impl Keyset {
    /// For a table. `implied` columns end every index of it.
    pub(in crate::source) fn index(&self, implied: impl Fn(usize) -> bool) -> Option<String> {
        let From::Table { schema, table } = &self.from else {
            return None;
        };
        // Columns that no index has in our order would only make it larger.
        let mut columns = match (self.dialect, self.leading()) {
            (Dialect::MySql, leading @ 1..) => &self.order[..leading],
            _ => self.order.as_slice(),
        };
        while let [rest @ .., last] = columns
            && !rest.is_empty()
            && implied(*last)
        {
            columns = rest;
        }
        let quote = |name: &str| self.dialect.quote(name);
        let name = columns.iter().fold(table.clone(), |name, column| {
            name + "_" + &self.columns[*column].name
        });
        let list: Vec<_> = columns
            .iter()
            .map(|column| {
                let column = &self.columns[*column];
                match self.dialect {
                    Dialect::Sqlite | Dialect::Postgres => column.collated(quote(&column.name)),
                    Dialect::MySql => quote(&column.name),
                }
            })
            .collect();
        let (schema, table, name) = (quote(schema), quote(table), quote(&name));
        let list = list.join(", ");
        Some(match self.dialect {
            Dialect::Sqlite => format!("CREATE INDEX {schema}.{name} ON {table} ({list})"),
            Dialect::Postgres => {
                format!("CREATE INDEX CONCURRENTLY {name} ON {schema}.{table} ({list})")
            }
            Dialect::MySql => format!("CREATE INDEX {name} ON {schema}.{table} ({list})"),
        })
    }
}
