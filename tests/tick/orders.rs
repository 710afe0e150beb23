//! C6, C7, C8, G1, G2: what a person orders happens once, or not at all and says so.

use dbtick::model::state::CursorMark;
use dbtick::model::transitions::{Operator, Order};
use dbtick::tick::operate::{Count, Found, OperateError, Operated, Otherwise};
use dbtick::tick::report::{Outcome, TickError};

use super::world::{Fault, Reply, World, done, place};
use super::world::{marker_key, state_key};

fn operator() -> Operator {
    Operator {
        who: "ada@ship".to_owned(),
        why: "a test".to_owned(),
        id: "one order".to_owned(),
    }
}

async fn reset(world: &World, to: i64, otherwise: Otherwise) -> Result<Operated, OperateError> {
    let poller = world.poller("operator");
    let mark = CursorMark::new(place(to, to), &poller.key_columns);
    let order = |evidence| Order::Reset {
        to: (to > 0).then(|| mark.clone()),
        source: poller.identity(),
        evidence,
    };
    poller.operate(&operator(), otherwise, order).await
}

#[tokio::test(start_paused = true)]
async fn an_order_whose_answer_was_lost_happens_once() {
    for fault in [
        Fault::AnswerLost,
        Fault::RequestLost,
        Fault::Unreachable,
        Fault::Delayed,
    ] {
        let world = World::with_rows(6);
        world.tick().await;
        world.store.on_write(1, fault);
        let operated = reset(&world, 2, Otherwise::Refuse).await.unwrap();
        world.store.land().await;
        let document = world.document();
        assert_eq!(world.checkpoint(), 2);
        assert_eq!(document.audit.len(), 1, "audited once");
        assert_eq!(document.version(), Some(3), "two commits and one order");
        assert_eq!(operated.undo(), Some(2));
        assert!(!operated.already);
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_that_a_tick_overtook_is_not_given_again() {
    let world = World::with_rows(6);
    world.tick().await;
    let first = reset(&world, 2, Otherwise::Refuse).await.unwrap();
    assert_eq!(first.document.audit.len(), 1);
    assert_eq!(done(world.tick().await), Outcome::Drained);
    let again = reset(&world, 2, Otherwise::Refuse).await.unwrap();
    assert_eq!(world.checkpoint(), 6, "it is not moved back a second time");
    assert_eq!(again.undo(), Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_order_that_loses_its_race_is_made_from_what_stands_there_now() {
    let world = World::with_rows(4);
    world.tick().await;
    world.insert([5, 6]);
    world.store.on_write(1, world.rival_tick());
    let operated = reset(&world, 1, Otherwise::Refuse).await.unwrap();
    assert_eq!(world.checkpoint(), 1);
    let undo = operated.document.kept(operated.undo().unwrap()).unwrap();
    assert_eq!(undo.cursor.as_ref().unwrap().position, place(6, 6));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_ordered_while_a_tick_holds_the_lease() {
    let world = World::with_rows(2);
    world.hook().will([Reply::Never]);
    let working = tokio::time::timeout(super::SECOND, world.tick());
    assert!(working.await.is_err());
    let before = world.document();
    let refused = reset(&world, 0, Otherwise::Replace).await.unwrap_err();
    assert!(matches!(refused, OperateError::Held { .. }), "{refused}");
    assert_eq!(world.document(), before);
    assert!(world.poller("x").held_by_another().await.unwrap().is_some());

    tokio::time::sleep(super::TTL + super::MARGIN).await;
    assert!(world.poller("x").held_by_another().await.unwrap().is_none());
    reset(&world, 0, Otherwise::Refuse).await.unwrap();
    assert_eq!(done(world.tick().await), Outcome::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_is_reported_and_not_guessed() {
    let world = World::with_rows(2);
    world.tick().await;
    for n in 1..=8 {
        world.store.on_write(n, Fault::RequestLost);
    }
    let error = reset(&world, 0, Otherwise::Refuse).await.unwrap_err();
    assert!(
        matches!(error, OperateError::Tick(TickError::Store(_))),
        "{error}"
    );
    assert_eq!(world.checkpoint(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_document_that_is_gone_begins_again_only_by_an_order() {
    let world = World::with_rows(4);
    world.tick().await;
    world.store.remove(&state_key()).await;
    let refused = reset(&world, 0, Otherwise::Refuse).await.unwrap_err();
    assert!(refused.to_string().contains("dbtick state import orders"));
    // The first write is the marker.
    world.store.on_write(2, Fault::AnswerLost);
    let operated = reset(&world, 2, Otherwise::Begin).await.unwrap();
    assert!(
        operated.document.lease.token.get() > 1_000_000,
        "receivers may remember the tokens of the lost document"
    );
    assert!(world.store.body(&marker_key()).is_some());
    assert_eq!(done(world.tick().await), Outcome::Drained);
    assert_eq!(world.hook().rows(), [1, 2, 3, 4, 3, 4]);
}

/// Somebody may have deleted it between its first write and its marker, and its holder goes on.
#[tokio::test(start_paused = true)]
async fn a_document_that_an_order_makes_begins_beyond_every_token() {
    let world = World::with_rows(2);
    let operated = reset(&world, 0, Otherwise::Begin).await.unwrap();
    assert!(operated.document.lease.token.get() > 1_000_000);
    assert_eq!(done(world.tick().await), Outcome::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_refused_document_is_replaced_only_when_told_and_its_bytes_are_kept() {
    // The copy, the marker, the document.
    let faults = [1, 3].map(|write| [(write, Fault::AnswerLost), (write, Fault::RequestLost)]);
    for (write, fault) in faults.into_iter().flatten() {
        let world = World::with_rows(2);
        world.tick().await;
        let bad = "{ \"version\": 1, \"torn";
        world.store.put(&state_key(), bad.into()).await;
        for otherwise in [Otherwise::Refuse, Otherwise::Begin] {
            let refused = reset(&world, 0, otherwise).await.unwrap_err();
            assert!(
                refused.to_string().contains("--discard-corrupt"),
                "{refused}"
            );
            assert_eq!(world.store.body(&state_key()).unwrap(), bad);
        }
        let found = world.poller("x").found().await.unwrap();
        assert!(matches!(found, Found::Refused { .. }));
        world.store.on_write(write, fault);
        let operated = reset(&world, 0, Otherwise::Replace).await.unwrap();
        let aside = operated.aside.unwrap();
        assert_eq!(world.store.body(&aside).unwrap(), bad);
        let keys = world.store.keys().await;
        assert_eq!(keys.len(), 3, "one copy: {keys:?}");
        assert_eq!(done(world.tick().await), Outcome::Drained);
    }
}

#[tokio::test(start_paused = true)]
async fn rows_are_counted_between_two_places() {
    let world = World::with_rows(7);
    let poller = world.poller("x");
    let (two, five) = (place(2, 2), place(5, 5));
    for (after, up_to, expected) in [
        (None, None, 7),
        (None, Some(&five), 5),
        (Some(&two), Some(&five), 3),
        (Some(&five), None, 2),
        (Some(&five), Some(&five), 0),
    ] {
        let counted = poller.count(after, up_to).await.unwrap();
        assert_eq!(counted, Count::Exactly(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn a_clone_is_created_once_and_never_over_another() {
    for fault in [Fault::AnswerLost, Fault::RequestLost, Fault::Unreachable] {
        let world = World::with_rows(4);
        world.tick().await;
        let document = dbtick::model::transitions::orders::clone_as(
            &world.document(),
            "copy",
            None,
            &operator(),
            dbtick::clock::Clock::now(&*world.clock),
        );
        let mut copy = world.poller("x");
        copy.name = "copy".to_owned();
        copy.state_key = dbtick::store::StoreKey::state("shop", "copy").unwrap();
        copy.birth_marker = dbtick::store::StoreKey::birth_marker("shop", "copy").unwrap();
        world.store.on_write(1, fault);
        assert!(copy.begin_with(&document).await.unwrap());
        assert!(world.store.body(&copy.birth_marker).is_some());
        let mut another = document.clone();
        another.audit[0].id = Some("another order".to_owned());
        assert!(!copy.begin_with(&another).await.unwrap());
    }
}
