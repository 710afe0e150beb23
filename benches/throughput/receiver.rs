//! A receiver that is never what a sender waits for: plain threads, one buffer per connection. It marks every row
//! that it gets, so that a fast run that lost rows counts for nothing.

use std::io::{ErrorKind, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dbtick::clock::{Clock, SystemClock};
use tokio::time::Instant;

const KEY: &str = "\"key\":{\"id\":";
/// A row is longer than this, so the next key is behind it.
const SKIP: usize = 400;
const BUFFER: usize = 4 << 20;

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) port: u16,
    seen: Arc<Mutex<Seen>>,
}

/// What came since the last time somebody asked.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) rows: usize,
    pub(crate) distinct: usize,
    /// When each body had come.
    pub(crate) arrivals: Vec<Instant>,
    pub(crate) bodies: Vec<Vec<u8>>,
    keep: bool,
    /// One bit per row.
    marks: Vec<u64>,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Seen>>::default();
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, shared) = (stream.unwrap(), Arc::clone(&shared));
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { port, seen }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Bodies are kept from now on, until they are taken.
    pub(crate) fn keep_bodies(&self) {
        lock(&self.seen).keep = true;
    }

    pub(crate) fn take(&self) -> Seen {
        std::mem::take(&mut *lock(&self.seen))
    }

    pub(crate) fn first_arrival(&self) -> Option<Instant> {
        lock(&self.seen).arrivals.first().copied()
    }
}

impl Seen {
    /// # Panics
    ///
    /// Unless each of the first `rows` rows came, and came once.
    pub(crate) fn check(&self, rows: usize) {
        assert_eq!((self.rows, self.distinct), (rows, rows), "rows that came");
        assert!(self.marks.len() <= rows / 64 + 1, "a row that is not there");
    }

    pub(crate) fn take_body(&mut self, body: &[u8]) {
        self.arrivals.push(SystemClock.monotonic());
        let text = std::str::from_utf8(body).unwrap();
        let mut at = 0;
        while let Some(found) = text.get(at..).and_then(|rest| rest.find(KEY)) {
            at += found + KEY.len();
            let digits = text[at..].trim_start_matches('"');
            let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap();
            self.mark(digits[..end].parse().unwrap());
            at += SKIP;
            while !text.is_char_boundary(at.min(text.len())) {
                at += 1;
            }
        }
        if self.keep {
            self.bodies.push(body.to_vec());
        }
    }

    fn mark(&mut self, row: usize) {
        let (word, bit) = (row / 64, 1 << (row % 64));
        if self.marks.len() <= word {
            self.marks.resize(word + 1, 0);
        }
        self.rows += 1;
        self.distinct += usize::from(self.marks[word] & bit == 0);
        self.marks[word] |= bit;
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Seen>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = vec![0; BUFFER];
    let mut filled = 0;
    while let Ok(Some((head, end))) = message(&mut stream, &mut buffer, &mut filled) {
        lock(seen).take_body(&buffer[head..end]);
        let answered = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        buffer.copy_within(end..filled, 0);
        filled -= end;
        if answered.is_err() {
            return;
        }
    }
}

/// Where the next message's body begins and ends; `None` when the sender has hung up.
fn message(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
    filled: &mut usize,
) -> Result<Option<(usize, usize)>> {
    let mut end = None;
    loop {
        if end.is_none() {
            end = ends_of(&buffer[..*filled]);
        }
        if let Some((head, end)) = end {
            if *filled >= end {
                return Ok(Some((head, end)));
            }
            if buffer.len() < end {
                buffer.resize(end, 0);
            }
        }
        match stream.read(&mut buffer[*filled..])? {
            0 if *filled == 0 => return Ok(None),
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => *filled += read,
        }
    }
}

fn ends_of(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).unwrap();
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let found = name.eq_ignore_ascii_case("content-length");
        found.then(|| value.trim().parse::<usize>().unwrap())
    });
    Some((head, head + length.expect("a body with a length")))
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}
