//! TLS by rustls: sessions of connections here, certificates and their reload in `certificates/`. A session that moves
//! to another process leaves rustls, which cannot take one in, and goes on by records of its own.

mod copying;
mod form;
mod layout;
mod moving;
mod own_records;
mod promise;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use copying::{FixedRecords, NotFixed};
pub(crate) use moving::{Stays, TlsSession, TrafficSecrets};

use crate::certificates::challenges::ACME_TLS;
use crate::certificates::client_asking;
use crate::certificates::presented::{Presented, PresentedByClients, PresentedEntry};
use crate::counters::Counters;
use crate::exchange::send::{PIECES_MAX, Sink};
use crate::files::resource;
use crate::io::epoll;
use layout::Cuts;
use moving::Kept;
use own_records::OwnRecords;
use records::PLAINTEXT_BYTES_MAX;
use rustls::{HandshakeKind, ServerConnection};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::RawFd;
use std::sync::Arc;
use weir_wire::static_probe;

/// Bytes that are made into records at once; what the socket does not take of them stays in memory.
const SEALED_BYTES_MAX: usize = 64 << 10;
/// What a client is told that speaks HTTP in the clear where TLS is spoken.
const IN_THE_CLEAR: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nServer: weir\r\nContent-Type: text/plain\r\nContent-Length: 57\r\n\
    Connection: close\r\n\r\nThis address speaks TLS: use https:// in place of http://";

/// What rustls says where no certificate was found for the name that a client asks for.
const NO_CERTIFICATE: &str = "no server certificate chain resolved";
/// A record with the fatal alert `unrecognized_name` (RFC 8446 section 6, RFC 6066 section 3). It is sent before
/// anything is encrypted.
const UNRECOGNIZED_NAME: &[u8] = &[21, 3, 3, 0, 2, 2, 112];

/// The TLS of one connection.
#[derive(Debug)]
pub(crate) struct Session {
    engine: Engine,
    /// What lets it leave rustls, where sessions may move.
    kept: Option<Box<Kept>>,
    counters: Counters,
    /// Which of the counters are this loop's.
    index: usize,
    state: State,
    first_byte: Option<u8>,
    /// What rustls has opened and was not read, and whether the peer has said that nothing follows.
    opened_bytes: usize,
    has_closed: bool,
    /// The end of what the peer says was read; it may be told together with its last bytes.
    is_read_out: bool,
    /// What it has shown, where clients are asked for certificates.
    entry: Option<PresentedEntry>,
    /// Where records have ended, so that others can make the same ones.
    cuts: Cuts,
}

/// What makes records of bytes, and bytes of records.
#[derive(Debug)]
enum Engine {
    Rustls(ServerConnection),
    /// Since it was moved, or was to be.
    Own(OwnRecords),
    /// Its keys could not be taken out of rustls, nor put back.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Handshake,
    Open,
    /// The peer has said or shown that it is done.
    Ended,
    /// The peer does not speak TLS, so that nothing more is said in it.
    Clear,
}

impl Session {
    /// Begins with a connection that was accepted.
    ///
    /// # Errors
    ///
    /// Those of rustls for a configuration that it cannot use.
    pub(crate) fn new(
        config: &Arc<rustls::ServerConfig>,
        counters: &Counters,
        index: usize,
    ) -> Result<Self, rustls::Error> {
        client_asking::begin();
        let mut tls = ServerConnection::new(Arc::clone(config))?;
        // The writer bounds it: it adds nothing beyond SEALED_BYTES_MAX while anything is held.
        tls.set_buffer_limit(None);
        let kept = config.enable_secret_extraction.then(Box::default);
        let (state, engine) = (State::Handshake, Engine::Rustls(tls));
        Ok(Self { kept, ..Self::with(engine, state, counters, index) })
    }

    fn with(engine: Engine, state: State, counters: &Counters, index: usize) -> Self {
        let counters = counters.clone();
        Self {
            engine,
            kept: None,
            counters,
            index,
            state,
            first_byte: None,
            opened_bytes: 0,
            has_closed: false,
            is_read_out: false,
            entry: None,
            cuts: Cuts::default(),
        }
    }

    /// Why it cannot leave rustls now; none if it can.
    pub(crate) fn stays(&self) -> Option<Stays> {
        match (&self.engine, self.state) {
            (Engine::Own(own), _) => own.has_ended().then_some(Stays::Ended),
            (Engine::Lost, _) => Some(Stays::Keys),
            (Engine::Rustls(_), State::Handshake) => Some(Stays::Handshake),
            (Engine::Rustls(_), State::Ended | State::Clear) => Some(Stays::Ended),
            (Engine::Rustls(tls), State::Open) if tls.peer_certificates().is_some() => Some(Stays::ClientCertificate),
            (Engine::Rustls(_), State::Open) => self.kept.is_none().then_some(Stays::NotKept),
        }
    }

    /// Leaves rustls, after which it can be written down.
    ///
    /// # Errors
    ///
    /// Why it cannot; it goes on as before, unless its keys were lost on the way ([`Stays::Keys`]).
    pub(crate) fn leave_rustls(&mut self) -> Result<(), Stays> {
        if let Some(stays) = self.stays() {
            return Err(stays);
        }
        if matches!(self.engine, Engine::Own(_)) {
            return Ok(());
        }
        let kept = self.kept.take().ok_or(Stays::NotKept)?;
        let Engine::Rustls(tls) = std::mem::replace(&mut self.engine, Engine::Lost) else { return Err(Stays::Keys) };
        self.engine = Engine::Own(kept.take_over(tls)?);
        Ok(())
    }

    /// Writes down a session that has left rustls: the bytes hold its keys. None if it has not.
    pub(crate) fn write_down(&self) -> Option<TlsSession> {
        match &self.engine {
            Engine::Own(own) => Some(TlsSession(own.write_down())),
            Engine::Rustls(_) | Engine::Lost => None,
        }
    }

    /// Fixes the records of the response under way, of which `taken` of `end` bytes were taken, and gives what another
    /// process needs to make them. The client has not acknowledged `unacknowledged` of the bytes that the kernel has.
    ///
    /// # Errors
    ///
    /// [`NotFixed`]; it goes on as before.
    pub(crate) fn fix_records(&mut self, taken: u64, end: u64, unacknowledged: u64) -> Result<FixedRecords, NotFixed> {
        self.leave_rustls()?;
        match &mut self.engine {
            Engine::Own(own) => copying::fix(own, &self.cuts, (taken, end), unacknowledged),
            Engine::Rustls(_) | Engine::Lost => Err(NotFixed::Stays),
        }
    }

    /// Has a session that has left rustls, and is to be written down, know the records of the response under way.
    pub(crate) fn keep_records(&mut self, taken: u64, end: u64) {
        if let Engine::Own(own) = &mut self.engine {
            copying::keep(own, &self.cuts, (taken, end));
        }
    }

    /// Whether it may seal the rest of this response: its bytes that were taken, and all of them; none without one.
    pub(crate) fn may_seal(&self, response: Option<(u64, u64)>) -> bool {
        match &self.engine {
            Engine::Own(own) => copying::may_seal(own, response),
            Engine::Rustls(_) | Engine::Lost => true,
        }
    }

    /// Goes on with a session that was written down; none if the bytes are none.
    pub(crate) fn read_back(TlsSession(bytes): &TlsSession, counters: &Counters, index: usize) -> Option<Self> {
        let own = OwnRecords::read_back(bytes)?;
        let cuts = copying::cuts_of(&own);
        Some(Self { cuts, ..Self::with(Engine::Own(own), State::Open, counters, index) })
    }

    /// Of a session that was moved only what speaks HTTP/1 asks it.
    pub(crate) fn agreed_on_http2(&self) -> bool {
        matches!(&self.engine, Engine::Rustls(tls) if tls.alpn_protocol() == Some(b"h2"))
    }

    /// Has others know what the client of a connection has shown, once its handshake is over.
    pub(crate) fn enter(&mut self, connection: u64, clients: &PresentedByClients) {
        let is_known = self.entry.as_ref().is_some_and(|entry| entry.connection == connection);
        if is_known || self.state == State::Handshake {
            return;
        }
        let Engine::Rustls(tls) = &self.engine else { return };
        let chain = tls.peer_certificates().unwrap_or_default().to_vec();
        let presented = Presented::new(tls.server_name().map(str::to_owned), chain);
        self.entry = Some(clients.enter(connection, presented));
    }

    /// Whether nothing more will come, though the socket may be open: no event tells of it again.
    pub(crate) fn is_read_out(&self) -> bool {
        self.is_read_out
    }

    #[inline]
    pub(crate) fn holds_output(&self) -> bool {
        match &self.engine {
            Engine::Rustls(tls) => self.state != State::Clear && tls.wants_write(),
            _ => self.own_holds_output(),
        }
    }

    #[cold]
    #[inline(never)]
    fn own_holds_output(&self) -> bool {
        matches!(&self.engine, Engine::Own(own) if own.holds_output())
    }

    /// Receives and decrypts until nothing more is there or `buffer` is full; 0 is the end.
    pub(crate) fn receive(&mut self, fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
        if let Engine::Own(own) = &mut self.engine {
            let received = own.receive(fd, buffer);
            self.is_read_out = own.is_read_out();
            if let Ok(count @ 1..) = received {
                tell_opened(&self.cuts, &buffer[..count]);
            }
            return received;
        }
        let mut filled = 0;
        let mut is_drained = false;
        loop {
            let Engine::Rustls(tls) = &mut self.engine else { return Err(has_left()) };
            // Where nothing is there, rustls is not asked: it would make an error each time.
            if self.opened_bytes > 0 || self.has_closed {
                match tls.reader().read(&mut buffer[filled..]) {
                    Ok(0) => {
                        self.is_read_out = true;
                        return Ok(filled);
                    }
                    Ok(read) => {
                        tell_opened(&self.cuts, &buffer[filled..filled + read]);
                        self.opened_bytes = self.opened_bytes.saturating_sub(read);
                        filled += read;
                        if filled == buffer.len() {
                            return Ok(filled);
                        }
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.opened_bytes = 0,
                    Err(_) => return Ok(filled),
                }
            }
            // Also where the peer left without a word: what it said is complete or not by HTTP's own framing.
            if self.state == State::Ended {
                return Ok(filled);
            }
            if is_drained {
                return if filled > 0 { Ok(filled) } else { Err(io::ErrorKind::WouldBlock.into()) };
            }
            let Engine::Rustls(tls) = &mut self.engine else { return Err(has_left()) };
            let kept = self.kept.as_deref_mut();
            let mut input = Input { fd, asked: 0, got: 0, first_byte: &mut self.first_byte, kept };
            match tls.read_tls(&mut input) {
                Ok(0) => self.state = State::Ended,
                // As with a socket in the clear: what does not fill the memory was all there is.
                Ok(_) => is_drained = input.got < input.asked,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => is_drained = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            self.open_records(fd)?;
        }
    }

    /// What the client said is no TLS, or none that goes on here: the error, once it is told.
    #[cold]
    fn refuse(&mut self, fd: RawFd, error: rustls::Error) -> io::Error {
        if self.state == State::Handshake {
            self.counters.0[self.index].tls_failed.add(1);
            tracing::debug!(%error, "TLS handshake failed");
            let in_place_of_an_alert = if self.first_byte.is_some_and(|byte| byte.is_ascii_uppercase()) {
                Some(IN_THE_CLEAR)
            } else {
                // In place of rustls' own alert, which would be `access_denied`.
                matches!(&error, rustls::Error::General(why) if why == NO_CERTIFICATE).then_some(UNRECOGNIZED_NAME)
            };
            if let Some(bytes) = in_place_of_an_alert {
                self.state = State::Clear;
                let _ = Output { fd }.write(bytes);
                return io::Error::new(io::ErrorKind::InvalidData, error);
            }
        }
        // The alert that says what was wrong; if it does not fit, the end of the connection says enough.
        let _ = self.push(fd);
        io::Error::new(io::ErrorKind::InvalidData, error)
    }

    fn open_records(&mut self, fd: RawFd) -> io::Result<()> {
        let Engine::Rustls(tls) = &mut self.engine else { return Err(has_left()) };
        match tls.process_new_packets() {
            Ok(now) => (self.opened_bytes, self.has_closed) = (now.plaintext_bytes_to_read(), now.peer_has_closed()),
            Err(error) => return Err(self.refuse(fd, error)),
        }
        let counts = &self.counters.0[self.index];
        if self.state == State::Handshake
            && let Some(kept) = &mut self.kept
        {
            kept.take_secrets();
        }
        if self.state == State::Handshake && !tls.is_handshaking() {
            self.state = State::Open;
            counts.tls_handshakes.add(1);
            if tls.handshake_kind() == Some(HandshakeKind::Resumed) {
                counts.tls_resumed.add(1);
            }
            if tls.alpn_protocol() == Some(ACME_TLS) {
                // The handshake was the challenge, and nothing is said over it (RFC 8737 section 4).
                self.state = State::Ended;
                tls.send_close_notify();
            }
        }
        match self.push(fd) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Hands records to the socket, all or until it is full.
    #[inline]
    pub(crate) fn push(&mut self, fd: RawFd) -> io::Result<()> {
        if self.holds_output() { self.push_held(fd) } else { Ok(()) }
    }

    fn push_held(&mut self, fd: RawFd) -> io::Result<()> {
        if let Engine::Own(own) = &mut self.engine {
            return own.push(fd);
        }
        while self.holds_output() {
            let Engine::Rustls(tls) = &mut self.engine else { return Err(has_left()) };
            match tls.write_tls(&mut Output { fd }) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn say_goodbye(&mut self, fd: RawFd) {
        match &mut self.engine {
            Engine::Rustls(tls) if self.state == State::Open => tls.send_close_notify(),
            Engine::Own(own) => own.say_goodbye(fd),
            Engine::Rustls(_) | Engine::Lost => {}
        }
        let _ = self.push(fd);
    }

    pub(crate) fn sealing<'s>(&'s mut self, fd: RawFd, copied: &'s mut Vec<u8>) -> Sealing<'s> {
        Sealing { session: self, fd, copied }
    }
}

/// Marks for a tracer that a session, known by the place of what it has, has opened bytes.
#[inline]
fn tell_opened(session: &Cuts, bytes: &[u8]) {
    static_probe!("tls_opened", session as *const Cuts, bytes.as_ptr(), bytes.len(), 0_usize);
}

/// rustls is asked, and the session has left it.
#[cold]
fn has_left() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// A sink that encrypts. What it has taken may still be held by the session.
#[derive(Debug)]
pub(crate) struct Sealing<'s> {
    session: &'s mut Session,
    fd: RawFd,
    copied: &'s mut Vec<u8>,
}

impl Sealing<'_> {
    fn seal(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        let taken = match &mut self.session.engine {
            Engine::Rustls(tls) => {
                let taken = tls.writer().write_vectored(pieces)?;
                self.session.cuts.note(taken);
                taken
            }
            Engine::Own(own) => own.seal(pieces, &mut self.session.cuts)?,
            Engine::Lost => return Err(io::ErrorKind::BrokenPipe.into()),
        };
        // Told before the records go out: what a tracer sees next of this socket carries them.
        static_probe!("tls_sealed", &raw const self.session.cuts, pieces.as_ptr(), pieces.len(), taken);
        match self.session.push(self.fd) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }
}

impl Sink for Sealing<'_> {
    /// Full records, so that all of a response but its ends are such.
    const UNIT_BYTES: u64 = PLAINTEXT_BYTES_MAX as u64;
    const TURN_BYTES_MAX: u64 = 32 * Self::UNIT_BYTES;

    /// Takes all, as long as the socket takes the records: what takes less would be asked for more only when the socket
    /// says that it has room again, though it was never full.
    fn send(&mut self, pieces: &[IoSlice<'_>], _more: bool) -> io::Result<usize> {
        self.session.push(self.fd)?;
        let mut taken = 0;
        let mut rest = pieces;
        let mut used = 0;
        while !rest.is_empty() && !self.session.holds_output() {
            let mut room = SEALED_BYTES_MAX;
            let mut now = [IoSlice::new(&[]); PIECES_MAX];
            let mut count = 0;
            while room > 0 && count < PIECES_MAX {
                let Some(piece) = rest.first() else { break };
                let bytes = &piece[used..];
                let bytes = &bytes[..bytes.len().min(room)];
                now[count] = IoSlice::new(bytes);
                count += 1;
                room -= bytes.len();
                used += bytes.len();
                if used == piece.len() {
                    rest = &rest[1..];
                    used = 0;
                }
            }
            taken += self.seal(&now[..count])?;
        }
        Ok(taken)
    }

    fn send_file(&mut self, file: &File, is_unchanged: &dyn Fn() -> bool, start: u64, len: u64) -> io::Result<u64> {
        self.session.push(self.fd)?;
        let mut copied = std::mem::take(self.copied);
        let read = resource::read_some(file, start, len.min(SEALED_BYTES_MAX as u64), &mut copied);
        // After the bytes are here, so that no change falls between the look and them.
        let read =
            read.and_then(|()| if is_unchanged() { Ok(()) } else { Err(io::ErrorKind::StaleNetworkFileHandle.into()) });
        let taken = read.and_then(|()| if copied.is_empty() { Ok(0) } else { self.seal(&[IoSlice::new(&copied)]) });
        *self.copied = copied;
        Ok(taken? as u64)
    }
}

/// A socket as rustls reads it.
struct Input<'f> {
    fd: RawFd,
    asked: usize,
    got: usize,
    first_byte: &'f mut Option<u8>,
    kept: Option<&'f mut Kept>,
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.asked = buffer.len();
        self.got = epoll::receive(self.fd, buffer)?;
        if self.first_byte.is_none() {
            *self.first_byte = buffer[..self.got].first().copied();
        }
        if let Some(kept) = &mut self.kept {
            kept.pass(&buffer[..self.got]);
        }
        Ok(self.got)
    }
}

/// A socket as rustls writes it.
struct Output {
    fd: RawFd,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        epoll::send(self.fd, pieces, 0)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
