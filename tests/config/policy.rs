//! Several receivers, whose word counts, and when a row is given up on.

use std::num::NonZeroUsize;

use dbtick::model::policy::{CommitPolicy, PoisonPolicy, Poisoned};
use serde_json::{Value, json};

use crate::{World, poller};

/// Two receivers, of which the second is what `required` says.
fn world(required: bool, changes: Value) -> World {
    let hook = json!({ "name": "hook", "webhook": { "url": "%ORDERS_HOOK%" } });
    let mut audit = json!({ "name": "audit", "webhook": { "url": "%ORDERS_HOOK%" } });
    audit["required"] = json!(required);
    let mut poller = poller(json!({ "deliver": [hook, audit] }));
    for (key, value) in changes.as_object().unwrap() {
        poller[key] = value.clone();
    }
    World::new().poller("orders", &poller)
}

#[test]
fn whose_acknowledgement_counts_is_read_as_it_is_written() {
    let quorum = |n| CommitPolicy::Quorum(NonZeroUsize::new(n).unwrap());
    for (required, changes, expected) in [
        (true, json!({}), CommitPolicy::Required),
        (
            false,
            json!({ "commit": "required" }),
            CommitPolicy::Required,
        ),
        (false, json!({ "commit": "all" }), CommitPolicy::All),
        (false, json!({ "commit": { "quorum": 1 } }), quorum(1)),
        (true, json!({ "commit": { "quorum": 2 } }), quorum(2)),
    ] {
        let app = world(required, changes.clone()).load();
        let found = app.pollers().next().unwrap_or_else(|| panic!("{changes}"));
        assert_eq!(found.commit, expected, "{changes}");
        let sinks: Vec<_> = found
            .deliver
            .iter()
            .map(|it| (&*it.name, it.required))
            .collect();
        assert_eq!(sinks, [("hook", true), ("audit", required)]);
    }
}

#[test]
fn a_policy_for_which_nobody_or_too_many_must_answer_is_refused() {
    let nobody = json!([{ "webhook": { "url": "%ORDERS_HOOK%" }, "required": false }]);
    for (changes, words) in [
        (
            json!({ "deliver": nobody }),
            &["poller.commit: no receiver is required", "\"quorum\": 1"][..],
        ),
        (
            json!({ "commit": { "quorum": 3 } }),
            &["poller.commit.quorum: asks for 3 receivers, and there are 2"],
        ),
        (json!({ "commit": { "quorum": 0 } }), &["poller.commit"]),
        (json!({ "commit": "some" }), &["poller.commit"]),
        (
            json!({ "commit": { "quorum": 1, "of": 2 } }),
            &["poller.commit"],
        ),
        (
            json!({ "poison": { "attempts": 0 } }),
            &["poller.poison.attempts"],
        ),
        (
            json!({ "poison": { "then": "drop" } }),
            &["poller.poison.then"],
        ),
        (json!({ "poison": { "most": 0 } }), &["poller.poison.most"]),
    ] {
        let faults = world(true, changes.clone()).faults();
        assert_eq!(faults.len(), 1, "{changes}: {faults:?}");
        for words in words {
            assert!(faults[0].contains(words), "{changes}: {faults:?}");
        }
    }
    // A quorum of one counts somebody, whoever it is.
    let one = json!({ "deliver": nobody, "commit": { "quorum": 1 } });
    assert_eq!(world(true, one).faults(), [""; 0]);
}

#[test]
fn when_a_row_is_given_up_on_is_read_as_it_is_written() {
    let unless_told = PoisonPolicy::default();
    for (poison, expected) in [
        (json!({}), unless_told),
        (
            json!({ "attempts": 9, "then": "block", "most": 50 }),
            PoisonPolicy {
                attempts: 9,
                then: Poisoned::Block,
                most: 50,
            },
        ),
        (
            json!({ "most": 1 }),
            PoisonPolicy {
                most: 1,
                ..unless_told
            },
        ),
    ] {
        let app = world(true, json!({ "poison": poison.clone() })).load();
        let found = app.pollers().next().unwrap_or_else(|| panic!("{poison}"));
        assert_eq!(found.poison, expected, "{poison}");
    }
}
