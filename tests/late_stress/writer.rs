//! One client that writes: transaction after transaction, most of them short, and a note of what was
//! committed and when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use sqlx::Error;
use tokio::time::{Instant, sleep};

use crate::session::{Server, Session, TwoPhase};
use crate::shape::{Drawn, Shape};
use crate::support::dice::Dice;

/// What all writers of a table share.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) shape: Shape,
    /// By body, which no two versions of rows share: when the answer to COMMIT had come.
    committed: Mutex<HashMap<String, Instant>>,
    /// Of rows that may be changed.
    keys: Mutex<Vec<String>>,
}

pub(crate) struct Writer {
    number: u64,
    written: usize,
    table: Arc<Table>,
    session: Session,
    /// That ends what the first one has prepared.
    other: Session,
    dice: Dice,
}

/// What a transaction has done so far.
#[derive(Debug, Default)]
struct Done {
    bodies: Vec<String>,
    inserted: Vec<String>,
    deleted: Vec<String>,
}

impl Table {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape,
            committed: Mutex::default(),
            keys: Mutex::default(),
        }
    }

    pub(crate) fn committed(&self) -> HashMap<String, Instant> {
        self.committed.lock().unwrap().clone()
    }

    fn commit(&self, done: Done) {
        let at = SystemClock.monotonic();
        let bodies = done.bodies.into_iter().map(|body| (body, at));
        self.committed.lock().unwrap().extend(bodies);
        self.keys.lock().unwrap().extend(done.inserted);
    }

    fn undo(&self, done: Done) {
        self.keys.lock().unwrap().extend(done.deleted);
    }
}

impl Writer {
    pub(crate) async fn new(number: u64, table: &Arc<Table>, server: &Server, dice: Dice) -> Self {
        Self {
            number,
            written: 0,
            table: Arc::clone(table),
            session: server.open().await,
            other: server.open().await,
            dice,
        }
    }

    pub(crate) async fn write(mut self, until: Instant) {
        while SystemClock.monotonic() < until {
            self.transaction().await;
            self.pause(200).await;
        }
    }

    async fn transaction(&mut self) {
        let drawn = self.draw().await;
        let lasts = match self.one_in(50) {
            true => 700 + self.dice.below(800),
            false => self.dice.below(41),
        };
        let two_phase = self.one_in(8).then(|| self.session.two_phase());
        let name = format!("{}-{}-{}", self.table.shape.name, self.number, self.written);
        let begin = match two_phase {
            Some(TwoPhase::Xa) => format!("XA START '{name}'"),
            _ => "BEGIN".to_owned(),
        };
        self.run(&begin).await;
        let mut done = Done::default();
        let changed = self.changes(drawn.as_deref(), Duration::from_millis(lasts), &mut done);
        let worked = match changed.await {
            Ok(()) => true,
            // Somebody else has held a row for too long, or waits for ours.
            Err(Error::Database(_)) => false,
            Err(error) => panic!("{error}"),
        };
        let commits = worked && !self.one_in(20);
        match two_phase {
            Some(TwoPhase::Xa) => self.end_distributed(&name, commits).await,
            Some(TwoPhase::Prepare) if worked => self.prepare(&name, commits).await,
            _ if commits => self.run("COMMIT").await,
            _ => self.run("ROLLBACK").await,
        }
        match commits {
            true => self.table.commit(done),
            false => self.table.undo(done),
        }
    }

    /// A cursor, which may be old when it is used.
    async fn draw(&mut self) -> Option<String> {
        let drawn = match self.table.shape.drawn {
            Drawn::Nothing => return None,
            Drawn::FromDatabase(question) => self.session.ask(question).await,
            Drawn::FromOwnClock => SystemClock.now().to_rfc3339(),
        };
        let most = if self.one_in(20) { 1000 } else { 30 };
        self.pause(most).await;
        Some(drawn)
    }

    async fn changes(
        &mut self,
        drawn: Option<&str>,
        lasts: Duration,
        done: &mut Done,
    ) -> Result<(), Error> {
        // A number that was drawn is good for one row.
        let more = match drawn {
            Some(_) => 0,
            None => self.dice.below(3),
        };
        let pause = lasts / u32::try_from(more + 2).unwrap();
        sleep(pause).await;
        // One row that exists at most: locks on two could make a circle.
        let drawn = drawn.unwrap_or_default();
        match self.dice.below(100) {
            0..25 => self.change(drawn, done).await?,
            25..28 => self.delete(done).await?,
            _ => self.insert(drawn, done).await?,
        }
        sleep(pause).await;
        for _ in 0..more {
            match self.dice.below(10) {
                0 => {
                    self.session.run("SAVEPOINT s").await?;
                    self.insert(drawn, &mut Done::default()).await?;
                    self.session.run("ROLLBACK TO SAVEPOINT s").await?;
                }
                1 => {
                    self.session.run("SAVEPOINT s").await?;
                    self.insert(drawn, done).await?;
                    self.session.run("RELEASE SAVEPOINT s").await?;
                }
                _ => self.insert(drawn, done).await?,
            }
            sleep(pause).await;
        }
        Ok(())
    }

    async fn insert(&mut self, drawn: &str, done: &mut Done) -> Result<(), Error> {
        let ways = self.table.shape.inserts;
        let way = ways[self.written % ways.len()];
        let (key, body) = (self.new_key(), self.new_body());
        self.session.run(&filled(way, &key, &body, drawn)).await?;
        done.bodies.push(body);
        done.inserted.push(key);
        Ok(())
    }

    async fn change(&mut self, drawn: &str, done: &mut Done) -> Result<(), Error> {
        let changes = self.table.shape.changes.clone();
        let (Some(changes), Some(key)) = (changes, self.some_key()) else {
            return self.insert(drawn, done).await;
        };
        let body = self.new_body();
        let sql = filled(changes.update, &key, &body, drawn);
        // The row may be gone.
        if self.session.run(&sql).await? > 0 {
            done.bodies.push(body);
        }
        Ok(())
    }

    async fn delete(&mut self, done: &mut Done) -> Result<(), Error> {
        let changes = self.table.shape.changes.clone();
        let (Some(changes), Some(key)) = (changes, self.some_key()) else {
            return Ok(());
        };
        let others = |other: &String| *other != key;
        self.table.keys.lock().unwrap().retain(others);
        done.deleted.push(key.clone());
        let sql = filled(changes.delete, &key, "", "");
        self.session.run(&sql).await.map(drop)
    }

    /// Another session ends it, after a while.
    async fn prepare(&mut self, name: &str, commits: bool) {
        self.run(&format!("PREPARE TRANSACTION '{name}'")).await;
        self.pause(400).await;
        let end = if commits { "COMMIT" } else { "ROLLBACK" };
        let end = format!("{end} PREPARED '{name}'");
        self.other.run(&end).await.unwrap();
    }

    async fn end_distributed(&mut self, name: &str, commits: bool) {
        let ended = self.session.run(&format!("XA END '{name}'")).await;
        if !commits {
            // After a deadlock nothing is left to end, and the rest is asked for all the same.
            self.run(&format!("XA ROLLBACK '{name}'")).await;
            return;
        }
        ended.unwrap();
        self.run(&format!("XA PREPARE '{name}'")).await;
        self.pause(400).await;
        self.run(&format!("XA COMMIT '{name}'")).await;
    }

    /// What cannot fail.
    async fn run(&mut self, sql: &str) {
        let ran = self.session.run(sql).await;
        ran.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn new_body(&mut self) -> String {
        self.written += 1;
        format!("{}-{}", self.number, self.written)
    }

    /// A UUID, of no order.
    fn new_key(&mut self) -> String {
        let mut half = || self.dice.below(u64::MAX);
        let hex = format!("{:016x}{:016x}", half(), half());
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        parts.join("-")
    }

    /// As often one of the last as any other.
    fn some_key(&mut self) -> Option<String> {
        let keys = self.table.keys.lock().unwrap();
        let among = if self.dice.below(2) == 0 {
            20
        } else {
            keys.len()
        };
        let among = among.min(keys.len()) as u64;
        let back = self.dice.below(among.max(1)) as usize;
        keys.iter().rev().nth(back).cloned()
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.dice.below(many) == 0
    }

    async fn pause(&mut self, most: u64) {
        sleep(Duration::from_millis(self.dice.below(most))).await;
    }
}

fn filled(sql: &str, key: &str, body: &str, drawn: &str) -> String {
    sql.replace("{key}", key)
        .replace("{body}", body)
        .replace("{drawn}", drawn)
}
