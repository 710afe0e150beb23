//! How long a tick may take. The host kills the whole process at `functionTimeout`, and every other
//! invocation in it, so a tick ends well before.

use std::time::Duration;

use tokio::time::Instant;

use super::line::Line;
use crate::stop::Stop;

/// What is taken where the host sets no limit: long enough to drain, short enough to notice.
const UNLIMITED: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, Clone)]
pub struct Budget {
    /// No new batch is begun after this.
    stop_at: Instant,
    /// What still runs is abandoned here, which leaves time to say so and to release the lease.
    abandon_at: Instant,
    /// Who is still writing down what came of it stops here: whatever it is, it is safe to leave.
    end_at: Instant,
    stop: Stop,
    turn: Option<Turn>,
}

/// From `over_at` on, others go first, if any wait.
#[derive(Debug, Clone)]
struct Turn {
    over_at: Instant,
    lines: Vec<Line>,
}

impl Budget {
    /// `function_timeout` as the host will enforce it; `None` is unlimited.
    #[must_use]
    pub fn starting(at: Instant, function_timeout: Option<Duration>) -> Self {
        let limit = function_timeout.unwrap_or(UNLIMITED);
        Self {
            stop_at: at + limit.mul_f64(0.8),
            abandon_at: at + limit.mul_f64(0.9),
            end_at: at + limit.mul_f64(0.95),
            stop: Stop::never(),
            turn: None,
        }
    }

    /// For somebody who begins another tick after this one, and whom nobody kills.
    #[must_use]
    pub fn step(at: Instant, step: Duration) -> Self {
        Self {
            stop_at: at + step,
            abandon_at: at + UNLIMITED,
            end_at: at + UNLIMITED,
            stop: Stop::never(),
            turn: None,
        }
    }

    /// Spent as well once somebody wishes to stop.
    #[must_use]
    pub fn or_until(self, stop: Stop) -> Self {
        Self { stop, ..self }
    }

    /// A turn that is over at this time, where anybody waits in one of these lines.
    #[must_use]
    pub fn in_turn(self, over_at: Instant, lines: Vec<Line>) -> Self {
        let turn = Some(Turn { over_at, lines });
        Self { turn, ..self }
    }

    #[must_use]
    pub fn is_spent(&self, now: Instant) -> bool {
        now >= self.stop_at || self.stop.is_raised()
    }

    #[must_use]
    pub fn is_others_turn(&self, now: Instant) -> bool {
        let turn = self.turn.as_ref().filter(|turn| now >= turn.over_at);
        turn.is_some_and(|turn| turn.lines.iter().any(Line::is_waited_for))
    }

    /// Resolves when it is spent.
    pub async fn spent(&self) {
        tokio::select! {
            biased;
            () = self.stop.clone().raised() => {}
            () = tokio::time::sleep_until(self.stop_at) => {}
        }
    }

    #[must_use]
    pub(super) fn end_at(&self) -> Instant {
        self.end_at
    }

    #[must_use]
    pub fn abandon_at(&self) -> Instant {
        self.abandon_at
    }
}
