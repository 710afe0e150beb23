//! The layout of a document: a line for each member and for each item of a list, so that it can be
//! read and compared by people, and what lies deeper on one line, so that it stays small.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::{Formatter, Serializer};

/// The document itself and the members of it.
const SPREAD: usize = 2;

pub(super) fn to_bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(4096);
    let mut serializer = Serializer::with_formatter(&mut bytes, Layout::default());
    value
        .serialize(&mut serializer)
        .expect("a JSON value is always printable");
    bytes
}

#[derive(Default)]
struct Layout {
    depth: usize,
    /// Whether the innermost open list or object has an item.
    filled: bool,
}

impl Layout {
    fn open<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.filled = false;
        writer.write_all(bracket)
    }

    fn item<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.line(writer, self.depth)
    }

    fn close<W: ?Sized + Write>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        if self.filled {
            self.line(writer, self.depth - 1)?;
        }
        self.depth -= 1;
        self.filled = true;
        writer.write_all(bracket)
    }

    fn line<W: ?Sized + Write>(&self, writer: &mut W, indent: usize) -> io::Result<()> {
        if self.depth > SPREAD {
            return Ok(());
        }
        writer.write_all(b"\n")?;
        (0..indent).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(if self.depth > SPREAD { b":" } else { b": " })
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.filled = true;
        Ok(())
    }
}
