//! By which broken promise each planted bug must show.

use super::planted::Bug;
use super::reconcile::{Promise, Violation};
use super::report::Report;

pub(crate) fn shows(bug: Bug) -> &'static [Promise] {
    match bug {
        Bug::CommitBeforeDeliver | Bug::FailureCountedAsDone | Bug::LateCommits => {
            &[Promise::NothingIsLost, Promise::NothingIsPassed]
        }
        Bug::QuarantineNotKept => &[Promise::NothingIsLost],
        Bug::IfMatchIgnored => &[Promise::DocumentsGoForward],
        Bug::IdsPerProcess => &[Promise::IdsAreStable],
    }
}

/// The first violation that gives the bug away.
pub(crate) fn found(bug: Bug, report: &Report) -> Option<&Violation> {
    let mut violations = report.violations.iter();
    violations.find(|violation| shows(bug).contains(&violation.promise))
}
