//! How commands show things: tables whose columns stand under each other, colours on a terminal only,
//! JSON for machines.

use std::io::{IsTerminal, stdout};

use comfy_table::{Cell, Color, ContentArrangement, presets};
use serde::Serialize;
use serde_json::{Value, json};

use super::say;
use crate::config::Settings;
use crate::overview::health::Health;

/// Where colours are wanted: on a terminal, unless `NO_COLOR` says otherwise.
pub(super) fn is_coloured() -> bool {
    stdout().is_terminal() && Settings::process().filled("NO_COLOR").is_none()
}

/// A plain table: it reads the same on a terminal and in a file.
pub(super) fn table(header: &[&str]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.iter().copied());
    table
}

/// Without the blanks that fill up its lines.
pub(super) fn show(table: &comfy_table::Table) -> String {
    let lines = table.to_string();
    let lines = lines.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

/// One object, `ok` first.
pub(super) fn object(ok: bool, members: &impl Serialize) -> Result<(), serde_json::Error> {
    let mut object = json!({ "ok": ok });
    if let (Value::Object(members), Some(object)) =
        (serde_json::to_value(members)?, object.as_object_mut())
    {
        object.extend(members);
    }
    say(&format!("{object}\n"));
    Ok(())
}

pub(super) fn health_cell(health: Health) -> Cell {
    let cell = Cell::new(health.name());
    if !is_coloured() {
        return cell;
    }
    cell.fg(match health {
        Health::Ok => Color::Green,
        Health::Attention => Color::Yellow,
        Health::Stopped => Color::Blue,
        Health::Stuck => Color::Red,
    })
}
