//! Places alone: what is read of rows that may not be committed.

use super::{Column, Keyset, Parameters, Statement, Tombstones};

impl Keyset {
    /// The same rows, of which only the columns of the order are selected, in this order. With
    /// tombstones, the mark stands behind them.
    pub(in crate::source) fn places(&self) -> Self {
        let columns: Vec<Column> = self.chosen(&self.columns);
        let place = |column: &usize| self.order.iter().position(|other| other == column);
        Self {
            dialect: self.dialect,
            from: self.from.clone(),
            filter: self.filter.clone(),
            order: (0..columns.len()).collect(),
            present: self.present.iter().filter_map(place).collect(),
            tombstones: self.tombstones.as_ref().map(|tombstones| Tombstones {
                from: tombstones.from.clone(),
                names: self.chosen(&tombstones.names),
            }),
            columns,
        }
    }

    fn chosen<T: Clone>(&self, of_columns: &[T]) -> Vec<T> {
        let order = self.order.iter();
        order.map(|column| of_columns[*column].clone()).collect()
    }

    /// The rows at this many places, in no order. The values of the places are the parameters, one
    /// after the other.
    pub(in crate::source) fn at_places(&self, places: usize) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let width = self.order.len();
        let mut arms = Vec::new();
        for arm in self.arms() {
            let each: Vec<_> = (0..places)
                .map(|at| {
                    let terms: Vec<_> = (0..width)
                        .map(|place| {
                            let column = self.order[place];
                            let value = arm.cast(column, parameters.value(at * width + place));
                            format!("{} = {value}", arm.compared(column))
                        })
                        .collect();
                    format!("({})", terms.join(" AND "))
                })
                .collect();
            arms.push(arm.select(&[format!("({})", each.join(" OR "))]));
        }
        parameters.finish(arms.join("\nUNION ALL\n"))
    }
}
