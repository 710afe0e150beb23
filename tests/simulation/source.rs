//! A table that keeps changing while it is read, and what its database shows of writers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dbtick::model::late::{Bound, Highest, Sight, Survey, Witness};
use dbtick::model::page::{Op, PageWriter, Taken};
use dbtick::model::position::{Position, Scalar};
use dbtick::model::schema::Schema;
use dbtick::source::{Description, Located, ReadPage, Source, SourceError, Types};
use tokio::time::sleep;

use super::backfill::Hand;
use super::faults::{Bug, Read};
use super::table::{HIDDEN_FOR, Lateness, Place};
use super::world::World;

#[derive(Debug)]
pub(crate) struct SimSource {
    pub(crate) world: Arc<World>,
    pub(crate) hand: Hand,
    /// Differs per process; only a planted bug lets it out.
    pub(crate) process: u64,
}

impl SimSource {
    fn page(&self, wanted: impl Fn(Place) -> bool, mut writer: PageWriter) -> ReadPage {
        let world = &self.world;
        let process = match world.has(Bug::IdsPerProcess) {
            true => self.process,
            false => 0,
        };
        let mut end = true;
        for (place, version) in world.table().rows().filter(|(place, _)| wanted(*place)) {
            if self.leaves_out(place) {
                continue;
            }
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
            survey: Survey::default(),
        }
    }

    fn leaves_out(&self, place: Place) -> bool {
        let world = &self.world;
        let has_gaps = world.layout.filling.is_some_and(|it| it.has_gaps);
        let gap = has_gaps && self.hand == Hand::Range && world.fault(|_| 300);
        let blind = world.has(Bug::ReconciledBlindly) && self.hand != Hand::Poller;
        gap || blind && place.key % 3 == 0
    }

    /// Before the page, as a statement of its own.
    fn survey(&self, after: Option<Place>) -> Survey {
        let world = &self.world;
        if world.layout.lateness != Lateness::Rows || world.has(Bug::RowsInFlightIgnored) {
            return Survey::default();
        }
        let mut places = world.table().in_flight();
        places.retain(|place| Some(*place) > after);
        let up_to = match places.len() > 5 {
            true => Some(places[4].to_position()),
            false => None,
        };
        places.truncate(5);
        Survey {
            made: true,
            in_flight: places.into_iter().map(Place::to_position).collect(),
            up_to,
        }
    }

    fn bound(&self, sight: Sight) -> Sight {
        let table = self.world.table();
        let visible = || Highest::Visible(table.last().map(Place::to_position));
        let (highest, below) = match self.world.layout.lateness {
            Lateness::Writers => {
                let next = i128::from(table.last_drawn()) + 1;
                (Highest::Any, Some(vec![Scalar::Integer(next)]))
            }
            _ => (visible(), None),
        };
        Sight {
            now: Some(self.world.now()),
            bound: Bound { highest, below },
            ..sight
        }
    }

    fn evidence(&self, sight: Sight, known: &BTreeSet<Witness>) -> Sight {
        let world = &self.world;
        let table = world.table();
        let window = match world.has(Bug::WindowTooShort) {
            true => HIDDEN_FOR / 8,
            false => HIDDEN_FOR,
        };
        match world.layout.lateness {
            Lateness::InOrder => sight,
            Lateness::Writers => {
                let (writers, disguised) = table.writers();
                Sight {
                    writers: writers.into_iter().collect(),
                    disguised: match world.has(Bug::PreparedForgotten) {
                        true => BTreeSet::new(),
                        false => disguised.into_iter().collect(),
                    },
                    ..sight
                }
            }
            Lateness::Rows => {
                let flying = table.in_flight().into_iter();
                let flying: BTreeSet<_> = flying
                    .map(|place| Witness::row(&place.to_position()))
                    .collect();
                Sight {
                    rows_in_flight: flying.intersection(known).cloned().collect(),
                    surveys: !world.has(Bug::RowsInFlightIgnored),
                    window: Some(window),
                    ..sight
                }
            }
            Lateness::Window => Sight {
                window: Some(window),
                ..sight
            },
        }
    }

    fn behind(&self, after: Option<&Position>) -> Vec<Place> {
        let after = after.map(Place::from);
        let table = self.world.table();
        let places = table.rows().map(|(place, _)| place);
        places.filter(|place| Some(*place) > after).collect()
    }

    async fn trouble(&self) -> Result<(), SourceError> {
        let world = &self.world;
        world.travel().await;
        match world.fate_of_a_read() {
            None => Ok(()),
            Some(Read::Hangs) => {
                sleep(world.draw_time(Duration::from_secs(90))).await;
                Ok(())
            }
            Some(Read::Unreachable) => Err(SourceError::Unreachable {
                context: "simulated".to_owned(),
                cause: None,
            }),
            Some(Read::Breaks) => Err(SourceError::Query {
                context: "simulated".to_owned(),
                cause: "reset in the middle of a result".into(),
            }),
        }
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
        let after = after.map(Place::from);
        let survey = self.survey(after);
        self.world.travel().await;
        let behind = |place: Place| match after {
            Some(after) if self.world.has(Bug::TiesSkipped) => place.cursor > after.cursor,
            Some(after) => place > after,
            None => true,
        };
        let page = self.page(behind, writer);
        self.world.travel().await;
        Ok(ReadPage { survey, ..page })
    }

    async fn find(&self, at: &Position, writer: PageWriter) -> Result<ReadPage, SourceError> {
        self.trouble().await?;
        let at = Place::from(at);
        let found = self.page(|place| place == at, writer);
        self.world.travel().await;
        Ok(found)
    }

    async fn look(&self, known: &BTreeSet<Witness>) -> Result<Sight, SourceError> {
        let world = &self.world;
        if world.layout.lateness == Lateness::InOrder || world.has(Bug::LateCommits) {
            return Ok(Sight::default());
        }
        self.trouble().await?;
        let sight = match world.has(Bug::EvidenceBeforeBound) {
            true => {
                let sight = self.evidence(Sight::default(), known);
                sleep(world.draw_time(Duration::from_secs(10))).await;
                self.bound(sight)
            }
            false => {
                let sight = self.bound(Sight::default());
                world.travel().await;
                self.evidence(sight, known)
            }
        };
        world.travel().await;
        Ok(sight)
    }

    async fn last(&self, below: Option<&Scalar>) -> Result<Option<Position>, SourceError> {
        self.trouble().await?;
        let table = self.world.table();
        let before = |place: &Place| match below {
            Some(Scalar::Integer(below)) => i128::from(place.cursor) < *below,
            _ => true,
        };
        let last = table.rows().map(|(place, _)| place).filter(before).last();
        Ok(last.map(Place::to_position))
    }

    async fn count(
        &self,
        after: Option<&Position>,
        up_to: Option<&Position>,
        most: u64,
    ) -> Result<u64, SourceError> {
        self.trouble().await?;
        let places = self.behind(after);
        let up_to = up_to.map(Place::from);
        let within = places
            .iter()
            .filter(|place| up_to.is_none_or(|up_to| **place <= up_to));
        Ok(most.min(within.count() as u64))
    }

    async fn ahead(
        &self,
        after: Option<&Position>,
        rows: u64,
    ) -> Result<Option<Position>, SourceError> {
        self.trouble().await?;
        let places = self.behind(after);
        let ahead = places.get(usize::try_from(rows - 1).unwrap());
        Ok(ahead.copied().map(Place::to_position))
    }

    async fn locate(&self, _: &[String], _: PageWriter) -> Result<Vec<Located>, SourceError> {
        unreachable!("a tick does not locate")
    }

    async fn describe(&self) -> Result<Description, SourceError> {
        unreachable!("a tick does not describe")
    }
}
