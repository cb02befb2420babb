//! The source of traces: finds the field `traceparent` in the heads of requests of HTTP/1.1 that the server takes in the
//! clear (those of HTTP/2, and over TLS, are found by [`crate::http2::Streams`]). It is loaded only where its user has
//! allowed to read heads.
//!
//! Of each call that takes bytes the spine copies the first ones. Of these the field's value is kept, and nothing else.

use crate::error::CaptureError;
use crate::event_source::EventSource;
use crate::kind_set::KindSet;
use crate::probes::Probes;
use rustc_hash::FxHashMap;
use weir_wire::asked::AskedCall;
use weir_wire::trace_context::{TraceContext, TraceOf};
use weir_wire::{Kind, Record};

/// Chunks of 56 bytes that are copied of a call: a head of some 15 fields.
pub(crate) const CHUNKS: u32 = 18;
/// The same in bytes.
pub(crate) const MOST_BYTES: usize = 1008;
/// The text in a run's dictionary that these records name; it says what they are.
pub(crate) const NAME: (u32, &str) = (0x4500_0000, "traceparent");

/// A call whose bytes are put together.
#[derive(Debug)]
struct Open {
    at_ns: u64,
    socket: u32,
    bytes: Vec<u8>,
}

/// The source.
#[derive(Debug, Default)]
pub struct TraceHeaders {
    /// By lane: of each the call that was told last.
    open: FxHashMap<u32, Open>,
}

impl TraceHeaders {
    /// Has the probes copy the first bytes that the server takes.
    #[must_use]
    pub fn load(probes: &mut Probes) -> Self {
        probes.tell_heads(CHUNKS);
        Self::default()
    }
}

impl EventSource for TraceHeaders {
    fn name(&self) -> &'static str {
        "trace-headers"
    }

    fn attach(&mut self) -> Result<(), CaptureError> {
        Ok(())
    }

    fn detach(&mut self) {
        self.open.clear();
    }

    fn rewrites(&self) -> KindSet {
        KindSet::of(&[Kind::AskedCall, Kind::AskedBytes])
    }

    fn rewrite(&mut self, record: &Record, tell: &mut dyn FnMut(Record, (u32, &str))) -> bool {
        if let Some(call) = AskedCall::read(record) {
            if !call.served {
                self.open.remove(&record.lane);
                return false;
            }
            tell(TraceOf::Socket(call.socket).none(record.time_ns, record.lane), NAME);
            let open = Open { at_ns: record.time_ns, socket: call.socket, bytes: Vec::new() };
            self.open.insert(record.lane, open);
            return true;
        }
        if record.kind != Kind::AskedBytes as u16 {
            return false;
        }
        let Some(open) = self.open.get_mut(&record.lane).filter(|open| open.at_ns == record.time_ns) else {
            return false;
        };
        let words = record.a.to_le_bytes();
        if open.bytes.len() < MOST_BYTES {
            open.bytes.extend_from_slice(&words[..usize::from(record.flags).min(words.len())]);
        }
        if let Some(context) = traceparent(&open.bytes) {
            let of = TraceOf::Socket(open.socket);
            context.write(of, record.time_ns, record.lane).into_iter().for_each(|record| tell(record, NAME));
            // The bytes that follow are of no use; that they are ours must stay known.
            open.bytes.clear();
            open.bytes.resize(MOST_BYTES, 0);
        }
        true
    }
}

/// The trace that a head of HTTP/1.1 names, once the line that says so is whole; `None` in what is no head.
///
/// Of several such fields the first counts: those behind it need not have been copied.
#[must_use]
pub fn traceparent(head: &[u8]) -> Option<TraceContext> {
    const FIELD: &[u8] = b"traceparent:";
    let mut lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    let request = lines.next()?.trim_ascii_end();
    if !request.ends_with(b" HTTP/1.1") && !request.ends_with(b" HTTP/1.0") {
        return None;
    }
    for line in lines {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            return None; // What follows is content.
        }
        if line.get(..FIELD.len()).is_some_and(|name| name.eq_ignore_ascii_case(FIELD)) {
            return TraceContext::parse(line[FIELD.len()..].trim_ascii());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VALUE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn call(socket: u32, served: bool, at_ns: u64) -> Record {
        AskedCall { socket, given: false, served, length: 400, pid: 7 }.write(at_ns, 2)
    }

    fn pieces(text: &str, at_ns: u64) -> impl Iterator<Item = Record> {
        text.as_bytes().chunks(8).map(move |piece| {
            let mut word = [0; 8];
            word[..piece.len()].copy_from_slice(piece);
            let (kind, flags) = (Kind::AskedBytes as u16, piece.len() as u8);
            Record { time_ns: at_ns, kind, flags, lane: 2, a: u64::from_le_bytes(word), ..Record::default() }
        })
    }

    #[test]
    fn a_head_tells_its_trace_and_nothing_else_of_it_is_told() {
        let mut source = TraceHeaders::default();
        let mut told = Vec::new();
        let head = format!("GET /a?secret=1 HTTP/1.1\r\nHost: h\r\nTraceParent: {VALUE} \r\nCookie: secret\r\n\r\n");
        for record in [call(9, true, 50)].into_iter().chain(pieces(&head, 50)) {
            assert!(source.rewrite(&record, &mut |record, _| told.push(record)));
        }
        let expected = TraceContext::parse(VALUE.as_bytes()).expect("a value");
        let [first, second] = expected.write(TraceOf::Socket(9), 50, 2);
        assert_eq!(told, [TraceOf::Socket(9).none(50, 2), first, second]);
        // What the server asks is another source's, on the same CPU.
        assert!(!source.rewrite(&call(9, false, 60), &mut |_, _| panic!("nothing")));
        assert!(!source.rewrite(&pieces("GET", 60).next().expect("a piece"), &mut |_, _| panic!("nothing")));
    }

    #[test]
    fn only_a_heads_own_field_is_one() {
        let field = format!("traceparent: {VALUE}\r\n");
        assert!(traceparent(format!("GET / HTTP/1.1\r\n{field}").as_bytes()).is_some());
        for none in [
            format!("POST / HTTP/1.1\r\nHost: h\r\n\r\n{field}"),
            format!("GET / HTTP/1.1\r\nX-{field}"),
            format!("GET / HTTP/1.1\r\ntraceparent: {VALUE}"),
            format!("a line of content\r\n{field}"),
            field,
        ] {
            assert_eq!(traceparent(none.as_bytes()), None, "{none}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..400), cut in 0usize..400) {
            let _ = traceparent(&bytes);
            let head = format!("GET / HTTP/1.1\r\ntraceparent: {VALUE}\r\n");
            prop_assert!(traceparent(&head.as_bytes()[..cut.min(head.len() - 1)]).is_none());
        }
    }
}
