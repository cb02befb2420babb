//! A socket, in the clear or not, by calls or by the ring.

use crate::certificates::presented::PresentedByClients;
use crate::exchange::life::Exchange;
use crate::exchange::send::{self, Sent, Sink, Socket};
use crate::io::epoll;
use crate::telemetry::arm_requests::Owed;
use crate::tls::{FixedRecords, NotFixed, Session, Stays, TlsSession};
use crate::transport::lane::Lane;
use crate::transport::ring::Ring;
use crate::transport::staging::{RingSink, Staging};
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A connected, non-blocking socket, in the clear or not.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: OwnedFd,
    session: Option<Box<Session>>,
    lane: Lane,
    /// The round of the ring in which responses were staged last.
    staged_in: u32,
    /// What the ring's completions are told by.
    token: u64,
    /// What came and went otherwise than in its turn; rare.
    kept: Option<Box<Kept>>,
}

/// What a connection on the ring has to remember.
#[derive(Debug, Default)]
struct Kept {
    /// Input that came while nothing was to be received. Its bound is what the ring has buffers for.
    input: Vec<u8>,
    /// Output that was staged and not taken; at most what is staged of one connection.
    output: Vec<u8>,
    /// What is to be told once that has gone.
    owed: Vec<Owed>,
}

impl Transport {
    pub(crate) fn new(socket: OwnedFd, session: Option<Box<Session>>) -> Self {
        Self { socket, session, lane: Lane::Socket, staged_in: 0, token: 0, kept: None }
    }

    /// One that came from elsewhere, with input and output that it holds in the clear, or with its session of TLS.
    pub(crate) fn moved(socket: OwnedFd, (input, output): (&[u8], &[u8]), session: Option<Box<Session>>) -> Self {
        let mut transport = Self::new(socket, session);
        if !input.is_empty() {
            transport.keep_input(input);
        }
        if !output.is_empty() {
            transport.keep_output(output);
        }
        transport
    }

    /// Why TLS keeps it here; none if it can move, or is in the clear.
    pub(crate) fn stays(&self) -> Option<Stays> {
        self.session.as_ref().and_then(|session| session.stays())
    }

    /// Has its session, where it has one, leave rustls, so that it can be written down.
    pub(crate) fn leave_rustls(&mut self) -> Result<(), Stays> {
        self.session.as_mut().map_or(Ok(()), |session| session.leave_rustls())
    }

    /// As [`Session::keep_records`]; nothing in the clear.
    pub(crate) fn keep_records(&mut self, (taken, end): (u64, u64)) {
        if let Some(session) = &mut self.session {
            session.keep_records(taken, end);
        }
    }

    /// As [`Session::fix_records`]; none in the clear.
    ///
    /// # Errors
    ///
    /// [`NotFixed`].
    pub(crate) fn fix_records(
        &mut self,
        (taken, end): (u64, u64),
        unacknowledged: u64,
    ) -> Result<Option<FixedRecords>, NotFixed> {
        self.session.as_mut().map(|session| session.fix_records(taken, end, unacknowledged)).transpose()
    }

    /// The socket, input that was not taken, output that was not sent, and the session of TLS, of one that is by no ring
    /// and has left rustls. The ends of responses that this output is of are told: they were logged already.
    pub(crate) fn into_parts(self) -> (OwnedFd, Vec<u8>, Vec<u8>, Option<TlsSession>) {
        let kept = self.kept.map(|kept| *kept).unwrap_or_default();
        kept.owed.into_iter().for_each(Owed::tell);
        (self.socket, kept.input, kept.output, self.session.and_then(|session| session.write_down()))
    }

    /// How much of both it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.input.len() + kept.output.len())
    }

    #[inline]
    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    #[inline]
    pub(crate) fn is_secure(&self) -> bool {
        self.session.is_some()
    }

    /// Whether both sides have agreed on HTTP/2 while they agreed on keys.
    #[inline]
    pub(crate) fn agreed_on_http2(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.agreed_on_http2())
    }

    /// Has others know what the client of this connection has shown in its handshake.
    #[cold]
    pub(crate) fn enter(&mut self, connection: u64, clients: &PresentedByClients) {
        if let Some(session) = &mut self.session {
            session.enter(connection, clients);
        }
    }

    /// Receives what is there; 0 means that the peer has ended its side.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8], ring: &mut Option<Ring>) -> io::Result<usize> {
        match &mut self.session {
            None if self.lane != Lane::Socket || self.kept.is_some() => self.receive_by_ring(buffer, ring.as_mut()),
            None => epoll::receive(self.socket.as_raw_fd(), buffer),
            Some(session) => session.receive(self.socket.as_raw_fd(), buffer),
        }
    }

    /// Sends responses in their order; see [`send::flush`].
    #[inline]
    pub(crate) fn flush(
        &mut self,
        queue: &mut [Exchange],
        copied: &mut Vec<u8>,
        ring: Option<Staging<'_>>,
    ) -> (io::Result<Sent>, u64) {
        let fd = self.socket.as_raw_fd();
        if self.session.is_none()
            && let Some(staging) = ring.filter(|_| self.staged_in != 0 || self.lane == Lane::Ring)
        {
            let is_staged = self.staged_in == staging.ring.round();
            let may_stage = staging.is_wanted && self.lane == Lane::Ring;
            let socket = Socket { fd, copied };
            let mut sink = RingSink { socket, token: self.token, ring: staging.ring, is_staged, may_stage };
            let flushed = send::flush(queue, &mut sink);
            if sink.is_staged {
                self.staged_in = sink.ring.round();
            }
            return flushed;
        }
        match &mut self.session {
            None => send::flush(queue, &mut Socket { fd, copied }),
            Some(session) => send::flush(queue, &mut session.sealing(fd, copied)),
        }
    }

    /// Sends some of the bytes.
    pub(crate) fn write(&mut self, bytes: &[u8], copied: &mut Vec<u8>) -> io::Result<usize> {
        let fd = self.socket.as_raw_fd();
        let pieces = [IoSlice::new(bytes)];
        match &mut self.session {
            None => Socket { fd, copied }.send(&pieces, false),
            Some(session) => session.sealing(fd, copied).send(&pieces, false),
        }
    }

    /// Whether the peer has said that nothing follows, as TLS does in a message of its own, without the socket's end.
    #[inline]
    pub(crate) fn is_read_out(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_read_out())
    }

    /// Whether bytes that were taken have not gone to the socket.
    #[inline(always)]
    pub(crate) fn holds_output(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.holds_output())
            || self.kept.as_ref().is_some_and(|kept| !kept.output.is_empty())
    }

    /// Sends what is held.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while the socket has no room for all of it.
    #[inline]
    pub(crate) fn push(&mut self) -> io::Result<()> {
        match &mut self.session {
            Some(session) => session.push(self.socket.as_raw_fd()),
            None if self.kept.is_some() => self.push_kept(),
            None => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn lane(&self) -> Lane {
        self.lane
    }

    /// Whether responses wait for the ring's next call: until then nothing else may be sent, and nothing closed.
    #[inline]
    pub(crate) fn is_staged(&self, ring: &Option<Ring>) -> bool {
        self.staged_in != 0 && ring.as_ref().is_some_and(|ring| ring.round() == self.staged_in)
    }

    /// What the ring's completions are told by.
    #[inline]
    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    /// Goes to the ring, where a reception was armed for it.
    pub(crate) fn join(&mut self, token: u64) {
        (self.lane, self.token) = (Lane::Ring, token);
    }

    /// Its reception is being ended, or has ended.
    pub(crate) fn leave(&mut self, to: Lane) {
        self.lane = to;
    }

    /// Whether it holds input that was not received yet.
    pub(crate) fn keeps_input(&self) -> bool {
        self.kept.as_ref().is_some_and(|kept| !kept.input.is_empty())
    }

    /// Takes input that came while nothing was to be received.
    pub(crate) fn keep_input(&mut self, bytes: &[u8]) {
        self.kept.get_or_insert_default().input.extend_from_slice(bytes);
    }

    /// Takes back output that was staged and that the socket had no room for.
    pub(crate) fn keep_output(&mut self, bytes: &[u8]) {
        self.kept.get_or_insert_default().output.extend_from_slice(bytes);
    }

    /// Takes what is to be told once such output has gone.
    pub(crate) fn owe(&mut self, owed: Owed) {
        self.kept.get_or_insert_default().owed.push(owed);
    }

    #[inline]
    fn receive_by_ring(&mut self, buffer: &mut [u8], ring: Option<&mut Ring>) -> io::Result<usize> {
        let mut filled = 0;
        if let Some(kept) = &mut self.kept {
            filled = kept.input.len().min(buffer.len());
            buffer[..filled].copy_from_slice(&kept.input[..filled]);
            kept.input.drain(..filled);
            if kept.input.is_empty() && kept.output.is_empty() && kept.owed.is_empty() {
                self.kept = None;
            }
        }
        if filled == buffer.len() {
            return Ok(filled);
        }
        let rest = &mut buffer[filled..];
        let received = ring.and_then(|ring| ring.receive(rest, self.lane));
        match received.unwrap_or_else(|| epoll::receive(self.socket.as_raw_fd(), rest)) {
            Ok(received) if received > 0 => Ok(filled + received),
            // An end or an error is told again, or with the next reception.
            _ if filled > 0 => Ok(filled),
            nothing => nothing,
        }
    }

    fn push_kept(&mut self) -> io::Result<()> {
        let fd = self.socket.as_raw_fd();
        let Some(kept) = &mut self.kept else { return Ok(()) };
        while !kept.output.is_empty() {
            let taken = epoll::send_bytes(fd, &kept.output, 0)?;
            kept.output.drain(..taken);
        }
        kept.owed.drain(..).for_each(Owed::tell);
        if kept.input.is_empty() {
            self.kept = None;
        }
        Ok(())
    }

    /// Ends our side; the peer still can send.
    pub(crate) fn end_output(&mut self) {
        self.say_goodbye();
        epoll::end_output(self.fd());
    }

    /// Has the connection end in a way that no client takes for the end of a response: by a reset, and without a word.
    pub(crate) fn cut(&mut self) {
        self.session = None;
        epoll::reset_on_close(self.fd());
    }

    /// Tells the peer that the end is meant, where there are words for it. What does not fit is not waited for.
    pub(crate) fn say_goodbye(&mut self) {
        if let Some(session) = &mut self.session {
            session.say_goodbye(self.socket.as_raw_fd());
        }
    }
}
