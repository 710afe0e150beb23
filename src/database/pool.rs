//! A small pool for a process that may sleep for days between two ticks.
//!
//! Not sqlx's own: that one tries a refused connection again until its time is up and then does not
//! say why, and we must say why. A connection goes back only when its user says that it is clean;
//! one whose user was cancelled is dropped.
//!
//! Who comes first is served first. A server that does not answer is not asked again for a while:
//! everybody who waits for it would keep others from their turn.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sqlx::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout};

use super::{DatabaseError, Engine, Target};

const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// For the question whether an idle connection still works.
const PING_TIMEOUT: Duration = Duration::from_secs(2);
/// For one of the connections to be given back: as long as a statement may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// Connections to one server; opens none until it is asked.
pub struct Pool<E: Engine>(Arc<Shared<E>>);

struct Shared<E: Engine> {
    target: Target,
    idle_timeout: Duration,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Idle<E>>>,
    /// When the server was last found not to answer.
    silent: Mutex<Option<Instant>>,
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
        let most = usize::try_from(target.most_connections()).unwrap_or(usize::MAX);
        Self(Arc::new(Shared {
            target,
            idle_timeout,
            permits: Arc::new(Semaphore::new(most)),
            idle: Mutex::default(),
            silent: Mutex::default(),
        }))
    }

    /// An idle connection that still answers, as if it were new, else a new one.
    pub async fn take(&self) -> Result<Lent<E>, DatabaseError> {
        let pool = &self.0;
        let permit = timeout(PATIENCE, Arc::clone(&pool.permits).acquire_owned()).await;
        let Ok(Ok(permit)) = permit else {
            return Err(pool.crowded());
        };
        let lent = |connection| Lent {
            connection,
            pool: Arc::clone(pool),
            permit,
        };
        while let Some(mut connection) = pool.pop() {
            // Whatever is wrong with it, a new one tells.
            if let Ok(Ok(())) = timeout(PING_TIMEOUT, E::renew(&pool.target, &mut connection)).await
            {
                return Ok(lent(connection));
            }
        }
        pool.open().await.map(lent)
    }

    /// Whether it is for connections to this target.
    pub(super) fn leads_to(&self, target: &Target) -> bool {
        self.0.target.is_same(target)
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
    async fn open(&self) -> Result<E::Connection, DatabaseError> {
        let patience = self.target.connect_timeout();
        let now = || self.target.clock.monotonic();
        let silent = *self.silent();
        if silent.is_some_and(|since| now() - since < patience) {
            return Err(self.unanswered());
        }
        let opened = timeout(patience, E::open(&self.target)).await;
        *self.silent() = opened.is_err().then(now);
        opened.unwrap_or_else(|_| Err(self.unanswered()))
    }

    fn unanswered(&self) -> DatabaseError {
        DatabaseError::Unreachable {
            context: format!(
                "the server of {} did not answer within {:?}; check its host, its port and \
                 the firewall between",
                self.target.setting,
                self.target.connect_timeout()
            ),
            cause: None,
        }
    }

    fn crowded(&self) -> DatabaseError {
        DatabaseError::Unreachable {
            context: format!(
                "all {} connections of {} have been in use for {PATIENCE:?}; look for slow \
                 statements, or allow more by Max Pool Size in the connection",
                self.target.most_connections(),
                self.target.setting
            ),
            cause: None,
        }
    }

    fn silent(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    fn idle(&self) -> MutexGuard<'_, Vec<Idle<E>>> {
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

/// The same pool.
impl<E: Engine> Clone for Pool<E> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
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
