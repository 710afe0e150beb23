//! A small pool for a process that may sleep for days between two ticks.
//!
//! Not sqlx's own: that one tries a refused connection again until its time is up and then does not
//! say why, and we must say why. A connection goes back only when its user says that it is clean;
//! one whose user was cancelled is dropped.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::timeout;

use super::{DatabaseError, Engine, Target};

/// One read, and one `check` or status beside it.
const MOST: usize = 2;
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// For the question whether an idle connection still works.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// For one of the connections to be given back.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections to one server; opens none until it is asked.
#[derive(Clone)]
pub struct Pool<E: Engine>(Arc<Shared<E>>);

struct Shared<E: Engine> {
    target: Target,
    idle_timeout: Duration,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle<E>>>,
}

struct Idle<E: Engine> {
    connection: E::Connection,
    closing: AbortHandle,
}

/// A connection in use. Dropped, it is closed; [given back](Lent::give_back), it is kept.
pub struct Lent<E: Engine> {
    connection: E::Connection,
    pool: Arc<Shared<E>>,
    permit: OwnedSemaphorePermit,
}

impl<E: Engine> Pool<E> {
    #[must_use]
    pub fn new(target: Target) -> Self {
        Self::closing_after(target, IDLE_TIMEOUT)
    }

    /// Closes a connection that nobody asked for during `idle_timeout`.
    #[must_use]
    pub fn closing_after(target: Target, idle_timeout: Duration) -> Self {
        Self(Arc::new(Shared {
            target,
            idle_timeout,
            permits: Arc::new(Semaphore::new(MOST)),
            idle: Mutex::default(),
        }))
    }

    /// An idle connection that still answers, as if it were new, else a new one.
    pub async fn take(&self) -> Result<Lent<E>, DatabaseError> {
        let pool = &self.0;
        let target = &pool.target;
        let permit = timeout(PATIENCE, Arc::clone(&pool.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(DatabaseError::Unreachable {
                context: format!(
                    "all {MOST} connections of {} have been in use for {PATIENCE:?}",
                    target.setting
                ),
                cause: None,
            });
        };
        let lent = |connection| Lent {
            connection,
            pool: Arc::clone(pool),
            permit,
        };
        while let Some(mut connection) = pool.pop() {
            // Whatever is wrong with it, a new one tells.
            if let Ok(Ok(())) = timeout(PING_TIMEOUT, E::renew(target, &mut connection)).await {
                return Ok(lent(connection));
            }
        }
        let patience = target.connect_timeout();
        match timeout(patience, E::open(target)).await {
            Ok(opened) => Ok(lent(opened?)),
            Err(_) => Err(DatabaseError::Unreachable {
                context: format!(
                    "the server of {} did not answer within {patience:?}; check its host, its port \
                     and the firewall between",
                    target.setting
                ),
                cause: None,
            }),
        }
    }

    /// The app setting, for errors.
    #[must_use]
    pub fn setting(&self) -> &str {
        &self.0.target.setting
    }
}

impl<E: Engine> Lent<E> {
    /// Only after a statement has been read to its end and no transaction is open.
    pub fn give_back(self) {
        let Self {
            connection,
            pool,
            permit,
        } = self;
        pool.push(connection);
        drop(permit);
    }
}

impl<E: Engine> Shared<E> {
    fn pop(&self) -> Option<E::Connection> {
        let Idle {
            connection,
            closing,
        } = self.idle().pop()?;
        closing.abort();
        Some(connection)
    }

    fn push(self: &Arc<Self>, connection: E::Connection) {
        let pool = Arc::downgrade(self);
        let idle_timeout = self.idle_timeout;
        // Held until it is in the list, so that the task finds itself there.
        let mut idle = self.idle();
        let closing = tokio::spawn(async move {
            tokio::time::sleep(idle_timeout).await;
            let me = tokio::task::id();
            let found = pool.upgrade().and_then(|pool| {
                let mut idle = pool.idle();
                let at = idle.iter().position(|idle| idle.closing.id() == me)?;
                Some(idle.swap_remove(at).connection)
            });
            if let Some(connection) = found {
                // It is closed either way.
                drop(timeout(PING_TIMEOUT, connection.close()).await);
            }
        });
        idle.push(Idle {
            connection,
            closing: closing.abort_handle(),
        });
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Idle<E>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Engine> Deref for Lent<E> {
    type Target = E::Connection;

    fn deref(&self) -> &E::Connection {
        &self.connection
    }
}

impl<E: Engine> DerefMut for Lent<E> {
    fn deref_mut(&mut self) -> &mut E::Connection {
        &mut self.connection
    }
}

impl<E: Engine> fmt::Debug for Pool<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.0.target).finish()
    }
}

impl<E: Engine> fmt::Debug for Lent<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lent").field(&self.pool.target).finish()
    }
}
