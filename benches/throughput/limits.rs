//! What the machine can do without dbtick: the same rows out of PostgreSQL, the same bodies into the receiver.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use dbtick::clock::{Clock, SystemClock};
use futures_util::TryStreamExt;

use crate::parts::{Case, Parts};
use crate::receiver::Receiver;
use crate::support::postgres::Postgres;

/// The whole table, in order, as JSON that the server makes.
pub(crate) async fn copy(server: &Postgres, table: &str, rows: usize) -> Duration {
    let mut connection = server.connect("postgres").await;
    let statement =
        format!("COPY (SELECT row_to_json(t) FROM {table} t ORDER BY updated_at, id) TO STDOUT");
    let before = SystemClock.monotonic();
    let mut lines = connection.copy_out_raw(&statement).await.unwrap();
    let mut read = 0;
    while lines.try_next().await.unwrap().is_some() {
        read += 1;
    }
    assert_eq!(read, rows);
    SystemClock.monotonic() - before
}

/// What dbtick itself has sent.
pub(crate) async fn bodies(parts: &Parts, batch: usize) -> Vec<Vec<u8>> {
    let case = Case {
        batch,
        ..parts.case()
    };
    parts.receiver.keep_bodies();
    parts.dbtick_seen(&case).await.1.bodies
}

/// Each body over one connection, the next one when the last was answered.
pub(crate) fn post(receiver: &Receiver, bodies: &[Vec<u8>]) -> Duration {
    let mut stream = TcpStream::connect(("127.0.0.1", receiver.port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answer = [0; 1024];
    let before = SystemClock.monotonic();
    for body in bodies {
        let head = format!(
            "POST / HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body).unwrap();
        assert!(stream.read(&mut answer).unwrap() > 0);
    }
    SystemClock.monotonic() - before
}
