//! No secret in what is logged, answered or stored (S6), and no row data above debug (S7).

use serde_json::json;

use crate::support::handler::{HandlerProcess, free_port};
use crate::support::http::RawAnswer;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::receiver::{Answer, TOKEN};
use crate::support::world::{ROW_CANARY, SETTING_CANARY, World};

const ECHO: &str = "canary-answer-body";
const SIGNING: &str = "Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5";

fn assert_silent(world: &World, handler: &HandlerProcess, answers: &[RawAnswer], words: &[&str]) {
    let mut texts = world.state_texts();
    texts.push(handler.everything_said());
    texts.extend(
        answers
            .iter()
            .map(|answer| format!("{}{}", answer.head, answer.body)),
    );
    for text in &texts {
        for word in words {
            assert!(!text.contains(word), "{word} in {text}");
        }
    }
}

/// Every way in which a receiver can fail, at the most talkative level.
#[tokio::test]
async fn no_secret_is_shown_on_any_error_path() {
    let hook = json!({ "webhook": {
        "url": "%HOOK%", "timeout": "1s", "attempts": 2, "secret": "%SIGNING%",
        "headers": { "x-key": "%BEARER%" }, "bearer": "%BEARER%"
    } });
    let world = World::with_orders(json!({ "deliver": [hook] }))
        .await
        .rows(2)
        .await
        .setting("DBTICK_LOG", "trace")
        .poller("NoTable", json!({ "source": { "table": "nowhere" } }))
        .poller("NoFile", json!({ "source": { "connection": "GONE" } }))
        .poller(
            "BadUrl",
            json!({ "deliver": [{ "webhook": { "url": "%BAD_URL%" } }] }),
        )
        .poller(
            "BadSetting",
            json!({ "deliver": [{ "webhook": { "url": "%HOOK%%MISSING%" } }] }),
        )
        .poller(
            "BadSecret",
            json!({ "deliver": [{ "webhook": {
                "url": "%HOOK%", "secret": "%BEARER%", "bearer": "%BAD_URL%", "headers": { "host": "%BEARER%" }
            } }] }),
        )
        .setting("SIGNING", &format!("whsec_{SIGNING}"))
        .setting("BEARER", SETTING_CANARY)
        .poller("BadConnection", json!({ "source": { "connection": "PG" } }))
        .poller(
            "Refused",
            json!({ "deliver": [{ "webhook": { "url": "%DOWN%", "attempts": 1 } }] }),
        )
        .setting("GONE", "sqlite:/nowhere/gone.db")
        .setting(
            "BAD_URL",
            &format!("ftp://{SETTING_CANARY}@example.org/{TOKEN}"),
        )
        .setting("PG", &format!("postgres://u:{SETTING_CANARY}@db/orders"));
    let down = format!("http://{SETTING_CANARY}@127.0.0.1:{}/{TOKEN}", free_port());
    let world = world.setting("DOWN", &down);
    world.receiver.answer(|index, _| match index {
        0 => Answer::Say(400, None, ECHO.to_owned()),
        1 | 2 => Answer::Say(500, None, ECHO.to_owned()),
        3 => Answer::Say(
            302,
            Some(("location", format!("http://x/{ECHO}"))),
            ECHO.to_owned(),
        ),
        4 => Answer::Never,
        5 => Answer::Say(
            401,
            Some(("www-authenticate", ECHO.to_owned())),
            ECHO.to_owned(),
        ),
        _ => Answer::Ok,
    });
    let handler = world.serve().await;
    let mut answers = Vec::new();
    for _ in 0..5 {
        let answer = handler.tick("Orders").await;
        assert_eq!(answer.status, 500, "{answer:?}");
        answers.push(answer);
    }
    for function in [
        "NoTable",
        "NoFile",
        "BadUrl",
        "BadSetting",
        "BadSecret",
        "BadConnection",
        "Refused",
    ] {
        let answer = handler.tick(function).await;
        assert_eq!(answer.status, 500, "{function}: {answer:?}");
        answers.push(answer);
    }
    assert_eq!(world.receiver.count(), 6);
    answers.push(handler.tick("Orders").await);
    assert_eq!(answers.last().unwrap().status, 200);
    handler.stdout.line(&["dbtick.tick", "drained"]).await;
    assert_silent(
        &world,
        &handler,
        &answers,
        &[TOKEN, SETTING_CANARY, SIGNING, ECHO, ROW_CANARY],
    );
}

/// Rows that a source or a sink cannot digest are the likeliest to be quoted in an error. Cursor and
/// key are not meant: a checkpoint consists of them.
#[tokio::test]
async fn row_data_is_not_logged() {
    let world = World::with_orders(json!({})).await.rows(3).await;
    let mut table = world.writer().await;
    table.sql("CREATE TABLE typed (id, seq, note)").await;
    table
        .sql("INSERT INTO typed VALUES (1, 3.5, 'canary-row-data')")
        .await;
    table.sql("CREATE TABLE nulls (id, seq, note)").await;
    table
        .sql("INSERT INTO nulls VALUES (1, NULL, 'canary-row-data')")
        .await;
    let world = world
        .poller("Typed", json!({ "source": { "table": "typed" } }))
        .poller("Nulls", json!({ "source": { "table": "nulls" } }));
    world.receiver.answer(|index, _| match index {
        0 => Answer::Say(400, None, ROW_CANARY.to_owned()),
        _ => Answer::Ok,
    });
    let handler = world.serve().await;
    let mut answers = Vec::new();
    for (function, status) in [
        ("Orders", 500),
        ("Orders", 200),
        ("Typed", 500),
        ("Nulls", 500),
    ] {
        let answer = handler.tick(function).await;
        assert_eq!(answer.status, status, "{function}: {answer:?}");
        answers.push(answer);
    }
    handler.stderr.line(&["nulls"]).await;
    assert_eq!(world.receiver.count(), 2);
    assert_silent(&world, &handler, &answers, &[ROW_CANARY]);
}

/// S7: what a server cannot make sense of, it quotes.
#[tokio::test]
async fn values_that_a_database_quotes_in_its_errors_are_not_repeated() {
    let (postgres, mariadb) = tokio::join!(Postgres::start(), MariaDb::start());
    let schema =
        "CREATE TABLE orders (id INT PRIMARY KEY, seq INT NOT NULL UNIQUE, note VARCHAR(40));
         INSERT INTO orders VALUES (1, 1, 'canary-\"row\"-data')";
    tokio::join!(postgres.sql(schema), mariadb.sql(schema));
    let mut world = World::new()
        .await
        .setting("PG", &postgres.url())
        .setting("MY", &mariadb.url());
    let of_postgres = ["int", "numeric", "timestamptz", "uuid", "json", "inet"].map(|name| {
        let query = format!("SELECT id, seq, note::{name}::text AS n FROM orders");
        ("PG", query)
    });
    let others = [
        (
            "PG",
            "SELECT id, seq, to_date(note, 'YYYY') AS n FROM orders".to_owned(),
        ),
        (
            "PG",
            "SELECT id, seq, (note || repeat('9', 400))::float8 AS n FROM orders".to_owned(),
        ),
        (
            "MY",
            "SELECT id, seq, EXTRACTVALUE('<a/>', note) AS n FROM orders".to_owned(),
        ),
    ];
    let queries: Vec<_> = of_postgres.into_iter().chain(others).collect();
    for (index, (connection, query)) in queries.iter().enumerate() {
        // The table of a poller is not there where it has a query.
        let source =
            json!({ "connection": connection, "query": query, "cursor": "seq", "key": "id" });
        let poller = json!({ "source": source, "deliver": [{ "webhook": { "url": "%HOOK%" } }] });
        world = world.function(&format!("P{index}"), json!({ "poller": poller }));
    }
    let handler = world.serve().await;
    let mut answers = Vec::new();
    for (index, (_, query)) in queries.iter().enumerate() {
        let answer = handler.tick(&format!("P{index}")).await;
        assert_eq!(answer.status, 500, "{query}: {answer:?}");
        assert!(
            answer.logs().contains("the database says"),
            "{query}: {answer:?}"
        );
        answers.push(answer);
    }
    let last = format!("p{}", queries.len() - 1);
    handler.stderr.line(&[&last]).await;
    assert_silent(&world, &handler, &answers, &["canary", "cana"]);
}
