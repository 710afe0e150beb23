//! The wish to stop: raised once, seen by everyone who asks.
//!
//! Raised by SIGTERM or Ctrl-C. A tick then begins no further batch; what is being delivered is
//! finished and committed, and the lease is given back (G6).

use tokio::sync::watch;

#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

#[derive(Debug)]
pub struct StopSwitch(watch::Sender<bool>);

#[must_use]
pub fn channel() -> (StopSwitch, Stop) {
    let (sender, receiver) = watch::channel(false);
    (StopSwitch(sender), Stop(receiver))
}

impl StopSwitch {
    pub fn raise(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// For work that nobody will ask to stop.
    #[must_use]
    pub fn never() -> Self {
        channel().1
    }

    #[must_use]
    pub fn is_raised(&self) -> bool {
        *self.0.borrow()
    }

    pub async fn raised(mut self) {
        if self.0.wait_for(|raised| *raised).await.is_err() {
            std::future::pending().await
        }
    }
}
