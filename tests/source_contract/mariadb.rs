//! What MySQL and MariaDB are asked to keep beyond the contract. One server serves several promises:
//! it takes longer to start than they take to run.

#[path = "mariadb/changes.rs"]
mod changes;
#[path = "mariadb/check.rs"]
mod check;
#[path = "mariadb/cost.rs"]
mod cost;
#[path = "mariadb/cursors.rs"]
mod cursors;
#[path = "mariadb/late.rs"]
mod late;
#[path = "mariadb/property.rs"]
mod property;
#[path = "mariadb/refusals.rs"]
mod refusals;
#[path = "mariadb/values.rs"]
mod values;

use crate::fixture::Engine;
use crate::support::mariadb::MariaDb;

async fn engine() -> Engine {
    Engine::MariaDb(MariaDb::start().await)
}
