//! Clients that write, each with transactions of every kind: one row, several, held open while later ones
//! commit, rolled back, many rows at one moment, changes of rows, and a few rows that are poison.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use sqlx::Error;
use tokio::time::{Instant, sleep};

use super::database::{Database, Session};
use super::faults::between;
use super::log::{Fate, Log, Version};
use super::support::dice::Dice;
use super::tables::Table;

/// For each table.
pub(crate) const WRITERS: u64 = 3;
/// Of a writer; few enough not to be taken for the receiver's fault. The first comes soon.
const ROWS_PER_POISON: u64 = 300;
const FIRST_POISON: u64 = 8;
/// Of a table, that are changed again.
const MOST_KNOWN: usize = 60;

const NOTES: [Option<&str>; 6] = [
    None,
    Some(""),
    Some("it's \"quoted\", with a \\ in it"),
    Some("a line\nand another\tone\r\n"),
    Some("żółw 🐢 漢字 \u{2028}</script>"),
    Some("%s {} $1 :name ? -- '; DROP TABLE"),
];

pub(crate) struct Writer {
    number: u64,
    written: u64,
    table: Arc<Table>,
    database: Arc<Database>,
    log: Arc<Log>,
    dice: Dice,
    session: Option<Session>,
    known: Known,
    writing: Arc<AtomicBool>,
    /// It writes no poison.
    good: bool,
}

/// Names of rows that were inserted lately, by all writers of a table: they wait for each other's locks.
pub(crate) type Known = Arc<Mutex<Vec<String>>>;

/// What is sent as one transaction.
#[derive(Debug, Clone, Copy)]
struct Shape {
    inserts: u64,
    changes: u64,
    /// Between its first row and its end.
    held: Duration,
    ends: End,
}

#[derive(Debug, Clone, Copy)]
enum End {
    /// One statement, without a transaction of its own.
    Automatic,
    Commit,
    Rollback,
}

impl Writer {
    pub(crate) fn new(
        number: u64,
        table: &Arc<Table>,
        database: &Arc<Database>,
        log: &Arc<Log>,
        known: &Known,
        dice: Dice,
    ) -> Self {
        Self {
            number,
            written: 0,
            table: Arc::clone(table),
            database: Arc::clone(database),
            log: Arc::clone(log),
            dice,
            session: None,
            known: Arc::clone(known),
            writing: Arc::default(),
            good: false,
        }
    }

    pub(crate) async fn write(mut self, writing: Arc<AtomicBool>) {
        self.writing = writing;
        while self.writing.load(Ordering::Relaxed) {
            let shape = self.shape();
            self.transaction(shape).await;
            sleep(between(&mut self.dice, 10..500)).await;
        }
    }

    /// A row that is taken, so that it can be told who is to blame for one that is not.
    pub(crate) async fn one_good_row(&mut self) {
        let shape = Shape {
            inserts: 1,
            changes: 0,
            held: Duration::ZERO,
            ends: End::Automatic,
        };
        self.good = true;
        self.transaction(shape).await;
    }

    fn shape(&mut self) -> Shape {
        let one = Shape {
            inserts: 1,
            changes: 0,
            held: Duration::ZERO,
            ends: End::Automatic,
        };
        let several = Shape {
            inserts: 1 + self.dice.below(4),
            ends: End::Commit,
            held: between(&mut self.dice, 0..40),
            ..one
        };
        match self.dice.below(100) {
            0..45 => one,
            45..60 => several,
            60..72 => Shape {
                held: between(&mut self.dice, 200..3_000),
                ..several
            },
            // What is delivered meanwhile is more than a document holds.
            72 if self.dice.below(5) == 0 => Shape {
                held: between(&mut self.dice, 15_000..40_000),
                ..several
            },
            72 => Shape {
                held: between(&mut self.dice, 4_000..10_000),
                ..several
            },
            73..80 => Shape {
                ends: End::Rollback,
                ..several
            },
            80..84 => Shape {
                inserts: 20 + self.dice.below(50),
                ..several
            },
            _ if self.table.changes => Shape {
                inserts: self.dice.below(2),
                changes: 1 + self.dice.below(3),
                ..several
            },
            _ => one,
        }
    }

    async fn transaction(&mut self, shape: Shape) {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.database.open_at_last().await,
        };
        let mut done = Done {
            began: SystemClock.monotonic(),
            labels: Vec::new(),
            inserted: Vec::new(),
        };
        let result = self.run(&mut session, shape, &mut done).await;
        let fate = match (&result, shape.ends) {
            (Ok(()), End::Rollback) => Fate::RolledBack,
            (Ok(()), _) => Fate::Committed(SystemClock.monotonic()),
            (Err(Failed::Before(_)), End::Commit | End::Rollback) => Fate::RolledBack,
            // The server has said what it does not like: nothing was done.
            (Err(Failed::Before(Error::Database(_))), End::Automatic) => Fate::RolledBack,
            (Err(_), _) => Fate::Unknown,
        };
        self.log.ended(&done.labels, fate);
        if let Fate::Committed(_) = fate {
            let mut known = self.known.lock().unwrap();
            known.extend(done.inserted);
            let old = known.len().saturating_sub(MOST_KNOWN);
            known.drain(..old);
        }
        if result.is_ok() {
            self.session = Some(session);
        }
    }

    async fn run(
        &mut self,
        session: &mut Session,
        shape: Shape,
        done: &mut Done,
    ) -> Result<(), Failed> {
        if !matches!(shape.ends, End::Automatic) {
            session.run("BEGIN").await.map_err(Failed::Before)?;
        }
        for at in 0..shape.inserts + shape.changes {
            let known = self.some_row().filter(|_| at < shape.changes);
            let (version, sql) = match known {
                Some(name) => {
                    let label = self.new_label();
                    let version = self.version(name, label, false, done.began);
                    let sql = update(session, &version);
                    (version, sql)
                }
                None => {
                    let version = self.inserted(done);
                    let sql = insert(session, &version);
                    (version, sql)
                }
            };
            done.labels.push(version.label.clone());
            self.log.begins(version);
            session.run(&sql).await.map_err(Failed::Before)?;
            if at == 0 {
                self.hold(shape.held).await;
            }
        }
        match shape.ends {
            End::Automatic => Ok(()),
            End::Commit => session
                .run("COMMIT")
                .await
                .map(drop)
                .map_err(|_| Failed::AtCommit),
            End::Rollback => session
                .run("ROLLBACK")
                .await
                .map(drop)
                .map_err(Failed::Before),
        }
    }

    /// A transaction stays open for so long, or until writing ends.
    async fn hold(&self, held: Duration) {
        let until = SystemClock.monotonic() + held;
        while SystemClock.monotonic() < until {
            let left = until - SystemClock.monotonic();
            sleep(left.min(Duration::from_millis(200))).await;
            if !self.writing.load(Ordering::Relaxed) {
                return;
            }
        }
    }

    fn inserted(&mut self, done: &mut Done) -> Version {
        let label = self.new_label();
        let poison = !self.good && self.written % ROWS_PER_POISON == FIRST_POISON;
        // Names have no order.
        let name = format!("{:08x}-{label}", self.dice.below(1 << 32));
        done.inserted.push(name.clone());
        self.version(name, label, poison, done.began)
    }

    fn some_row(&mut self) -> Option<String> {
        let known = self.known.lock().unwrap();
        let at = self.dice.below(known.len().max(1) as u64) as usize;
        known.get(at).cloned()
    }

    fn version(&mut self, name: String, label: String, poison: bool, began: Instant) -> Version {
        let amount = self.dice.below(1_000_000);
        let note = NOTES[self.dice.below(NOTES.len() as u64) as usize];
        Version {
            table: self.table.name,
            name,
            label,
            amount: format!("{}.{:02}", amount / 100, amount % 100),
            note: note.map(str::to_owned),
            poison,
            began,
            fate: Fate::Open,
        }
    }

    fn new_label(&mut self) -> String {
        self.written += 1;
        format!("{}-{}-{}", self.table.name, self.number, self.written)
    }
}

fn insert(session: &Session, version: &Version) -> String {
    let Version {
        table,
        name,
        label,
        amount,
        poison,
        ..
    } = version;
    let note = note(session, version);
    format!(
        "INSERT INTO {table} (name, label, amount, note, poison) VALUES ('{name}', '{label}', {amount}, {note}, {poison})"
    )
}

fn update(session: &Session, version: &Version) -> String {
    let Version {
        table,
        name,
        label,
        amount,
        poison,
        ..
    } = version;
    let note = note(session, version);
    format!(
        "UPDATE {table} SET label = '{label}', amount = {amount}, note = {note}, poison = {poison} WHERE name = '{name}'"
    )
}

fn note(session: &Session, version: &Version) -> String {
    let note = version.note.as_ref();
    note.map_or_else(|| "NULL".to_owned(), |note| session.quoted(note))
}

struct Done {
    began: Instant,
    labels: Vec<String>,
    inserted: Vec<String>,
}

enum Failed {
    /// Before anything could be committed, except by a statement that commits by itself.
    Before(Error),
    AtCommit,
}
