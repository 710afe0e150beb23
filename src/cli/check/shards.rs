//! What is the same for every shard of a poller is said once.

use std::collections::BTreeMap;

use super::Line;
use crate::model::shard::Layout;

/// For people; programs get every line under its own poller.
pub(super) fn said_once(lines: Vec<Line>) -> Vec<Line> {
    let parts = |line: &Line| match Layout::of(&line.poller) {
        (_, Layout::Whole) => None,
        (poller, Layout::Shards { count, .. }) => Some((poller.to_owned(), count)),
    };
    let what = |line: &Line| (line.grade, line.subject.clone(), line.text.clone());
    let mut often = BTreeMap::new();
    for line in &lines {
        if let Some(whole) = parts(line) {
            *often.entry((whole, what(line))).or_insert(0) += 1;
        }
    }
    let mut together = Vec::new();
    for line in lines {
        let Some((poller, count)) = parts(&line) else {
            together.push(line);
            continue;
        };
        match often.get_mut(&((poller.clone(), count), what(&line))) {
            Some(0) => {}
            Some(times) if *times == count => {
                *times = 0;
                let poller = format!("{poller}, all {count} shards");
                together.push(Line { poller, ..line });
            }
            _ => together.push(line),
        }
    }
    together
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(poller: &str, text: &str) -> Line {
        Line {
            poller: poller.to_owned(),
            grade: "PASS",
            subject: "key".to_owned(),
            text: text.to_owned(),
        }
    }

    #[test]
    fn only_what_every_shard_says_is_said_once() {
        let lines = [
            ("orders.0of2", "same"),
            ("orders.0of2", "own"),
            ("plain", "same"),
            ("orders.1of2", "same"),
            ("others.0of2", "same"),
        ];
        let lines = lines.map(|(poller, text)| line(poller, text)).to_vec();
        let said: Vec<_> = said_once(lines)
            .into_iter()
            .map(|line| format!("{} {}", line.poller, line.text))
            .collect();
        let expected = [
            "orders, all 2 shards same",
            "orders.0of2 own",
            "plain same",
            "others.0of2 same",
        ];
        assert_eq!(said, expected);
    }
}
