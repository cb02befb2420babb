//! The trace that a request belongs to, as its own field `traceparent` says (W3C Trace Context, version 00).

use crate::stream::Flow;
use crate::{Kind, Record};

/// Flag of [`Kind::TraceContext`]: the first of two records, with the trace's number.
pub const TRACE: u8 = 1;
/// Flag of [`Kind::TraceContext`]: the second one, with the span's.
pub const SPAN: u8 = 2;
/// Flag of the second one: the caller keeps its span.
const SAMPLED: u8 = 4;
/// Flag of the second one: it is a stream's of HTTP/2.
const STREAM: u8 = 8;
/// Flag of the second one: this stream's connection goes through a TLS library, whose number of it the flow's is.
const THROUGH_TLS: u8 = 16;
/// Flag of the second one: it is that of the request that the running task takes from its TLS library.
const TASK: u8 = 32;
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

/// Whose trace is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TraceOf {
    /// That of what a task took from this socket at this time.
    Socket(u32),
    /// That of the request of this stream.
    Stream(Flow, u32),
    /// That of the request that the running task takes from its TLS library at this time.
    Task,
}

impl TraceOf {
    /// Whose the second of two records is, or a record that tells of none.
    #[must_use]
    pub fn read(record: &Record) -> Self {
        let (low, high) = (record.b as u32, (record.b >> 32) as u32);
        match record.flags {
            flags if flags & TASK != 0 => Self::Task,
            flags if flags & STREAM != 0 && flags & THROUGH_TLS != 0 => Self::Stream(Flow::Tls(low), high),
            flags if flags & STREAM != 0 => Self::Stream(Flow::Socket(low), high),
            _ => Self::Socket(low),
        }
    }

    /// Its flags, and the second operand.
    fn written(self) -> (u8, u64) {
        match self {
            Self::Socket(socket) => (0, u64::from(socket)),
            Self::Stream(Flow::Socket(number), stream) => (STREAM, u64::from(number) | u64::from(stream) << 32),
            Self::Stream(Flow::Tls(number), stream) => {
                (STREAM | THROUGH_TLS, u64::from(number) | u64::from(stream) << 32)
            }
            Self::Task => (TASK, 0),
        }
    }

    /// The record that tells that what it is of names no trace, as far as is known.
    #[must_use]
    pub fn none(self, time_ns: u64, lane: u32) -> Record {
        let (flags, b) = self.written();
        Record { time_ns, kind: Kind::TraceContext as u16, flags, lane, b, ..Record::default() }
    }
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

    /// The two records that tell it.
    #[must_use]
    pub fn write(self, of: TraceOf, time_ns: u64, lane: u32) -> [Record; 2] {
        let kind = Kind::TraceContext as u16;
        let (flags, b) = of.written();
        let flags = flags | SPAN | if self.sampled { SAMPLED } else { 0 };
        let (high, low) = ((self.trace >> 64) as u64, self.trace as u64);
        [
            Record { time_ns, kind, flags: TRACE, lane, a: high, b: low, ..Record::default() },
            Record { time_ns, kind, flags, lane, a: self.span, b, ..Record::default() },
        ]
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
        fn it_comes_back(trace in 1u128.., span in 1u64.., sampled: bool, number: u32, stream: u32, of in 0..4) {
            let context = TraceContext { trace, span, sampled };
            let text = format!("00-{trace:032x}-{span:016x}-{:02x}", u8::from(sampled));
            prop_assert_eq!(TraceContext::parse(text.as_bytes()), Some(context));
            let of = match of {
                0 => TraceOf::Socket(number),
                1 => TraceOf::Stream(Flow::Socket(number), stream),
                2 => TraceOf::Stream(Flow::Tls(number), stream),
                _ => TraceOf::Task,
            };
            let [first, second] = context.write(of, 7, 3);
            prop_assert_eq!(TraceContext::read(&first, &second), Some(context));
            prop_assert_eq!((TraceOf::read(&second), TraceOf::read(&of.none(7, 3))), (of, of));
            prop_assert_eq!(TraceContext::read(&first, &of.none(7, 3)), None);
            prop_assert_eq!(TraceContext::read(&second, &first), None);
        }

        #[test]
        fn no_value_breaks_it(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = TraceContext::parse(&value);
        }
    }
}
