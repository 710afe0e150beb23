//! Arrays: any number of dimensions, NULLs among the elements.

/// Dimensions, a flag, the type of the elements.
const HEADER: usize = 12;
/// The length of a dimension, and the number of its first element.
const DIMENSION: usize = 8;
/// PostgreSQL has no more.
const MOST_DIMENSIONS: usize = 6;

pub(super) fn fits(bytes: &[u8], element_fits: impl Fn(&[u8]) -> bool) -> bool {
    let Some((lengths, mut rest)) = parts(bytes) else {
        return false;
    };
    let elements = match lengths.as_slice() {
        [] => 0,
        // An array without elements has no dimensions; a billion times nothing would still be written.
        lengths => match lengths
            .iter()
            .try_fold(1_usize, |all, one| all.checked_mul(*one))
        {
            None | Some(0) => return false,
            Some(elements) => elements,
        },
    };
    for _ in 0..elements {
        match next(&mut rest) {
            Some(Some(element)) if element_fits(element) => {}
            Some(None) => {}
            _ => return false,
        }
    }
    rest.is_empty()
}

pub(super) fn write(bytes: &[u8], out: &mut Vec<u8>, mut element: impl FnMut(&[u8], &mut Vec<u8>)) {
    let (lengths, mut rest) = parts(bytes).unwrap_or_default();
    match lengths.as_slice() {
        [] => out.extend_from_slice(b"[]"),
        lengths => write_dimension(lengths, &mut rest, out, &mut element),
    }
}

fn write_dimension(
    lengths: &[usize],
    rest: &mut &[u8],
    out: &mut Vec<u8>,
    element: &mut impl FnMut(&[u8], &mut Vec<u8>),
) {
    let (length, inner) = lengths.split_first().map_or((0, lengths), |(l, i)| (*l, i));
    out.push(b'[');
    for index in 0..length {
        if index > 0 {
            out.push(b',');
        }
        if !inner.is_empty() {
            write_dimension(inner, rest, out, element);
        } else if let Some(Some(bytes)) = next(rest) {
            element(bytes, out);
        } else {
            out.extend_from_slice(b"null");
        }
    }
    out.push(b']');
}

/// The lengths of the dimensions, and the elements.
fn parts(bytes: &[u8]) -> Option<(Vec<usize>, &[u8])> {
    let dimensions = usize::try_from(number(bytes)?).ok()?;
    if dimensions > MOST_DIMENSIONS {
        return None;
    }
    let lengths = (0..dimensions)
        .map(|index| usize::try_from(number(bytes.get(HEADER + index * DIMENSION..)?)?).ok())
        .collect::<Option<_>>()?;
    Some((lengths, bytes.get(HEADER + dimensions * DIMENSION..)?))
}

/// The next element, `Some(None)` for NULL.
#[allow(clippy::option_option)]
fn next<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let length = number(rest)?;
    *rest = rest.get(4..)?;
    let Ok(length) = usize::try_from(length) else {
        return Some(None);
    };
    let element = rest.get(..length)?;
    *rest = &rest[length..];
    Some(Some(element))
}

fn number(bytes: &[u8]) -> Option<i32> {
    bytes
        .first_chunk()
        .map(|first: &[u8; 4]| i32::from_be_bytes(*first))
}
