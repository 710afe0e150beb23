//! What a tick says that has nothing to commit. The lease and its holder's mark are not touched: like an
//! order of a person, it only makes a holder read again.

use super::{Applied, Refusal, changed};
use crate::model::state::StateDocument;
use crate::model::trouble::Trouble;

pub(super) fn report(
    document: &StateDocument,
    trouble: Option<&Trouble>,
) -> Result<Applied, Refusal> {
    let known = document.trouble.as_ref();
    let mut next = document.clone();
    match trouble {
        Some(trouble) => match trouble.after(known) {
            Some(trouble) => {
                next.trouble = Some(trouble);
                next.counters.failed_tick();
            }
            None => return Ok(Applied::Already),
        },
        None if known.is_none() => return Ok(Applied::Already),
        None => next.trouble = None,
    }
    changed(next)
}
