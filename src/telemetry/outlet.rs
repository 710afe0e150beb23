//! The way out of the log: a thread for each stream, so that nobody else ever waits for whoever reads it.
//!
//! A pipe that nobody reads is full after 64 KiB, and whoever writes into it then waits for ever: a tick, its
//! lease, and all others of the process. Lines that find no room are counted and lost; ticks are not.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Of what waits to be written to one stream.
const MOST_BYTES: usize = 1024 * 1024;

/// Lines that are put here are written as soon as somebody reads them.
#[derive(Debug, Clone)]
pub(super) struct Outlet(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// There was no room for so many.
    lost: u64,
    /// Some have been taken and are not written yet.
    writing: bool,
}

impl Outlet {
    pub(super) fn to(stream: impl Write + Send + 'static) -> io::Result<Self> {
        let outlet = Self(Arc::default());
        let shared = Arc::clone(&outlet.0);
        let writer = std::thread::Builder::new().name("log".to_owned());
        writer.spawn(move || shared.write_to(stream))?;
        Ok(outlet)
    }

    pub(super) fn put(&self, line: Vec<u8>) {
        let mut queue = self.0.queue();
        if queue.bytes + line.len() > MOST_BYTES {
            queue.lost += 1;
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        self.0.changed.notify_all();
    }

    /// Until everything is written, and no longer than this.
    pub(super) fn drain(&self, patience: Duration) {
        let waits = |queue: &mut Queue| queue.writing || !queue.lines.is_empty();
        let queue = self.0.queue();
        drop(self.0.changed.wait_timeout_while(queue, patience, waits));
    }
}

/// A writer of whole lines, each by one call.
impl Write for Outlet {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.put(line.to_vec());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Shared {
    /// A stream that cannot be written to is one that nobody reads: there is nobody to tell.
    fn write_to(&self, mut stream: impl Write) {
        loop {
            let bytes = self.next();
            drop(stream.write_all(&bytes).and_then(|()| stream.flush()));
            self.queue().writing = false;
            self.changed.notify_all();
        }
    }

    /// All that waits.
    fn next(&self) -> Vec<u8> {
        let mut queue = self.queue();
        while queue.lines.is_empty() {
            let woken = self.changed.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let Queue { lines, lost, .. } = std::mem::take(&mut *queue);
        queue.writing = true;
        let mut bytes: Vec<u8> = lines.into_iter().flatten().collect();
        if lost > 0 {
            let note = format!("{lost} lines of the log are lost: nobody read them in time\n");
            bytes.extend_from_slice(note.as_bytes());
        }
        bytes
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use super::*;

    #[test]
    fn lines_arrive_in_order_and_what_found_no_room_is_counted() {
        let (reader, writer) = io::pipe().unwrap();
        let outlet = Outlet::to(writer).unwrap();
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        for _ in 0..5000 {
            outlet.put(line.clone());
        }
        outlet.drain(Duration::from_millis(1));
        let mut lines = BufReader::new(reader).lines();
        let (mut whole, mut lost) = (0, 0);
        // The pipe, what was on its way into it, and what waited.
        while whole + lost < 5000 {
            let line = lines.next().unwrap().unwrap();
            match line.split_once(" lines of the log are lost") {
                None => {
                    assert_eq!(line.len(), 999);
                    whole += 1;
                }
                Some((count, _)) => lost += count.parse::<usize>().unwrap(),
            }
        }
        assert!(whole >= MOST_BYTES / 1000 && lost > 0, "{whole}");
        assert_eq!(whole + lost, 5000);
        outlet.put(b"later\n".to_vec());
        assert_eq!(lines.next().unwrap().unwrap(), "later");
    }

    #[test]
    fn what_was_said_before_the_end_is_written_before_it() {
        let (mut reader, writer) = io::pipe().unwrap();
        let outlet = Outlet::to(writer).unwrap();
        outlet.put(b"first\n".to_vec());
        outlet.put(b"last\n".to_vec());
        outlet.drain(Duration::from_secs(10));
        let mut said = [0; 11];
        reader.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"first\nlast\n");
    }

    #[test]
    fn a_reader_that_has_gone_is_no_reason_to_stop() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let outlet = Outlet::to(writer).unwrap();
        for _ in 0..3 {
            outlet.put(b"to nobody\n".to_vec());
            outlet.drain(Duration::from_secs(10));
        }
        assert!(outlet.0.queue().lines.is_empty());
    }
}
