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
            mark: Some("1"),
            ..self.main()
        });
        std::iter::once(self.main()).chain(tombstones)
    }
}

impl Arm<'_> {
    pub(super) fn select(&self, conditions: &[String]) -> String {
        let mut columns: Vec<_> = (0..self.columns.len())
            .map(|at| match self.name(at) {
                Some(_) => {
                    let (before, after) = self.columns[at].wrapped;
                    format!("{before}{}{after}", self.column(at))
                }
                None => "NULL".to_owned(),
            })
            .collect();
        if let Some(mark) = self.mark {
            // Parts of a union in a FROM need names of their own.
            for (at, column) in columns.iter_mut().enumerate() {
                push(column, format_args!(" AS c{at}"));
            }
            columns.push(format!("{mark} AS mark"));
        }
        let mut conditions = conditions.to_vec();
        let present = self.present.iter();
        conditions.extend(present.map(|column| format!("{} IS NOT NULL", self.column(*column))));
        format!(
            "SELECT {} {}",
            columns.join(", "),
            self.rows_where(&conditions)
        )
    }

    /// Line breaks end a comment that the fragment may still hold in its last line.
    pub(super) fn rows_where(&self, conditions: &[String]) -> String {
        let mut sql = match self.from {
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
            Dialect::MySql | Dialect::Sqlite => {
                let branches: Vec<_> = (1..=self.order.len())
                    .map(|width| self.branch(width, parameters).join(" AND "))
                    .collect();
                format!("(({}))", branches.join(") OR ("))
            }
        }
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
        match &self.columns[self.order[place]].cast {
            Some(cast) => format!("CAST({parameter} AS {cast})"),
            None => parameter,
        }
    }

    pub(super) fn compared(&self, index: usize) -> String {
        self.columns[index].collated(self.column(index))
    }

    pub(super) fn column(&self, index: usize) -> String {
        let name = self.name(index).unwrap_or_default();
        format!("{}.{}", self.qualifier(), self.dialect.quote(name))
    }

    fn name(&self, index: usize) -> Option<&str> {
        match self.names {
            Some(names) => names[index].as_deref(),
            None => Some(&self.columns[index].name),
        }
    }

    fn qualifier(&self) -> String {
        match self.from {
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
