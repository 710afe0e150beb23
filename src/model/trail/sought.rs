//! Which of the things that are written down belong to the row that was asked for.

use serde_json::Value;

use crate::model::page::EventId;
use crate::model::position::{Position, Scalar};

/// A row as it was asked for and as the database found it. The database knows that `007` is 7 and that
/// two spellings of a text are one; once it has answered, its word counts and not the spelling.
#[derive(Debug)]
pub struct Sought<'a> {
    asked: &'a [String],
    ids: Vec<EventId>,
    keys: Vec<Vec<Scalar>>,
}

impl<'a> Sought<'a> {
    /// `found`: every row with the key, by its place (if it has one) and its id.
    #[must_use]
    pub fn new<'b>(
        asked: &'a [String],
        found: impl IntoIterator<Item = (Option<&'b Position>, Option<EventId>)>,
    ) -> Self {
        let (mut ids, mut keys) = (Vec::new(), Vec::new());
        for (position, id) in found {
            ids.extend(id);
            keys.extend(position.map(|place| place.key().to_vec()));
        }
        Self { asked, ids, keys }
    }

    /// The row as it is now.
    #[must_use]
    pub fn is_now(&self, id: EventId) -> bool {
        self.ids.contains(&id)
    }

    /// Some version of the row was at this place.
    #[must_use]
    pub fn was_at(&self, place: &Position) -> bool {
        match self.keys.is_empty() {
            true => as_written(place.key(), self.asked),
            false => self.keys.iter().any(|key| key == place.key()),
        }
    }
}

fn as_written(kept: &[Scalar], asked: &[String]) -> bool {
    let equal = |(kept, asked): (&Scalar, &String)| {
        let value = Value::from(asked.as_str());
        let read = Scalar::from_json(&value, kept.scalar_type());
        kept.to_string() == *asked || read.is_ok_and(|read| read == *kept)
    };
    kept.len() == asked.len() && kept.iter().zip(asked).all(equal)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(value: i128) -> Scalar {
        Scalar::Integer(value)
    }

    fn text(value: &str) -> Scalar {
        Scalar::Text(value.to_owned())
    }

    fn at(cursor: i128, key: &[Scalar]) -> Position {
        Position::new(vec![number(cursor)], key.to_vec())
    }

    fn id(byte: u8) -> EventId {
        EventId::from_bytes(&[byte; 16]).unwrap()
    }

    /// Asked for so, found at 9 as this key if at all: is what lies at 3 with that key a version of it?
    #[track_caller]
    fn check(asked: &[&str], found: Option<&[Scalar]>, kept: &[Scalar], expected: bool) {
        let asked: Vec<_> = asked.iter().map(|&text| text.to_owned()).collect();
        let found = found.map(|key| at(9, key));
        let sought = Sought::new(&asked, found.iter().map(|place| (Some(place), Some(id(1)))));
        let is = sought.was_at(&at(3, kept));
        assert_eq!(is, expected, "{sought:?} and {kept:?}");
    }

    #[test]
    fn what_the_database_found_counts_and_not_how_it_was_asked_for() {
        let (upper, lower) = ("0FB3C6A2-9D", "0fb3c6a2-9d");
        check(&["007"], Some(&[number(7)]), &[number(7)], true);
        check(&["007"], Some(&[number(7)]), &[number(8)], false);
        check(&[upper], Some(&[text(lower)]), &[text(lower)], true);
        check(&[upper], Some(&[text(lower)]), &[text("0fb3")], false);
        // Another row of a column without a type.
        check(&["007"], Some(&[number(7)]), &[text("007")], false);
        let both = [number(7), text(lower)];
        check(&["7", upper], Some(&both), &both, true);
        check(&["7", upper], Some(&both), &both[..1], false);
    }

    #[test]
    fn what_was_not_found_is_known_by_its_text_as_a_value_of_what_is_kept() {
        check(&["7"], None, &[number(7)], true);
        check(&["007"], None, &[number(7)], true);
        check(&["007"], None, &[text("007")], true);
        check(&["007"], None, &[text("7")], false);
        check(&["x"], None, &[number(7)], false);
        check(&["7"], None, &[number(7), number(7)], false);
    }

    /// It is in no order, and so its key is not told.
    #[test]
    fn a_row_without_a_place_is_known_by_its_text() {
        let asked = ["007".to_owned()];
        let sought = Sought::new(&asked, [(None, None)]);
        assert!(sought.was_at(&at(3, &[number(7)])));
        assert!(!sought.was_at(&at(3, &[number(8)])));
    }

    #[test]
    fn the_row_as_it_is_now_is_known_by_its_id() {
        let asked = ["7".to_owned()];
        let place = at(9, &[number(7)]);
        let sought = Sought::new(&asked, [(Some(&place), Some(id(1)))]);
        assert!(sought.is_now(id(1)));
        assert!(!sought.is_now(id(2)));
    }
}
