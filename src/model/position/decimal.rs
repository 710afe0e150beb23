//! Numbers of any size: ordered by value, whatever their scale.

use std::cmp::Ordering;
use std::fmt;

/// A decimal number without the zeros that do not change it, or one of what databases put beside
/// the numbers. `1.10` and `1.1` are one value; how many zeros a row shows is the row's affair.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    class: Class,
    negative: bool,
    /// Without leading zeros; empty below one.
    whole: String,
    /// Without trailing zeros.
    fraction: String,
}

/// In the order in which PostgreSQL sorts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Class {
    MinusInfinity,
    Finite,
    Infinity,
    NotANumber,
}

impl Decimal {
    /// Digits with an optional sign and point, or `NaN`, `Infinity`, `-Infinity`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "NaN" => return Some(Self::special(Class::NotANumber)),
            "Infinity" => return Some(Self::special(Class::Infinity)),
            "-Infinity" => return Some(Self::special(Class::MinusInfinity)),
            _ => {}
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let whole = whole.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        Some(Self {
            class: Class::Finite,
            negative: negative && !(whole.is_empty() && fraction.is_empty()),
            whole,
            fraction,
        })
    }

    fn special(class: Class) -> Self {
        Self {
            class,
            negative: false,
            whole: String::new(),
            fraction: String::new(),
        }
    }

    fn magnitude(&self) -> (usize, &str, &str) {
        (self.whole.len(), &self.whole, &self.fraction)
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        self.class
            .cmp(&other.class)
            .then_with(|| match (self.negative, other.negative) {
                (false, false) => self.magnitude().cmp(&other.magnitude()),
                (true, true) => other.magnitude().cmp(&self.magnitude()),
                (true, false) => Ordering::Less,
                (false, true) => Ordering::Greater,
            })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.class {
            Class::MinusInfinity => return f.write_str("-Infinity"),
            Class::Infinity => return f.write_str("Infinity"),
            Class::NotANumber => return f.write_str("NaN"),
            Class::Finite => {}
        }
        if self.negative {
            f.write_str("-")?;
        }
        f.write_str(if self.whole.is_empty() {
            "0"
        } else {
            &self.whole
        })?;
        if !self.fraction.is_empty() {
            write!(f, ".{}", self.fraction)?;
        }
        Ok(())
    }
}
