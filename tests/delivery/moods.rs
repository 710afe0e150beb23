//! A receiver that misbehaves by a schedule and by row, and knows what it has durably taken.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::dice::Dice;
use crate::support::receiver::{Answer, Delivery, Receiver};

/// Longer than any sender waits here.
const LATE: Duration = Duration::from_millis(800);
const SLOW: Duration = Duration::from_millis(30);

/// What a receiver does to whatever comes, for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Slow,
    /// 500, before it has taken anything.
    Fails,
    /// 500, after it has taken everything.
    FailsLate,
    /// 429, with a second to wait.
    Busy,
    TooLarge,
    Gone,
    /// It names some that it would take another time; each at most once.
    NamesSome,
    /// Before it has taken anything, or after.
    HangsUp {
        taken: bool,
    },
    /// It has taken all, and says so when nobody listens any more.
    Late,
    /// 200, with what is no answer to anything.
    Garbage,
    /// 200, with what tries to be an answer and is none.
    Nonsense,
    Endless,
    /// It might become a list of rows that were not taken.
    EndlessJson,
}

impl Trouble {
    pub(crate) const ALL: [Self; 14] = [
        Self::Slow,
        Self::Fails,
        Self::FailsLate,
        Self::Busy,
        Self::TooLarge,
        Self::Gone,
        Self::NamesSome,
        Self::HangsUp { taken: false },
        Self::HangsUp { taken: true },
        Self::Late,
        Self::Garbage,
        Self::Nonsense,
        Self::Endless,
        Self::EndlessJson,
    ];
}

/// How a row shows that it is bad.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Badness {
    /// 422 to every batch that holds it.
    Rejected,
    /// The receiver breaks at it.
    Breaks,
    /// It is named, and others are taken.
    Named,
    /// The same, once for all.
    NamedForGood,
}

impl Badness {
    pub(crate) const ALL: [Self; 4] = [
        Self::Rejected,
        Self::Breaks,
        Self::Named,
        Self::NamedForGood,
    ];
}

#[derive(Clone)]
pub(crate) struct Moody(Arc<Mutex<Mind>>);

struct Mind {
    dice: Dice,
    trouble: Option<(Trouble, u64)>,
    met: bool,
    bad: BTreeMap<i64, Badness>,
    named: BTreeSet<i64>,
    taken: BTreeMap<i64, Vec<Value>>,
    most_rows: usize,
}

impl Moody {
    pub(crate) fn take_over(receiver: &Receiver, dice: Dice, bad: BTreeMap<i64, Badness>) -> Self {
        let mind = Mind {
            dice,
            trouble: None,
            met: false,
            bad,
            named: BTreeSet::new(),
            taken: BTreeMap::new(),
            most_rows: usize::MAX,
        };
        let moody = Self(Arc::new(Mutex::new(mind)));
        let this = moody.clone();
        receiver.answer(move |_, delivery| this.answer(delivery));
        moody
    }

    pub(crate) fn answer(&self, delivery: &Delivery) -> Answer {
        self.0.lock().unwrap().answer(delivery)
    }

    /// From now on, for so many deliveries.
    pub(crate) fn is_in_trouble(&self, trouble: Trouble, deliveries: u64) {
        let mut mind = self.0.lock().unwrap();
        mind.trouble = Some((trouble, deliveries));
        mind.met = false;
    }

    /// Whether anybody has noticed.
    pub(crate) fn has_been_in_trouble(&self) -> bool {
        self.0.lock().unwrap().met
    }

    pub(crate) fn is_well(&self) {
        self.0.lock().unwrap().trouble = None;
    }

    /// Batches of more rows are too large, whatever the mood.
    pub(crate) fn takes_at_most(&self, rows: usize) {
        self.0.lock().unwrap().most_rows = rows;
    }

    /// What it has durably, by row: each time, the whole event.
    pub(crate) fn taken(&self) -> BTreeMap<i64, Vec<Value>> {
        self.0.lock().unwrap().taken.clone()
    }
}

fn row(event: &Value) -> i64 {
    event["key"]["id"].as_i64().unwrap()
}

fn say(status: u16) -> Answer {
    Answer::Say(status, None, String::new())
}

impl Mind {
    fn answer(&mut self, delivery: &Delivery) -> Answer {
        let events = delivery.body["events"].as_array().unwrap();
        if events.len() > self.most_rows {
            return say(413);
        }
        let trouble = match &mut self.trouble {
            Some((trouble, left @ 1..)) => {
                *left -= 1;
                self.met = true;
                Some(*trouble)
            }
            _ => None,
        };
        match trouble {
            None => self.judge(events, Vec::new()),
            Some(trouble) => self.misbehave(trouble, events),
        }
    }

    fn misbehave(&mut self, trouble: Trouble, events: &[Value]) -> Answer {
        match trouble {
            Trouble::Slow => match self.judge(events, Vec::new()) {
                Answer::Ok => Answer::After(SLOW),
                other => other,
            },
            Trouble::Fails => say(500),
            Trouble::Busy => Answer::Say(429, Some(("retry-after", "1".to_owned())), String::new()),
            Trouble::Gone => say(410),
            // One row alone that is too large is a bad one.
            Trouble::TooLarge if events.len() > 1 => say(413),
            Trouble::TooLarge => self.judge(events, Vec::new()),
            Trouble::NamesSome => {
                let some: Vec<i64> = events
                    .iter()
                    .map(row)
                    .filter(|row| self.dice.below(4) == 0 && self.named.insert(*row))
                    .collect();
                self.judge(events, some)
            }
            Trouble::HangsUp { taken: false } => Answer::Cut("{\"taken"),
            // Whoever lets bad rows pass by accident would have taken them.
            _ if self.has_bad(events) => self.judge(events, Vec::new()),
            Trouble::FailsLate => self.take(events, say(500)),
            Trouble::HangsUp { taken: true } => self.take(events, Answer::Cut("{\"taken")),
            Trouble::Late => self.take(events, Answer::After(LATE)),
            Trouble::Garbage => {
                let garbage = Answer::Say(200, None, "<p>\u{1}It works!\u{0}".to_owned());
                self.take(events, garbage)
            }
            Trouble::Nonsense => {
                let nonsense = Answer::Say(200, None, r#"{"failed": "some"}"#.to_owned());
                self.take(events, nonsense)
            }
            Trouble::Endless => self.take(events, Answer::Endless("and so on ")),
            Trouble::EndlessJson => self.take(events, Answer::Endless("{\"a\": ")),
        }
    }

    fn has_bad(&self, events: &[Value]) -> bool {
        events
            .iter()
            .any(|event| self.bad.contains_key(&row(event)))
    }

    /// By the rows; `later`: good ones that it does not take this time.
    fn judge(&mut self, events: &[Value], later: Vec<i64>) -> Answer {
        let bad: BTreeMap<i64, Badness> = events
            .iter()
            .filter_map(|event| self.bad.get_key_value(&row(event)))
            .map(|(row, badness)| (*row, *badness))
            .collect();
        if bad.values().any(|bad| matches!(bad, Badness::Rejected)) {
            return say(422);
        }
        if bad.values().any(|bad| matches!(bad, Badness::Breaks)) {
            return say(500);
        }
        if bad.is_empty() && later.is_empty() {
            return self.take(events, Answer::Ok);
        }
        let is_named =
            |event: &&Value| bad.contains_key(&row(event)) || later.contains(&row(event));
        let (named, good): (Vec<&Value>, Vec<&Value>) = events.iter().partition(is_named);
        let failed: Vec<Value> = named
            .into_iter()
            .map(|event| {
                let for_good = matches!(bad.get(&row(event)), Some(Badness::NamedForGood));
                json!({ "id": event["id"], "reason": "not this one", "retry": !for_good })
            })
            .collect();
        let body = json!({ "failed": failed }).to_string();
        for event in good {
            self.keep(event);
        }
        Answer::Say(200, None, body)
    }

    fn take(&mut self, events: &[Value], answer: Answer) -> Answer {
        events.iter().for_each(|event| self.keep(event));
        answer
    }

    fn keep(&mut self, event: &Value) {
        let events = self.taken.entry(row(event)).or_default();
        events.push(event.clone());
    }
}
