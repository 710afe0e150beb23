//! The connections of one process. Whoever uses a server in the same way shares them: a thousand
//! pollers of one database have as many connections together as one poller may have.

use std::sync::{Arc, Mutex, PoisonError};

use sqlx::{MySql, Postgres};

use super::{Engine, Pool, Session, Target};
use crate::azure::Azure;
use crate::config::connection::Server;

#[derive(Debug, Clone)]
pub struct Databases {
    azure: Azure,
    pools: Arc<Mutex<Pools>>,
}

/// Those that were asked for, by kind of server.
#[derive(Debug, Default)]
pub struct Pools {
    pub(super) postgres: Vec<Pool<Postgres>>,
    pub(super) mysql: Vec<Pool<MySql>>,
}

impl Databases {
    #[must_use]
    pub fn new(azure: Azure) -> Self {
        Self {
            azure,
            pools: Arc::default(),
        }
    }

    /// The same pool for the same setting, server and session; opens nothing.
    #[must_use]
    pub fn pool<E: Engine>(&self, setting: &str, server: &Server, session: Session) -> Pool<E> {
        let target = Target::new(setting, server.clone(), session, &self.azure);
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        let known = E::among(&mut pools);
        if let Some(pool) = known.iter().find(|pool| pool.leads_to(&target)) {
            return pool.clone();
        }
        let pool = Pool::new(target);
        known.push(pool.clone());
        pool
    }
}
