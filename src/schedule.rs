//! When a timer fires: NCRONTAB or a constant period, in UTC.
//!
//! NCRONTAB differs from what cron libraries accept, so the fields are read here by NCrontab's own
//! rules and only the calendar search is croner's, fed with explicit lists of values, a notation
//! that means the same to both. Where they differ, each row with a test:
//!
//! | text | NCRONTAB | croner |
//! |---|---|---|
//! | day of month and day of week | both must match | either, unless told |
//! | `7` as a day of week | refused | Sunday |
//! | `L` `W` `#` `?` `+` `@daily` | refused | understood |
//! | `FRI-MON` (reversed range) | swapped: MON-FRI | refused |
//! | `5/15` | 5-59/15 | refused |
//! | `*/0` | every value | refused |
//! | `January`, `Tuesd` | any prefix of the name | three letters only |

use std::time::Duration;

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::parser::{CronParser, Seconds};

mod field;
#[cfg(test)]
mod tests;
pub mod time_span;

use field::{FIELDS, Field};

/// A parsed `schedule` of a timer trigger.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// NCRONTAB.
    Cron(Box<Cron>),
    /// A `TimeSpan`: counted from the start of the previous run.
    Every(Duration),
}

/// Why a text is no schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSchedule {
    /// Neither 5 or 6 fields nor a `TimeSpan`.
    #[error(
        "the schedule expression '{0}' was not recognized as a valid cron expression or timespan string"
    )]
    NotRecognized(String),
    /// One field breaks NCRONTAB's grammar.
    #[error("'{text}' is not a valid {field} in the schedule '{expression}': {why}")]
    Field {
        /// Which of the six.
        field: &'static str,
        /// What stands there.
        text: String,
        /// The whole schedule.
        expression: String,
        /// The rule it breaks.
        why: String,
    },
    /// The calendar has no such day, or the period is zero.
    #[error("the schedule '{0}' never fires")]
    Never(String),
}

/// That are looked at for the longest time between two.
const MOST_FIRINGS: usize = 2000;
const A_YEAR_OF_MONTHS: usize = 12;

impl Schedule {
    /// Reads a `schedule` in which settings are already resolved.
    pub fn parse(text: &str) -> Result<Schedule, InvalidSchedule> {
        let fields: Vec<&str> = text.split_whitespace().collect();
        match fields.len() {
            5 => cron(text, std::iter::once("0").chain(fields)),
            6 => cron(text, fields.into_iter()),
            _ => period(text),
        }
    }

    /// The first time strictly after `instant`.
    pub fn next_after(&self, instant: DateTime<Utc>) -> DateTime<Utc> {
        match self {
            Schedule::Cron(cron) => cron
                .find_next_occurrence(&instant, false)
                .unwrap_or(DateTime::<Utc>::MAX_UTC),
            Schedule::Every(period) => chrono::TimeDelta::from_std(*period)
                .ok()
                .and_then(|period| instant.checked_add_signed(period))
                .unwrap_or(DateTime::<Utc>::MAX_UTC),
        }
    }

    /// The time between the next two firings.
    #[must_use]
    pub fn interval(&self, now: DateTime<Utc>) -> Option<Duration> {
        let next = self.next_after(now);
        (self.next_after(next) - next).to_std().ok()
    }

    /// The longest time between two firings, as far as a week or so of them shows.
    #[must_use]
    pub fn longest_interval(&self, now: DateTime<Utc>) -> Option<Duration> {
        let first = self.next_after(now);
        let mut before = first;
        let mut longest = None;
        for count in 0..MOST_FIRINGS {
            let next = self.next_after(before);
            longest = longest.max((next - before).to_std().ok());
            before = next;
            if count >= A_YEAR_OF_MONTHS && next - first > chrono::TimeDelta::weeks(1) {
                break;
            }
        }
        longest
    }

    /// Whether two runs are ever less than a minute apart: the host then keeps no status.
    pub fn is_sub_minute(&self, now: DateTime<Utc>) -> bool {
        let mut before = self.next_after(now);
        (0..10).any(|_| {
            let next = self.next_after(before);
            let gap = next - before;
            before = next;
            gap < chrono::TimeDelta::minutes(1)
        })
    }

    /// What the host writes as `Schedule.AdjustForDST`.
    pub fn adjusts_for_dst(&self) -> bool {
        matches!(self, Schedule::Cron(_))
    }
}

fn cron<'t>(
    expression: &str,
    texts: impl Iterator<Item = &'t str>,
) -> Result<Schedule, InvalidSchedule> {
    let lists = texts
        .zip(FIELDS)
        .map(|(text, field)| list(expression, text, field))
        .collect::<Result<Vec<_>, _>>()?;
    let cron = CronParser::builder()
        .seconds(Seconds::Required)
        .dom_and_dow(true)
        .build()
        .parse(&lists.join(" "))
        .map_err(|_| InvalidSchedule::NotRecognized(expression.to_owned()))?;
    if cron
        .find_next_occurrence(&DateTime::UNIX_EPOCH, false)
        .is_err()
    {
        return Err(InvalidSchedule::Never(expression.to_owned()));
    }
    Ok(Schedule::Cron(Box::new(cron)))
}

fn list(expression: &str, text: &str, field: Field) -> Result<String, InvalidSchedule> {
    let values = field.values(text).map_err(|why| InvalidSchedule::Field {
        field: field.name,
        text: text.to_owned(),
        expression: expression.to_owned(),
        why,
    })?;
    Ok(values
        .iter()
        .map(u8::to_string)
        .collect::<Vec<_>>()
        .join(","))
}

fn period(text: &str) -> Result<Schedule, InvalidSchedule> {
    let period =
        time_span::parse(text).map_err(|_| InvalidSchedule::NotRecognized(text.to_owned()))?;
    if period.is_zero() {
        return Err(InvalidSchedule::Never(text.to_owned()));
    }
    Ok(Schedule::Every(period))
}
