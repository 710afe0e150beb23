//! Who gives rows their cursor, by what the catalogue says.

use sqlx::mysql::MySqlConnection;

use crate::source::findings::words;
use crate::source::late::Stamp;
use crate::source::mysql::catalogue::{self, Trigger};
use crate::source::mysql::shape::MySqlShape;

/// Of the statement, or of the moment inside it.
const NOW: [&str; 5] = [
    "now",
    "current_timestamp",
    "localtimestamp",
    "utc_timestamp",
    "sysdate",
];

pub(super) async fn of(
    connection: &mut MySqlConnection,
    shape: &MySqlShape,
) -> Result<Stamp, sqlx::Error> {
    let cursor = &shape.typed(shape.shape.cursor[0]).described;
    if let Some((table, _)) = shape.table.as_ref().filter(|(table, _)| !table.is_view) {
        let triggers = catalogue::triggers(connection, table).await?;
        if is_stamped(&triggers, "INSERT", &cursor.name)
            && is_stamped(&triggers, "UPDATE", &cursor.name)
        {
            return Ok(Stamp::Statement);
        }
    }
    let extra = cursor.extra.to_ascii_lowercase();
    let default = cursor.default.as_deref().unwrap_or_default();
    let is_now = |text: &str| text.to_ascii_lowercase().contains("current_timestamp");
    Ok(Stamp::Overridable(
        if extra.contains("auto_increment") {
            "writers may give a row an id of their own"
        } else if is_now(default) || is_now(&extra) {
            "writers may override the default of the cursor"
        } else {
            "nothing in the schema says who gives rows their cursor"
        }
        .to_owned(),
    ))
}

/// By one trigger before the event, so that no other can undo it.
fn is_stamped(triggers: &[Trigger], event: &str, column: &str) -> bool {
    let mut before = triggers
        .iter()
        .filter(|trigger| trigger.timing == "BEFORE" && trigger.event == event);
    match (before.next(), before.next()) {
        (Some(trigger), None) => is_stamp(&trigger.body, column),
        _ => false,
    }
}

/// `SET NEW.column = NOW(6)`, alone or between BEGIN and END.
fn is_stamp(body: &str, column: &str) -> bool {
    let plain = |letter: char| letter.is_alphanumeric() || " \t\r\n_.=();`".contains(letter);
    let words = words(body);
    let mut words: Vec<_> = words.iter().map(String::as_str).collect();
    if let ["begin", inner @ .., "end"] = words.as_slice() {
        words = inner.to_vec();
    }
    let column = column.to_ascii_lowercase();
    let stamped = match words.as_slice() {
        ["set", "new", name, now] => *name == column && NOW.contains(now),
        ["set", "new", name, now, digits] => {
            *name == column && NOW.contains(now) && digits.parse::<u8>().is_ok()
        }
        _ => false,
    };
    body.chars().all(plain) && stamped
}
