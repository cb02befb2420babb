//! From the pieces of heads to what they say, in the order in which each connection carries them.

use super::hpack::Decoder;
use crate::user_probes::without_query;
use rustc_hash::FxHashMap;
use weir_wire::stream::{END_HEADERS, Flow, HeadOf, PADDED, PRIORITY, StreamFrame, StreamHead, frame_type};
use weir_wire::trace_context::TraceContext;

/// Connections whose tables are kept; beyond, those go that were silent longest.
const MOST_FLOWS: usize = 1 << 14;
/// Pieces of heads that are kept until their turn; beyond, they are lost, and what follows on their connections.
const MOST_PIECES: usize = 1 << 16;
/// The longest head that is read, bytes.
const HEAD_BYTES_MAX: usize = 1 << 16;

/// A piece of a head: a frame, or the next part of one, with the bytes that were seen of it.
#[derive(Debug, Clone)]
struct Piece {
    at_ns: u64,
    lane: u32,
    frame: StreamFrame,
    bytes: Vec<u8>,
}

/// A frame whose bytes are still coming.
#[derive(Debug)]
struct Open {
    frame: StreamFrame,
    bytes: Vec<u8>,
}

/// One direction of a connection.
#[derive(Debug)]
struct Side {
    /// `None` where the table is not known: the connection is older than the recording, or something was not seen.
    decoder: Option<Decoder>,
    open: Option<Open>,
    /// The head so far, of frames that were whole, and whose it is.
    head: Vec<u8>,
    promised: bool,
}

#[derive(Debug)]
struct Connection {
    sides: [Side; 2],
    last_ns: u64,
}

/// What is kept of a head beside method, path and status.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    /// Queries in paths.
    queries: bool,
    /// The field `traceparent`.
    traces: bool,
}

/// Reads heads.
#[derive(Debug, Default)]
pub struct Heads {
    connections: FxHashMap<Flow, Connection>,
    pieces: Vec<Piece>,
    /// Connections that have ended, and when: their last heads may still be read.
    closed: Vec<(u64, Flow)>,
    kept: Kept,
    /// Heads that could not be read.
    unread: u64,
}

impl Heads {
    /// Queries in paths are kept only if `keep_queries` says so.
    #[must_use]
    pub fn new(keep_queries: bool) -> Self {
        Self { kept: Kept { queries: keep_queries, traces: false }, ..Self::default() }
    }

    /// The same with the traces that requests name in their field `traceparent`.
    #[must_use]
    pub fn with_traces(mut self) -> Self {
        self.kept.traces = true;
        self
    }

    /// Heads that could not be read so far.
    #[must_use]
    pub fn unread(&self) -> u64 {
        self.unread
    }

    /// Takes a frame, or the next part of one; its bytes follow on its lane.
    pub fn frame(&mut self, at_ns: u64, lane: u32, frame: StreamFrame) {
        let matters = matches!(
            frame.kind,
            frame_type::HEADERS | frame_type::CONTINUATION | frame_type::PUSH_PROMISE | frame_type::LOST
        );
        if !matters {
            return;
        }
        if self.pieces.len() >= MOST_PIECES {
            self.unread += 1;
            self.lose(frame.flow, frame.sent, at_ns);
            return;
        }
        self.pieces.push(Piece { at_ns, lane, frame, bytes: Vec::new() });
    }

    /// Takes bytes of the frame that was told last with this time on this lane.
    pub fn bytes(&mut self, at_ns: u64, lane: u32, bytes: &[u8]) {
        let ours = |piece: &&mut Piece| piece.lane == lane && piece.at_ns == at_ns;
        if let Some(piece) = self.pieces.iter_mut().rev().find(ours)
            && piece.bytes.len() + bytes.len() <= HEAD_BYTES_MAX
        {
            piece.bytes.extend_from_slice(bytes);
        }
    }

    /// A connection has ended.
    pub fn close(&mut self, at_ns: u64, flow: Flow) {
        if self.closed.len() < MOST_PIECES {
            self.closed.push((at_ns, flow));
        }
    }

    /// Tells the heads that were whole before a time: by then all lanes have told what they knew of it.
    pub fn read(&mut self, before_ns: u64, tell: &mut dyn FnMut(StreamHead, Option<TraceContext>)) {
        let later = self.pieces.iter().filter(|piece| piece.at_ns >= before_ns).cloned().collect();
        let mut due = std::mem::replace(&mut self.pieces, later);
        due.retain(|piece| piece.at_ns < before_ns);
        due.sort_by_key(|piece| piece.at_ns);
        for piece in due {
            self.piece(piece, tell);
        }
        let Self { closed, connections, .. } = self;
        closed.retain(|(at_ns, flow)| {
            let is_due = *at_ns < before_ns;
            if is_due {
                connections.remove(flow);
            }
            !is_due
        });
    }

    fn lose(&mut self, flow: Flow, sent: bool, at_ns: u64) {
        let side = self.side(flow, sent, false, at_ns);
        (side.decoder, side.open) = (None, None);
    }

    fn side(&mut self, flow: Flow, sent: bool, older: bool, at_ns: u64) -> &mut Side {
        if self.connections.len() >= MOST_FLOWS && !self.connections.contains_key(&flow) {
            let mut times: Vec<u64> = self.connections.values().map(|one| one.last_ns).collect();
            let (_, middle, _) = times.select_nth_unstable(MOST_FLOWS / 2);
            let middle = *middle;
            self.connections.retain(|_, one| one.last_ns > middle);
        }
        let side = || Side { decoder: (!older).then(Decoder::default), open: None, head: Vec::new(), promised: false };
        let connection =
            self.connections.entry(flow).or_insert_with(|| Connection { sides: [side(), side()], last_ns: at_ns });
        connection.last_ns = at_ns;
        &mut connection.sides[usize::from(sent)]
    }

    fn piece(&mut self, piece: Piece, tell: &mut dyn FnMut(StreamHead, Option<TraceContext>)) {
        let Piece { at_ns, frame, bytes, .. } = piece;
        let StreamFrame { flow, sent, older, .. } = frame;
        if frame.kind == frame_type::LOST {
            return self.lose(flow, sent, at_ns);
        }
        let kept = self.kept;
        let side = self.side(flow, sent, older, at_ns);
        if side.decoder.is_none() {
            return;
        }
        match (&mut side.open, frame.more) {
            (Some(open), true) => open.bytes.extend_from_slice(&bytes),
            (None, false) => side.open = Some(Open { frame, bytes }),
            // A part is missing.
            (Some(_), false) | (None, true) => {
                self.unread += 1;
                return self.lose(flow, sent, at_ns);
            }
        }
        match side.whole() {
            Ok(None) => {}
            Ok(Some(frame)) => {
                let head = side.told(frame, kept);
                match head {
                    Some(Some((head, trace))) => tell(head, trace),
                    Some(None) => {}
                    None => {
                        self.unread += 1;
                        self.lose(flow, sent, at_ns);
                    }
                }
            }
            Err(()) => {
                self.unread += 1;
                self.lose(flow, sent, at_ns);
            }
        }
    }
}

impl Side {
    /// Takes in the open frame if it is whole; gives it if the head is whole with it.
    fn whole(&mut self) -> Result<Option<StreamFrame>, ()> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let length = open.frame.length as usize;
        if open.bytes.len() < length {
            self.open = Some(open);
            return Ok(None);
        }
        let mut block = open.bytes.get(..length).ok_or(())?;
        if open.frame.kind != frame_type::CONTINUATION {
            self.promised = open.frame.kind == frame_type::PUSH_PROMISE;
            let mut skipped = if self.promised { 4 } else { 0 };
            if open.frame.frame_flags & PADDED != 0 {
                let (filling, rest) = block.split_first().ok_or(())?;
                block = rest.get(..rest.len().checked_sub(usize::from(*filling)).ok_or(())?).ok_or(())?;
            }
            if open.frame.frame_flags & PRIORITY != 0 && !self.promised {
                skipped += 5;
            }
            block = block.get(skipped..).ok_or(())?;
            self.head.clear();
        }
        if self.head.len() + block.len() > HEAD_BYTES_MAX {
            return Err(());
        }
        self.head.extend_from_slice(block);
        Ok((open.frame.frame_flags & END_HEADERS != 0).then_some(open.frame))
    }

    /// What the head says; `None` within if it is of no stream that is told, `None` if it cannot be read.
    fn told(&mut self, frame: StreamFrame, kept: Kept) -> Option<Option<(StreamHead, Option<TraceContext>)>> {
        let head = std::mem::take(&mut self.head);
        let decoder = self.decoder.as_mut()?;
        let (mut method, mut path, mut status, mut grpc_status) = (None, None, None, None);
        let [mut grpc, mut events, mut websocket] = [false; 3];
        let mut trace = None;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder
            .decode(&head, &mut |name, value| match name {
                b":method" => method = Some(text(value)),
                b":path" => path = Some(text(value)),
                b":protocol" => websocket = value == b"websocket",
                b":status" => status = text(value).parse().ok(),
                b"grpc-status" => grpc_status = text(value).parse().ok(),
                b"content-type" => {
                    grpc = value.starts_with(b"application/grpc");
                    events = value.starts_with(b"text/event-stream");
                }
                b"traceparent" if kept.traces && trace.is_none() => trace = TraceContext::parse(value),
                _ => {}
            })
            .ok()?;
        // The buffer is used again.
        self.head = head;
        self.head.clear();
        if self.promised {
            return Some(None);
        }
        let of = match (frame.sent, status) {
            (false, _) if method.is_none() => return Some(None),
            (false, _) => HeadOf::Request,
            (true, Some(_)) => HeadOf::Response,
            (true, None) => HeadOf::Trailers,
        };
        let path = path.unwrap_or_default();
        let method = if grpc { "gRPC".to_owned() } else { method.unwrap_or_default() };
        let name = match of {
            HeadOf::Request if kept.queries => format!("{method} {path}"),
            HeadOf::Request => without_query(&format!("{method} {path}")),
            HeadOf::Response | HeadOf::Trailers => String::new(),
        };
        let StreamFrame { flow, stream, .. } = frame;
        let trace = trace.filter(|_| of == HeadOf::Request);
        let status = status.unwrap_or(0);
        let head = StreamHead { flow, stream, of, grpc, events, websocket, status, grpc_status, name };
        Some(Some((head, trace)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use weir_wire::stream::END_STREAM;

    fn frame(stream: u32, length: usize, sent: bool, frame_flags: u8) -> StreamFrame {
        StreamFrame {
            flow: Flow::Socket(7),
            stream,
            kind: frame_type::HEADERS,
            sent,
            more: false,
            older: false,
            position: 0,
            length: length as u32,
            frame_flags,
        }
    }

    fn told(heads: &mut Heads) -> Vec<StreamHead> {
        let mut out = Vec::new();
        heads.read(u64::MAX, &mut |head, _| out.push(head));
        out
    }

    /// `:method: GET`, `:path: /a?x=1`, kept in the table.
    const REQUEST: &[u8] = b"\x82\x44\x06/a?x=1";

    #[test]
    fn heads_come_in_the_order_of_time_whichever_lane_told_them() {
        let mut heads = Heads::new(false);
        // The second one names what the first one put into the table, and its lane is read first.
        heads.frame(20, 0, frame(3, 2, false, END_HEADERS | END_STREAM));
        heads.bytes(20, 0, b"\x82\xbe");
        heads.frame(10, 1, frame(1, REQUEST.len(), false, END_HEADERS));
        heads.bytes(10, 1, &REQUEST[..4]);
        heads.bytes(10, 1, &REQUEST[4..]);
        heads.frame(30, 0, frame(1, 1, true, END_HEADERS));
        heads.bytes(30, 0, b"\x8d");
        let out = told(&mut heads);
        assert_eq!(
            out.iter().map(|head| (head.stream, head.name.as_str(), head.status)).collect::<Vec<_>>(),
            [(1, "GET /a", 0), (3, "GET /a", 0), (1, "", 404)]
        );
        assert_eq!(heads.unread(), 0);
        let mut whole = Heads::new(true);
        whole.frame(10, 1, frame(1, REQUEST.len(), false, END_HEADERS));
        whole.bytes(10, 1, REQUEST);
        assert_eq!(told(&mut whole)[0].name, "GET /a?x=1");
    }

    #[test]
    fn a_trace_is_told_only_where_it_may_be_read_and_of_requests_alone() {
        let value = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let field = [&b"\x00\x0btraceparent\x37"[..], value].concat();
        let request = [REQUEST, &field].concat();
        let response = [b"\x8d", &field[..]].concat();
        let traces = |mut heads: Heads| {
            heads.frame(10, 0, frame(1, request.len(), false, END_HEADERS));
            heads.bytes(10, 0, &request);
            heads.frame(20, 0, frame(1, response.len(), true, END_HEADERS));
            heads.bytes(20, 0, &response);
            let mut out = Vec::new();
            heads.read(u64::MAX, &mut |_, trace| out.push(trace));
            out
        };
        assert_eq!(traces(Heads::new(false).with_traces()), [TraceContext::parse(value), None]);
        assert_eq!(traces(Heads::new(false)), [None, None]);
    }

    #[test]
    fn grpc_is_known_by_its_content_and_its_status_comes_in_trailers() {
        let mut heads = Heads::new(false);
        let request = b"\x83\x04\x06/p.S/M\x0f\x10\x16application/grpc+proto";
        heads.frame(1, 0, frame(1, request.len(), false, END_HEADERS));
        heads.bytes(1, 0, request);
        heads.frame(2, 0, frame(1, 1, true, END_HEADERS));
        heads.bytes(2, 0, b"\x88");
        let trailers = b"\x00\x0bgrpc-status\x0213";
        heads.frame(3, 0, frame(1, trailers.len(), true, END_HEADERS | END_STREAM));
        heads.bytes(3, 0, trailers);
        let out = told(&mut heads);
        assert_eq!((out[0].name.as_str(), out[0].grpc), ("gRPC /p.S/M", true));
        assert_eq!((out[1].of, out[1].status), (HeadOf::Response, 200));
        assert_eq!((out[2].of, out[2].grpc_status), (HeadOf::Trailers, Some(13)));
    }

    #[test]
    fn a_request_for_a_websocket_is_known_by_its_protocol() {
        let mut heads = Heads::new(false);
        for (stream, protocol) in [(1, &b"websocket"[..]), (3, b"connect-udp")] {
            let head =
                [b"\x02\x07CONNECT\x04\x05/talk\x00\x09:protocol", &[protocol.len() as u8][..], protocol].concat();
            heads.frame(u64::from(stream), 0, frame(stream, head.len(), false, END_HEADERS));
            heads.bytes(u64::from(stream), 0, &head);
        }
        let out: Vec<_> = told(&mut heads).into_iter().map(|head| (head.name, head.websocket)).collect();
        assert_eq!(out, [("CONNECT /talk".to_owned(), true), ("CONNECT /talk".to_owned(), false)]);
    }

    #[test]
    fn a_head_in_several_frames_with_filling_and_priority_is_one() {
        let mut heads = Heads::new(false);
        let first = [&b"\x02\0\0\0\x01\x10"[..], &REQUEST[..3], b"\0\0"].concat();
        heads.frame(1, 0, frame(1, first.len(), false, PADDED | PRIORITY));
        heads.bytes(1, 0, &first[..7]);
        // The rest of the frame came with the next call.
        heads.frame(2, 0, StreamFrame { more: true, ..frame(1, first.len() - 7, false, PADDED | PRIORITY) });
        heads.bytes(2, 0, &first[7..]);
        let rest = StreamFrame { kind: frame_type::CONTINUATION, ..frame(1, REQUEST.len() - 3, false, END_HEADERS) };
        heads.frame(3, 0, rest);
        heads.bytes(3, 0, &REQUEST[3..]);
        assert_eq!(told(&mut heads).iter().map(|head| head.name.as_str()).collect::<Vec<_>>(), ["GET /a"]);
    }

    #[test]
    fn what_was_not_seen_is_not_guessed() {
        let mut heads = Heads::new(false);
        // Bytes are missing: nothing more is read of this direction.
        heads.frame(1, 0, frame(1, REQUEST.len(), false, END_HEADERS));
        heads.bytes(1, 0, &REQUEST[..3]);
        heads.frame(2, 0, frame(3, REQUEST.len(), false, END_HEADERS));
        heads.bytes(2, 0, REQUEST);
        assert!(told(&mut heads).is_empty() && heads.unread() == 1);
        heads.frame(3, 0, frame(5, REQUEST.len(), false, END_HEADERS));
        heads.bytes(3, 0, REQUEST);
        heads.frame(4, 0, frame(1, 1, true, END_HEADERS));
        heads.bytes(4, 0, b"\x88");
        assert_eq!(told(&mut heads).iter().map(|head| head.status).collect::<Vec<_>>(), [200]);
        let mut older = Heads::new(false);
        older.frame(3, 0, StreamFrame { older: true, ..frame(5, REQUEST.len(), false, END_HEADERS) });
        older.bytes(3, 0, REQUEST);
        assert!(told(&mut older).is_empty());
    }

    proptest! {
        #[test]
        fn no_frames_break_it(
            frames in proptest::collection::vec(
                (0u64..9, 0u32..2, 0u8..16, any::<[bool; 3]>(), 0u32..40, any::<u8>(), proptest::collection::vec(any::<u8>(), 0..40)),
                0..60,
            ),
        ) {
            let mut heads = Heads::new(false);
            for (at_ns, lane, kind, [sent, more, older], length, frame_flags, bytes) in frames {
                heads.frame(at_ns, lane, StreamFrame { kind, more, older, ..frame(1, length as usize, sent, frame_flags) });
                heads.bytes(at_ns, lane, &bytes);
                if kind == 9 {
                    heads.read(at_ns, &mut |_, _| {});
                }
            }
            for head in told(&mut heads) {
                prop_assert!(!head.name.contains('?'));
            }
            prop_assert!(heads.pieces.is_empty());
        }
    }
}
