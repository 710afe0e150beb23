//! A place as a person writes it: cursor values and a key, read as the types that the source has.

use std::time::Duration;

use serde_json::Value;
use tokio::time::timeout;

use crate::cli::problem::Problem;
use crate::model::position::{Position, PositionError, Scalar};
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
