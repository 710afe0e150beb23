//! From the ends that a person gives to ranges of about as many rows each.

use std::num::NonZeroUsize;
use std::time::Duration;

use super::plan::Range;
use crate::model::page::PageWriter;
use crate::model::position::{Position, Scalar};
use crate::source::SourceError;
use crate::tick::Poller;

const MOST_WAIT: Duration = Duration::from_secs(30);
/// Of one page of rows that share the last cursor value.
const TIES: usize = 1000;

/// Where a backfill begins and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Rows behind this place; `None`: from the beginning.
    pub after: Option<Position>,
    pub up_to: Position,
}

impl Bounds {
    /// With the first row whose cursor is `from` or greater, up to and with the last whose cursor is `to` or
    /// less; both the first column of the cursor. Never beyond the live checkpoint (H3). `None`: no row is
    /// there.
    pub async fn find(
        poller: &Poller,
        from: Option<&Scalar>,
        to: Option<&Scalar>,
        checkpoint: &Position,
    ) -> Result<Option<Self>, SourceError> {
        let source = &poller.source;
        let after = match from {
            Some(from) => source.last(Some(from)).await?,
            None => None,
        };
        let up_to = match to {
            Some(to) => last_with(poller, to).await?,
            None => Some(checkpoint.clone()),
        };
        let up_to = up_to.map(|up_to| up_to.min(checkpoint.clone()));
        Ok(up_to
            .filter(|up_to| Some(up_to) > after.as_ref())
            .map(|up_to| Self { after, up_to }))
    }

    pub async fn cut(
        &self,
        poller: &Poller,
        ranges: NonZeroUsize,
    ) -> Result<Vec<Range>, SourceError> {
        let (source, after) = (&poller.source, self.after.as_ref());
        let total = source
            .count(after, Some(&self.up_to), u64::MAX >> 1)
            .await?;
        let each = total.div_ceil(ranges.get() as u64).max(1);
        let mut cuts = Vec::new();
        let mut from = self.after.clone();
        let mut left = total;
        while left > each {
            let next = source.ahead(from.as_ref(), each).await?;
            let Some(next) = next.filter(|next| *next < self.up_to) else {
                break;
            };
            cuts.push(range(from.as_ref(), &next, each));
            from = Some(next);
            left -= each;
        }
        cuts.push(range(from.as_ref(), &self.up_to, left));
        Ok(cuts)
    }
}

fn range(after: Option<&Position>, up_to: &Position, rows: u64) -> Range {
    Range {
        after: after.map(Position::to_tagged),
        up_to: up_to.to_tagged(),
        rows,
    }
}

/// The last place whose cursor is this one or less.
async fn last_with(poller: &Poller, cursor: &Scalar) -> Result<Option<Position>, SourceError> {
    let mut last = poller.source.last(Some(cursor)).await?;
    loop {
        let writer = PageWriter::new(&poller.events_as, TIES, usize::MAX);
        let mut read = poller.source.read(last.as_ref(), writer, MOST_WAIT).await?;
        let beyond = read
            .page
            .cut(|place| place.cursor().first() <= Some(cursor));
        let is_last = read.end || !beyond.is_empty();
        match read.page.reached() {
            Some(place) => last = Some(place.clone()),
            None => return Ok(last),
        }
        if is_last {
            return Ok(last);
        }
    }
}
