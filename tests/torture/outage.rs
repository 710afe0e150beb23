//! The longest time without a commit while rows waited.

use std::time::Duration;

/// `commits` in order; `waits` from the commit of a row to its receipt.
pub(crate) fn longest(
    commits: &[Duration],
    waits: impl Iterator<Item = (Duration, Duration)>,
) -> Duration {
    // From when on somebody waits, in each stretch that ends with a commit.
    let mut since: Vec<Option<Duration>> = vec![None; commits.len()];
    for (from, to) in waits {
        let first = commits.partition_point(|commit| *commit <= from);
        let last = commits.partition_point(|commit| *commit < to);
        for at in first..commits.len().min(last + 1) {
            let began = match at {
                0 => from,
                _ => from.max(commits[at - 1]),
            };
            since[at] = Some(since[at].map_or(began, |other| other.min(began)));
        }
    }
    let lasted = commits.iter().zip(since);
    let lasted = lasted.filter_map(|(commit, since)| Some(commit.saturating_sub(since?)));
    lasted.max().unwrap_or_default()
}
