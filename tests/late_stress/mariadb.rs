//! Who stamps the cursor, in the ways that MariaDB has, by both kinds of evidence.

use std::time::Duration;

use dbtick::config::{LateCommits, LateMode, StampedBy};

use crate::shape::{Changes, Drawn, Reader, Shape};

/// Longer than a statement waits for a lock on this server, and short enough for a test.
const WINDOW: Duration = Duration::from_secs(3);

pub(crate) fn shapes() -> Vec<Shape> {
    vec![numbered(), watched(), touched(), coarse()]
}

fn within_window() -> LateCommits {
    LateCommits {
        mode: LateMode::Window(WINDOW),
        ..LateCommits::default()
    }
}

fn numbered() -> Shape {
    Shape {
        name: "numbered",
        schema: "CREATE TABLE numbered (id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARCHAR(40) NOT NULL)",
        cursor: "id",
        key: &["id"],
        inserts: &["INSERT INTO numbered (body) VALUES ('{body}')"],
        changes: None,
        drawn: Drawn::Nothing,
        late: within_window(),
        reader: Reader::Plain,
        max_rows: 500,
    }
}

/// The same, by metadata locks.
fn watched() -> Shape {
    Shape {
        name: "watched",
        schema: "CREATE TABLE watched (id BIGINT AUTO_INCREMENT PRIMARY KEY, body VARCHAR(40) NOT NULL)",
        inserts: &["INSERT INTO watched (body) VALUES ('{body}')"],
        late: LateCommits {
            stamped_by: Some(StampedBy::Database),
            ..LateCommits::default()
        },
        reader: Reader::Owner,
        max_rows: 25,
        ..numbered()
    }
}

fn touched() -> Shape {
    Shape {
        name: "touched",
        schema: "CREATE TABLE touched (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
                     at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
                     body VARCHAR(40) NOT NULL, KEY (at, id))",
        cursor: "at",
        key: &["id"],
        inserts: &["INSERT INTO touched (id, body) VALUES ('{key}', '{body}')"],
        changes: Some(Changes {
            update: "UPDATE touched SET body = '{body}' WHERE id = '{key}'",
            delete: "DELETE FROM touched WHERE id = '{key}'",
        }),
        drawn: Drawn::Nothing,
        late: within_window(),
        reader: Reader::Plain,
        max_rows: 500,
    }
}

/// Many rows in each tick of the clock, in no order.
fn coarse() -> Shape {
    Shape {
        name: "coarse",
        schema:
            "CREATE TABLE coarse (id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
                     at DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
                     body VARCHAR(40) NOT NULL, KEY (at, id))",
        inserts: &["INSERT INTO coarse (id, body) VALUES ('{key}', '{body}')"],
        changes: Some(Changes {
            update: "UPDATE coarse SET body = '{body}' WHERE id = '{key}'",
            delete: "DELETE FROM coarse WHERE id = '{key}'",
        }),
        ..touched()
    }
}
