//! The SQL of reading by position, as text; nothing here runs it.
//!
//! A page is a range of one index at any depth and inside any tie, which takes another form in each
//! database (measured, see ARCHITECTURE.md):
//!
//! - PostgreSQL: row values, `(a, b) > (x, y)`.
//! - MySQL and MariaDB: `a > x OR (a = x AND b > y)`; row values make them read the whole index.
//!   Text is in no index in our order, so pages of it end at an `edge`.
//! - SQLite: a union of one branch per column, equal in the columns before and greater in this one.
//!   It scans the whole index for row values once a collation is named, and the collation must be
//!   named for the order to be that of `Position`.
//!
//! Columns are always qualified: SQLite reads an unknown `"name"` as a string, never `t."name"`.

mod edge;
mod index;

use std::fmt::Write as _;

use super::fragment::Fragment;
use crate::model::position::ScalarType;

/// Whose SQL is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    Sqlite,
    Postgres,
    MySql,
}

/// Where the rows are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum From {
    Table { schema: String, table: String },
    Query(Fragment),
}

/// A column that is selected, and how its database must be spoken to about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) nullable: bool,
    /// What is written around the name where it is selected; nothing for columns of the order.
    pub(super) wrapped: (&'static str, &'static str),
    /// Named where the column is compared or ordered, so that text is ordered by byte.
    pub(super) collation: Option<&'static str>,
    /// What is written around the name where the column is compared or ordered, because no index
    /// has it in our order.
    pub(super) converted: Option<(&'static str, &'static str)>,
    /// The type that a parameter is cast to, so that it is compared as what the column is.
    pub(super) cast: Option<String>,
}

/// Everything that the statements over one table or query have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Keyset {
    pub(super) dialect: Dialect,
    pub(super) from: From,
    pub(super) filter: Option<Fragment>,
    /// What is selected, in this order.
    pub(super) columns: Vec<Column>,
    /// Indices into `columns`: the cursor, then the key columns that are not part of it.
    pub(super) order: Vec<usize>,
    /// Indices into `columns`: rows where one of these is NULL are left out.
    pub(super) present: Vec<usize>,
}

/// SQL, and which values of a position its parameters are: places in [`Keyset::order`], one for
/// each parameter from the first on. A limit is one more parameter behind them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) values: Vec<usize>,
}

impl Column {
    /// Selected as it is.
    pub(super) fn plain(name: String, nullable: bool) -> Self {
        Self {
            name,
            nullable,
            wrapped: ("", ""),
            collation: None,
            converted: None,
            cast: None,
        }
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    fn suffix(self) -> &'static str {
        match self {
            Self::Ascending => "",
            Self::Descending => " DESC",
        }
    }
}

impl Keyset {
    /// The next rows in order, behind a position or from the beginning. Takes a limit.
    pub(super) fn page(&self, after: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let mut sql = match (after, self.dialect) {
            (false, _) => self.ordered(&[], Direction::Ascending),
            (true, Dialect::Sqlite) => {
                let branches: Vec<_> = (1..=self.order.len())
                    .rev()
                    .map(|width| self.select(&self.branch(width, &mut parameters)))
                    .collect();
                let mut sql = branches.join("\nUNION ALL\n");
                self.push_order_of_union(&mut sql);
                sql
            }
            (true, Dialect::Postgres) => {
                let condition = self.row_values(&mut parameters);
                self.ordered(&[condition], Direction::Ascending)
            }
            (true, Dialect::MySql) => {
                let condition = self.behind(self.order.len(), &mut parameters);
                self.ordered(&[condition], Direction::Ascending)
            }
        };
        push(&mut sql, format_args!("\nLIMIT {}", parameters.limit()));
        parameters.finish(sql)
    }

    /// The row that is last in order.
    pub(super) fn last(&self) -> String {
        // PostgreSQL puts NULLs last, where they are no position.
        let conditions: Vec<_> = match self.dialect {
            Dialect::Postgres => self
                .order
                .iter()
                .filter(|column| self.columns[**column].nullable)
                .map(|column| format!("{} IS NOT NULL", self.column(*column)))
                .collect(),
            Dialect::Sqlite | Dialect::MySql => Vec::new(),
        };
        let mut sql = self.ordered(&conditions, Direction::Descending);
        sql.push_str("\nLIMIT 1");
        sql
    }

    /// How many rows have a NULL in this column, counted up to the limit.
    pub(super) fn count_nulls(&self, column: usize) -> Statement {
        let parameters = Parameters::of(self.dialect);
        let conditions = [format!("{} IS NULL", self.column(column))];
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 {} LIMIT {}) AS n",
            self.rows_where(&conditions),
            parameters.limit()
        );
        parameters.finish(sql)
    }

    /// Whether a NULL hides in the order's column number `place` where paging cannot meet it:
    /// among the rows equal to the position in all columns before.
    pub(super) fn hidden_null(&self, place: usize) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let mut conditions = self.equal(place, &mut parameters);
        conditions.push(format!("{} IS NULL", self.column(self.order[place])));
        let sql = format!("SELECT EXISTS (SELECT 1 {})", self.rows_where(&conditions));
        parameters.finish(sql)
    }

    /// Whether a value of another storage class than `class` is in the order's column number
    /// `place`, among the rows equal to the position in all columns before. SQLite alone has such
    /// columns; numbers sort before text before blobs, so each test is a range of the index.
    pub(super) fn other_class(&self, place: usize, class: ScalarType) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let column = self.compared(self.order[place]);
        let ranges: &[&str] = match class {
            ScalarType::Text | ScalarType::Moment(_) => &["< ''", ">= x''"],
            ScalarType::Bytes => &["< x''"],
            ScalarType::Integer | ScalarType::Decimal | ScalarType::Float => &[">= ''"],
        };
        let tests: Vec<_> = ranges
            .iter()
            .map(|range| {
                let mut conditions = self.equal(place, &mut parameters);
                conditions.push(format!("{column} {range}"));
                format!("EXISTS (SELECT 1 {})", self.rows_where(&conditions))
            })
            .collect();
        parameters.finish(format!("SELECT {}", tests.join(" OR ")))
    }

    fn ordered(&self, conditions: &[String], direction: Direction) -> String {
        let suffix = direction.suffix();
        let order = self.order.iter();
        let terms: Vec<_> = order
            .map(|column| self.compared(*column) + suffix)
            .collect();
        format!("{}\nORDER BY {}", self.select(conditions), terms.join(", "))
    }

    /// By number of the selected column, as a union must be ordered.
    fn push_order_of_union(&self, sql: &mut String) {
        let order = self.order.iter();
        let terms: Vec<_> = order
            .map(|column| self.columns[*column].collated((column + 1).to_string()))
            .collect();
        push(sql, format_args!("\nORDER BY {}", terms.join(", ")));
    }

    fn select(&self, conditions: &[String]) -> String {
        let columns = self.columns.iter().enumerate();
        let columns: Vec<_> = columns
            .map(|(at, Column { wrapped, .. })| {
                format!("{}{}{}", wrapped.0, self.column(at), wrapped.1)
            })
            .collect();
        let mut conditions = conditions.to_vec();
        conditions.extend(self.presence());
        format!(
            "SELECT {} {}",
            columns.join(", "),
            self.rows_where(&conditions)
        )
    }

    fn presence(&self) -> impl Iterator<Item = String> {
        let present = self.present.iter();
        present.map(|column| format!("{} IS NOT NULL", self.column(*column)))
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

    fn row_values(&self, parameters: &mut Parameters) -> String {
        let columns: Vec<_> = self.order.iter().map(|at| self.compared(*at)).collect();
        let values: Vec<_> = (0..self.order.len())
            .map(|place| self.value(place, parameters))
            .collect();
        format!("({}) > ({})", columns.join(", "), values.join(", "))
    }

    /// Equal in the first `width - 1` columns of the order and greater in the next.
    fn branch(&self, width: usize, parameters: &mut Parameters) -> Vec<String> {
        let mut conditions = self.equal(width - 1, parameters);
        conditions.push(format!(
            "{} > {}",
            self.compared(self.order[width - 1]),
            self.value(width - 1, parameters)
        ));
        conditions
    }

    fn equal(&self, width: usize, parameters: &mut Parameters) -> Vec<String> {
        (0..width)
            .map(|place| {
                let column = self.compared(self.order[place]);
                format!("{column} = {}", self.value(place, parameters))
            })
            .collect()
    }

    /// The parameter that is the position's value at a place of the order.
    fn value(&self, place: usize, parameters: &mut Parameters) -> String {
        let parameter = parameters.value(place);
        self.cast(self.order[place], parameter)
    }

    fn cast(&self, column: usize, parameter: String) -> String {
        match &self.columns[column].cast {
            Some(cast) => format!("CAST({parameter} AS {cast})"),
            None => parameter,
        }
    }

    fn column(&self, index: usize) -> String {
        format!(
            "{}.{}",
            self.qualifier(),
            self.dialect.quote(&self.columns[index].name)
        )
    }

    fn compared(&self, index: usize) -> String {
        self.columns[index].collated(self.column(index))
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
}

impl Column {
    fn collated(&self, term: String) -> String {
        match (self.collation, self.converted) {
            (Some(collation), _) => format!("{term} COLLATE {collation}"),
            (None, Some((before, behind))) => format!("{before}{term}{behind}"),
            (None, None) => term,
        }
    }
}

impl Dialect {
    /// The caller has found the name in the catalogue; quoting keeps it exact.
    pub(super) fn quote(self, name: &str) -> String {
        match self {
            Self::Sqlite | Self::Postgres => format!("\"{}\"", name.replace('"', "\"\"")),
            Self::MySql => format!("`{}`", name.replace('`', "``")),
        }
    }
}

/// Parameters in the order in which they are written.
struct Parameters {
    dialect: Dialect,
    values: Vec<usize>,
}

impl Parameters {
    fn of(dialect: Dialect) -> Self {
        Self {
            dialect,
            values: Vec::new(),
        }
    }

    fn value(&mut self, place: usize) -> String {
        self.values.push(place);
        self.placeholder(self.values.len())
    }

    /// Behind all values.
    fn limit(&self) -> String {
        self.placeholder(self.values.len() + 1)
    }

    fn placeholder(&self, number: usize) -> String {
        match self.dialect {
            Dialect::Postgres => format!("${number}"),
            Dialect::Sqlite | Dialect::MySql => "?".to_owned(),
        }
    }

    fn finish(self, sql: String) -> Statement {
        Statement {
            sql,
            values: self.values,
        }
    }
}

fn push(sql: &mut String, text: std::fmt::Arguments<'_>) {
    sql.write_fmt(text).expect("a string takes any text");
}

#[cfg(test)]
mod tests;
