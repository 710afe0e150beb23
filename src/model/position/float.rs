//! Floating point numbers in the order of PostgreSQL: one zero, and one NaN above everything.

use std::cmp::Ordering;
use std::fmt;

/// Total, unlike `f64`.
#[derive(Debug, Clone, Copy)]
pub struct Float(f64);

impl Float {
    #[must_use]
    pub fn new(value: f64) -> Self {
        if value.is_nan() {
            Self(f64::NAN)
        } else {
            // Minus zero becomes zero.
            Self(value + 0.0)
        }
    }

    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }

    /// The inverse of `Display`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "NaN" => Some(Self::new(f64::NAN)),
            "Infinity" => Some(Self::new(f64::INFINITY)),
            "-Infinity" => Some(Self::new(f64::NEG_INFINITY)),
            _ => text
                .parse()
                .ok()
                .filter(|value: &f64| value.is_finite())
                .map(Self::new),
        }
    }
}

impl Ord for Float {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Float {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Float {}

impl std::hash::Hash for Float {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

/// The shortest digits that read back as the same number.
impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            value if value.is_nan() => f.write_str("NaN"),
            f64::INFINITY => f.write_str("Infinity"),
            f64::NEG_INFINITY => f.write_str("-Infinity"),
            value => write!(f, "{value:?}"),
        }
    }
}
