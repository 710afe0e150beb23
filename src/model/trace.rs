//! Where a tick stands in a trace: the `traceparent` of W3C's Trace Context.
//!
//! Read strictly, because what is wrong would be passed on to receivers: a broken one counts as
//! none. `tracestate` is left out: it is for the tools of whoever began the trace.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

/// Recorded by the caller. A trace that begins without it is dropped by most receivers.
const SAMPLED: u8 = 1;

/// One span of one trace, in version 00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace: NonZeroU128,
    span: NonZeroU64,
    flags: u8,
}

impl TraceParent {
    /// `None` for everything that is not exactly `00-{32 hex}-{16 hex}-{2 hex}` in lower case, with
    /// ids that are not zero.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let mut part = |digits| parts.next().and_then(|part| hex(part, digits));
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        if version != 0 || parts.next().is_some() {
            return None;
        }
        Some(Self {
            trace: NonZeroU128::new(trace)?,
            span: NonZeroU64::new(u64::try_from(span).ok()?)?,
            flags: u8::try_from(flags).ok()?,
        })
    }

    /// The first span of a new trace.
    #[must_use]
    pub fn begin(trace: u128, span: u128) -> Self {
        Self {
            trace: NonZeroU128::new(trace).unwrap_or(NonZeroU128::MIN),
            span: span_id(span),
            flags: SAMPLED,
        }
    }

    /// Another span of the same trace.
    #[must_use]
    pub fn child(self, span: u128) -> Self {
        Self {
            span: span_id(span),
            ..self
        }
    }

    /// `None`: an id of zeros is none.
    #[must_use]
    pub fn of(trace: u128, span: u64, flags: u8) -> Option<Self> {
        Some(Self {
            trace: NonZeroU128::new(trace)?,
            span: NonZeroU64::new(span)?,
            flags,
        })
    }

    /// Trace, span, flags.
    #[must_use]
    pub fn parts(self) -> (u128, u64, u8) {
        (self.trace.get(), self.span.get(), self.flags)
    }

    /// For log queries: the `operation_Id` of Application Insights.
    #[must_use]
    pub fn trace_id(self) -> String {
        format!("{:032x}", self.trace)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, flags } = self;
        write!(f, "00-{trace:032x}-{span:016x}-{flags:02x}")
    }
}

/// Half of the randomness is enough for one.
fn span_id(random: u128) -> NonZeroU64 {
    NonZeroU64::new(random as u64).unwrap_or(NonZeroU64::MIN)
}

/// `from_str_radix` takes signs and capitals.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let plain = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != digits || !text.bytes().all(plain) {
        return None;
    }
    u128::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn only_what_is_exactly_a_traceparent_is_one() {
        for text in [
            EXAMPLE,
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff",
            "00-00000000000000000000000000000001-0000000000000001-00",
        ] {
            let parsed = TraceParent::parse(text).map(|parent| parent.to_string());
            assert_eq!(parsed.as_deref(), Some(text));
        }
        for text in [
            "",
            "00",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0A",
            "00-af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-+af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1",
            "00_0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331_01",
            " 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\n",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b71692033é-01",
        ] {
            assert_eq!(TraceParent::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_child_is_another_span_of_the_same_trace() {
        let parent = TraceParent::parse(EXAMPLE).unwrap();
        let child = parent.child(0xabc).to_string();
        assert_eq!(
            child,
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000abc-01"
        );
        assert_eq!(parent.trace_id(), "0af7651916cd43dd8448eb211c80319c");
    }

    proptest! {
        #[test]
        fn whatever_is_made_can_be_read_back(trace: u128, span: u128, other: u128, flags: u8) {
            let begun = TraceParent::begin(trace, span);
            let begun = TraceParent { flags, ..begun };
            let child = begun.child(other);
            prop_assert_eq!(TraceParent::parse(&begun.to_string()), Some(begun));
            prop_assert_eq!(TraceParent::parse(&child.to_string()), Some(child));
            let (of_trace, of_span, of_flags) = begun.parts();
            prop_assert_eq!(TraceParent::of(of_trace, of_span, of_flags), Some(begun));
            prop_assert_eq!((child.trace, child.flags), (begun.trace, flags));
        }

        #[test]
        fn no_text_is_read_as_another(text in "[0-9a-f+A-]{0,60}") {
            let read = TraceParent::parse(&text).map(|parent| parent.to_string());
            prop_assert!(read.is_none_or(|read| read == text));
        }
    }

    #[test]
    fn no_randomness_makes_an_id_of_zeros() {
        for random in [0, 1 << 64] {
            let begun = TraceParent::begin(0, random);
            assert_eq!(TraceParent::parse(&begun.to_string()), Some(begun));
        }
    }
}
