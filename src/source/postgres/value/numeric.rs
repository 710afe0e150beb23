//! `numeric`: digits to the base of ten thousand, and the number of decimals that are shown.

/// Count of digits, weight of the first, sign, decimals.
const HEADER: usize = 8;
const DIGIT: usize = 2;
const BASE: u16 = 10_000;

const POSITIVE: u16 = 0x0000;
const NEGATIVE: u16 = 0x4000;
const NOT_A_NUMBER: u16 = 0xc000;
const INFINITY: u16 = 0xd000;
const MINUS_INFINITY: u16 = 0xf000;

pub(super) fn fits(bytes: &[u8]) -> bool {
    let (count, sign) = (usize::from(field(bytes, 0)), field(bytes, 2));
    let known = [POSITIVE, NEGATIVE, NOT_A_NUMBER, INFINITY, MINUS_INFINITY].contains(&sign);
    let digits = bytes.get(HEADER..).unwrap_or_default();
    known
        && bytes.len() == HEADER + count * DIGIT
        && digits
            .chunks_exact(DIGIT)
            .all(|digit| field(digit, 0) < BASE)
}

/// All decimals that the column shows, no more: `1.10` stays `1.10`.
pub(super) fn write(bytes: &[u8], out: &mut Vec<u8>) {
    match field(bytes, 2) {
        NOT_A_NUMBER => return out.extend_from_slice(b"NaN"),
        INFINITY => return out.extend_from_slice(b"Infinity"),
        MINUS_INFINITY => return out.extend_from_slice(b"-Infinity"),
        NEGATIVE => out.push(b'-'),
        _ => {}
    }
    let count = i32::from(field(bytes, 0));
    let weight = i32::from(field(bytes, 1) as i16);
    let mut decimals = usize::from(field(bytes, 3));
    let digit = |place: i32| match usize::try_from(place) {
        Ok(index) if place < count => field(&bytes[HEADER..], index),
        _ => 0,
    };
    if weight < 0 {
        out.push(b'0');
    } else {
        out.extend_from_slice(itoa::Buffer::new().format(digit(0)).as_bytes());
        (1..=weight).for_each(|place| out.extend_from_slice(&four(digit(place))));
    }
    if decimals > 0 {
        out.push(b'.');
    }
    let mut place = weight + 1;
    while decimals > 0 {
        let taken = decimals.min(4);
        out.extend_from_slice(&four(digit(place))[..taken]);
        decimals -= taken;
        place += 1;
    }
}

pub(super) fn is_not_zero(bytes: &[u8]) -> bool {
    field(bytes, 0) > 0 || field(bytes, 2) & NOT_A_NUMBER == NOT_A_NUMBER
}

fn four(digit: u16) -> [u8; 4] {
    [digit / 1000, digit / 100 % 10, digit / 10 % 10, digit % 10].map(|one| b'0' + one as u8)
}

/// The 16-bit number at an index, zero behind the end.
fn field(bytes: &[u8], index: usize) -> u16 {
    let at = index * DIGIT;
    bytes
        .get(at..at + DIGIT)
        .map_or(0, |pair| u16::from_be_bytes([pair[0], pair[1]]))
}
