//! Writing JSON without building it, and judging JSON that is stored as text.

use std::fmt;

use data_encoding::BASE64;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Stored documents nested deeper are sent as strings: an event puts them a few levels deeper, and
/// readers commonly stop at 128.
const DEEPEST: usize = 100;

/// As everybody else writes it: ids are made of these bytes.
pub(super) fn string(value: &str, out: &mut Vec<u8>) {
    out.reserve(value.len() + 2);
    out.push(b'"');
    for stretch in value.as_bytes().chunks(32) {
        if is_plain(stretch) {
            out.extend_from_slice(stretch);
        } else {
            stretch.iter().for_each(|&byte| escaped(byte, out));
        }
    }
    out.push(b'"');
}

/// Nothing in it has to be escaped. It looks at every byte and has no way out on the way, so that the
/// compiler makes it look at many at once.
fn is_plain(text: &[u8]) -> bool {
    let escaped = |byte: u8| (byte < b' ') | (byte == b'"') | (byte == b'\\');
    !text.iter().fold(false, |any, &byte| any | escaped(byte))
}

fn escaped(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        0..b' ' => {
            let [high, low] = [byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]);
            return out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
        _ => return out.push(byte),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn number(value: f64, out: &mut Vec<u8>) {
    serde_json::to_writer(out, &value).expect("a vector takes any number");
}

pub(super) fn integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// An integer of a column whose values may be past what readers that parse doubles keep exact.
pub(super) fn quoted_integer(value: impl itoa::Integer, out: &mut Vec<u8>) {
    out.push(b'"');
    integer(value, out);
    out.push(b'"');
}

/// The shortest digits that read back as the same double; JSON has no NaN and no infinities.
pub(super) fn float(value: f64, out: &mut Vec<u8>) {
    if value.is_finite() {
        number(value, out);
    } else if value.is_nan() {
        string("NaN", out);
    } else {
        string(if value > 0.0 { "Infinity" } else { "-Infinity" }, out);
    }
}

/// The shortest digits that read back as the same single.
pub(super) fn single(value: f32, out: &mut Vec<u8>) {
    if value.is_finite() {
        serde_json::to_writer(out, &value).expect("a vector takes any number");
    } else {
        float(value.into(), out);
    }
}

pub(super) fn base64(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + BASE64.encode_len(value.len()), 0);
    BASE64.encode_mut(value, &mut out[start..]);
    out.push(b'"');
}

/// Text that is not UTF-8 can only be sent as its bytes; the object says so, value by value.
pub(super) fn broken_text(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"base64\":");
    base64(value, out);
    out.push(b'}');
}

pub(super) fn list<T>(
    out: &mut Vec<u8>,
    brackets: &[u8; 2],
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T),
) {
    out.push(brackets[0]);
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(brackets[1]);
}

/// Whether text is JSON that every reader takes: no lone surrogates, no number beyond a double, not
/// too deep. One such row would make the batch around it unreadable.
pub(super) fn is_embeddable(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    Judge { room: DEEPEST }.deserialize(&mut reader).is_ok() && reader.end().is_ok()
}

/// Reads a value to its end and keeps nothing.
#[derive(Clone, Copy)]
struct Judge {
    room: usize,
}

impl Judge {
    fn inner<E: Error>(self) -> Result<Self, E> {
        let room = self.room.checked_sub(1).ok_or(E::custom("too deep"))?;
        Ok(Self { room })
    }
}

impl<'de> DeserializeSeed<'de> for Judge {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Judge {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while seq.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while map.next_key_seed(inner)?.is_some() {
            map.next_value_seed(inner)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
