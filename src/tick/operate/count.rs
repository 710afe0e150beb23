//! How many rows an order is about, for its preview: counted in the order of delivery, up to a limit
//! and for a bounded time, by the reads that a tick makes.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::model::position::Position;
use crate::model::schema::Schema;
use crate::tick::Poller;
use crate::tick::budget::Budget;
use crate::tick::reading::read_page;
use crate::tick::report::TickError;

const MOST_COUNTED: u64 = 100_000;
const LONGEST_LOOK: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    Exactly(u64),
    /// There are more; it was not worth, or took too long, to count them.
    MoreThan(u64),
}

impl Poller {
    /// The rows behind `after`, up to and with `up_to` (or to the end).
    pub async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
    ) -> Result<Count, TickError> {
        let began = self.clock.monotonic();
        let budget = Budget::starting(began, Some(2 * LONGEST_LOOK));
        let mut after = after.cloned();
        let mut counted = 0;
        loop {
            let read = read_page(self, after.as_ref(), &budget).await?;
            let events = read.page.events();
            let inside = |position: &Position| up_to.is_none_or(|end| position <= end);
            let rows = events.iter().filter(|e| inside(&e.position)).count();
            counted += rows as u64;
            if counted > MOST_COUNTED {
                return Ok(Count::MoreThan(MOST_COUNTED));
            }
            if read.end || rows < events.len() || events.is_empty() {
                return Ok(Count::Exactly(counted));
            }
            if self.clock.monotonic() - began >= LONGEST_LOOK {
                return Ok(Count::MoreThan(counted));
            }
            after = read.page.last_position().cloned();
        }
    }

    /// The columns as the source has them now, read behind `after`.
    pub async fn columns_now(&self, after: Option<&Position>) -> Result<Arc<Schema>, TickError> {
        let budget = Budget::starting(self.clock.monotonic(), Some(2 * LONGEST_LOOK));
        Ok(read_page(self, after, &budget).await?.schema)
    }
}

/// `12 rows`, `more than 100,000 rows`
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(1) => f.write_str("1 row"),
            Self::Exactly(rows) => write!(f, "{} rows", grouped(*rows)),
            Self::MoreThan(rows) => write!(f, "more than {} rows", grouped(*rows)),
        }
    }
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
