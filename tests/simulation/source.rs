//! A table that keeps changing while it is read: rows are inserted and updated in order of the
//! cursor, several at one cursor value when one transaction writes them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dbtick::model::page::{Op, PageWriter, Taken};
use dbtick::model::position::{Position, Scalar};
use dbtick::model::schema::Schema;
use dbtick::model::state::StateDocument;
use dbtick::source::{Description, ReadPage, Source, SourceError, Types};
use tokio::time::sleep;

use super::faults::Bug;
use super::world::World;

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
}

impl Place {
    pub(crate) fn of(document: &StateDocument) -> Option<Self> {
        document.position().map(Self::from)
    }

    fn to_position(self) -> Position {
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

    pub(crate) fn last(&self) -> Option<Place> {
        self.rows.keys().next_back().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    fn put(&mut self, place: Place) {
        if let Some(cursor) = self.cursors.insert(place.key, place.cursor) {
            self.rows.remove(&Place { cursor, ..place });
        }
        self.versions += 1;
        self.rows.insert(place, self.versions);
        self.last_cursor = self.last_cursor.max(place.cursor);
    }
}

pub(crate) async fn keep_writing(world: Arc<World>) {
    loop {
        sleep(world.draw_time(Duration::from_secs(6))).await;
        let mut table = world.table();
        let mut cursor = table.last_cursor + 1;
        if world.has(Bug::LateCommits) && world.draw(4) == 0 {
            cursor = (cursor - 3).max(1);
        }
        for _ in 0..=world.draw(6) {
            let key = i64::try_from(world.draw(60)).unwrap();
            let place = Place { cursor, key };
            table.put(place);
            world.note(format_args!("row {place}"));
        }
    }
}

#[derive(Debug)]
pub(crate) struct SimSource {
    pub(crate) world: Arc<World>,
    /// Differs per process; only a planted bug lets it out.
    pub(crate) process: u64,
}

impl SimSource {
    fn page(&self, after: Option<Place>, mut writer: PageWriter) -> ReadPage {
        let world = &self.world;
        let process = match world.has(Bug::IdsPerProcess) {
            true => self.process,
            false => 0,
        };
        let behind = |place: Place| match after {
            Some(after) if world.has(Bug::TiesSkipped) => place.cursor > after.cursor,
            Some(after) => place > after,
            None => true,
        };
        let mut end = true;
        for (place, version) in world.table().rows().filter(|(place, _)| behind(*place)) {
            let short = !writer.is_empty() && world.fault(|odds| odds.source_short_page);
            let Place { cursor, key } = place;
            if short || writer.is_full() {
                end = false;
                break;
            }
            let taken = writer.push(
                Op::Upsert,
                place.to_position(),
                |out| out.extend_from_slice(cursor.to_string().as_bytes()),
                |out| out.extend_from_slice(format!("{{\"id\":{key}}}").as_bytes()),
                |out| {
                    let data = format!("{{\"version\":{version},\"process\":{process}}}");
                    out.extend_from_slice(data.as_bytes());
                },
            );
            if taken == Taken::NoRoom {
                end = false;
                break;
            }
        }
        ReadPage {
            page: writer.finish(),
            end,
            types: types(),
            schema: schema(),
            server: None,
        }
    }

    async fn trouble(&self) -> Result<(), SourceError> {
        let world = &self.world;
        world.travel().await;
        if world.fault(|odds| odds.source_unreachable) {
            return Err(SourceError::Unreachable {
                context: "simulated".to_owned(),
                cause: None,
            });
        }
        if world.fault(|odds| odds.source_breaks) {
            return Err(SourceError::Query {
                context: "simulated".to_owned(),
                cause: "reset in the middle of a result".into(),
            });
        }
        if world.fault(|odds| odds.source_hangs) {
            sleep(world.draw_time(Duration::from_secs(90))).await;
        }
        Ok(())
    }
}

fn types() -> Types {
    Arc::new([("version".to_owned(), "integer".to_owned())])
}

fn schema() -> Arc<Schema> {
    let column = |name: &str| (name.to_owned(), "integer".to_owned());
    let (cursor, key) = (["cursor".to_owned()], ["id".to_owned()]);
    Arc::new(Schema::new(
        ["version", "cursor", "id"].map(column),
        &cursor,
        &key,
    ))
}

#[async_trait]
impl Source for SimSource {
    async fn read(
        &self,
        after: Option<&Position>,
        writer: PageWriter,
        _max_wait: Duration,
    ) -> Result<ReadPage, SourceError> {
        self.trouble().await?;
        let page = self.page(after.map(Place::from), writer);
        self.world.travel().await;
        Ok(page)
    }

    async fn last(&self, _: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        self.trouble().await?;
        let last = self.world.table().last();
        Ok(last.map(|place| place.to_position()))
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        unreachable!("a tick does not describe")
    }
}
