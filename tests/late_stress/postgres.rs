//! Who stamps the cursor, in the ways that PostgreSQL has.

use dbtick::config::LateCommits;

use crate::shape::{Changes, Drawn, Reader, Shape};

pub(crate) fn shapes() -> Vec<Shape> {
    vec![
        identity(),
        touched(),
        begun(),
        drawn_ahead(),
        own_clock(),
        transaction_ids(),
    ]
}

fn identity() -> Shape {
    Shape {
        name: "identity",
        schema: "CREATE TABLE identity (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL);
                 GRANT SELECT ON SEQUENCE identity_id_seq TO reader",
        cursor: "id",
        key: &["id"],
        inserts: &["INSERT INTO identity (body) VALUES ('{body}')"],
        changes: None,
        drawn: Drawn::Nothing,
        late: LateCommits::default(),
        reader: Reader::Plain,
        max_rows: 25,
    }
}

fn touched() -> Shape {
    Shape {
        name: "touched",
        schema: "CREATE TABLE touched (id uuid PRIMARY KEY, at timestamptz NOT NULL, body text NOT NULL);
                 CREATE INDEX ON touched (at, id);
                 CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN NEW.at := clock_timestamp(); RETURN NEW; END';
                 CREATE TRIGGER a BEFORE INSERT OR UPDATE ON touched FOR EACH ROW EXECUTE FUNCTION touch()",
        cursor: "at",
        key: &["id"],
        inserts: &["INSERT INTO touched (id, body) VALUES ('{key}', '{body}')"],
        changes: Some(Changes {
            update: "UPDATE touched SET body = '{body}' WHERE id = '{key}'",
            delete: "DELETE FROM touched WHERE id = '{key}'",
        }),
        drawn: Drawn::Nothing,
        late: LateCommits::default(),
        reader: Reader::Plain,
        max_rows: 500,
    }
}

/// The time at which a transaction began, in partitions that are also written to directly.
fn begun() -> Shape {
    Shape {
        name: "begun",
        schema: "CREATE TABLE begun (id uuid, lane int, at timestamptz NOT NULL DEFAULT now(), body text NOT NULL,
                     PRIMARY KEY (id, lane)) PARTITION BY LIST (lane);
                 CREATE TABLE begun_0 PARTITION OF begun FOR VALUES IN (0);
                 CREATE TABLE begun_1 PARTITION OF begun FOR VALUES IN (1);
                 CREATE INDEX ON begun (at, id, lane);
                 CREATE FUNCTION begin_of() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN NEW.at := now(); RETURN NEW; END';
                 CREATE TRIGGER a BEFORE INSERT OR UPDATE ON begun FOR EACH ROW EXECUTE FUNCTION begin_of()",
        cursor: "at",
        key: &["id", "lane"],
        inserts: &[
            "INSERT INTO begun (id, lane, body) VALUES ('{key}', 0, '{body}')",
            "INSERT INTO begun_0 (id, lane, body) VALUES ('{key}', 0, '{body}')",
            "INSERT INTO begun (id, lane, body) VALUES ('{key}', 1, '{body}')",
            "INSERT INTO begun_1 (id, lane, body) VALUES ('{key}', 1, '{body}')",
        ],
        changes: Some(Changes {
            update: "UPDATE begun SET body = '{body}' WHERE id = '{key}'",
            delete: "DELETE FROM begun WHERE id = '{key}'",
        }),
        drawn: Drawn::Nothing,
        late: LateCommits::default(),
        reader: Reader::Plain,
        max_rows: 500,
    }
}

/// As Hibernate does.
fn drawn_ahead() -> Shape {
    Shape {
        name: "drawn_ahead",
        schema:
            "CREATE TABLE drawn_ahead (id uuid PRIMARY KEY, version bigserial, body text NOT NULL);
                 CREATE INDEX ON drawn_ahead (version, id);
                 GRANT SELECT ON SEQUENCE drawn_ahead_version_seq TO reader",
        cursor: "version",
        key: &["id"],
        inserts: &["INSERT INTO drawn_ahead VALUES ('{key}', {drawn}, '{body}')"],
        changes: Some(Changes {
            update: "UPDATE drawn_ahead SET body = '{body}', version = nextval('drawn_ahead_version_seq') WHERE id = '{key}'",
            delete: "DELETE FROM drawn_ahead WHERE id = '{key}'",
        }),
        drawn: Drawn::FromDatabase("SELECT nextval('drawn_ahead_version_seq')::text"),
        late: LateCommits::default(),
        reader: Reader::Plain,
        max_rows: 500,
    }
}

/// As Rails does.
fn own_clock() -> Shape {
    Shape {
        name: "own_clock",
        schema: "CREATE TABLE own_clock (id uuid PRIMARY KEY, at timestamptz NOT NULL, body text NOT NULL);
                 CREATE INDEX ON own_clock (at, id)",
        cursor: "at",
        key: &["id"],
        inserts: &["INSERT INTO own_clock VALUES ('{key}', '{drawn}', '{body}')"],
        changes: Some(Changes {
            update: "UPDATE own_clock SET body = '{body}', at = '{drawn}' WHERE id = '{key}'",
            delete: "DELETE FROM own_clock WHERE id = '{key}'",
        }),
        drawn: Drawn::FromOwnClock,
        late: LateCommits::default(),
        reader: Reader::Plain,
        max_rows: 500,
    }
}

fn transaction_ids() -> Shape {
    Shape {
        name: "transaction_ids",
        schema: "CREATE TABLE transaction_ids (id uuid PRIMARY KEY, x xid8 NOT NULL DEFAULT pg_current_xact_id(), body text NOT NULL);
                 CREATE INDEX ON transaction_ids (x, id)",
        cursor: "x",
        key: &["id"],
        inserts: &["INSERT INTO transaction_ids (id, body) VALUES ('{key}', '{body}')"],
        changes: Some(Changes {
            update: "UPDATE transaction_ids SET body = '{body}', x = pg_current_xact_id() WHERE id = '{key}'",
            delete: "DELETE FROM transaction_ids WHERE id = '{key}'",
        }),
        drawn: Drawn::Nothing,
        late: LateCommits::default(),
        reader: Reader::Plain,
        max_rows: 500,
    }
}
