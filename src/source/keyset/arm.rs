//! One table or query inside a statement: the source itself, or the tombstones beside it.

use super::{Column, Dialect, From, Keyset, Parameters, push};
use crate::source::fragment::Fragment;

/// Writes the parts of a SELECT over one table or query.
#[derive(Clone, Copy)]
pub(super) struct Arm<'a> {
    dialect: Dialect,
    from: &'a From,
    filter: Option<&'a Fragment>,
    columns: &'a [Column],
    order: &'a [usize],
    present: &'a [usize],
    /// What its columns are called, where that is not what the source calls them.
    names: Option<&'a [Option<String>]>,
    /// Joined to nothing: a column that this arm lacks is that of the source, NULL and of its type.
    /// MySQL gives a union other types when one side of it is a bare NULL.
    beside: Option<&'a From>,
    /// Selected behind the columns, to tell the arms apart.
    mark: Option<&'static str>,
}

impl Keyset {
    pub(super) fn main(&self) -> Arm<'_> {
        Arm {
            dialect: self.dialect,
            from: &self.from,
            filter: self.filter.as_ref(),
            columns: &self.columns,
            order: &self.order,
            present: &self.present,
            names: None,
            beside: None,
            mark: self.tombstones.as_ref().map(|_| "0"),
        }
    }

    /// The source, and its tombstones if there are any.
    pub(super) fn arms(&self) -> impl Iterator<Item = Arm<'_>> {
        let tombstones = self.tombstones.as_ref().map(|tombstones| Arm {
            from: &tombstones.from,
            filter: None,
            present: &[],
            names: Some(&tombstones.names),
            beside: (self.dialect == Dialect::MySql).then_some(&self.from),
            mark: Some("1"),
            ..self.main()
        });
        std::iter::once(self.main()).chain(tombstones)
    }
}

impl Arm<'_> {
    pub(super) fn select(&self, conditions: &[String]) -> String {
        self.select_and(&[], conditions)
    }

    /// With more columns behind all others.
    pub(super) fn select_and(&self, more: &[String], conditions: &[String]) -> String {
        let mut columns: Vec<_> = (0..self.columns.len())
            .map(|at| {
                let (before, after) = self.columns[at].wrapped;
                match (self.name(at), self.beside) {
                    _ if self.columns[at].blank => "NULL".to_owned(),
                    (Some(_), _) => format!("{before}{}{after}", self.column(at)),
                    (None, Some(source)) => {
                        let column = self.dialect.quote(&self.columns[at].name);
                        format!("{before}{}.{column}{after}", self.qualified(source))
                    }
                    (None, None) => "NULL".to_owned(),
                }
            })
            .collect();
        if let Some(mark) = self.mark {
            // Parts of a union in a FROM need names of their own.
            for (at, column) in columns.iter_mut().enumerate() {
                push(column, format_args!(" AS c{at}"));
            }
            columns.push(format!("{mark} AS mark"));
        }
        columns.extend_from_slice(more);
        let mut conditions = conditions.to_vec();
        conditions.extend(self.presence());
        format!(
            "SELECT {} {}",
            columns.join(", "),
            self.rows_where(&conditions)
        )
    }

    /// Where no column of the source is selected.
    pub(super) fn alone(self) -> Self {
        Self {
            beside: None,
            ..self
        }
    }

    pub(super) fn presence(&self) -> impl Iterator<Item = String> {
        let present = self.present.iter();
        present.map(|column| format!("{} IS NOT NULL", self.column(*column)))
    }

    /// Line breaks end a comment that the fragment may still hold in its last line.
    pub(super) fn rows_where(&self, conditions: &[String]) -> String {
        let mut sql = format!("FROM {}", self.rows(self.from));
        if let Some(source) = self.beside {
            push(
                &mut sql,
                format_args!(" LEFT JOIN {} ON FALSE", self.rows(source)),
            );
        }
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

    /// Everything behind a position, in the one condition that this database reads as a range.
    pub(super) fn behind(&self, parameters: &mut Parameters) -> String {
        match self.dialect {
            Dialect::Postgres => {
                let columns: Vec<_> = self.order.iter().map(|at| self.compared(*at)).collect();
                let values: Vec<_> = (0..self.order.len())
                    .map(|place| self.value(place, parameters))
                    .collect();
                format!("({}) > ({})", columns.join(", "), values.join(", "))
            }
            Dialect::MySql | Dialect::Sqlite => self.behind_in(self.order.len(), parameters),
        }
    }

    /// Greater than the position in the first `width` columns of the order.
    pub(super) fn behind_in(&self, width: usize, parameters: &mut Parameters) -> String {
        let branches: Vec<_> = (1..=width)
            .map(|width| self.branch(width, parameters).join(" AND "))
            .collect();
        format!("(({}))", branches.join(") OR ("))
    }

    /// No further than a position whose values begin at `from`, as a range of the index.
    pub(super) fn no_further(&self, from: usize, parameters: &mut Parameters) -> String {
        let width = self.order.len();
        let mut value = |place: usize| {
            let parameter = parameters.value(from + place);
            self.cast(self.order[place], parameter)
        };
        match self.dialect {
            Dialect::Postgres => {
                let columns: Vec<_> = self.order.iter().map(|at| self.compared(*at)).collect();
                let values: Vec<_> = (0..width).map(value).collect();
                format!("({}) <= ({})", columns.join(", "), values.join(", "))
            }
            // Of a disjunction SQLite makes no range.
            Dialect::Sqlite => {
                let first = format!("{} <= {}", self.compared(self.order[0]), value(0));
                format!("{first} AND {}", self.up_to(width, from, parameters))
            }
            Dialect::MySql => self.up_to(width, from, parameters),
        }
    }

    /// No further than a position in the first `width` columns of the order; `from` is where its
    /// values begin.
    pub(super) fn up_to(&self, width: usize, from: usize, parameters: &mut Parameters) -> String {
        let mut against = |place: usize, operator: &str| {
            let column = self.order[place];
            let value = self.cast(column, parameters.value(from + place));
            format!("{} {operator} {value}", self.compared(column))
        };
        let branches: Vec<_> = (0..width)
            .map(|last| {
                let mut terms: Vec<_> = (0..last).map(|place| against(place, "=")).collect();
                let operator = if last + 1 == width { "<=" } else { "<" };
                terms.push(against(last, operator));
                terms.join(" AND ")
            })
            .collect();
        format!("(({}))", branches.join(") OR ("))
    }

    /// A cursor that is less than the position's.
    pub(super) fn below(&self, parameters: &mut Parameters) -> String {
        let cursor = self.compared(self.order[0]);
        format!("{cursor} < {}", self.value(0, parameters))
    }

    /// Equal in the first `width - 1` columns of the order and greater in the next.
    pub(super) fn branch(&self, width: usize, parameters: &mut Parameters) -> Vec<String> {
        let mut conditions = self.equal(width - 1, parameters);
        conditions.push(format!(
            "{} > {}",
            self.compared(self.order[width - 1]),
            self.value(width - 1, parameters)
        ));
        conditions
    }

    pub(super) fn equal(&self, width: usize, parameters: &mut Parameters) -> Vec<String> {
        (0..width)
            .map(|place| {
                let column = self.compared(self.order[place]);
                format!("{column} = {}", self.value(place, parameters))
            })
            .collect()
    }

    /// The parameter that is the position's value at a place of the order.
    pub(super) fn value(&self, place: usize, parameters: &mut Parameters) -> String {
        let parameter = parameters.value(place);
        self.cast(self.order[place], parameter)
    }

    pub(super) fn cast(&self, column: usize, parameter: String) -> String {
        match &self.columns[column].cast {
            Some(cast) => format!("CAST({parameter} AS {cast})"),
            None => parameter,
        }
    }

    /// The table or query itself.
    pub(super) fn table(&self) -> String {
        self.rows(self.from)
    }

    pub(super) fn compared(&self, index: usize) -> String {
        self.columns[index].collated(self.column(index))
    }

    pub(super) fn column(&self, index: usize) -> String {
        let name = self.name(index).unwrap_or_default();
        format!("{}.{}", self.qualified(self.from), self.dialect.quote(name))
    }

    fn name(&self, index: usize) -> Option<&str> {
        match self.names {
            Some(names) => names[index].as_deref(),
            None => Some(&self.columns[index].name),
        }
    }

    fn rows(&self, from: &From) -> String {
        match from {
            From::Table { .. } => self.qualified(from),
            From::Query(query) => format!("(\n{}\n) AS {}", query.sql(), self.qualified(from)),
        }
    }

    fn qualified(&self, from: &From) -> String {
        match from {
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
