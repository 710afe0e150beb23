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

mod arm;
mod clean_up;
mod edge;
mod find;
mod index;
mod lookup;
mod places;

use std::fmt::Write as _;

use super::fragment::Fragment;
use crate::model::position::ScalarType;
use arm::Arm;

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
    /// Needed by nobody, and selected as NULL; the others keep their numbers.
    pub(super) blank: bool,
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
    /// With them, one more column is selected behind the others: whether the row is a tombstone.
    pub(super) tombstones: Option<Tombstones>,
}

/// A table of deleted keys in the order of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tombstones {
    pub(super) from: From,
    /// What it has for each column that is selected; all of those in the order.
    pub(super) names: Vec<Option<String>>,
}

/// SQL, and what its parameters are, from the first on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) parameters: Vec<Parameter>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// The value of a position at this place of [`Keyset::order`].
    Value(usize),
    /// The same, for the column as it is and not as it is ordered.
    Native(usize),
    /// How many rows at most.
    Limit,
    /// One less: how many rows are passed over to come to the last of them.
    Passed,
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
            blank: false,
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
    /// The next rows in order, behind a position or from the beginning.
    pub(super) fn page(&self, after: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let mut sql = self.rows_behind(after, &mut parameters);
        push(&mut sql, format_args!("\nLIMIT {}", parameters.limit()));
        parameters.finish(sql)
    }

    fn rows_behind(&self, after: bool, parameters: &mut Parameters) -> String {
        match (self.dialect, &self.tombstones) {
            (Dialect::Sqlite, _) => self.union_of_branches(after, parameters),
            (_, None) => self.range(self.main(), after, parameters),
            (_, Some(_)) => self.union_of_arms(after, parameters),
        }
    }

    /// The row that is last in order; of those whose cursor is less than the first value of a
    /// position, with `below`. Tombstones do not count: where they end, nothing begins.
    pub(super) fn last(&self, below: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let main = self.main();
        // PostgreSQL puts NULLs last, where they are no position.
        let mut conditions: Vec<_> = match self.dialect {
            Dialect::Postgres => self
                .order
                .iter()
                .filter(|column| self.columns[**column].nullable)
                .map(|column| format!("{} IS NOT NULL", main.column(*column)))
                .collect(),
            Dialect::Sqlite | Dialect::MySql => Vec::new(),
        };
        conditions.extend(below.then(|| main.below(&mut parameters)));
        let order = self.order_by(Direction::Descending, |at| main.column(at));
        let sql = format!("{}{order}\nLIMIT 1", main.select(&conditions));
        parameters.finish(sql)
    }

    /// How many rows have a NULL in this column, counted up to the limit.
    pub(super) fn count_nulls(&self, column: usize) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let conditions = [format!("{} IS NULL", self.main().column(column))];
        let sql = format!(
            "SELECT count(*) FROM (SELECT 1 {} LIMIT {}) AS n",
            self.main().rows_where(&conditions),
            parameters.limit()
        );
        parameters.finish(sql)
    }

    /// Whether a NULL hides in the order's column number `place` where paging cannot meet it:
    /// among the rows equal to the position in all columns before.
    pub(super) fn hidden_null(&self, place: usize) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let main = self.main();
        let mut conditions = main.equal(place, &mut parameters);
        conditions.push(format!("{} IS NULL", main.column(self.order[place])));
        let sql = format!("SELECT EXISTS (SELECT 1 {})", main.rows_where(&conditions));
        parameters.finish(sql)
    }

    /// Whether a value of another storage class than `class` is in the order's column number
    /// `place`, among the rows equal to the position in all columns before. SQLite alone has such
    /// columns; numbers sort before text before blobs, so each test is a range of the index.
    pub(super) fn other_class(&self, place: usize, class: ScalarType) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let ranges: &[&str] = match class {
            ScalarType::Text | ScalarType::Moment(_) => &["< ''", ">= x''"],
            ScalarType::Bytes => &["< x''"],
            ScalarType::Integer | ScalarType::Decimal | ScalarType::Float => &[">= ''"],
        };
        let mut tests = Vec::new();
        for arm in self.arms() {
            let column = arm.compared(self.order[place]);
            for range in ranges {
                let mut conditions = arm.equal(place, &mut parameters);
                conditions.push(format!("{column} {range}"));
                tests.push(format!("EXISTS (SELECT 1 {})", arm.rows_where(&conditions)));
            }
        }
        parameters.finish(format!("SELECT {}", tests.join(" OR ")))
    }

    fn range(&self, arm: Arm<'_>, after: bool, parameters: &mut Parameters) -> String {
        let behind: Vec<_> = after.then(|| arm.behind(parameters)).into_iter().collect();
        let order = self.order_by(Direction::Ascending, |at| arm.column(at));
        arm.select(&behind) + &order
    }

    /// Each arm in order and cut to the limit, merged: no more is sorted than two pages.
    fn union_of_arms(&self, after: bool, parameters: &mut Parameters) -> String {
        let arms: Vec<_> = self
            .arms()
            .map(|arm| {
                let range = self.range(arm, after, parameters);
                format!("({range}\nLIMIT {})", parameters.limit())
            })
            .collect();
        let order = self.order_by(Direction::Ascending, |at| format!("u.c{at}"));
        format!(
            "SELECT u.* FROM (\n{}\n) AS u{order}, u.mark",
            arms.join("\nUNION ALL\n")
        )
    }

    fn union_of_branches(&self, after: bool, parameters: &mut Parameters) -> String {
        let mut branches = Vec::new();
        for arm in self.arms() {
            match after {
                false => branches.push(arm.select(&[])),
                true => branches.extend(
                    (1..=self.order.len())
                        .rev()
                        .map(|width| arm.select(&arm.branch(width, parameters))),
                ),
            }
        }
        // A union is ordered by number of the selected column.
        let mut order = self.order_by(Direction::Ascending, |at| (at + 1).to_string());
        if self.tombstones.is_some() {
            push(&mut order, format_args!(", {}", self.columns.len() + 1));
        }
        branches.join("\nUNION ALL\n") + &order
    }

    fn order_by(&self, direction: Direction, term: impl Fn(usize) -> String) -> String {
        let suffix = direction.suffix();
        let terms: Vec<_> = self
            .order
            .iter()
            .map(|&at| self.columns[at].collated(term(at)) + suffix)
            .collect();
        format!("\nORDER BY {}", terms.join(", "))
    }
}

impl Column {
    fn collated(&self, term: String) -> String {
        match (self.collation, self.converted) {
            (Some(collation), _) => format!("{term} COLLATE {collation}"),
            (None, Some((before, after))) => format!("{before}{term}{after}"),
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
    written: Vec<Parameter>,
}

impl Parameters {
    fn of(dialect: Dialect) -> Self {
        Self {
            dialect,
            written: Vec::new(),
        }
    }

    fn value(&mut self, place: usize) -> String {
        self.next(Parameter::Value(place))
    }

    fn native(&mut self, place: usize) -> String {
        self.next(Parameter::Native(place))
    }

    fn limit(&mut self) -> String {
        self.next(Parameter::Limit)
    }

    fn passed(&mut self) -> String {
        self.next(Parameter::Passed)
    }

    fn next(&mut self, parameter: Parameter) -> String {
        self.written.push(parameter);
        match self.dialect {
            Dialect::Postgres => format!("${}", self.written.len()),
            Dialect::Sqlite | Dialect::MySql => "?".to_owned(),
        }
    }

    fn finish(self, sql: String) -> Statement {
        Statement {
            sql,
            parameters: self.written,
        }
    }
}

fn push(sql: &mut String, text: std::fmt::Arguments<'_>) {
    sql.write_fmt(text).expect("a string takes any text");
}

#[cfg(test)]
mod tests;
