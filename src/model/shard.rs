//! One of several parts of a poller's rows: each has a position, a lease and a document of its own.
//!
//! Which part a row belongs to follows from its key alone, so all versions of a row are in one part, and
//! come in order. Every row is in exactly one of them.

use std::fmt;

use serde::{Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::position::Scalar;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard {
    index: u16,
    count: u16,
    by: ShardBy,
}

/// Who says which shard a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShardBy {
    /// A hash of its key, made by us: every shard reads every row.
    Key,
    /// A column of the source: every shard reads its own rows.
    Column,
}

/// How the rows of one poller are parted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layout {
    Whole,
    Shards { count: u16, by: ShardBy },
}

impl Shard {
    /// More would only read the same table more often.
    pub const MOST: u16 = 256;

    /// All parts; `count` is at least one.
    pub fn all(count: u16, by: ShardBy) -> impl Iterator<Item = Self> {
        (0..count).map(move |index| Self { index, count, by })
    }

    #[must_use]
    pub fn index(self) -> u16 {
        self.index
    }

    #[must_use]
    pub fn count(self) -> u16 {
        self.count
    }

    #[must_use]
    pub fn by(self) -> ShardBy {
        self.by
    }

    /// Whether a row that was read is one of its own.
    #[must_use]
    pub fn holds(self, key: &[Scalar]) -> bool {
        match self.by {
            ShardBy::Key => place_of(key) % u64::from(self.count) == u64::from(self.index),
            // The database has given no others.
            ShardBy::Column => true,
        }
    }

    /// How many rows are read to find about so many of its own.
    #[must_use]
    pub fn most_read(self, own: usize) -> usize {
        match self.by {
            ShardBy::Key => own.saturating_mul(self.count.into()),
            ShardBy::Column => own,
        }
    }

    /// `orders.0of4`: no name in a configuration has a dot, so it is nobody else's.
    #[must_use]
    pub fn name_in(self, poller: &str) -> String {
        format!("{poller}.{self}")
    }

    /// What [`name_in`](Self::name_in) was made of; `None` for a name that is no shard's.
    #[must_use]
    pub fn parse(name: &str) -> Option<(&str, Self)> {
        let (poller, shard) = name.split_once('.')?;
        let (shard, by) = match shard.strip_suffix('c') {
            Some(shard) => (shard, ShardBy::Column),
            None => (shard, ShardBy::Key),
        };
        let (index, count) = shard.split_once("of")?;
        let (index, count) = (index.parse().ok()?, count.parse().ok()?);
        let found = Self { index, count, by };
        // One way of writing it, so that two names are never one shard.
        (index < count && found.name_in(poller) == name).then_some((poller, found))
    }
}

impl Layout {
    /// Of a document or a poller by its name, and the name that its parts have in common.
    #[must_use]
    pub fn of(name: &str) -> (&str, Self) {
        match Shard::parse(name) {
            Some((poller, Shard { count, by, .. })) => (poller, Self::Shards { count, by }),
            None => (name, Self::Whole),
        }
    }

    /// The names of all documents of a poller that is parted like this.
    #[must_use]
    pub fn names(self, poller: &str) -> Vec<String> {
        match self {
            Self::Whole => vec![poller.to_owned()],
            Self::Shards { count, by } => Shard::all(count, by)
                .map(|shard| shard.name_in(poller))
                .collect(),
        }
    }
}

/// The same on every machine, in every version and for every database that gives the key: state
/// depends on it.
fn place_of(key: &[Scalar]) -> u64 {
    let mut hash = Sha256::new();
    for scalar in key {
        let text = scalar.to_string();
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize()[..8]);
    u64::from_be_bytes(first)
}

/// `0of4`, or `0of4c` by a column.
impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, count, by } = self;
        let by = match by {
            ShardBy::Key => "",
            ShardBy::Column => "c",
        };
        write!(f, "{index}of{count}{by}")
    }
}

/// `4 shards`
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => f.write_str("no shards"),
            Self::Shards { count, by } => {
                let by = match by {
                    ShardBy::Key => "by key",
                    ShardBy::Column => "by column",
                };
                write!(f, "{count} shards {by}")
            }
        }
    }
}

impl Serialize for Shard {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::position::{Decimal, Float, Moment, MomentKind};

    #[test]
    fn every_key_of_every_type_is_in_exactly_one_shard() {
        let scalars = |n: i64| {
            let moment = |kind| Scalar::Moment(Moment::from_days(kind, n, 0));
            [
                Scalar::Integer(n.into()),
                Scalar::Decimal(Decimal::parse(&format!("{n}.5")).unwrap()),
                Scalar::Float(Float::new(n as f64 / 3.0)),
                moment(MomentKind::Instant),
                moment(MomentKind::Local),
                moment(MomentKind::Date),
                Scalar::Text(format!("key {n}")),
                Scalar::Bytes(n.to_le_bytes().to_vec()),
            ]
        };
        for count in [1, 2, 3, 4, 16, 256] {
            for n in -50..50 {
                let mut keys: Vec<_> = scalars(n).map(|scalar| vec![scalar]).to_vec();
                keys.push(scalars(n).to_vec());
                for key in keys {
                    let holders = Shard::all(count, ShardBy::Key).filter(|shard| shard.holds(&key));
                    assert_eq!(holders.count(), 1, "{key:?} of {count}");
                }
            }
        }
    }

    #[test]
    fn shards_are_of_about_the_same_size() {
        for count in [2, 4, 16] {
            for shard in Shard::all(count, ShardBy::Key) {
                let own = (0..4000).filter(|n| shard.holds(&[Scalar::Integer(*n)]));
                let fair = 4000 / usize::from(count);
                let own = own.count();
                assert!(own > fair / 2 && own < fair * 2, "{shard}: {own}");
            }
        }
    }

    #[test]
    fn where_a_key_is_stays_the_same_from_release_to_release() {
        let place = |key: &[Scalar]| place_of(key) % 256;
        assert_eq!(place(&[Scalar::Integer(12093)]), 16);
        assert_eq!(place(&[Scalar::Text("abc".into())]), 173);
        let moment = |kind| Scalar::Moment(Moment::from_days(kind, 9221, 3_600_000_001));
        let decimal = |text: &str| Scalar::Decimal(Decimal::parse(text).unwrap());
        let all = [
            Scalar::Integer(-170_141_183_460_469_231_731_687_303_715_884_105_728),
            decimal("12093.50"),
            decimal("-0.000000000000000000001"),
            Scalar::Float(Float::new(0.1)),
            Scalar::Float(Float::new(-1.5e300)),
            Scalar::Float(Float::new(f64::INFINITY)),
            moment(MomentKind::Instant),
            moment(MomentKind::Local),
            moment(MomentKind::Date),
            Scalar::Moment(Moment::from_days(MomentKind::Date, -800_000, 0)),
            Scalar::Text(String::new()),
            Scalar::Text("é \"%_\n".into()),
            Scalar::Bytes(Vec::new()),
            Scalar::Bytes(vec![0, 1, 127, 128, 255]),
        ];
        let places = all
            .each_ref()
            .map(|scalar| place(std::slice::from_ref(scalar)));
        // Another number here is a row behind the checkpoint of its shard.
        assert_eq!(
            places,
            [54, 34, 112, 36, 59, 29, 65, 156, 40, 79, 122, 251, 122, 181]
        );
        assert_eq!(place(&all), 96);
    }

    #[test]
    fn values_that_are_equal_are_in_one_shard_however_they_are_written() {
        let decimal = |text: &str| [Scalar::Decimal(Decimal::parse(text).unwrap())];
        assert_eq!(place_of(&decimal("1.10")), place_of(&decimal("1.1")));
        assert_eq!(place_of(&decimal("-0")), place_of(&decimal("0.00")));
        let zero = |value: f64| [Scalar::Float(Float::new(value))];
        assert_eq!(place_of(&zero(0.0)), place_of(&zero(-0.0)));
        let ab = |one: &str, other: &str| [one, other].map(|text| Scalar::Text(text.into()));
        assert_ne!(place_of(&ab("a", "bc")), place_of(&ab("ab", "c")));
    }

    #[test]
    fn a_name_is_that_of_one_shard() {
        for by in [ShardBy::Key, ShardBy::Column] {
            for shard in Shard::all(12, by) {
                let name = shard.name_in("orders");
                assert_eq!(Shard::parse(&name), Some(("orders", shard)));
                let layout = Layout::Shards { count: 12, by };
                assert_eq!(Layout::of(&name), ("orders", layout));
                assert!(layout.names("orders").contains(&name));
            }
        }
        for name in [
            "orders",
            "0of4",
            "orders.4of4",
            "orders.00of4",
            "orders.0of04",
            "orders.0of4cc",
            "orders.of",
            "orders.-1of4",
            "orders.+0of4",
        ] {
            assert_eq!(Shard::parse(name), None, "{name}");
            assert_eq!(Layout::of(name), (name, Layout::Whole));
        }
    }
}
