//! What happened, in order: hashed to compare two runs, or printed to read one.

use std::fmt::{self, Write};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceMode {
    Off,
    Hashed,
    Printed,
}

#[derive(Debug)]
pub(crate) struct Trace {
    mode: TraceMode,
    hash: Fnv,
}

#[derive(Debug)]
struct Fnv(u64);

impl Trace {
    pub(crate) fn new(mode: TraceMode) -> Self {
        Self {
            mode,
            hash: Fnv(0xcbf2_9ce4_8422_2325),
        }
    }

    pub(crate) fn note(&mut self, at: Duration, what: fmt::Arguments<'_>) {
        if self.mode == TraceMode::Off {
            return;
        }
        writeln!(self.hash, "{} {what}", at.as_micros()).unwrap();
        if self.mode == TraceMode::Printed {
            println!("{:>10.3}  {what}", at.as_secs_f64());
        }
    }

    pub(crate) fn hash(&self) -> u64 {
        self.hash.0
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(())
    }
}
