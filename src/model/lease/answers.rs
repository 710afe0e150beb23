//! What a writer makes of the store's answers. After a lost race or a lost answer it neither believes that
//! its write worked before a read shows its mark, nor that it failed before a later write has changed the
//! tag: until then the old one can still land (I8).

use crate::model::state::StateDocument;

/// What to do when the document was changed by somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rival {
    /// What was read for this tick may be out of date: let it go.
    Yield,
    /// Derive the change again from what stands there now.
    Outlast,
}

/// Why a writer has to look for its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The condition did not hold; or it did, and the request came twice.
    Lost,
    /// No answer came.
    Unanswered,
}

/// What it finds.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    Nothing,
    /// The very version that the write was made from.
    Same,
    Other(&'a StateDocument),
}

/// What it does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The change is derived again from what was found: it is in there, or it is refused, or it is
    /// written on top.
    Derive,
    /// Nothing has happened, and nobody was faster. The same once more, after a while, under the same
    /// condition: whichever of the two lands, the other one does not.
    Repeat,
    Overtaken,
    /// There was a document, and there is none.
    Gone,
}

/// `nonce` is that of the claim, and `began` says that there was a document to make the write from.
#[must_use]
pub fn judge(doubt: Doubt, rival: Rival, nonce: &str, began: bool, found: Found<'_>) -> Verdict {
    match found {
        Found::Nothing if began => Verdict::Gone,
        // A first document that has not arrived.
        Found::Nothing | Found::Same => match doubt {
            Doubt::Lost => Verdict::Derive,
            Doubt::Unanswered => Verdict::Repeat,
        },
        Found::Other(document) if rival == Rival::Yield && !is_of(document, nonce) => {
            Verdict::Overtaken
        }
        Found::Other(_) => Verdict::Derive,
    }
}

fn is_of(document: &StateDocument, nonce: &str) -> bool {
    let holder = document.holder.as_ref();
    holder.is_some_and(|mark| mark.nonce == nonce)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::lease::{FencingToken, WriteMark};

    fn of(nonce: Option<&str>) -> StateDocument {
        let mut document = StateDocument::first("orders", "sha256:aa", None);
        document.holder = nonce.map(|nonce| WriteMark {
            token: FencingToken::default(),
            nonce: nonce.to_owned(),
            sequence: 1,
        });
        document
    }

    #[test]
    fn what_was_not_found_changed_is_repeated_only_where_nobody_has_answered() {
        for rival in [Rival::Yield, Rival::Outlast] {
            for found in [Found::Nothing, Found::Same] {
                let verdict = |doubt| judge(doubt, rival, "mine", false, found);
                assert_eq!(verdict(Doubt::Lost), Verdict::Derive);
                assert_eq!(verdict(Doubt::Unanswered), Verdict::Repeat);
            }
            for doubt in [Doubt::Lost, Doubt::Unanswered] {
                let gone = judge(doubt, rival, "mine", true, Found::Nothing);
                assert_eq!(gone, Verdict::Gone);
            }
        }
        let same = judge(Doubt::Unanswered, Rival::Yield, "mine", true, Found::Same);
        assert_eq!(same, Verdict::Repeat);
    }

    #[test]
    fn only_who_yields_is_overtaken_and_only_by_another_claim() {
        let (mine, other, nobody) = (of(Some("mine")), of(Some("other")), of(None));
        for doubt in [Doubt::Lost, Doubt::Unanswered] {
            for began in [false, true] {
                let verdict =
                    |rival, document| judge(doubt, rival, "mine", began, Found::Other(document));
                assert_eq!(verdict(Rival::Yield, &mine), Verdict::Derive);
                assert_eq!(verdict(Rival::Yield, &other), Verdict::Overtaken);
                assert_eq!(verdict(Rival::Yield, &nobody), Verdict::Overtaken);
                for document in [&mine, &other, &nobody] {
                    assert_eq!(verdict(Rival::Outlast, document), Verdict::Derive);
                }
            }
        }
    }
}
