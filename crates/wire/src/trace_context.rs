//! The trace that a request belongs to, as its own field `traceparent` says (W3C Trace Context, version 00).

use crate::{Kind, Record};

/// Flag of [`Kind::TraceContext`]: the first of two records, with the trace's number.
pub const TRACE: u8 = 1;
/// Flag of [`Kind::TraceContext`]: the second one, with the span's.
pub const SPAN: u8 = 2;
/// Flag of the second one: the caller keeps its span.
const SAMPLED: u8 = 4;
/// Characters of the field's value in version 00; a later version may have more behind a hyphen.
const LENGTH: usize = 55;

/// The trace of a request, and the span of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    /// The trace, never 0.
    pub trace: u128,
    /// The caller's span, never 0.
    pub span: u64,
    /// Whether the caller keeps its span.
    pub sampled: bool,
}

impl TraceContext {
    /// The value of a field `traceparent`; `None` if it is none.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let whole = value.len() == LENGTH || (value.len() > LENGTH && value.get(LENGTH) == Some(&b'-'));
        let part = |from: usize, to: usize| value.get(from..to);
        let is_hyphened = [2, 35, 52].iter().all(|at| value.get(*at) == Some(&b'-'));
        let version = hex(part(0, 2)?)?;
        if !whole || !is_hyphened || version == 0xff || (version == 0 && value.len() != LENGTH) {
            return None;
        }
        let (trace, span, flags) = (hex(part(3, 35)?)?, hex(part(36, 52)?)?, hex(part(53, 55)?)?);
        (trace != 0 && span != 0).then_some(Self { trace, span: span as u64, sampled: flags & 1 == 1 })
    }

    /// The two records that tell it, of what a task took from a socket at this time.
    #[must_use]
    pub fn write(self, socket: u32, time_ns: u64, lane: u32) -> [Record; 2] {
        let kind = Kind::TraceContext as u16;
        let flags = SPAN | if self.sampled { SAMPLED } else { 0 };
        let (high, low) = ((self.trace >> 64) as u64, self.trace as u64);
        [
            Record { time_ns, kind, flags: TRACE, lane, a: high, b: low, ..Record::default() },
            Record { time_ns, kind, flags, lane, a: self.span, b: u64::from(socket), ..Record::default() },
        ]
    }

    /// The record that tells that a task took bytes from a socket, in which there is no such field as far as is known.
    #[must_use]
    pub fn none(socket: u32, time_ns: u64, lane: u32) -> Record {
        Record { time_ns, kind: Kind::TraceContext as u16, lane, b: u64::from(socket), ..Record::default() }
    }

    /// From the two records.
    #[must_use]
    pub fn read(first: &Record, second: &Record) -> Option<Self> {
        let kind = Kind::TraceContext as u16;
        let fits = first.kind == kind && second.kind == kind && first.flags == TRACE && second.flags & SPAN != 0;
        let trace = u128::from(first.a) << 64 | u128::from(first.b);
        (fits && trace != 0 && second.a != 0).then_some(Self {
            trace,
            span: second.a,
            sampled: second.flags & SAMPLED != 0,
        })
    }
}

/// A number of small hexadecimal digits: large ones are none (W3C Trace Context 3.2).
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0u128, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_what_the_standard_allows_is_read() {
        let value = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let read = TraceContext::parse(value.as_bytes()).expect("the standard's own example");
        assert_eq!((read.trace, read.span), (0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, 0xb7ad_6b71_6920_3331));
        assert!(read.sampled);
        let later = format!("01{}-more", &value[2..]);
        assert_eq!(TraceContext::parse(later.as_bytes()), Some(read));
        for wrong in [
            "",
            &value[..54],
            &format!("{value}-more"),
            &format!("ff{}", &value[2..]),
            &value.to_uppercase(),
            &value.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &value.replace("b7ad6b7169203331", &"0".repeat(16)),
            &value.replace("-b7", "_b7"),
        ] {
            assert_eq!(TraceContext::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn it_comes_back(trace in 1u128.., span in 1u64.., sampled: bool, socket: u32) {
            let context = TraceContext { trace, span, sampled };
            let text = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(sampled));
            prop_assert_eq!(TraceContext::parse(text.as_bytes()), Some(context));
            let [first, second] = context.write(socket, 7, 3);
            prop_assert_eq!(TraceContext::read(&first, &second), Some(context));
            prop_assert_eq!(TraceContext::read(&second, &first), None);
        }

        #[test]
        fn no_value_breaks_it(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = TraceContext::parse(&value);
        }
    }
}
