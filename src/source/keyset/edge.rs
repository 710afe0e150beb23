//! Pages of an order that begins in an index and ends outside of it.
//!
//! In MySQL an index has text in the order of its collation, which is not ours. Behind such a column
//! the database must sort, and would sort everything behind the checkpoint for every page. So a page
//! is read up to an *edge*: the values that the leading columns, which an index does have in our
//! order, take in the row that is a page away. What is sorted is a page and the ties at its two ends.

use super::{Direction, Keyset, Parameters, Statement, push};

impl Keyset {
    /// How many columns at the beginning of the order an index can have in our order.
    pub(in crate::source) fn leading(&self) -> usize {
        let native = |column: &&usize| self.columns[**column].converted.is_none();
        self.order.iter().take_while(native).count()
    }

    /// Whether pages need an edge, and can have one.
    pub(in crate::source) fn has_edge(&self) -> bool {
        (1..self.order.len()).contains(&self.leading())
    }

    /// The leading values of a row further on. Takes a number of rows to pass over, behind those
    /// that share all leading values with the position.
    pub(in crate::source) fn edge(&self, after: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let conditions: Vec<_> = after
            .then(|| self.behind(self.leading(), &mut parameters))
            .into_iter()
            .collect();
        let mut sql = self.leading_values(&conditions, Direction::Ascending);
        let passed = parameters.limit();
        push(&mut sql, format_args!("\nLIMIT 1 OFFSET {passed}"));
        parameters.finish(sql)
    }

    /// Like [`Keyset::page`], but no further than an edge. The values of the edge stand behind those
    /// of the position.
    pub(in crate::source) fn page_to_edge(&self, after: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let mut conditions = Vec::new();
        let mut edge = 0;
        if after {
            conditions.push(self.behind(self.order.len(), &mut parameters));
            edge = self.order.len();
        }
        let leading = self.leading();
        let branches: Vec<_> = (0..leading)
            .map(|place| {
                let mut terms = self.at_edge(place, edge, &mut parameters);
                let last = if place + 1 == leading { "<=" } else { "<" };
                terms.push(self.against_edge(place, last, edge, &mut parameters));
                terms.join(" AND ")
            })
            .collect();
        conditions.push(format!("(({}))", branches.join(") OR (")));
        let mut sql = self.ordered(&conditions, Direction::Ascending);
        push(&mut sql, format_args!("\nLIMIT {}", parameters.limit()));
        parameters.finish(sql)
    }

    /// The greatest leading values.
    pub(in crate::source) fn last_edge(&self) -> String {
        let mut sql = self.leading_values(&[], Direction::Descending);
        sql.push_str("\nLIMIT 1");
        sql
    }

    /// The row that is last in order among those at an edge.
    pub(in crate::source) fn last_at_edge(&self) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let conditions = self.at_edge(self.leading(), 0, &mut parameters);
        let mut sql = self.ordered(&conditions, Direction::Descending);
        sql.push_str("\nLIMIT 1");
        parameters.finish(sql)
    }

    /// Greater than the position in the first `width` columns of the order.
    pub(super) fn behind(&self, width: usize, parameters: &mut Parameters) -> String {
        let branches: Vec<_> = (1..=width)
            .map(|width| self.branch(width, parameters).join(" AND "))
            .collect();
        format!("(({}))", branches.join(") OR ("))
    }

    fn leading_values(&self, conditions: &[String], direction: Direction) -> String {
        let leading = &self.order[..self.leading()];
        let columns: Vec<_> = leading.iter().map(|at| self.column(*at)).collect();
        let mut conditions = conditions.to_vec();
        conditions.extend(self.presence());
        let suffix = direction.suffix();
        let terms: Vec<_> = columns
            .iter()
            .map(|term| format!("{term}{suffix}"))
            .collect();
        format!(
            "SELECT {} {}\nORDER BY {}",
            columns.join(", "),
            self.rows_where(&conditions),
            terms.join(", ")
        )
    }

    /// Equal to the edge in the first `width` columns. `edge` is where its values begin.
    fn at_edge(&self, width: usize, edge: usize, parameters: &mut Parameters) -> Vec<String> {
        (0..width)
            .map(|place| self.against_edge(place, "=", edge, parameters))
            .collect()
    }

    fn against_edge(
        &self,
        place: usize,
        operator: &str,
        edge: usize,
        parameters: &mut Parameters,
    ) -> String {
        let column = self.order[place];
        let parameter = self.cast(column, parameters.value(edge + place));
        format!("{} {operator} {parameter}", self.compared(column))
    }
}
