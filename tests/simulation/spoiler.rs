//! Somebody deletes, cuts or spoils the state document, notices it, and puts back what was there.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::world::World;

pub(crate) async fn keep_spoiling(world: Arc<World>) {
    loop {
        sleep(world.draw_time(Duration::from_secs(20))).await;
        if !world.rests() && world.fault(|odds| odds.document_spoiled) {
            let spoiled = Spoiled::now(&world);
            sleep(world.draw_time(Duration::from_secs(12))).await;
            drop(spoiled);
        }
    }
}

/// Until it is dropped.
struct Spoiled<'a>(&'a World);

impl<'a> Spoiled<'a> {
    fn now(world: &'a World) -> Self {
        let (kind, chance) = (world.draw(5), world.draw(u64::MAX));
        // A first document that is still to come would come to life after the deletion, and before
        // there is a marker a poller simply begins.
        let part = match world.parts.len() {
            1 => &world.parts[0],
            parts => &world.parts[usize::try_from(world.draw(parts as u64)).unwrap()],
        };
        let settled = world.no_document_may_be_born() && world.documents().is_marked(&part.key);
        world.note(format_args!(
            "the document of {} is spoiled: {kind}",
            part.name
        ));
        world.invariants().summary.spoiled += 1;
        let now = world.now();
        world.documents().spoil(&part.key, now, |body| {
            let at = usize::try_from(chance).unwrap() % body.len();
            match kind {
                0 if settled => None,
                1 => Some(Vec::new()),
                2 => Some(body[..at].to_vec()),
                3 => Some(newer(body)),
                _ => {
                    let mut flipped = body.to_vec();
                    flipped[at] ^= 1;
                    Some(flipped)
                }
            }
        });
        Self(world)
    }
}

fn newer(body: &[u8]) -> Vec<u8> {
    let body = std::str::from_utf8(body).unwrap();
    let newer = body.replacen("\"version\": 1", "\"version\": 2", 1);
    assert_ne!(newer, body);
    newer.into_bytes()
}

impl Drop for Spoiled<'_> {
    fn drop(&mut self) {
        self.0.note(format_args!("the document is put back"));
        let now = self.0.now();
        self.0.documents().put_back(now);
    }
}
