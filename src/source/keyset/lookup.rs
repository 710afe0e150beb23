//! What is asked about rows without reading pages of them: how many, how far, and where one is.

use super::{Dialect, Keyset, Parameters, Statement, push};

impl Keyset {
    /// How many rows lie behind a position, and no further than another one, counted up to the limit.
    /// The values of the other one stand behind those of the position. Rows that have no place in the
    /// order do not count.
    pub(in crate::source) fn count(&self, after: bool, up_to: bool) -> Statement {
        let keyset = self.placed();
        let mut parameters = Parameters::of(self.dialect);
        let width = self.order.len();
        let from = if after { width } else { 0 };
        let mut parts = Vec::new();
        for arm in keyset.arms() {
            let arm = arm.alone();
            let ranges = match (self.dialect, after) {
                (_, false) => 0..=0,
                (Dialect::Sqlite, true) => 1..=width,
                (Dialect::Postgres | Dialect::MySql, true) => width..=width,
            };
            for range in ranges {
                let mut conditions = match (self.dialect, range) {
                    (_, 0) => Vec::new(),
                    (Dialect::Sqlite, range) => arm.branch(range, &mut parameters),
                    _ => vec![arm.behind(&mut parameters)],
                };
                conditions.extend(up_to.then(|| arm.no_further(from, &mut parameters)));
                conditions.extend(arm.presence());
                let mut part = format!("SELECT 1 AS one {}", arm.rows_where(&conditions));
                if self.dialect != Dialect::Sqlite {
                    // Names the index; a row further on in its order is not looked at.
                    let leading = &self.order[..self.leading()];
                    let terms: Vec<_> = leading.iter().map(|at| arm.compared(*at)).collect();
                    if !terms.is_empty() {
                        push(&mut part, format_args!("\nORDER BY {}", terms.join(", ")));
                    }
                    push(&mut part, format_args!("\nLIMIT {}", parameters.limit()));
                }
                parts.push(part);
            }
        }
        let mut rows = match (self.dialect, parts.as_slice()) {
            (Dialect::Postgres | Dialect::MySql, [one]) => one.clone(),
            (Dialect::Postgres | Dialect::MySql, parts) => {
                format!("({})", parts.join(")\nUNION ALL\n("))
            }
            (Dialect::Sqlite, parts) => parts.join("\nUNION ALL\n"),
        };
        if self.dialect == Dialect::Sqlite || parts.len() > 1 {
            push(&mut rows, format_args!("\nLIMIT {}", parameters.limit()));
        }
        parameters.finish(format!("SELECT count(*) FROM (\n{rows}\n) AS n"))
    }

    /// The place of the row that is as many rows further on as the limit says. Of the columns, only
    /// those of the order are selected, and rows that have no place are passed over.
    pub(in crate::source) fn ahead(&self, after: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let sql = self.placed().rows_behind(after, &mut parameters);
        last_of(sql, parameters)
    }

    /// The same, where pages end at an edge.
    pub(in crate::source) fn ahead_to_edge(&self, after: bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let sql = self.placed().rows_to_edge(after, &mut parameters);
        last_of(sql, parameters)
    }

    /// Every row and tombstone with one key, also those that the filter leaves out or that have no
    /// cursor. Behind all other columns, and behind the mark of tombstones, it is told whether the
    /// filter lets the row pass. The parameters are the values of the key; `natively` tells which of
    /// them the column is also compared with as it is, for the sake of an index.
    pub(in crate::source) fn with_key(
        &self,
        key: &[usize],
        natively: impl Fn(usize) -> bool,
    ) -> Statement {
        let sought = Self {
            filter: None,
            present: Vec::new(),
            order: key.to_vec(),
            ..self.clone()
        };
        let mut passes = match &self.filter {
            Some(filter) => format!("CASE WHEN (\n{}\n) THEN 1 ELSE 0 END", filter.sql()),
            None => "1".to_owned(),
        };
        let mut parameters = Parameters::of(self.dialect);
        let mut arms = Vec::new();
        for arm in sought.arms() {
            let mut conditions = arm.equal(key.len(), &mut parameters);
            // In MySQL a tombstone's text may be of a collation in which equal bytes are no match.
            let all = self.dialect != Dialect::MySql || arms.is_empty();
            for place in (0..key.len()).filter(|place| all && natively(*place)) {
                let column = key[place];
                let value = match self.dialect {
                    Dialect::MySql => parameters.native(place),
                    Dialect::Postgres | Dialect::Sqlite => {
                        arm.cast(column, parameters.native(place))
                    }
                };
                conditions.push(format!("{} = {value}", arm.column(column)));
            }
            let told = format!(
                "{} AS passes",
                std::mem::replace(&mut passes, "1".to_owned())
            );
            arms.push(arm.select_and(&[told], &conditions));
        }
        let mut sql = arms.join("\nUNION ALL\n");
        if self.tombstones.is_some() {
            sql.push_str("\nORDER BY mark");
        }
        push(&mut sql, format_args!("\nLIMIT {}", parameters.limit()));
        parameters.finish(sql)
    }

    /// The same rows without those that have no place, of which nothing but the place is selected.
    pub(in crate::source) fn placed(&self) -> Self {
        let mut placed = self.clone();
        for (at, column) in placed.columns.iter_mut().enumerate() {
            column.blank = !self.order.contains(&at);
        }
        let nullable = |column: &usize| self.columns[*column].nullable;
        placed.present = self.order.iter().copied().filter(nullable).collect();
        placed
    }
}

fn last_of(mut sql: String, mut parameters: Parameters) -> Statement {
    push(
        &mut sql,
        format_args!("\nLIMIT 1 OFFSET {}", parameters.passed()),
    );
    parameters.finish(sql)
}
