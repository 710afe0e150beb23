//! The line of ticks: how many are at work at once, and whose turn it is.
//!
//! Who comes first is served first, and a tick that takes several places keeps those behind it waiting
//! until they are free. One that has more to do than fits into a turn lets those who wait go before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The same line when it is cloned.
#[derive(Debug, Clone)]
pub struct Line(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    places: Arc<Semaphore>,
    count: u32,
    waiting: AtomicUsize,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub struct Place {
    _held: Option<OwnedSemaphorePermit>,
}

/// Somebody who waits, also when the wait is given up.
struct Waiting<'a>(&'a AtomicUsize);

impl Line {
    #[must_use]
    pub fn of(count: u32) -> Self {
        Self(Arc::new(Shared {
            places: Arc::new(Semaphore::new(count as usize)),
            count,
            waiting: AtomicUsize::default(),
        }))
    }

    /// One who would take more places than there are takes all of them.
    pub async fn enter(&self, places: u32) -> Place {
        let _waiting = Waiting::in_line(&self.0.waiting);
        let places = places.min(self.0.count);
        let held = Arc::clone(&self.0.places).acquire_many_owned(places).await;
        // The line is never closed.
        Place { _held: held.ok() }
    }

    #[must_use]
    pub fn is_waited_for(&self) -> bool {
        self.0.waiting.load(Ordering::Relaxed) > 0
    }
}

impl<'a> Waiting<'a> {
    fn in_line(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn places_are_given_out_in_the_order_of_arrival() {
        let line = Line::of(4);
        let first = line.enter(3).await;
        assert!(!line.is_waited_for());
        let mut large = Box::pin(line.enter(9));
        let mut small = Box::pin(line.enter(1));
        assert!((&mut large).now_or_never().is_none(), "only one is free");
        assert!((&mut small).now_or_never().is_none(), "it came later");
        assert!(line.is_waited_for());
        drop(first);
        let all = large.now_or_never().expect("as many as there are");
        assert!((&mut small).now_or_never().is_none());
        drop(all);
        assert!(small.now_or_never().is_some());
        assert!(!line.is_waited_for());
    }

    #[tokio::test]
    async fn who_gives_up_waiting_is_waited_for_by_nobody() {
        let line = Line::of(1);
        let _held = line.enter(1).await;
        let mut waiting = Box::pin(line.enter(1));
        assert!((&mut waiting).now_or_never().is_none());
        assert!(line.is_waited_for());
        drop(waiting);
        assert!(!line.is_waited_for());
    }
}
