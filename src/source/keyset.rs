//! The SQL of reading by position, as text; nothing here runs it.
//!
//! A page is read as a union of one branch per column of the order: equal in the columns before,
//! greater in this one. Every branch is a range of one index, so a page costs the same at any depth
//! and inside any tie. Row values `(a, b) > (?, ?)` would be shorter, but SQLite scans the whole
//! index for them once a collation is named, and the collation must be named for the order to be
//! that of `Position`.
//!
//! Columns are always qualified: SQLite reads an unknown `"name"` as a string, never `t."name"`.

use std::fmt::Write as _;

use super::fragment::Fragment;
use crate::model::position::ScalarType;

/// Whose SQL is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
}

/// Where the rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum From {
    Table { schema: String, table: String },
    Query(Fragment),
}

/// Everything that the statements over one table or query have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keyset {
    pub(super) dialect: Dialect,
    pub(super) from: From,
    pub(super) filter: Option<Fragment>,
    /// What is selected, in this order.
    pub(super) columns: Vec<String>,
    /// Indices into `columns`: the cursor, then the key columns that are not part of it.
    pub(super) order: Vec<usize>,
    /// Indices into `columns`: rows where one of these is NULL are left out.
    pub(super) present: Vec<usize>,
}

#[derive(Clone, Copy)]
enum Direction {
    Ascending,
    Descending,
}

impl Keyset {
    /// The next rows in order. With `after`, the values of `order` are parameters 1 to n; the row
    /// limit is the last parameter.
    pub(super) fn page(&self, after: bool) -> String {
        let values = if after { self.order.len() } else { 0 };
        let mut sql = match values {
            0 => self.select(&[]),
            _ => (1..=values)
                .rev()
                .map(|width| self.select(&self.branch(width)))
                .collect::<Vec<_>>()
                .join("\nUNION ALL\n"),
        };
        self.push_order(&mut sql, Direction::Ascending);
        push(
            &mut sql,
            format_args!("\nLIMIT {}", self.parameter(values + 1)),
        );
        sql
    }

    /// The row that is last in order.
    pub(super) fn last(&self) -> String {
        let mut sql = self.select(&[]);
        self.push_order(&mut sql, Direction::Descending);
        sql.push_str("\nLIMIT 1");
        sql
    }

    /// How many rows have a NULL in this column, counted up to the limit (parameter 1).
    pub(super) fn count_nulls(&self, column: usize) -> String {
        let conditions = [format!("{} IS NULL", self.column(column))];
        format!(
            "SELECT count(*) FROM (SELECT 1 {} LIMIT {})",
            self.rows_where(&conditions),
            self.parameter(1)
        )
    }

    /// Whether a NULL hides in the order's column number `place` where paging cannot meet it:
    /// among the rows equal to the position in all columns before (parameters 1 to `place`).
    pub(super) fn hidden_null(&self, place: usize) -> String {
        let mut conditions = self.equal(place);
        conditions.push(format!("{} IS NULL", self.column(self.order[place])));
        format!("SELECT EXISTS (SELECT 1 {})", self.rows_where(&conditions))
    }

    /// Whether a value of another storage class than `class` is in the order's column number
    /// `place`, among the rows equal to the position in all columns before (parameters 1 to
    /// `place`). Numbers sort before text before blobs, so each test is a range of the index.
    pub(super) fn other_class(&self, place: usize, class: ScalarType) -> String {
        let column = self.compared(self.order[place]);
        let ranges: &[&str] = match class {
            ScalarType::Integer => &[">= ''"],
            ScalarType::Text => &["< ''", ">= x''"],
            ScalarType::Bytes => &["< x''"],
        };
        let tests: Vec<_> = ranges
            .iter()
            .map(|range| {
                let mut conditions = self.equal(place);
                conditions.push(format!("{column} {range}"));
                format!("EXISTS (SELECT 1 {})", self.rows_where(&conditions))
            })
            .collect();
        format!("SELECT {}", tests.join(" OR "))
    }

    /// The index that serves [`Keyset::page`], for a table. `implied` columns end every index.
    pub(super) fn index(&self, implied: impl Fn(usize) -> bool) -> Option<String> {
        let From::Table { schema, table } = &self.from else {
            return None;
        };
        let mut columns = self.order.as_slice();
        while let [rest @ .., last] = columns
            && !rest.is_empty()
            && implied(*last)
        {
            columns = rest;
        }
        let name = columns.iter().fold(table.clone(), |name, column| {
            name + "_" + &self.columns[*column]
        });
        let list: Vec<_> = columns
            .iter()
            .map(|column| {
                self.dialect
                    .binary(&self.dialect.quote(&self.columns[*column]))
            })
            .collect();
        Some(format!(
            "CREATE INDEX {}.{} ON {} ({})",
            self.dialect.quote(schema),
            self.dialect.quote(&name),
            self.dialect.quote(table),
            list.join(", ")
        ))
    }

    fn select(&self, conditions: &[String]) -> String {
        let columns: Vec<_> = (0..self.columns.len()).map(|at| self.column(at)).collect();
        let mut conditions = conditions.to_vec();
        conditions.extend(
            self.present
                .iter()
                .map(|column| format!("{} IS NOT NULL", self.column(*column))),
        );
        format!(
            "SELECT {} {}",
            columns.join(", "),
            self.rows_where(&conditions)
        )
    }

    /// Line breaks end a comment that the fragment may still hold in its last line.
    fn rows_where(&self, conditions: &[String]) -> String {
        let mut sql = match &self.from {
            From::Table { .. } => format!("FROM {}", self.qualifier()),
            From::Query(query) => format!("FROM (\n{}\n) AS {}", query.sql(), self.qualifier()),
        };
        let filter = self
            .filter
            .iter()
            .map(|filter| format!("(\n{}\n)", filter.sql()));
        let all: Vec<_> = conditions.iter().cloned().chain(filter).collect();
        if !all.is_empty() {
            push(&mut sql, format_args!(" WHERE {}", all.join(" AND ")));
        }
        sql
    }

    /// Equal in the first `width - 1` columns of the order and greater in the next.
    fn branch(&self, width: usize) -> Vec<String> {
        let mut conditions = self.equal(width - 1);
        conditions.push(format!(
            "{} > {}",
            self.compared(self.order[width - 1]),
            self.parameter(width)
        ));
        conditions
    }

    fn equal(&self, width: usize) -> Vec<String> {
        self.order[..width]
            .iter()
            .enumerate()
            .map(|(at, column)| format!("{} = {}", self.compared(*column), self.parameter(at + 1)))
            .collect()
    }

    /// By number of the selected column, as a union must be ordered.
    fn push_order(&self, sql: &mut String, direction: Direction) {
        let suffix = match direction {
            Direction::Ascending => "",
            Direction::Descending => " DESC",
        };
        let terms: Vec<_> = self
            .order
            .iter()
            .map(|column| self.dialect.binary(&(column + 1).to_string()) + suffix)
            .collect();
        push(sql, format_args!("\nORDER BY {}", terms.join(", ")));
    }

    fn column(&self, index: usize) -> String {
        format!(
            "{}.{}",
            self.qualifier(),
            self.dialect.quote(&self.columns[index])
        )
    }

    fn compared(&self, index: usize) -> String {
        self.dialect.binary(&self.column(index))
    }

    fn qualifier(&self) -> String {
        match &self.from {
            From::Table { schema, table } => {
                format!(
                    "{}.{}",
                    self.dialect.quote(schema),
                    self.dialect.quote(table)
                )
            }
            From::Query(_) => self.dialect.quote("q"),
        }
    }

    fn parameter(&self, number: usize) -> String {
        match self.dialect {
            Dialect::Sqlite => format!("?{number}"),
        }
    }
}

impl Dialect {
    /// The caller has found the name in the catalogue; quoting keeps it exact.
    pub(super) fn quote(self, name: &str) -> String {
        match self {
            Self::Sqlite => format!("\"{}\"", name.replace('"', "\"\"")),
        }
    }

    /// Text compared by byte, whatever the column was declared with.
    fn binary(self, term: &str) -> String {
        match self {
            Self::Sqlite => format!("{term} COLLATE BINARY"),
        }
    }
}

fn push(sql: &mut String, text: std::fmt::Arguments<'_>) {
    sql.write_fmt(text).expect("a string takes any text");
}

#[cfg(test)]
mod tests;
