//! Names that are not there, and those that may have been meant.

use super::SourceError;

const SIMILAR: f64 = 0.6;
const SHOWN: usize = 20;

pub(super) fn missing(kind: &str, name: &str, place: &str, known: &[String]) -> SourceError {
    let mut close: Vec<_> = known
        .iter()
        .map(|other| {
            let likeness =
                strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &other.to_lowercase());
            (likeness, other)
        })
        .filter(|(likeness, _)| *likeness >= SIMILAR)
        .collect();
    close.sort_by(|one, other| other.0.total_cmp(&one.0));
    let remedy = match close.first() {
        Some((_, best)) => format!("did you mean {}?", shown(best)),
        None if known.is_empty() => format!("there is no {kind} at all"),
        None => {
            let names: Vec<_> = known.iter().take(SHOWN).map(|name| shown(name)).collect();
            format!("there is {}", names.join(", "))
        }
    };
    SourceError::Mismatch {
        what: format!("{kind} {} does not exist in {place}", shown(name)),
        remedy,
    }
}

/// Exactly as it is, unless it would break the line that it is printed on.
pub(super) fn shown(name: &str) -> String {
    if name.chars().any(char::is_control) {
        format!("{name:?}")
    } else {
        format!("\"{name}\"")
    }
}
