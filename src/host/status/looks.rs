//! A short memory in front of an expensive look, so that many browsers cost one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::clock::Clock;

/// The page asks every five seconds.
pub(super) const FRESH: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Looks<T> {
    /// Held while somebody looks: the others wait for what is seen.
    kept: Mutex<Option<Kept<T>>>,
    changes: AtomicU64,
    fresh: Duration,
}

#[derive(Debug)]
struct Kept<T> {
    seen: Arc<T>,
    at: Instant,
    /// How many changes there were when the look began.
    changes: u64,
}

impl<T> Default for Looks<T> {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            changes: AtomicU64::default(),
            fresh: FRESH,
        }
    }
}

impl<T> Looks<T> {
    pub(super) fn kept_for(fresh: Duration) -> Self {
        Self {
            fresh,
            ..Self::default()
        }
    }

    pub(super) async fn look(&self, clock: &dyn Clock, look: impl Future<Output = T>) -> Arc<T> {
        let mut kept = self.kept.lock().await;
        let changes = self.changes.load(Ordering::SeqCst);
        if let Some(kept) = &*kept
            && kept.changes == changes
            && clock.monotonic() - kept.at < self.fresh
        {
            return Arc::clone(&kept.seen);
        }
        let seen = Arc::new(look.await);
        *kept = Some(Kept {
            seen: Arc::clone(&seen),
            at: clock.monotonic(),
            changes,
        });
        seen
    }

    /// What was seen, or is just being looked at, is no longer true.
    pub(super) fn forget(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::future::join_all;

    use super::*;
    use crate::clock::SystemClock;

    #[tokio::test(start_paused = true)]
    async fn many_browsers_cost_one_look() {
        let count = AtomicU64::new(0);
        let looks = Looks::default();
        let look = async || {
            let slow = async {
                tokio::time::sleep(Duration::from_secs(2)).await;
                count.fetch_add(1, Ordering::SeqCst)
            };
            *looks.look(&SystemClock, slow).await
        };
        assert_eq!(join_all((0..50).map(|_| look())).await, [0; 50]);
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        assert_eq!(look().await, 0);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(look().await, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_seen_before_a_change_is_not_shown_after_it() {
        let looks = Looks::default();
        assert_eq!(*looks.look(&SystemClock, async { 1 }).await, 1);
        looks.forget();
        let changed_meanwhile = async {
            looks.forget();
            2
        };
        assert_eq!(*looks.look(&SystemClock, changed_meanwhile).await, 2);
        assert_eq!(*looks.look(&SystemClock, async { 3 }).await, 3);
        assert_eq!(*looks.look(&SystemClock, async { 4 }).await, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_is_given_up_holds_up_nobody() {
        let looks = Looks::default();
        let never = looks.look(&SystemClock, std::future::pending());
        let given_up = tokio::time::timeout(Duration::from_secs(1), never).await;
        assert!(given_up.is_err());
        assert_eq!(*looks.look(&SystemClock, async { 1 }).await, 1);
    }
}
