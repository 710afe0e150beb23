//! A door for fuzzing: values as they come over the wire, without a server.

use super::kind::Type;
use crate::model::position::Scalar;

/// Of a built-in type, or of an array of them: the JSON, and the place in the order where there is one. `None`: the
/// row is refused.
#[must_use]
pub fn value(oid: u32, array: bool, bytes: &[u8]) -> Option<(Vec<u8>, Option<Scalar>)> {
    let form = Type {
        oid,
        name: String::new(),
        modifier: 1,
        shown: String::new(),
        is_enum: false,
        element: array.then_some(oid),
    }
    .form();
    if !form.fits(bytes) {
        return None;
    }
    let mut json = Vec::new();
    form.write(bytes, &mut json);
    form.kind.is_set(bytes);
    let scalar = form.kind.scalar(bytes).filter(|_| !form.array);
    Some((json, scalar))
}
