//! How many rows an order is about, for its preview: counted by the database, up to a limit and for a
//! bounded time.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::model::position::Position;
use crate::model::schema::Schema;
use crate::tick::Poller;
use crate::tick::budget::Budget;
use crate::tick::reading::{read_count, read_page};
use crate::tick::report::TickError;

/// The second count is given up when it takes too long.
const COUNTED_UP_TO: [u64; 2] = [1_000, 100_000];
const LONGEST_LOOK: Duration = Duration::from_secs(20);

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
        let budget = Budget::starting(self.clock.monotonic(), Some(LONGEST_LOOK));
        let mut least = None;
        for most in COUNTED_UP_TO {
            let counted = read_count(self, after, up_to, most + 1, &budget).await;
            match (counted, least) {
                (Ok(rows), _) if rows <= most => return Ok(Count::Exactly(rows)),
                (Ok(_), _) => least = Some(most),
                // A few are counted in no time, and say something.
                (Err(_), Some(least)) => return Ok(Count::MoreThan(least)),
                (Err(error), None) => return Err(error.into()),
            }
        }
        Ok(Count::MoreThan(least.unwrap_or_default()))
    }

    /// The columns as the source has them now, read behind `after`.
    pub async fn columns_now(&self, after: Option<&Position>) -> Result<Arc<Schema>, TickError> {
        let budget = Budget::starting(self.clock.monotonic(), Some(LONGEST_LOOK));
        Ok(read_page(self, after, &budget).await?.schema)
    }
}

impl Count {
    /// Of two parts together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Exactly(one), Self::Exactly(other)) => Self::Exactly(one + other),
            (
                Self::Exactly(one) | Self::MoreThan(one),
                Self::Exactly(other) | Self::MoreThan(other),
            ) => Self::MoreThan(one + other),
        }
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
