//! A place as a person writes it: cursor values and a key, read as the types that the source has.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::cli::problem::Problem;
use crate::model::position::{Moment, MomentKind, Position, PositionError, Scalar, ScalarType};
use crate::model::state::CursorMark;
use crate::tick::Poller;
use crate::tick::operate::Found;

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn parse(
    poller: &Poller,
    found: &Found,
    cursor: &[String],
    key: &str,
) -> Result<CursorMark, Problem> {
    let columns = &poller.definition.cursor;
    if cursor.len() != columns.len() {
        return Err(Problem::usage(format!(
            "the cursor is {} ({} value(s)): say --to-cursor once for each, not {} times",
            columns.join(", "),
            columns.len(),
            cursor.len()
        )));
    }
    let key = key_values(key, &poller.key_columns)?;
    let like = example(poller, found).await;
    let typed = |text: &str, like: Option<&Scalar>, what: &str| {
        scalar(text, like).map_err(|error| Problem::usage(format!("{what}: {error}")))
    };
    let likes = |scalars: Option<&[Scalar]>, at: usize| {
        scalars.and_then(|scalars| scalars.get(at).cloned())
    };
    let mut scalars = (Vec::new(), Vec::new());
    for (at, text) in cursor.iter().enumerate() {
        let like = likes(like.as_ref().map(Position::cursor), at);
        scalars.0.push(typed(text, like.as_ref(), "--to-cursor")?);
    }
    for (at, text) in key.iter().enumerate() {
        let like = likes(like.as_ref().map(Position::key), at);
        let what = format!("--to-key {}", poller.key_columns[at]);
        scalars.1.push(typed(text, like.as_ref(), &what)?);
    }
    let position = Position::new(scalars.0, scalars.1);
    Ok(CursorMark::new(position, &poller.key_columns))
}

/// A position of this source, from which to learn its types: the checkpoint, or the last row.
async fn example(poller: &Poller, found: &Found) -> Option<Position> {
    if let Found::Document(document) = found
        && document.source_fingerprint == poller.fingerprint
        && let Some(position) = document.position()
    {
        return Some(position.clone());
    }
    let last = timeout(PATIENCE, poller.source.last(None)).await;
    last.ok()?.ok()?
}

pub(in crate::cli) fn scalar(text: &str, like: Option<&Scalar>) -> Result<Scalar, PositionError> {
    match like {
        Some(like) => Scalar::from_json(&Value::from(text), like.scalar_type()),
        // Nothing to learn from: a number is a number.
        None => Ok(match text.parse() {
            Ok(number) => Scalar::Integer(number),
            Err(_) => Scalar::Text(text.to_owned()),
        }),
    }
}

/// Which end of a range a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::cli) enum Edge {
    First,
    Last,
}

/// An inclusive end of a range: a day is the whole of it, where the cursor has a time.
pub(in crate::cli) fn edge(
    text: &str,
    like: Option<&Scalar>,
    edge: Edge,
) -> Result<Scalar, PositionError> {
    let zone = match like.map(Scalar::scalar_type) {
        Some(ScalarType::Moment(MomentKind::Instant)) => "Z",
        Some(ScalarType::Moment(MomentKind::Local)) => "",
        _ => return scalar(text, like),
    };
    if Moment::parse(MomentKind::Date, text).is_none() || text.ends_with("infinity") {
        return scalar(text, like);
    }
    let time = match edge {
        Edge::First => "00:00:00",
        Edge::Last => "23:59:59.999999",
    };
    scalar(&format!("{text}T{time}{zone}"), like)
}

/// `a=1,b=x, y`: a comma ends a value only where another column of the key begins.
fn key_values(text: &str, columns: &[String]) -> Result<Vec<String>, Problem> {
    let mut found: Vec<Option<&str>> = vec![None; columns.len()];
    let mut rest = text;
    loop {
        let begins = |column: &String| rest.strip_prefix(column.as_str())?.strip_prefix('=');
        let Some((at, value)) = columns
            .iter()
            .enumerate()
            .find_map(|(at, column)| Some((at, begins(column)?)))
        else {
            return Err(wrong_key(text, columns));
        };
        let ends = columns
            .iter()
            .filter_map(|next| value.find(&format!(",{next}=")));
        let end = ends.min();
        if found[at]
            .replace(&value[..end.unwrap_or(value.len())])
            .is_some()
        {
            return Err(wrong_key(text, columns));
        }
        match end {
            Some(end) => rest = &value[end + 1..],
            None => break,
        }
    }
    let all: Option<Vec<String>> = found
        .into_iter()
        .map(|value| value.map(str::to_owned))
        .collect();
    all.ok_or_else(|| wrong_key(text, columns))
}

fn wrong_key(text: &str, columns: &[String]) -> Problem {
    let form: Vec<_> = columns.iter().map(|column| format!("{column}=…")).collect();
    Problem::usage(format!(
        "--to-key is {text:?}; the key of this poller is written {}",
        form.join(",")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_the_whole_of_it_where_the_cursor_has_a_time() {
        let moment = |kind, text| Scalar::Moment(Moment::parse(kind, text).unwrap());
        let instant = moment(MomentKind::Instant, "2026-01-01T00:00:00Z");
        let local = moment(MomentKind::Local, "2026-01-01T00:00:00");
        let date = moment(MomentKind::Date, "2026-01-01");
        for (like, end, text, expected) in [
            (&instant, Edge::First, "2026-01-31", "2026-01-31T00:00:00Z"),
            (
                &instant,
                Edge::Last,
                "2026-01-31",
                "2026-01-31T23:59:59.999999Z",
            ),
            (
                &local,
                Edge::Last,
                "2026-01-31",
                "2026-01-31T23:59:59.999999",
            ),
            (
                &local,
                Edge::Last,
                "2026-01-31T10:00:00",
                "2026-01-31T10:00:00",
            ),
            (&date, Edge::Last, "2026-01-31", "2026-01-31"),
        ] {
            let Scalar::Moment(like_moment) = like else {
                unreachable!()
            };
            let read = edge(text, Some(like), end).unwrap();
            assert_eq!(read, moment(like_moment.kind(), expected), "{text}");
        }
        let number = edge("2026", Some(&Scalar::Integer(1)), Edge::Last).unwrap();
        assert_eq!(number, Scalar::Integer(2026));
    }

    #[test]
    fn a_key_is_read_by_its_columns_whatever_its_values_hold() {
        let columns = ["id".to_owned(), "line".to_owned()];
        for (text, expected) in [
            ("id=5,line=2", Some(["5", "2"])),
            ("line=2,id=5", Some(["5", "2"])),
            ("id=a,b=c,line=", Some(["a,b=c", ""])),
            ("id=5", None),
            ("id=5,id=6,line=1", None),
            ("ID=5,line=2", None),
            ("", None),
        ] {
            let read = key_values(text, &columns).ok();
            let expected = expected.map(|values| values.map(str::to_owned).to_vec());
            assert_eq!(read, expected, "{text}");
        }
    }
}
