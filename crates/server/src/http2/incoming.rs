//! Handles the frames of a client (RFC 9113 sections 5 and 6), each with the errors that it can cause.

use super::connection::{Connection, GOAWAY_PING};
use super::message::{self, FIELDS_MAX, Unfit};
use super::parked::Parked;
use super::stream::{Stream, UNACKNOWLEDGED_BYTES_MAX, WINDOW_BYTES};
use crate::exchange::life::Exchange;
use crate::http::fields::{Bounds, Fields};
use crate::http::frames::allowance::cost;
use crate::http::frames::frame::{self, Code, HEAD_BYTES, Head, PAYLOAD_BYTES_MAX, WINDOW_MAX, flag, kind};
use crate::http::framing::Framing;
use crate::http::preface::{self, PREFACE};
use crate::http::request::{AllFields, Request};
use crate::http2::continued::Continued;
use crate::loop_state::{LoopState, StreamOf, applications};
use weir_wire::static_probe;

impl Connection {
    /// Takes up the frames that `input` begins with; returns the bytes of them. After an error nothing is left.
    pub(super) fn frames(&mut self, input: &[u8], state: &mut LoopState) -> usize {
        let mut at = 0;
        if !self.has_preface {
            if !preface::begins(input) {
                self.fail(Code::Protocol, state);
                return input.len();
            }
            if input.len() < PREFACE.len() {
                return 0;
            }
            self.has_preface = true;
            at = PREFACE.len();
        }
        while let Some(head) = Head::read(&input[at..]) {
            if head.len > PAYLOAD_BYTES_MAX {
                self.fail(Code::FrameSize, state);
                return input.len();
            }
            let Some(payload) = input.get(at + HEAD_BYTES..at + HEAD_BYTES + head.len) else { break };
            if let Err(code) = self.frame(head, payload, state) {
                self.fail(code, state);
                return input.len();
            }
            at += HEAD_BYTES + head.len;
        }
        at
    }

    fn frame(&mut self, head: Head, payload: &[u8], state: &mut LoopState) -> Result<(), Code> {
        if !self.has_settings && (head.kind != kind::SETTINGS || head.has(flag::ACK)) {
            return Err(Code::Protocol);
        }
        if self.continued.is_some() {
            return self.continuation(head, payload, state);
        }
        match head.kind {
            kind::DATA => self.data(head, payload, state),
            kind::HEADERS => {
                static_probe!("read");
                let (block, depends_on) = frame::headers(&head, payload)?;
                if head.stream.is_multiple_of(2) {
                    return Err(Code::Protocol);
                }
                if head.has(flag::END_HEADERS) {
                    return self.headers(head, block, depends_on, state);
                }
                self.continued = Some(Continued { head, block: block.to_vec(), depends_on });
                Ok(())
            }
            kind::PRIORITY => {
                self.spend(cost::FRAME, state)?;
                match payload.len() {
                    5 if head.stream == 0 => Err(Code::Protocol),
                    5 if frame::word(payload) & 0x7fff_ffff == head.stream => Err(Code::Protocol),
                    5 => Ok(()),
                    _ => Err(Code::FrameSize),
                }
            }
            kind::RST_STREAM => self.reset_by_client(head, payload, state),
            kind::SETTINGS => self.settings(head, payload, state),
            kind::PING => {
                self.spend(cost::FRAME, state)?;
                match payload.len() {
                    8 if head.stream != 0 => Err(Code::Protocol),
                    8 if head.has(flag::ACK) => {
                        self.has_heard |= payload == GOAWAY_PING;
                        Ok(())
                    }
                    8 => {
                        frame::head(&mut self.control, 8, kind::PING, flag::ACK, 0);
                        self.control.extend_from_slice(payload);
                        Ok(())
                    }
                    _ => Err(Code::FrameSize),
                }
            }
            kind::GOAWAY if head.stream != 0 => Err(Code::Protocol),
            kind::GOAWAY if payload.len() < 8 => Err(Code::FrameSize),
            // The client asks for nothing more, and what it asked for is answered.
            kind::GOAWAY => self.spend(cost::FRAME, state),
            kind::WINDOW_UPDATE => self.window_update(head, payload, state),
            kind::PUSH_PROMISE | kind::CONTINUATION => Err(Code::Protocol),
            // What is unknown means nothing (section 5.5).
            _ => self.spend(cost::FRAME, state),
        }
    }

    fn spend(&mut self, tokens: u64, state: &LoopState) -> Result<(), Code> {
        if self.allowance.spend(tokens, state.clock.now_ms) { Ok(()) } else { Err(Code::EnhanceYourCalm) }
    }

    /// More of a block: nothing else may come between (section 6.10).
    fn continuation(&mut self, head: Head, payload: &[u8], state: &mut LoopState) -> Result<(), Code> {
        self.spend(cost::FRAME, state)?;
        let Some(continued) = self.continued.as_mut() else { return Err(Code::Protocol) };
        if head.kind != kind::CONTINUATION || head.stream != continued.head.stream {
            return Err(Code::Protocol);
        }
        // Compressed it is hardly ever larger than what it says; what is far too large is not kept for reading.
        if continued.block.len() + payload.len() > 2 * state.limits.head_bytes_max.max(PAYLOAD_BYTES_MAX) {
            return Err(Code::EnhanceYourCalm);
        }
        continued.block.extend_from_slice(payload);
        if head.has(flag::END_HEADERS)
            && let Some(continued) = self.continued.take()
        {
            return self.headers(continued.head, &continued.block, continued.depends_on, state);
        }
        Ok(())
    }

    /// A complete block: a request, or what comes after its body.
    fn headers(
        &mut self,
        head: Head,
        block: &[u8],
        depends_on: Option<u32>,
        state: &mut LoopState,
    ) -> Result<(), Code> {
        let bounds = Bounds { bytes_max: state.limits.head_bytes_max, fields_max: FIELDS_MAX };
        let decoded = self.decoder.decode(block, bounds, &mut state.fields);
        decoded.map_err(|_| Code::Compression)?;
        let id = head.stream;
        if id <= self.last {
            return self.trailers(head, state);
        }
        self.last = id;
        if depends_on == Some(id) {
            return self.refuse(id, Code::Protocol, state);
        }
        if self.goaway.is_said() || self.streams.len() >= state.limits.streams_max {
            return self.refuse(id, Code::RefusedStream, state);
        }
        self.open(id, head.has(flag::END_STREAM), state)
    }

    fn trailers(&mut self, head: Head, state: &mut LoopState) -> Result<(), Code> {
        let Some(place) = self.place(head.stream) else { return self.unknown(head.stream) };
        if self.streams[place].is_received {
            return self.reset(place, Code::StreamClosed, state);
        }
        let are_last = head.has(flag::END_STREAM) && message::are_trailers(&state.fields);
        let stream = &mut self.streams[place];
        if are_last && stream.keeps_body() && !stream.body().put_fields(state.fields.iter()) {
            return self.reset(place, Code::EnhanceYourCalm, state);
        }
        if !are_last || !self.streams[place].ends_well() {
            return self.reset(place, Code::Protocol, state);
        }
        Ok(())
    }

    /// Takes up a request, and makes its response unless it must wait.
    fn open(&mut self, id: u32, is_received: bool, state: &mut LoopState) -> Result<(), Code> {
        let fields = std::mem::take(&mut state.fields);
        let opened = self.open_with(&fields, id, is_received, state);
        state.fields = fields;
        opened
    }

    fn open_with(&mut self, fields: &Fields, id: u32, is_received: bool, state: &mut LoopState) -> Result<(), Code> {
        let mut exchange = self.spare.pop().unwrap_or_default();
        let (mut body_expected, mut is_held, mut parked, mut expects) = (None, !is_received, None, false);
        match message::request(fields, 2, &state.limits) {
            Ok(mut request) => {
                request.all = AllFields::Block(fields);
                if let Framing::Length(bytes) = request.framing {
                    body_expected = Some(bytes);
                    // A body that is not wanted is not waited for, nor is one that waits for a word.
                    is_held &= bytes <= state.limits.body_bytes_max;
                }
                is_held &= !request.expects_continue;
                if is_received && body_expected.is_some_and(|bytes| bytes > 0) {
                    self.spare.push(exchange);
                    return self.refuse(id, Code::Protocol, state);
                }
                let whose = (self.peer, &self.client_peer(), u64::from(id));
                if state.router.must_wait(&request, self.peer.ip(), || whose.1.is_secure, &state.clock) {
                    parked = Some(Parked::new(fields, false, state));
                } else if !state.answer(&request, whose, &mut self.received, &mut exchange) {
                    parked = Some(Parked::new(fields, true, state));
                } else if exchange.is_awaited() {
                    // Its head comes later, and the body is for the application.
                    (is_held, expects) = (false, request.expects_continue);
                    self.begin_application(&request, &mut exchange, is_received, state);
                } else if std::mem::take(&mut self.owes_alt_svc) {
                    state.alt_svc.apply(&mut exchange, true);
                }
            }
            Err(Unfit::Malformed) => {
                self.spare.push(exchange);
                return self.refuse(id, Code::Protocol, state);
            }
            Err(Unfit::Status(status)) => {
                let (peer, socket) = (&self.client_peer(), self.peer);
                let from = StreamOf { peer, socket, stream: u64::from(id), version: 2 };
                state.answer_unfit(status, &from, &mut exchange);
            }
        }
        self.streams.push(Stream {
            id,
            exchange,
            window: self.stream_window,
            is_held,
            is_received,
            body_expected,
            body_bytes: 0,
            body_unacknowledged: 0,
            since_ms: state.clock.now_ms,
            head_is_sent: false,
            parked,
            early: None,
        });
        if expects && !is_received {
            let Self { streams, control, table_is_due, .. } = self;
            streams.last().into_iter().for_each(|stream| stream.ask_for_body(control, table_is_due));
        }
        state.counts().http2_streams.add(1);
        self.is_new = true;
        Ok(())
    }

    /// Answers the parked requests whose passwords have been checked.
    pub(super) fn answer_parked(&mut self, state: &mut LoopState) {
        for place in 0..self.streams.len() {
            if !self.streams[place].waits() {
                self.look_again(place, state);
            }
        }
    }

    /// Answers a request whose turn it may be among those that wait for others.
    pub(crate) fn answer_waiting(&mut self, id: u64, state: &mut LoopState) {
        if let Some(place) = self.streams.iter().position(|stream| u64::from(stream.id) == id) {
            self.look_again(place, state);
        }
    }

    fn look_again(&mut self, place: usize, state: &mut LoopState) {
        let whose = (self.peer, &self.client_peer(), u64::from(self.streams[place].id));
        let stream = &mut self.streams[place];
        let Some(parked) = stream.parked.take() else { return };
        let (is_received, client) = (stream.is_received, self.client_peer());
        let stream = &mut self.streams[place];
        let (mut expects, mut early) = (false, stream.early.take());
        let begin = |request: &Request<'_>, exchange: &mut Exchange, state: &LoopState| {
            expects = request.expects_continue;
            let received = (is_received, early.take());
            applications::begin(request, exchange, &client, Some(state.applications.token), received, state);
        };
        stream.parked = parked.answer(2, whose, state, &mut stream.exchange, begin);
        if stream.exchange.is_awaited() {
            stream.is_held = false;
            if expects && !stream.is_received && stream.body_bytes == 0 {
                stream.ask_for_body(&mut self.control, &mut self.table_is_due);
            }
        }
        stream.early = early.filter(|_| stream.parked.is_some());
        if stream.parked.is_none() {
            stream.since_ms = state.clock.now_ms;
            if !stream.exchange.is_awaited() && std::mem::take(&mut self.owes_alt_svc) {
                state.alt_svc.apply(&mut stream.exchange, true);
            }
            hold_a_window(&mut stream.exchange);
            match stream.exchange.streamed() {
                Some(_) => {}
                None if stream.is_held => {
                    // It is discarded, and more of it may come.
                    let back = std::mem::take(&mut stream.body_unacknowledged);
                    stream.is_held = stream.body_bytes <= state.limits.body_bytes_max;
                    if back > 0 {
                        frame::number(&mut self.control, kind::WINDOW_UPDATE, stream.id, back);
                    }
                }
                None => {}
            }
        }
    }

    fn begin_application(&self, request: &Request<'_>, exchange: &mut Exchange, is_received: bool, state: &LoopState) {
        let token = Some(state.applications.token);
        applications::begin(request, exchange, &self.client_peer(), token, (is_received, None), state);
        hold_a_window(exchange);
    }

    /// Takes a stream out of the queue of those that wait, as its client does not want the answer any more.
    pub(super) fn leave_queue(&self, place: usize, state: &mut LoopState) {
        let stream = &self.streams[place];
        if stream.parked.is_some() {
            state.remove_gone(self.number, Some(u64::from(stream.id)));
        }
    }

    /// Part of a request's body, which is read and ignored.
    fn data(&mut self, head: Head, payload: &[u8], state: &mut LoopState) -> Result<(), Code> {
        if head.stream == 0 || self.is_idle(head.stream) {
            return Err(Code::Protocol);
        }
        let data = frame::unpadded(&head, payload)?;
        // Padding counts too (section 6.9.1).
        self.receive_window -= head.len as i64;
        if self.receive_window < 0 {
            return Err(Code::FlowControl);
        }
        if WINDOW_BYTES - self.receive_window >= i64::from(UNACKNOWLEDGED_BYTES_MAX) {
            // At most the window, which is below this type's most.
            let back = (WINDOW_BYTES - self.receive_window) as u32;
            frame::number(&mut self.control, kind::WINDOW_UPDATE, 0, back);
            self.receive_window = WINDOW_BYTES;
        }
        let is_last = head.has(flag::END_STREAM);
        if data.is_empty() && !is_last {
            self.spend(cost::FRAME, state)?;
        }
        let Some(place) = self.place(head.stream) else { return self.unknown(head.stream) };
        let stream = &mut self.streams[place];
        if stream.is_received {
            return self.reset(place, Code::StreamClosed, state);
        }
        stream.body_bytes += data.len() as u64;
        if stream.body_expected.is_some_and(|expected| stream.body_bytes > expected) {
            return self.reset(place, Code::Protocol, state);
        }
        if stream.keeps_body() {
            return self.keep_data(place, &head, data, state);
        }
        if is_last {
            return if stream.ends_well() { Ok(()) } else { self.reset(place, Code::Protocol, state) };
        }
        if stream.body_bytes > state.limits.body_bytes_max {
            // Answered now; when the response is sent, the client is told that the rest is not wanted.
            stream.is_held = false;
        }
        stream.body_unacknowledged += head.len as u32;
        if stream.body_unacknowledged >= UNACKNOWLEDGED_BYTES_MAX && stream.is_held {
            let back = std::mem::take(&mut stream.body_unacknowledged);
            frame::number(&mut self.control, kind::WINDOW_UPDATE, head.stream, back);
        } else if i64::from(stream.body_unacknowledged) > WINDOW_BYTES {
            return self.reset(place, Code::FlowControl, state);
        }
        Ok(())
    }

    /// The same of a body that an application takes, or may come to take.
    #[cold]
    fn keep_data(&mut self, place: usize, head: &Head, data: &[u8], state: &mut LoopState) -> Result<(), Code> {
        let stream = &mut self.streams[place];
        stream.body_unacknowledged += head.len as u32;
        if i64::from(stream.body_unacknowledged) > WINDOW_BYTES {
            return self.reset(place, Code::FlowControl, state);
        }
        stream.renew(data.len() as u64, state.clock.now_ms);
        // No more than the window is held, and that is the bound.
        stream.body().put(data);
        if head.has(flag::END_STREAM) && !stream.ends_well() {
            return self.reset(place, Code::Protocol, state);
        }
        Ok(())
    }

    fn reset_by_client(&mut self, head: Head, payload: &[u8], state: &mut LoopState) -> Result<(), Code> {
        if payload.len() != 4 {
            return Err(Code::FrameSize);
        }
        if head.stream == 0 || self.is_idle(head.stream) {
            return Err(Code::Protocol);
        }
        match self.place(head.stream) {
            Some(place) => {
                // The client sends nothing more on it.
                self.streams[place].is_received = true;
                self.leave_queue(place, state);
                self.take_off(place, state);
                self.spend(cost::REQUEST, state)
            }
            None => self.spend(cost::FRAME, state),
        }
    }

    fn settings(&mut self, head: Head, payload: &[u8], state: &mut LoopState) -> Result<(), Code> {
        if head.stream != 0 {
            return Err(Code::Protocol);
        }
        self.spend(cost::FRAME, state)?;
        if head.has(flag::ACK) {
            return if payload.is_empty() { Ok(()) } else { Err(Code::FrameSize) };
        }
        let settings = frame::read_settings(payload)?;
        if let Some(bytes) = settings.table_bytes {
            // Our table is always empty, but a smaller bound wants a word about it (RFC 7541 section 4.2).
            self.table_is_due |= bytes < std::mem::replace(&mut self.table_bytes, bytes);
        }
        if let Some(window) = settings.window {
            let difference = window - std::mem::replace(&mut self.stream_window, window);
            for stream in &mut self.streams {
                stream.window += difference;
                if stream.window > WINDOW_MAX {
                    return Err(Code::FlowControl);
                }
            }
        }
        self.has_settings = true;
        frame::head(&mut self.control, 0, kind::SETTINGS, flag::ACK, 0);
        Ok(())
    }

    fn window_update(&mut self, head: Head, payload: &[u8], state: &mut LoopState) -> Result<(), Code> {
        if payload.len() != 4 {
            return Err(Code::FrameSize);
        }
        let more = i64::from(frame::word(payload) & 0x7fff_ffff);
        if head.stream == 0 {
            self.window += more;
            return match more {
                0 => Err(Code::Protocol),
                _ if self.window > WINDOW_MAX => Err(Code::FlowControl),
                _ => Ok(()),
            };
        }
        if self.is_idle(head.stream) {
            return Err(Code::Protocol);
        }
        // Of a stream that is over it comes late, which is no error.
        let Some(place) = self.place(head.stream) else { return Ok(()) };
        let stream = &mut self.streams[place];
        stream.window += more;
        match more {
            0 => self.reset(place, Code::Protocol, state),
            _ if stream.window > WINDOW_MAX => self.reset(place, Code::FlowControl, state),
            _ => Ok(()),
        }
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }

    /// Whether the client has not begun the stream; we never begin any.
    fn is_idle(&self, id: u32) -> bool {
        id > self.last || id.is_multiple_of(2)
    }

    /// Something for a stream that is over: no error if we ended it, as the client could not know.
    fn unknown(&self, id: u32) -> Result<(), Code> {
        if self.abandoned.contains(&id) { Ok(()) } else { Err(Code::StreamClosed) }
    }

    /// Ends a stream with an error.
    fn reset(&mut self, place: usize, code: Code, state: &mut LoopState) -> Result<(), Code> {
        let id = self.streams[place].id;
        frame::number(&mut self.control, kind::RST_STREAM, id, code as u32);
        // What was sent of its response is logged, and it counts as ended by us.
        self.streams[place].is_received = false;
        self.leave_queue(place, state);
        self.take_off(place, state);
        self.spend(cost::REQUEST, state)
    }

    /// Ends a stream that was never taken up.
    fn refuse(&mut self, id: u32, code: Code, state: &mut LoopState) -> Result<(), Code> {
        frame::number(&mut self.control, kind::RST_STREAM, id, code as u32);
        self.abandon(id);
        self.spend(cost::REQUEST, state)
    }
}

/// Has no more of a body be owed than the client may send.
fn hold_a_window(exchange: &mut Exchange) {
    if let Some(streamed) = exchange.streamed() {
        streamed.body.hold_at_most(WINDOW_BYTES as usize);
    }
}

impl Stream {
    /// Takes the end of the body; whether it was as long as it was said to be.
    fn ends_well(&mut self) -> bool {
        self.is_received = true;
        self.is_held = false;
        if let Some(streamed) = self.exchange.streamed() {
            streamed.body.end();
        }
        self.body_expected.is_none_or(|expected| expected == self.body_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::options::Options;
    use crate::counters::host_counts::HostLedger;
    use crate::counters::{Counters, LoopCounters};
    use crate::exchange::wakes::Wakes;
    use crate::files::root::Root;
    use crate::files::root::place::Place;
    use crate::files::shared_content::SharedContent;
    use crate::files::watcher::Watcher;
    use crate::io::epoll::Waker;
    use crate::process::reload::Reloader;
    use crate::routing::Router;
    use crate::site::{Share, Site};
    use crate::transport::Transport;
    use proptest::prelude::*;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;
    use std::sync::Arc;

    fn state(directory: &std::path::Path) -> LoopState {
        let options = Options::new(directory);
        let watcher = Rc::new(Watcher::deaf());
        let share = Share {
            shared_content: Arc::new(SharedContent::new()),
            watcher: Rc::clone(&watcher),
            files_max: 4,
            hosts: HostLedger::default(),
            policy_client: None,
            challenges: Default::default(),
        };
        let root = Root::open_directory(directory).expect("opens");
        let site = Site::new(root, &options.site_kind(), &options.site_bounds(), &share);
        let counters = Counters([LoopCounters::default()].into_iter().collect());
        let options = Arc::new(options);
        let place = Arc::new(Place::open(directory).expect("opens"));
        let wakes = Wakes::new(Arc::new(Waker::new().expect("a waker")));
        let reloads = (Reloader::new(&options, place).0, watcher, wakes);
        LoopState::new(Router::Plain(site), None, None, &options, counters, 0, reloads)
    }

    /// A frame of any kind, mostly one that could be meant.
    fn frame() -> impl Strategy<Value = Vec<u8>> {
        let post = b"\x83\x86\x84\x01\x01a".to_vec();
        let get = b"\x82\x86\x04\x02/f\x01\x01a".to_vec();
        let payload = prop_oneof![
            Just(get),
            Just(post),
            Just(vec![0, 0, 0, 9]),
            Just(vec![0; 8]),
            Just(Vec::new()),
            proptest::collection::vec(any::<u8>(), 0..40),
        ];
        let flags = prop_oneof![Just(0_u8), Just(1), Just(4), Just(5), any::<u8>()];
        let stream = prop_oneof![0_u32..12, Just(7), any::<u32>()];
        (0_u8..11, flags, stream, payload).prop_map(|(kind, flags, stream, payload)| {
            let mut out = Vec::new();
            frame::head(&mut out, payload.len(), kind, flags, stream);
            out.extend_from_slice(&payload);
            out
        })
    }

    /// Its number, its window, whether it is held, and the bytes of its body.
    type StreamState = (u32, i64, bool, u64);

    /// What frames lead to, in pieces of this size: what is answered, and what is known of the streams then.
    fn outcome(directory: &std::path::Path, input: &[u8], piece: usize) -> (Vec<u8>, Vec<StreamState>) {
        let mut state = state(directory);
        let (socket, _other) = UnixStream::pair().expect("a pair");
        let peer = "127.0.0.1:1".parse().expect("an address");
        let mut connection = Connection::new(Transport::new(socket.into(), None), peer, Vec::new(), &state);
        let mut saved = Vec::new();
        for piece in input.chunks(piece) {
            saved.extend_from_slice(piece);
            let taken = connection.frames(&saved, &mut state);
            assert!(taken <= saved.len());
            saved.drain(..taken);
            assert!(connection.streams.len() <= state.limits.streams_max);
            if connection.control.windows(9).any(|head| head[..4] == [0, 0, 8, kind::GOAWAY]) {
                break;
            }
        }
        let streams = &connection.streams;
        let streams = streams.iter().map(|stream| (stream.id, stream.window, stream.is_held, stream.body_bytes));
        (connection.control.clone(), streams.collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn frames_mean_the_same_in_any_pieces(frames in proptest::collection::vec(frame(), 0..30), piece in 1_usize..50) {
            let directory = tempfile::tempdir().expect("a directory");
            let mut input = PREFACE.to_vec();
            frame::settings(&mut input, &[(4, 100)]);
            input.extend(frames.concat());
            prop_assert_eq!(outcome(directory.path(), &input, usize::MAX), outcome(directory.path(), &input, piece));
        }
    }
}
