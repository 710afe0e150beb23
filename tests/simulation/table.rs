//! The truth about rows: which are visible, and which are on their way.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use dbtick::model::late::Witness;
use dbtick::model::position::{Position, Scalar};
use dbtick::model::shard::Shard;
use dbtick::model::state::StateDocument;

/// A position, in the only shape that this table has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) cursor: i64,
    pub(crate) key: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: BTreeMap<Place, u64>,
    cursors: BTreeMap<i64, i64>,
    last_cursor: i64,
    versions: u64,
    open: BTreeMap<u64, Transaction>,
    transactions: u64,
}

/// How this table's cursors become visible out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lateness {
    /// Never.
    InOrder,
    /// Transactions show themselves before they draw, and last as long as they like.
    Writers,
    /// Rows show themselves once they are written, which may be a while after they were drawn.
    Rows,
    /// Nothing shows, but no row is on its way for longer than the window.
    Window,
}

/// A row may be drawn for so long before anything shows.
pub(crate) const HIDDEN_FOR: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(crate) struct Transaction {
    name: String,
    prepared: bool,
    hidden: bool,
    places: Vec<Place>,
}

impl Place {
    pub(crate) fn of(document: &StateDocument) -> Option<Self> {
        document.position().map(Self::from)
    }

    /// Whether a shard has this row; `None`: the whole has.
    pub(crate) fn is_in(self, shard: Option<Shard>) -> bool {
        shard.is_none_or(|shard| shard.holds(&[Scalar::Integer(self.key.into())]))
    }

    pub(crate) fn to_position(self) -> Position {
        let scalar = |value: i64| vec![Scalar::Integer(value.into())];
        Position::new(scalar(self.cursor), scalar(self.key))
    }
}

impl From<&Position> for Place {
    fn from(position: &Position) -> Self {
        let number = |scalars: &[Scalar]| match scalars {
            [Scalar::Integer(value)] => i64::try_from(*value).unwrap(),
            other => unreachable!("this table has integers only: {other:?}"),
        };
        Self {
            cursor: number(position.cursor()),
            key: number(position.key()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cursor, self.key)
    }
}

impl Table {
    /// Every visible row, with its version.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (Place, u64)> + '_ {
        self.rows.iter().map(|(place, version)| (*place, *version))
    }

    /// The version that is visible at this very place.
    pub(crate) fn version_at(&self, place: Place) -> Option<u64> {
        self.rows.get(&place).copied()
    }

    /// How many versions there have been so far.
    pub(crate) fn versions(&self) -> u64 {
        self.versions
    }

    pub(crate) fn last(&self) -> Option<Place> {
        self.rows.keys().next_back().copied()
    }

    /// The last that a shard has; `None`: of all rows.
    pub(crate) fn last_of(&self, shard: Option<Shard>) -> Option<Place> {
        let mut places = self.rows.keys().rev().copied();
        places.find(|place| place.is_in(shard))
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    // ---- transactions

    pub(crate) fn begin(&mut self, hidden: bool) -> u64 {
        self.transactions += 1;
        let number = self.transactions;
        let transaction = Transaction {
            name: format!("3/{number}"),
            prepared: false,
            hidden,
            places: Vec::new(),
        };
        self.open.insert(number, transaction);
        number
    }

    /// Draws a cursor, and writes these keys with it; nobody sees them yet.
    pub(crate) fn write(&mut self, transaction: u64, keys: impl IntoIterator<Item = i64>) {
        self.last_cursor += 1;
        let cursor = self.last_cursor;
        let places = &mut self.open.get_mut(&transaction).unwrap().places;
        for key in keys {
            places.retain(|place| place.key != key);
            places.push(Place { cursor, key });
        }
    }

    pub(crate) fn show(&mut self, transaction: u64) {
        self.open.get_mut(&transaction).unwrap().hidden = false;
    }

    /// It goes on under another name.
    pub(crate) fn prepare(&mut self, transaction: u64) {
        let open = self.open.get_mut(&transaction).unwrap();
        open.prepared = true;
        open.name = Witness::prepared(transaction).to_string();
    }

    pub(crate) fn commit(&mut self, transaction: u64) -> Vec<Place> {
        let places = self.open.remove(&transaction).unwrap().places;
        places.iter().for_each(|place| self.put(*place));
        places
    }

    pub(crate) fn roll_back(&mut self, transaction: u64) {
        self.open.remove(&transaction);
    }

    /// With those that go on under another name.
    pub(crate) fn writers(&self) -> (Vec<Witness>, Vec<Witness>) {
        let named = |open: &Transaction| Witness::new(&open.name);
        let writers = self.open.values().map(named).collect();
        let prepared = self.open.values().filter(|open| open.prepared);
        (writers, prepared.map(named).collect())
    }

    /// Rows that are written and not committed, and that show.
    pub(crate) fn in_flight(&self) -> Vec<Place> {
        let showing = self.open.values().filter(|open| !open.hidden);
        let mut places: Vec<_> = showing.flat_map(|open| open.places.clone()).collect();
        places.sort();
        places
    }

    /// Everything that is not visible yet and may become so.
    pub(crate) fn on_the_way(&self) -> impl Iterator<Item = Place> + '_ {
        self.open
            .values()
            .flat_map(|open| open.places.iter().copied())
    }

    pub(crate) fn last_drawn(&self) -> i64 {
        self.last_cursor
    }

    // ---- rows

    pub(crate) fn put(&mut self, place: Place) {
        if let Some(cursor) = self.cursors.insert(place.key, place.cursor) {
            self.rows.remove(&Place { cursor, ..place });
        }
        self.versions += 1;
        self.rows.insert(place, self.versions);
        self.last_cursor = self.last_cursor.max(place.cursor);
    }
}
