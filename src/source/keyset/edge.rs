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

    /// Whether pages need an edge, and can have one. Beside tombstones they have none: two tables
    /// have no row in common to end at.
    pub(in crate::source) fn has_edge(&self) -> bool {
        self.tombstones.is_none() && (1..self.order.len()).contains(&self.leading())
    }

    /// The leading values of a row further on. Takes a number of rows to pass over, behind those
    /// that share all leading values with the position.
    pub(in crate::source) fn edge(&self, after: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let conditions: Vec<_> = after
            .then(|| self.main().behind_in(self.leading(), &mut parameters))
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
        let mut sql = self.rows_to_edge(after, &mut parameters);
        push(&mut sql, format_args!("\nLIMIT {}", parameters.limit()));
        parameters.finish(sql)
    }

    pub(super) fn rows_to_edge(&self, after: bool, parameters: &mut Parameters) -> String {
        let main = self.main();
        let mut conditions = Vec::new();
        let mut edge = 0;
        if after {
            conditions.push(main.behind_in(self.order.len(), parameters));
            edge = self.order.len();
        }
        conditions.push(main.up_to(self.leading(), edge, parameters));
        self.ordered(&conditions, Direction::Ascending)
    }

    /// The greatest leading values; of those whose cursor is less than the first value of a position,
    /// with `below`.
    pub(in crate::source) fn last_edge(&self, below: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let conditions = below.then(|| self.main().below(&mut parameters));
        let sql = self.leading_values(conditions.as_slice(), Direction::Descending);
        parameters.finish(sql + "\nLIMIT 1")
    }

    /// The row that is last in order among those at an edge.
    pub(in crate::source) fn last_at_edge(&self) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let conditions = self.main().equal(self.leading(), &mut parameters);
        let mut sql = self.ordered(&conditions, Direction::Descending);
        sql.push_str("\nLIMIT 1");
        parameters.finish(sql)
    }

    fn ordered(&self, conditions: &[String], direction: Direction) -> String {
        let main = self.main();
        main.select(conditions) + &self.order_by(direction, |at| main.column(at))
    }

    fn leading_values(&self, conditions: &[String], direction: Direction) -> String {
        let leading = &self.order[..self.leading()];
        let main = self.main();
        let columns: Vec<_> = leading.iter().map(|at| main.column(*at)).collect();
        let mut conditions = conditions.to_vec();
        conditions.extend(main.presence());
        let suffix = direction.suffix();
        let terms: Vec<_> = columns
            .iter()
            .map(|term| format!("{term}{suffix}"))
            .collect();
        format!(
            "SELECT {} {}\nORDER BY {}",
            columns.join(", "),
            main.rows_where(&conditions),
            terms.join(", ")
        )
    }
}
