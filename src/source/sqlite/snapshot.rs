//! One read of the file: a transaction that ends in its time, and with whoever asked for it.
//!
//! No server ends a statement here, and the thread that runs it does not notice that nobody waits any more: a
//! query without end would keep a processor busy, and its connection, for as long as the process lives.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnection, SqlitePool};
use sqlx::{Sqlite, Transaction};
use tokio::task::AbortHandle;

/// Steps of SQLite's machine between two looks at whether it is over: well below a millisecond.
const STEPS: i32 = 10_000;

pub(super) struct Snapshot {
    /// Goes first: the end of a transaction waits for the end of its statement.
    _limit: Limit,
    transaction: Transaction<'static, Sqlite>,
}

/// Says that it is over when its time has come, or when it is dropped.
struct Limit {
    over: Arc<AtomicBool>,
    timer: AbortHandle,
}

impl Snapshot {
    pub(super) async fn begin(pool: &SqlitePool, longest: Duration) -> Result<Self, sqlx::Error> {
        let mut transaction = pool.begin().await?;
        let limit = Limit::of(longest);
        let over = Arc::clone(&limit.over);
        let goes_on = move || !over.load(Ordering::Relaxed);
        let mut handle = transaction.lock_handle().await?;
        handle.set_progress_handler(STEPS, goes_on);
        drop(handle);
        Ok(Self {
            _limit: limit,
            transaction,
        })
    }
}

impl Limit {
    fn of(longest: Duration) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&over);
        let timer = tokio::spawn(async move {
            tokio::time::sleep(longest).await;
            told.store(true, Ordering::Relaxed);
        });
        Self {
            over,
            timer: timer.abort_handle(),
        }
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.timer.abort();
    }
}

impl Deref for Snapshot {
    type Target = SqliteConnection;

    fn deref(&self) -> &SqliteConnection {
        &self.transaction
    }
}

impl DerefMut for Snapshot {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.transaction
    }
}
