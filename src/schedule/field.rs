//! One field of NCRONTAB, by the grammar of NCrontab's own parser.

use std::collections::BTreeSet;

const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: &[&str] = &[
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];

/// The six fields in their order.
pub(super) const FIELDS: [Field; 6] = [
    Field::new("second", 0, 59, &[]),
    Field::new("minute", 0, 59, &[]),
    Field::new("hour", 0, 23, &[]),
    Field::new("day of month", 1, 31, &[]),
    Field::new("month", 1, 12, MONTHS),
    Field::new("day of week", 0, 6, DAYS),
];

/// The bounds and names of one field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field {
    pub(super) name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
}

impl Field {
    const fn new(name: &'static str, min: u8, max: u8, names: &'static [&'static str]) -> Field {
        Field {
            name,
            min,
            max,
            names,
        }
    }

    /// The values that a field's text selects.
    pub(super) fn values(&self, text: &str) -> Result<BTreeSet<u8>, String> {
        let mut values = BTreeSet::new();
        for item in text.split(',') {
            let (first, last, step) = self.item(item)?;
            values.extend((first..=last).step_by(step));
        }
        Ok(values)
    }

    fn item(&self, text: &str) -> Result<(u8, u8, usize), String> {
        let (range, step) = match text.split_once('/') {
            None => (text, None),
            Some((range, step)) => (range, Some(step_width(step)?)),
        };
        if range == "*" {
            return Ok((self.min, self.max, step.unwrap_or(1)));
        }
        if let Some((first, last)) = range.split_once('-') {
            let (first, last) = (self.value(first)?, self.value(last)?);
            return Ok((first.min(last), first.max(last), step.unwrap_or(1)));
        }
        let value = self.value(range)?;
        Ok(match step {
            None => (value, value, 1),
            Some(step) => (value, self.max, step),
        })
    }

    fn value(&self, text: &str) -> Result<u8, String> {
        if text.is_empty() {
            return Err("a value is missing".to_owned());
        }
        let value = if text.bytes().all(|byte| byte.is_ascii_digit()) {
            text.parse().ok()
        } else {
            Some(self.named(text)?)
        };
        value
            .filter(|value| (self.min..=self.max).contains(value))
            .ok_or_else(|| format!("{text} is outside {}-{}", self.min, self.max))
    }

    fn named(&self, text: &str) -> Result<u8, String> {
        let lower = text.to_ascii_lowercase();
        (self.min..)
            .zip(self.names)
            .find(|(_, name)| name.to_ascii_lowercase().starts_with(&lower))
            .map(|(value, _)| value)
            .ok_or_else(|| format!("NCRONTAB has no '{text}' here (nor L, W, # or ?)"))
    }
}

/// NCrontab takes a step below one for one.
fn step_width(text: &str) -> Result<usize, String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{text}' is not a step"));
    }
    let step: usize = text
        .parse()
        .map_err(|_| format!("'{text}' is not a step"))?;
    Ok(step.max(1))
}
