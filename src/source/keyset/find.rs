//! One position: what is still there of what was read.

use super::{Keyset, Parameters, Statement, push};

impl Keyset {
    /// The row and the tombstone at a position, in this order. `natively` tells at which places of the
    /// order the value is compared with the column as it is, too: rows that are equal to it in our
    /// order are among those that are equal in the column's own, for which there may be an index.
    pub(in crate::source) fn find(&self, natively: impl Fn(usize) -> bool) -> Statement {
        let mut parameters = Parameters::of(self.dialect);
        let mut arms = Vec::new();
        for arm in self.arms() {
            let mut conditions = arm.equal(self.order.len(), &mut parameters);
            // A tombstone's text may be of another collation.
            let places = (0..self.order.len()).filter(|place| arms.is_empty() && natively(*place));
            for place in places {
                let column = arm.column(self.order[place]);
                conditions.push(format!("{column} = {}", parameters.native(place)));
            }
            arms.push(arm.select(&conditions));
        }
        let mut sql = arms.join("\nUNION ALL\n");
        if self.tombstones.is_some() {
            sql.push_str("\nORDER BY mark");
        }
        push(&mut sql, format_args!("\nLIMIT {}", parameters.limit()));
        parameters.finish(sql)
    }
}
