//! What comes: datagrams for QUIC, and what it makes of them.

use crate::LoadError;
use crate::connect::connection::Phase;
use crate::connect::datagrams::RECEPTIONS;
use crate::connect::kernel::monotonic_ns;
use crate::engine::state::{Engine, READS_IN_A_ROW};
use crate::http3::inbound::Said;
use crate::http3::malformed::{Malformed, code};
use crate::http3::state::Http3;
use quinn_proto::{Dir, Event, ReadError, StreamEvent, StreamId, VarInt};
use std::io;
use std::os::fd::AsRawFd;

impl Engine<'_, Http3<'_>> {
    /// Takes what a connection has received and finishes the requests that it completes.
    #[inline]
    pub(crate) fn receive(&mut self, slot: usize) {
        let generation = self.connections[slot].generation;
        for _ in 0..READS_IN_A_ROW {
            let connection = &mut self.connections[slot];
            let Some(stream) = &mut connection.stream else { return };
            let received =
                self.connector.kernel.receive_datagrams(stream.fd().as_raw_fd(), &mut self.http.transport.inbox);
            self.now_ns = monotonic_ns();
            let count = match received {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // Nothing is lost with other errors of a socket but this word of them.
                Err(error) if error.raw_os_error() == Some(libc::ECONNREFUSED) => return self.refused(slot, &error),
                Err(_) => return,
            };
            match self.connections[slot].http.line {
                None => self.take_in(slot, count),
                Some(_) => self.put_on_line(slot, count),
            }
            self.process(slot);
            self.flush_touched();
            if self.connections[slot].generation != generation || count < RECEPTIONS {
                return;
            }
        }
        self.unread.list(u64::from(generation) << 32 | slot as u64);
    }

    /// Hands what came to QUIC.
    #[inline]
    fn take_in(&mut self, slot: usize, count: usize) {
        let connection = &mut self.connections[slot];
        let endpoint = &self.http.host.route.endpoints[connection.address];
        let (Some(link), Some(from)) = (&mut connection.http.link, endpoint.address()) else { return };
        let transport = &mut self.http.transport;
        let now = transport.clock.instant(self.now_ns);
        let (mut is_heard, mut bytes, mut came_real_ns) = (false, 0, 0);
        for place in 0..count {
            is_heard |= transport.take_in(place, from, link.handle, &mut link.quic, now);
            let reception = transport.inbox.reception(place).0;
            bytes += reception.bytes as u64;
            came_real_ns = reception.came_real_ns;
        }
        self.taken_in(slot, bytes, is_heard.then_some(came_real_ns));
    }

    /// QUIC has taken bytes; `came_real_ns` is when they came, by CLOCK_REALTIME, if they were the connection's.
    #[inline]
    pub(crate) fn taken_in(&mut self, slot: usize, bytes: u64, came_real_ns: Option<u64>) {
        let connection = &mut self.connections[slot];
        if let Some(stream) = &mut connection.stream {
            stream.received += bytes;
        }
        self.tally.received(bytes, self.now_ns <= self.scheduler.end_ns);
        if let Some(came_real_ns) = came_real_ns {
            connection.http.heard_ns = self.now_ns;
            connection.http.came_real_ns = came_real_ns;
            connection.http.is_unheard = false;
            if matches!(connection.phase, Phase::Connecting | Phase::Handshaking) {
                self.heard_first(slot);
            }
        }
        self.touch(slot);
    }

    /// Does what QUIC says of a connection.
    pub(crate) fn process(&mut self, slot: usize) {
        let generation = self.connections[slot].generation;
        loop {
            let connection = &mut self.connections[slot];
            if connection.generation != generation {
                return;
            }
            let Some(link) = &mut connection.http.link else { return };
            self.http.transport.exchange(link.handle, &mut link.quic, &mut link.is_known);
            let Some(event) = link.quic.poll() else {
                if connection.linger_until_ns != 0 && connection.http.active == 0 && connection.http.is_confirmed() {
                    self.left(slot);
                }
                return;
            };
            match event {
                Event::Stream(StreamEvent::Readable { id }) => match id.dir() {
                    Dir::Bi => self.read_response(slot, id),
                    Dir::Uni => self.read_inbound(slot, id),
                },
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => self.accept_inbound(slot),
                Event::Stream(StreamEvent::Writable { id }) => {
                    if let Some(place) = self.connections[slot].http.find(id) {
                        self.write_more(slot, place, id);
                    }
                }
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    if let Some(place) = self.connections[slot].http.find(id) {
                        self.stop_writing(slot, place, id);
                    }
                }
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => self.streams_available(slot),
                Event::Connected => self.handshake_over(slot),
                Event::ConnectionLost { reason } => self.connection_lost(slot, &reason),
                Event::Stream(
                    StreamEvent::Opened { dir: Dir::Bi }
                    | StreamEvent::Available { dir: Dir::Uni }
                    | StreamEvent::Finished { .. },
                )
                | Event::HandshakeDataReady
                | Event::DatagramReceived
                | Event::DatagramsUnblocked => {}
            }
        }
    }

    /// The server lets more streams be opened.
    fn streams_available(&mut self, slot: usize) {
        let http = &mut self.connections[slot].http;
        let since_ns = std::mem::take(&mut http.held_since_ns);
        if since_ns != 0 {
            self.tally.http3.counts.streams_held += 1;
            self.tally.http3.counts.streams_held_ns += self.now_ns.saturating_sub(since_ns);
        }
        if self.connections[slot].phase == Phase::Open {
            self.go_on(slot);
        }
    }

    /// The server opened streams of its own.
    fn accept_inbound(&mut self, slot: usize) {
        let generation = self.connections[slot].generation;
        while self.connections[slot].generation == generation {
            let Some(link) = &mut self.connections[slot].http.link else { return };
            let Some(stream) = link.quic.streams().accept(Dir::Uni) else { return };
            self.read_inbound(slot, stream);
        }
    }

    /// Reads what one of the server's own streams says.
    fn read_inbound(&mut self, slot: usize, stream: StreamId) {
        let http = &mut self.connections[slot].http;
        let Some(link) = &mut http.link else { return };
        let said = &mut self.http.said;
        let mut taken: Result<(), Malformed> = Ok(());
        let mut receive = link.quic.recv_stream(stream);
        let Ok(mut chunks) = receive.read(true) else { return };
        while taken.is_ok() {
            taken = match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => http.inbound.take(stream.index(), &chunk.bytes, said),
                Ok(None) | Err(ReadError::Reset(_)) => {
                    taken = http.inbound.end(stream.index());
                    break;
                }
                Err(ReadError::Blocked) => break,
            };
        }
        // What is to be granted goes out with what else there is.
        let _ = chunks.finalize();
        if let Err(malformed) = taken {
            return self.malformed(slot, malformed);
        }
        while let Some(said) = self.http.said.pop() {
            // Settings come first, and of several farewells the last counts: the order does not matter.
            match said {
                Said::Settings { section_bytes_max } => self.judge_settings(slot, section_bytes_max),
                Said::Goaway { first } => self.on_goaway(slot, first),
            }
        }
    }

    /// A server that takes no fields as long as these would refuse each request.
    fn judge_settings(&mut self, slot: usize, section_bytes_max: Option<u64>) {
        let longest = self.http.wire.requests.iter().map(|request| request.fields_bytes).max().unwrap_or(0);
        if section_bytes_max.is_some_and(|most| most < longest) {
            self.say_goodbye(slot, code::NO_ERROR);
            self.fatal = Some(LoadError::Options(
                "the headers of a request are longer than what the server's settings of HTTP/3 allow (RFC 9114 4.2.2): \
                 send fewer or shorter ones (-H)",
            ));
        }
    }

    /// Tells the server that a response is not wanted any more.
    pub(crate) fn stop_reading(&mut self, slot: usize, stream: StreamId, code: u64) {
        if let Some(link) = &mut self.connections[slot].http.link {
            // It fails where the stream is over already, and then nothing more comes.
            let _ = link.quic.recv_stream(stream).stop(VarInt::from_u64(code).unwrap_or(VarInt::MAX));
        }
    }
}
