//! Who writes: one after the other in the order of the cursor, or several at once in transactions that
//! overlap, take their time, roll back, and go on under another name.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::instance::TICK;
use super::table::{HIDDEN_FOR, Lateness, Place};
use super::world::World;

const WRITERS: u64 = 3;
const KEYS: u64 = 25;

/// Until it is dropped; what is in flight then is rolled back.
pub(crate) async fn keep_writing(world: Arc<World>) {
    if world.layout.lateness == Lateness::InOrder {
        return write_in_order(world).await;
    }
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        writers.spawn(transact(world.clone(), number));
    }
    writers.join_all().await;
}

async fn write_in_order(world: Arc<World>) {
    loop {
        sleep(world.draw_time(Duration::from_secs(6))).await;
        if world.rests() {
            continue;
        }
        if !world.may_write() {
            return;
        }
        let mut table = world.table();
        let cursor = table.last_drawn() + 1;
        for _ in 0..=world.draw(6) {
            let key = i64::try_from(world.draw(60)).unwrap();
            let place = Place { cursor, key };
            table.put(place);
            world.note(format_args!("row {place}"));
        }
    }
}

/// A bad row that is alone waits for a neighbour that shows whose fault it is.
pub(crate) async fn keep_good_rows_coming(world: Arc<World>) {
    for key in 1000.. {
        sleep(TICK).await;
        if !world.bad_rows_wait() {
            return;
        }
        let mut table = world.table();
        let cursor = table.last_drawn() + 1;
        table.put(Place { cursor, key });
    }
}

async fn transact(world: Arc<World>, writer: u64) {
    loop {
        sleep(world.draw_time(Duration::from_secs(8))).await;
        if world.rests() {
            continue;
        }
        if !world.may_write() {
            return;
        }
        one_transaction(&world, writer).await;
    }
}

async fn one_transaction(world: &World, writer: u64) {
    let lateness = world.layout.lateness;
    let most = match (lateness, world.draw(6)) {
        (Lateness::Window, _) => HIDDEN_FOR,
        (_, 0) => Duration::from_secs(25),
        _ => Duration::from_secs(3),
    };
    let open = Open {
        world,
        number: world.table().begin(lateness == Lateness::Rows),
    };
    let number = open.number;
    for _ in 0..=world.draw(2) {
        let keys: Vec<_> = (0..=world.draw(3))
            .map(|_| i64::try_from(writer * KEYS + world.draw(KEYS)).unwrap())
            .collect();
        world.note(format_args!("transaction {number} writes {keys:?}"));
        world.table().write(number, keys);
        if lateness != Lateness::Writers {
            break;
        }
        sleep(world.draw_time(most / 3)).await;
    }
    if lateness == Lateness::Rows {
        sleep(world.draw_time(HIDDEN_FOR)).await;
        world.table().show(number);
    }
    sleep(world.draw_time(most / 2)).await;
    if lateness == Lateness::Writers && world.draw(4) == 0 {
        world.table().prepare(number);
        sleep(world.draw_time(most / 2)).await;
    }
    match world.draw(8) {
        0 => world.note(format_args!("transaction {number} rolls back")),
        _ => open.commit(),
    }
}

/// A transaction whose writer is gone is rolled back.
struct Open<'a> {
    world: &'a World,
    number: u64,
}

impl Open<'_> {
    fn commit(self) {
        let places: Vec<Place> = self.world.table().commit(self.number);
        let places: Vec<_> = places.iter().map(ToString::to_string).collect();
        self.world.note(format_args!(
            "transaction {} commits {places:?}",
            self.number
        ));
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.world.table().roll_back(self.number);
    }
}
