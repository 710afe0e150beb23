use super::*;

const FIRST: &str = "00000000000000000000000000000001";
const SECOND: &str = "00000000000000000000000000000002";

fn batch() -> [EventId; 2] {
    [FIRST, SECOND].map(|id| EventId::parse(id).unwrap())
}

fn whole(text: &str) -> Answer {
    Answer {
        bytes: text.as_bytes().to_vec(),
        ..Answer::default()
    }
}

fn unaccepted(id: &str, reason: &str, never: bool) -> Unaccepted {
    Unaccepted {
        id: EventId::parse(id).unwrap(),
        reason: reason.to_owned(),
        stance: if never { Stance::Never } else { Stance::NotNow },
    }
}

#[track_caller]
fn check(text: &str, expected: Result<&[Unaccepted], NotUnderstood>) {
    let found = read(&whole(text), &batch());
    assert_eq!(found.as_deref(), expected.as_deref(), "{text}");
}

#[test]
fn an_answer_that_is_not_about_failed_events_acknowledges() {
    for text in [
        "",
        " \r\n",
        "ok",
        "null",
        "0",
        "\"failed\"",
        "failed",
        "<html>failed</html>",
        "[]",
        "[{\"id\":\"x\"}]",
        "{}",
        "{ok}",
        "{'status': 'ok'}",
        "{\"status\":\"ok\",\"events\":[{\"failed\":[1]}]}",
        "{\"failed\":null}",
        "{\"failed\":[]}",
        "\u{feff} {\"failed\": [ ], \"taken\": 2}",
    ] {
        check(text, Ok(&[]));
    }
}

#[test]
fn every_event_but_those_that_are_named_is_acknowledged() {
    let one = [unaccepted(SECOND, "no such customer", false)];
    let never = [unaccepted(SECOND, "", true)];
    let both = [unaccepted(FIRST, "", false), unaccepted(SECOND, "", true)];
    for (list, expected) in [
        (
            format!(r#"{{"id":"{SECOND}","reason":"no such customer","retry":true}}"#),
            &one[..],
        ),
        (
            format!(r#"{{"id":"{SECOND}","reason":" no such\tcustomer\n"}}"#),
            &one,
        ),
        (format!(r#"{{"id":"{SECOND}","retry":false}}"#), &never),
        (
            format!(r#"{{"id":"{SECOND}","retry":false,"reason":null,"row":{{}}}}"#),
            &never,
        ),
        (
            format!(r#"{{"id":"{SECOND}","retry":false}},{{"id":"{FIRST}"}}"#),
            &both,
        ),
    ] {
        check(&format!("{{\"failed\":[{list}]}}"), Ok(expected));
        check(
            &format!("\u{feff}\n{{ \"taken\":1, \"failed\" : [{list}] }}\n"),
            Ok(expected),
        );
    }
    let dotnet = format!(r#"{{"Failed":[{{"Id":"{SECOND}","Reason":null,"Retry":false}}]}}"#);
    check(&dotnet, Ok(&never));
}

#[test]
fn an_event_that_is_named_twice_is_given_up_only_if_both_say_so() {
    for (first, second, never) in [
        ("false", "false", true),
        ("false", "true", false),
        ("true", "false", false),
    ] {
        let text = format!(
            r#"{{"failed":[{{"id":"{FIRST}","reason":"a","retry":{first}}},
                           {{"id":"{FIRST}","reason":"b","retry":{second}}}]}}"#
        );
        check(&text, Ok(&[unaccepted(FIRST, "a", never)]));
    }
}

#[test]
fn only_a_plain_false_gives_an_event_up() {
    for retry in ["true", "null", "0", "\"false\"", "[]", "{}"] {
        let text = format!(r#"{{"failed":[{{"id":"{FIRST}","retry":{retry}}}]}}"#);
        check(&text, Ok(&[unaccepted(FIRST, "", false)]));
    }
}

#[test]
fn what_tries_to_name_failed_events_and_cannot_be_understood_acknowledges_nothing() {
    for text in [
        "{\"failed\":0}",
        "{\"failed\":true}",
        "{\"failed\":\"all\"}",
        "{\"failed\":{}}",
        "{\"failed\":[\"00000000000000000000000000000001\"]}",
        "{\"failed\":[null]}",
        "{\"failed\":[{}]}",
        "{\"failed\":[{\"id\":1}]}",
        "{\"failed\":[{\"id\":null}]}",
        "{\"failed\":[],\"failed\":[]}",
        "{\"failed\":[],\"Failed\":[]}",
        "{\"failed\":[{\"id\":\"00000000000000000000000000000001\"",
        "{\"failed\":[]} and more",
        "{'failed': ['00000000000000000000000000000001']}",
        "{\"status\":\"Failed\"",
        "{\"\\u0066ailed\":1}",
    ] {
        check(text, Err(NotUnderstood::Shape));
    }
}

#[test]
fn an_event_of_another_batch_acknowledges_nothing() {
    for id in [
        "00000000000000000000000000000003",
        "0000000000000000000000000000000A",
        "1",
        "",
    ] {
        let text = format!(r#"{{"failed":[{{"id":"{FIRST}"}},{{"id":"{id}"}}]}}"#);
        check(&text, Err(NotUnderstood::Strangers));
    }
}

#[test]
fn an_answer_past_the_limit_acknowledges_unless_it_may_name_events() {
    for (text, expected) in [
        ("xxxxxxxx", Ok(Vec::new())),
        ("        ", Ok(Vec::new())),
        ("[1, 2, 3", Ok(Vec::new())),
        ("{\"failed\":[{\"id\":\"", Err(NotUnderstood::TooLong)),
        ("{\"echo\":\"", Err(NotUnderstood::TooLong)),
    ] {
        let answer = Answer {
            is_cut: true,
            ..whole(text)
        };
        assert_eq!(read(&answer, &batch()), expected, "{text}");
    }
}

#[test]
fn an_encoded_answer_is_not_read_and_acknowledges_only_when_it_is_empty() {
    for (text, expected) in [
        ("", Ok(Vec::new())),
        ("\u{1f}...", Err(NotUnderstood::Encoded)),
    ] {
        let answer = Answer {
            is_encoded: true,
            ..whole(text)
        };
        assert_eq!(read(&answer, &batch()), expected, "{text}");
    }
}

#[test]
fn a_reason_is_one_line_of_200_characters_at_most() {
    for (reason, expected) in [
        ("plain", "plain".to_owned()),
        ("\\r\\n two\\nlines \\u0000", "two lines".to_owned()),
        ("a\\u2028b\\u0085c\\u001b[31m", "a b c [31m".to_owned()),
        (&"é".repeat(300), "é".repeat(200)),
        (&"\\n".repeat(300), String::new()),
    ] {
        let text = format!(r#"{{"failed":[{{"id":"{FIRST}","reason":"{reason}"}}]}}"#);
        check(&text, Ok(&[unaccepted(FIRST, &expected, false)]));
    }
}
