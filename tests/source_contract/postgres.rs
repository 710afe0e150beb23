//! What only PostgreSQL is asked to keep: its values, its names, its plans, its rights.

#[path = "postgres/values.rs"]
mod values;

use crate::fixture::{Engine, Fixture};
use crate::support::postgres::Postgres;

async fn engine() -> Engine {
    Engine::Postgres(Postgres::start().await)
}

impl Fixture {
    /// A table `t` with an `id`, one more column, and rows of these literals in this order.
    pub(crate) async fn one_column(&mut self, sql_type: &str, literals: &[&str]) {
        self.run(&format!(
            "DROP TABLE IF EXISTS t; CREATE TABLE t (id int PRIMARY KEY, v {sql_type})"
        ))
        .await;
        for (id, literal) in (1..).zip(literals) {
            self.run(&format!("INSERT INTO t VALUES ({id}, {literal})"))
                .await;
        }
    }
}
