//! Handles what a client sends (RFC 9114 sections 4, 6 and 7), with the errors that each frame or stream can cause.

use super::connection::Connection;
use super::frame::{self, Code, Item, kind};
use super::inbound::{Inbound, Taken};
use super::marks;
use super::qpack;
use super::stream::{Input, Output, Stream, number_of};
use crate::certificates::presented::Presented;
use crate::http::fields::{Bounds, Fields};
use crate::http::frames::allowance::cost;
use crate::http::framing::Framing;
use crate::http::request::AllFields;
use crate::http2::message::{self, FIELDS_MAX, Unfit};
use crate::http2::parked::Parked;
use crate::loop_state::{LoopState, StreamOf, applications};
use bytes::Bytes;
use quinn_proto::crypto::rustls::HandshakeData;
use quinn_proto::{ConnectionError, Dir, Event, ReadError, StreamEvent, StreamId, VarInt};
use rustls_pki_types::CertificateDer;
use weir_wire::static_probe;

/// What a stream has for us.
enum Read {
    Bytes(Bytes),
    End,
    /// The client takes back what it sent.
    Reset,
    Nothing,
}

impl Connection {
    /// What the client has shown in its handshake.
    #[cold]
    fn presented(&self) -> Presented {
        let session = self.quic.crypto_session();
        let named = session.handshake_data().and_then(|data| data.downcast::<HandshakeData>().ok());
        let chain = session.peer_identity().and_then(|chain| chain.downcast::<Vec<CertificateDer<'static>>>().ok());
        Presented::new(named.and_then(|data| data.server_name), chain.map(|chain| *chain).unwrap_or_default())
    }

    /// Takes up what QUIC tells.
    pub(super) fn handle_event(&mut self, event: Event, state: &mut LoopState) -> Result<(), Code> {
        match event {
            Event::Connected => {
                self.is_established = true;
                self.is_new = true;
                state.counts().tls_handshakes.add(1);
                state.counts().http3_connections.add(1);
                if let Some(clients) = state.router.presented() {
                    self.entry = Some(clients.enter(self.number, self.presented()));
                }
                self.begin(state);
            }
            Event::ConnectionLost { reason } => self.lost(&reason, state),
            // What came before an error is not taken up after it.
            Event::Stream(event) if !self.is_closed => return self.handle_stream_event(&event, state),
            Event::Stream(_) | Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
        }
        Ok(())
    }

    fn lost(&mut self, reason: &ConnectionError, state: &mut LoopState) {
        let counts = state.counts();
        match reason {
            ConnectionError::LocallyClosed => {}
            ConnectionError::TimedOut => counts.timeouts.add(1),
            _ if !self.is_established => {
                counts.tls_failed.add(1);
                tracing::debug!(%reason, "QUIC handshake failed");
            }
            // A client that has the whole response may leave without acknowledging it.
            _ if self.streams.iter().any(|stream| stream.is_wanting() && !stream.waits()) => {
                counts.connections_broken.add(1);
            }
            _ => {}
        }
        state.remove_gone(self.number, None);
        self.abort(state);
    }

    fn handle_stream_event(&mut self, event: &StreamEvent, state: &mut LoopState) -> Result<(), Code> {
        match *event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = self.quic.streams().accept(dir) {
                    match dir {
                        Dir::Bi => self.begin_request(id, state)?,
                        Dir::Uni => {
                            self.inbound.push((id, Inbound::default()));
                            self.read_inbound(id, state)?;
                        }
                    }
                }
            }
            StreamEvent::Readable { id } if id.dir() == Dir::Bi => self.read_request(id, state)?,
            StreamEvent::Readable { id } => self.read_inbound(id, state)?,
            StreamEvent::Writable { id } => {
                if let Some(place) = self.place(id) {
                    self.streams[place].is_blocked = false;
                }
            }
            // It came with the announcement of the end, which was heard if it has arrived or is not wanted.
            StreamEvent::Finished { id } | StreamEvent::Stopped { id, .. } if self.farewell_stream == Some(id) => {
                self.has_heard = true;
            }
            StreamEvent::Finished { id } => {
                if let Some(place) = self.place(id) {
                    marks::acknowledged(self.number, id);
                    self.streams[place].output = Output::Over;
                    self.take_off(state);
                }
            }
            StreamEvent::Stopped { id, .. } => {
                if let Some(place) = self.place(id) {
                    self.spend(cost::REQUEST, state)?;
                    self.reset(place, Code::RequestCancelled, state);
                    self.take_off(state);
                } else if id.dir() == Dir::Uni {
                    // Our control stream.
                    return Err(Code::ClosedCriticalStream);
                }
            }
            StreamEvent::Available { .. } => {}
        }
        Ok(())
    }

    fn begin_request(&mut self, id: StreamId, state: &mut LoopState) -> Result<(), Code> {
        if self.goaway.is_said() {
            // The client was told, and asks elsewhere.
            let code = VarInt::from_u32(Code::RequestRejected as u32);
            let _ = self.quic.recv_stream(id).stop(code);
            let _ = self.quic.send_stream(id).reset(code);
            return self.spend(cost::REQUEST, state);
        }
        self.next_request = self.next_request.max(number_of(id) + 4);
        let exchange = self.spare.pop().unwrap_or_default();
        state.counts().http3_streams.add(1);
        self.streams.push(Stream::new(id, exchange, state.clock.now_ms));
        self.is_new = true;
        self.read_request(id, state)
    }

    /// Takes the next bytes off a stream.
    fn read(&mut self, id: StreamId, bytes_max: usize) -> Read {
        let mut stream = self.quic.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return Read::Nothing };
        let read = match chunks.next(bytes_max) {
            Ok(Some(chunk)) => Read::Bytes(chunk.bytes),
            Ok(None) => Read::End,
            Err(ReadError::Reset(_)) => Read::Reset,
            Err(ReadError::Blocked) => Read::Nothing,
        };
        // What there is to say about windows is said when the connection sends, which it does after every turn.
        let _ = chunks.finalize();
        read
    }

    fn read_inbound(&mut self, id: StreamId, state: &mut LoopState) -> Result<(), Code> {
        let Some(place) = self.inbound.iter().position(|(other, _)| *other == id) else { return Ok(()) };
        loop {
            match self.read(id, usize::MAX) {
                Read::Bytes(bytes) => match self.inbound[place].1.take(&bytes, &mut self.opened)? {
                    Taken::Frames(frames) => self.spend(frames * cost::FRAME, state)?,
                    Taken::Unwanted => {
                        self.inbound.swap_remove(place);
                        let code = VarInt::from_u32(Code::StreamCreation as u32);
                        let _ = self.quic.recv_stream(id).stop(code);
                        return self.spend(cost::FRAME, state);
                    }
                },
                Read::End | Read::Reset => {
                    self.inbound[place].1.end()?;
                    self.inbound.swap_remove(place);
                    return self.spend(cost::FRAME, state);
                }
                Read::Nothing => return Ok(()),
            }
        }
    }

    fn read_request(&mut self, id: StreamId, state: &mut LoopState) -> Result<(), Code> {
        // A stream can end with what is read.
        while let Some(place) = self.place(id) {
            let room = self.streams[place].room();
            if room == 0 {
                if matches!(self.quic.recv_stream(id).received_reset(), Ok(Some(_))) {
                    return self.taken_back(place, state);
                }
                // QUIC keeps what comes, and has the client wait when that is enough.
                self.streams[place].is_unread = true;
                return Ok(());
            }
            match self.read(id, room) {
                Read::Bytes(bytes) => self.take_up(place, &bytes, state)?,
                Read::End => {
                    let stream = &mut self.streams[place];
                    if !stream.reader.is_between_frames() {
                        return Err(Code::Frame);
                    }
                    stream.is_received |= stream.input == Input::Head;
                    if stream.input == Input::Head {
                        self.refuse(place, Code::RequestIncomplete, state)?;
                    } else if !stream.ends_well() {
                        self.refuse(place, Code::Message, state)?;
                    }
                    return Ok(());
                }
                Read::Reset => return self.taken_back(place, state),
                Read::Nothing => return Ok(()),
            }
        }
        Ok(())
    }

    /// The client takes back what it sent of a request.
    #[cold]
    fn taken_back(&mut self, place: usize, state: &mut LoopState) -> Result<(), Code> {
        self.streams[place].is_received = true;
        self.refuse(place, Code::RequestCancelled, state)
    }

    /// Takes up more of a request.
    fn take_up(&mut self, place: usize, mut input: &[u8], state: &mut LoopState) -> Result<(), Code> {
        // Compressed it is hardly ever larger than what it says.
        let kept_bytes_max = 2 * state.limits.head_bytes_max;
        let id = self.streams[place].id;
        let mut reader = std::mem::take(&mut self.streams[place].reader);
        while let Some(item) = reader.next(&mut input, kept_bytes_max) {
            let stream = &mut self.streams[place];
            match item {
                Item::Begun { kind, .. } if frame::is_misplaced_in_request(kind) => return Err(Code::FrameUnexpected),
                Item::Begun { kind: kind::HEADERS, .. } if stream.input == Input::End => {
                    return Err(Code::FrameUnexpected);
                }
                Item::Begun { kind: kind::HEADERS, len } if len > kept_bytes_max as u64 => {
                    // It is passed over, as nothing depends on it.
                    if stream.input == Input::Head {
                        let (peer, socket) = (&self.client_peer(), self.peer);
                        let from = StreamOf { peer, socket, stream: number_of(id), version: 3 };
                        let stream = &mut self.streams[place];
                        state.answer_unfit(431, &from, &mut stream.exchange);
                        stream.input = Input::Body;
                    } else {
                        stream.input = Input::End;
                    }
                }
                Item::Begun { kind: kind::HEADERS, .. } => {}
                Item::Begun { kind: kind::DATA, .. } if stream.input != Input::Body => {
                    return Err(Code::FrameUnexpected);
                }
                Item::Begun { kind: kind::DATA, len: 1.. } => {}
                Item::Begun { .. } => self.spend(cost::FRAME, state)?,
                Item::Data(bytes) => {
                    stream.body_bytes += bytes.len() as u64;
                    if stream.body_expected.is_some_and(|expected| stream.body_bytes > expected) {
                        self.refuse(place, Code::Message, state)?;
                    } else if stream.keeps_body() {
                        stream.keep_data(bytes, state.clock.now_ms);
                    } else if stream.body_bytes > state.limits.body_bytes_max {
                        // Answered now; when the response is sent, the client is told that the rest is not wanted.
                        stream.is_held = false;
                    }
                }
                Item::Whole { content, .. } => {
                    let is_first = stream.input == Input::Head;
                    if is_first {
                        static_probe!("read");
                    }
                    stream.input = if is_first { Input::Body } else { Input::End };
                    self.with_fields(state, |connection, fields, state| {
                        let bounds = Bounds { bytes_max: state.limits.head_bytes_max, fields_max: FIELDS_MAX };
                        qpack::decode(content, bounds, fields).map_err(|_| Code::Decompression)?;
                        if is_first {
                            connection.open(place, fields, state)
                        } else if message::are_trailers(fields) {
                            connection.trailers(place, fields, state)
                        } else {
                            connection.refuse(place, Code::Message, state)
                        }
                    })?;
                }
            }
            // What was refused is gone, and nothing more of it is read.
            if self.streams.get(place).is_none_or(|stream| stream.id != id) {
                return Ok(());
            }
        }
        self.streams[place].reader = reader;
        Ok(())
    }

    /// Takes up a request, and makes its response unless it must wait.
    fn open(&mut self, place: usize, fields: &Fields, state: &mut LoopState) -> Result<(), Code> {
        let peer = self.client_peer();
        let stream = &mut self.streams[place];
        match message::request(fields, 3, &state.limits) {
            Ok(mut request) => {
                marks::request(self.number, stream.id, [request.method_text, request.target], self.taken_in);
                request.all = AllFields::Block(fields);
                stream.is_held = !request.expects_continue;
                if let Framing::Length(bytes) = request.framing {
                    stream.body_expected = Some(bytes);
                    // A body that is not wanted is not waited for, nor is one that waits for a word.
                    stream.is_held &= bytes <= state.limits.body_bytes_max;
                }
                let whose = (self.peer, &peer, number_of(stream.id));
                if state.router.must_wait(&request, self.peer.ip(), || peer.is_secure, &state.clock) {
                    stream.parked = Some(Parked::new(fields, false, state));
                } else if !state.answer(&request, whose, &mut self.received, &mut stream.exchange) {
                    stream.parked = Some(Parked::new(fields, true, state));
                } else if stream.exchange.is_awaited() {
                    applications::begin(&request, &mut stream.exchange, &peer, None, (stream.is_received, None), state);
                    stream.begun_application(request.expects_continue, state.clock.now_ms);
                }
                Ok(())
            }
            Err(Unfit::Malformed) => self.refuse(place, Code::Message, state),
            Err(Unfit::Status(status)) => {
                stream.is_held = true;
                let (peer, socket) = (&peer, self.peer);
                let from = StreamOf { peer, socket, stream: number_of(stream.id), version: 3 };
                state.answer_unfit(status, &from, &mut stream.exchange);
                Ok(())
            }
        }
    }

    /// Fields behind a body, which only an application has a use for.
    fn trailers(&mut self, place: usize, fields: &Fields, state: &mut LoopState) -> Result<(), Code> {
        let stream = &mut self.streams[place];
        let fits = !stream.keeps_body() || stream.body().put_fields(fields.iter());
        if fits { Ok(()) } else { self.refuse(place, Code::ExcessiveLoad, state) }
    }

    /// Reads on where there was no room for a body; whether it did.
    pub(super) fn read_unread(&mut self, state: &mut LoopState) -> Result<bool, Code> {
        let waiting = self.streams.iter_mut().filter(|stream| stream.is_unread && stream.room() > 0);
        let ids: Vec<StreamId> = waiting
            .map(|stream| {
                stream.is_unread = false;
                stream.id
            })
            .collect();
        let has_read = !ids.is_empty();
        ids.into_iter().try_for_each(|id| self.read_request(id, state))?;
        Ok(has_read)
    }

    /// Ends a stream with an error that concerns it alone.
    fn refuse(&mut self, place: usize, code: Code, state: &mut LoopState) -> Result<(), Code> {
        self.reset(place, code, state);
        self.take_off(state);
        self.spend(cost::REQUEST, state)
    }

    fn spend(&mut self, tokens: u64, state: &LoopState) -> Result<(), Code> {
        if self.allowance.spend(tokens, state.clock.now_ms) { Ok(()) } else { Err(Code::ExcessiveLoad) }
    }

    fn place(&self, id: StreamId) -> Option<usize> {
        self.streams.iter().position(|stream| stream.id == id)
    }
}
