//! How much travels at once, and how long a lease lasts.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::Reader;
use crate::config::fault::Place;
use crate::config::{Batch, LeaseTimes, human, raw};

const DEFAULT_MAX_ROWS: u32 = 1_000;
const DEFAULT_MAX_BYTES: u64 = 1 << 20;
const MAX_BYTES: RangeInclusive<u64> = (1 << 10)..=(64 << 20);
const DEFAULT_MAX_WAIT: Duration = Duration::from_secs(5);
const DEFAULT_TTL: Duration = Duration::from_secs(24);
const DEFAULT_HEARTBEAT: Duration = Duration::from_secs(7);
const DEFAULT_MARGIN: Duration = Duration::from_secs(5);

impl Reader<'_> {
    pub(super) fn batch(&mut self, at: &Place, raw: raw::Batch) -> Option<Batch> {
        let raw::Batch {
            max_rows,
            max_bytes,
            max_wait,
            max_inflight,
        } = raw;
        let max_rows = NonZeroUsize::new(max_rows.unwrap_or(DEFAULT_MAX_ROWS) as usize);
        let max_bytes = self.max_bytes(&at.key("max_bytes"), max_bytes.as_deref());
        let max_wait = self.duration(&at.key("max_wait"), max_wait.as_deref(), DEFAULT_MAX_WAIT);
        Some(Batch {
            max_rows: max_rows?,
            max_bytes: max_bytes?,
            max_wait: max_wait?,
            max_inflight: NonZeroUsize::new(max_inflight.unwrap_or(1) as usize)?,
        })
    }

    fn max_bytes(&mut self, at: &Place, written: Option<&str>) -> Option<NonZeroUsize> {
        let bytes = match written {
            None => DEFAULT_MAX_BYTES,
            Some(written) => {
                let text = self.text(at, written)?;
                let Ok(bytes) = human::size(&text) else {
                    let problem = format!("is not a size: {written}");
                    self.faults.add(at, problem, human::SIZE_FORMS);
                    return None;
                };
                bytes
            }
        };
        if !MAX_BYTES.contains(&bytes) {
            let (least, most) = (*MAX_BYTES.start(), *MAX_BYTES.end());
            let hint = format!(
                "from {} to {}",
                human::show_size(least),
                human::show_size(most)
            );
            let problem = format!("is out of range: {}", human::show_size(bytes));
            self.faults.add(at, problem, hint);
            return None;
        }
        usize::try_from(bytes).ok().and_then(NonZeroUsize::new)
    }

    pub(super) fn lease(&mut self, at: &Place, raw: raw::Lease) -> Option<LeaseTimes> {
        let raw::Lease {
            ttl,
            heartbeat,
            margin,
        } = raw;
        let ttl = self.positive(&at.key("ttl"), ttl.as_deref(), DEFAULT_TTL);
        let heartbeat = self.positive(
            &at.key("heartbeat"),
            heartbeat.as_deref(),
            DEFAULT_HEARTBEAT,
        );
        let margin = self.positive(&at.key("margin"), margin.as_deref(), DEFAULT_MARGIN);
        let (ttl, heartbeat, margin) = (ttl?, heartbeat?, margin?);

        let slow = heartbeat >= ttl / 2;
        if slow {
            self.faults.add(
                &at.key("heartbeat"),
                format!(
                    "must be less than half of ttl ({}): {}",
                    human::show_duration(ttl),
                    human::show_duration(heartbeat)
                ),
                "one missed heartbeat must not lose the lease: shorten heartbeat or lengthen ttl",
            );
        }
        let wide = margin >= ttl.saturating_sub(heartbeat);
        if wide {
            self.faults.add(
                &at.key("margin"),
                format!(
                    "must be less than ttl minus heartbeat ({}): {}",
                    human::show_duration(ttl.saturating_sub(heartbeat)),
                    human::show_duration(margin)
                ),
                "the holder must be able to renew in time: shorten margin or lengthen ttl",
            );
        }
        (!slow && !wide).then_some(LeaseTimes {
            ttl,
            heartbeat,
            margin,
        })
    }
}
