//! Which cursor and which key a table should be polled by, and why. Pure: a survey in, words out.

use crate::source::survey::{Class, Survey, Surveyed};

/// What goes into function.json, and what its owner should know.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Proposal {
    pub(super) cursor: Vec<String>,
    pub(super) key: Vec<String>,
    pub(super) reasons: Vec<String>,
    pub(super) cautions: Vec<String>,
}

/// What somebody has decided already.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) cursor: Vec<String>,
    pub(super) key: Vec<String>,
}

/// Names that people give to a column that moves with every change.
const CHANGED: [&str; 8] = [
    "updated",
    "modified",
    "changed",
    "lastupdate",
    "lastchange",
    "mtime",
    "touched",
    "edited",
];
/// Names of numbers that grow with every change.
const VERSION: [&str; 6] = [
    "rowversion",
    "version",
    "revision",
    "changeid",
    "changeseq",
    "seqno",
];
/// Names of a column that is set once.
const CREATED: [&str; 4] = ["created", "inserted", "added", "occurred"];

pub(super) fn propose(survey: &Survey, wanted: Wanted) -> Result<Proposal, String> {
    let Wanted { cursor, key } = wanted;
    for name in cursor.iter().chain(&key) {
        if !survey.columns.iter().any(|column| column.name == *name) {
            return Err(format!("{} has no column \"{name}\"", survey.table));
        }
    }
    let mut proposal = Proposal {
        cursor: Vec::new(),
        key: Vec::new(),
        reasons: Vec::new(),
        cautions: Vec::new(),
    };
    proposal.key = match key.as_slice() {
        [] => proposed_key(survey, &mut proposal.reasons)?,
        _ => key,
    };
    proposal.cursor = match cursor.as_slice() {
        [] => vec![proposed_cursor(survey, &mut proposal)?],
        _ => cursor,
    };
    for name in &proposal.cursor {
        let column = survey.columns.iter().find(|column| column.name == *name);
        proposal
            .cautions
            .extend(column.into_iter().flat_map(cautions));
    }
    Ok(proposal)
}

/// Whether some index begins with the cursor and then the key.
pub(super) fn is_indexed(survey: &Survey, proposal: &Proposal) -> bool {
    let mut order = proposal.cursor.clone();
    order.extend(
        proposal
            .key
            .iter()
            .filter(|name| !proposal.cursor.contains(name))
            .cloned(),
    );
    survey.indexes.iter().any(|index| index.starts_with(&order))
}

fn proposed_key(survey: &Survey, reasons: &mut Vec<String>) -> Result<Vec<String>, String> {
    if !survey.primary_key.is_empty() {
        reasons.push(format!(
            "key {}: the primary key",
            survey.primary_key.join(", ")
        ));
        return Ok(survey.primary_key.clone());
    }
    let never_null = |name: &String| {
        let mut columns = survey.columns.iter();
        columns.any(|column| column.name == *name && !column.nullable)
    };
    let unique = survey
        .unique
        .iter()
        .filter(|set| set.iter().all(never_null));
    match unique.min_by_key(|set| set.len()) {
        Some(set) => {
            reasons.push(format!("key {}: unique and never NULL", set.join(", ")));
            Ok(set.clone())
        }
        None => Err(format!(
            "nothing identifies a row of {}: it has no primary key and no unique column that is never \
             NULL; name the columns with --key",
            survey.table
        )),
    }
}

fn proposed_cursor(survey: &Survey, proposal: &mut Proposal) -> Result<String, String> {
    let named = |words: &[&str], classes: &[Class]| {
        let fits = |column: &&Surveyed| {
            let name = column.name.to_lowercase().replace(['_', '-', ' '], "");
            classes.contains(&column.class) && words.iter().any(|word| name.contains(word))
        };
        survey.columns.iter().find(fits).map(|column| &column.name)
    };
    let times = [Class::Instant, Class::Local];
    if let Some(name) = named(&CHANGED, &times) {
        let reason = format!("cursor {name}: a time that moves with every change, by its name");
        proposal.reasons.push(reason);
        let caution = format!("make sure that every UPDATE sets {name}, by a trigger for example");
        proposal.cautions.push(caution);
        return Ok(name.clone());
    }
    if let Some(name) = named(&VERSION, &[Class::Integer]) {
        let reason = format!("cursor {name}: a number that grows with every change, by its name");
        proposal.reasons.push(reason);
        let caution = format!(
            "{name} must grow over the whole table: a version counted row by row hides changes"
        );
        proposal.cautions.push(caution);
        return Ok(name.clone());
    }
    let integer = |name: &&String| {
        let mut columns = survey.columns.iter();
        columns.any(|column| column.name == **name && column.class == Class::Integer)
    };
    let once = match proposal.key.as_slice() {
        [single] => Some(single).filter(integer).cloned(),
        _ => None,
    };
    match once.or_else(|| named(&CREATED, &times).cloned()) {
        Some(name) => {
            proposal
                .reasons
                .push(format!("cursor {name}: set once, when a row is inserted"));
            let caution = "new rows are delivered and updates are not: add a column that moves with \
                           every change, and name it with --cursor, if they matter";
            proposal.cautions.push(caution.to_owned());
            Ok(name)
        }
        None => {
            let columns: Vec<_> = survey.columns.iter().map(|column| &*column.name).collect();
            Err(format!(
                "no column of {} looks like one that grows with every change; name it with --cursor: {}",
                survey.table,
                columns.join(", ")
            ))
        }
    }
}

fn cautions(column: &Surveyed) -> Vec<String> {
    let mut cautions = Vec::new();
    let Surveyed {
        name, type_name, ..
    } = column;
    if column.nullable {
        cautions.push(format!(
            "{name} can be NULL; a row with NULL there stops the poller (source.nulls)"
        ));
    }
    if column.class == Class::Local {
        cautions.push(format!(
            "{name} ({type_name}) has no time zone: all writers must use one"
        ));
    }
    cautions
}

#[cfg(test)]
mod tests;
