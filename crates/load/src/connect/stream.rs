//! The two ways that bytes go: plain, and through TLS; before either, a proxy may have to be asked.

use crate::connect::kernel::Kernel;
use crate::connect::read_ahead::ReadAhead;
use crate::connect::route::{Route, Tunnel};
use crate::reach::dialogue::Dialogue;
use crate::reach::refusal::Refusal;
use rustls::{ClientConfig, ClientConnection};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// An open connection's byte stream.
#[derive(Debug)]
pub(crate) struct Stream {
    fd: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// What is still to be agreed with a proxy, before TLS.
    tunnel: Option<Box<Dialogue>>,
    /// What the other side's first bytes of the TLS handshake were.
    greeting: [u8; GREETING_BYTES],
    /// Bytes given to the socket so far.
    pub(crate) sent: u64,
    /// Bytes taken from the socket so far.
    pub(crate) received: u64,
    /// What was received before its time, where receptions are limited.
    pub(crate) ahead: Option<Box<ReadAhead>>,
    /// The most that the socket may take and give at a time; only looked at with TLS.
    pub(crate) room_to_read: usize,
    pub(crate) room_to_write: usize,
    /// Whether the last read took all that the socket had.
    pub(crate) drained: bool,
    /// Whether the other side has said that nothing more follows, which TLS does in a message of its own.
    pub(crate) ended: bool,
}

/// What one read of a proxy's answer takes at most.
const TUNNEL_READ_BYTES: usize = 4096;

/// So many first bytes of a handshake are kept, to tell what else speaks there.
const GREETING_BYTES: usize = weir_client::other::TELLING_BYTES;

/// What answered a TLS handshake is something else, by its first bytes.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotTls(String);

/// Where a TLS handshake stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// The other side's turn.
    Pending,
    /// The connection can carry requests.
    Ready,
}

impl Stream {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        let (room_to_read, room_to_write) = (usize::MAX, usize::MAX);
        Self {
            fd,
            tls: None,
            tunnel: None,
            greeting: [0; GREETING_BYTES],
            sent: 0,
            received: 0,
            ahead: None,
            room_to_read,
            room_to_write,
            drained: true,
            ended: false,
        }
    }

    /// Lays what belongs to a route over a socket that is connected; [`Self::handshake`] then agrees on it.
    ///
    /// `own` is how it is encrypted, if not as all others on the route.
    pub(crate) fn prepare(&mut self, route: &Route, own: Option<Arc<ClientConfig>>) -> io::Result<()> {
        self.tunnel = route.tunnel.as_ref().map(Tunnel::begin).transpose()?.map(Box::new);
        if let Some((config, name)) = &route.tls {
            let config = own.unwrap_or_else(|| Arc::clone(config));
            let session = ClientConnection::new(config, name.clone()).map_err(io::Error::other)?;
            self.tls = Some(Box::new(session));
        }
        Ok(())
    }

    /// Whether the proxy has still to let the connection through.
    pub(crate) fn in_tunnel(&self) -> bool {
        self.tunnel.is_some()
    }

    pub(crate) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The protocol that was agreed on with the server (ALPN), once the handshake is over.
    pub(crate) fn agreed_protocol(&self) -> Option<&[u8]> {
        self.tls.as_ref()?.alpn_protocol()
    }

    /// Whether the session was one of a former connection; `None` without TLS and before the handshake is over.
    pub(crate) fn resumed(&self) -> Option<bool> {
        Some(self.tls.as_ref()?.handshake_kind()? == rustls::HandshakeKind::Resumed)
    }

    /// The TLS session, if the bytes are encrypted.
    pub(crate) fn session(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// Gives up the socket.
    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// Reads what is there into `buffer`; 0 = the other side ended the stream.
    #[inline]
    pub(crate) fn read(&mut self, kernel: &mut Kernel, buffer: &mut [u8]) -> io::Result<usize> {
        if self.tls.is_some() {
            return self.read_tls(kernel, buffer);
        }
        let count = kernel.receive(self.fd.as_raw_fd(), buffer)?;
        self.received += count as u64;
        self.drained = count < buffer.len();
        Ok(count)
    }

    /// Reads no more than `room` bytes of the wire, from those received before their time if there are such.
    pub(crate) fn read_at_most(&mut self, kernel: &mut Kernel, buffer: &mut [u8], room: usize) -> io::Result<usize> {
        if self.tls.is_some() {
            self.room_to_read = room;
            let read = self.read_tls(kernel, buffer);
            self.room_to_read = usize::MAX;
            return read;
        }
        let most = room.min(buffer.len());
        let buffer = &mut buffer[..most];
        let count = match &mut self.ahead {
            Some(ahead) => ahead.read(buffer)?,
            None => kernel.receive(self.fd.as_raw_fd(), buffer)?,
        };
        self.received += count as u64;
        self.drained = count < most;
        Ok(count)
    }

    /// Takes more before its time, where receptions are limited.
    pub(crate) fn top_up(&mut self, kernel: &mut Kernel, hung_up: bool) {
        if let Some(ahead) = &mut self.ahead {
            ahead.top_up(kernel, self.fd.as_raw_fd(), hung_up);
        }
    }

    /// Writes the beginning of `bytes` that there is room for and returns its length.
    #[inline]
    pub(crate) fn write(&mut self, kernel: &mut Kernel, bytes: &[u8]) -> io::Result<usize> {
        if self.tls.is_some() {
            return self.write_tls(kernel, bytes);
        }
        let count = kernel.send(self.fd.as_raw_fd(), bytes)?;
        self.sent += count as u64;
        Ok(count)
    }

    /// Writes the last bytes and, encrypted, the word that nothing follows (RFC 8446 6.1), in one call; what there is no
    /// room for is lost.
    pub(crate) fn write_last(&mut self, kernel: &mut Kernel, bytes: &[u8]) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return self.write(kernel, bytes).map(drop) };
        let _ = tls.writer().write(bytes)?;
        tls.send_close_notify();
        let mut sealed = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut sealed)?;
        }
        self.sent += kernel.send(self.fd.as_raw_fd(), &sealed)? as u64;
        Ok(())
    }

    /// Whether encrypted bytes wait for room in the socket.
    #[inline]
    pub(crate) fn is_clogged(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Takes the dialogue with a proxy and the TLS handshake as far as they go now.
    pub(crate) fn handshake(&mut self, kernel: &mut Kernel) -> io::Result<Handshake> {
        if self.tunnel.is_some() {
            match self.converse(kernel) {
                Ok(Handshake::Ready) => self.tunnel = None,
                Ok(Handshake::Pending) => return Ok(Handshake::Pending),
                // If the connection ends here for any reason, the proxy has not let it through.
                Err(error) if Refusal::of(&error).is_none() => return Err(Refusal(error.to_string()).into()),
                Err(error) => return Err(error),
            }
        }
        self.shake_hands(kernel)
    }

    fn converse(&mut self, kernel: &mut Kernel) -> io::Result<Handshake> {
        let Some(tunnel) = &mut self.tunnel else { return Ok(Handshake::Ready) };
        let fd = self.fd.as_raw_fd();
        let mut buffer = [0; TUNNEL_READ_BYTES];
        loop {
            while !tunnel.to_send().is_empty() {
                let Some(count) = pass_blocked(kernel.send(fd, tunnel.to_send()))? else {
                    return Ok(Handshake::Pending);
                };
                self.sent += count as u64;
                tunnel.sent(count);
            }
            if tunnel.is_through() {
                return Ok(Handshake::Ready);
            }
            match pass_blocked(kernel.receive(fd, &mut buffer))? {
                None => return Ok(Handshake::Pending),
                Some(0) => return Err(Refusal::new("the proxy closed the connection without an answer").into()),
                Some(count) => {
                    self.received += count as u64;
                    tunnel.receive(&buffer[..count])?;
                }
            }
        }
    }

    fn shake_hands(&mut self, kernel: &mut Kernel) -> io::Result<Handshake> {
        let Some(tls) = &mut self.tls else { return Ok(Handshake::Ready) };
        let mut socket = Socket {
            fd: self.fd.as_raw_fd(),
            kernel,
            sent: &mut self.sent,
            received: &mut self.received,
            ahead: self.ahead.as_deref_mut(),
            room_to_read: self.room_to_read,
            room_to_write: self.room_to_write,
            short: false,
            greeting: Some(&mut self.greeting),
        };
        loop {
            let written = pass_blocked(write_all_tls(tls, &mut socket))?;
            if !tls.is_handshaking() {
                return Ok(Handshake::Ready);
            }
            if written.is_none() {
                return Ok(Handshake::Pending);
            }
            match pass_blocked(tls.read_tls(&mut socket))? {
                None => return Ok(Handshake::Pending),
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(_) => match process(tls, &mut socket) {
                    Ok(ended) => self.ended |= ended,
                    Err(error) => return Err(not_tls(&self.greeting).unwrap_or(error)),
                },
            }
        }
    }

    fn read_tls(&mut self, kernel: &mut Kernel, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        let mut socket = Socket {
            fd: self.fd.as_raw_fd(),
            kernel,
            sent: &mut self.sent,
            received: &mut self.received,
            ahead: self.ahead.as_deref_mut(),
            room_to_read: self.room_to_read,
            room_to_write: self.room_to_write,
            short: false,
            greeting: None,
        };
        loop {
            match tls.reader().read(buffer) {
                Ok(count) => {
                    // More may wait decrypted, or in the socket: only a short reception before says that it does not.
                    self.drained = socket.short && count < buffer.len() && !self.ended;
                    return Ok(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
            let count = tls.read_tls(&mut socket)?;
            self.ended |= process(tls, &mut socket)?;
            if count == 0 {
                // Decides between an end that was announced (0 bytes) and a cut (an error).
                return tls.reader().read(buffer);
            }
        }
    }

    fn write_tls(&mut self, kernel: &mut Kernel, bytes: &[u8]) -> io::Result<usize> {
        let Some(tls) = &mut self.tls else { return Ok(0) };
        let mut socket = Socket {
            fd: self.fd.as_raw_fd(),
            kernel,
            sent: &mut self.sent,
            received: &mut self.received,
            ahead: self.ahead.as_deref_mut(),
            room_to_read: self.room_to_read,
            room_to_write: self.room_to_write,
            short: false,
            greeting: None,
        };
        pass_blocked(write_all_tls(tls, &mut socket))?;
        let count = tls.writer().write(bytes)?;
        pass_blocked(write_all_tls(tls, &mut socket))?;
        if count == 0 && !bytes.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

/// What these first bytes of an answer to a handshake are, if they are not those of TLS (RFC 8446 5.1).
fn not_tls(greeting: &[u8; GREETING_BYTES]) -> Option<io::Error> {
    if matches!(greeting[..2], [20..=24, 3]) {
        return None;
    }
    let words = if greeting.starts_with(b"HTTP/") {
        "this port speaks HTTP, not TLS: it answered the handshake with an HTTP response".to_owned()
    } else {
        let end = greeting.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        format!(
            "this port does not speak TLS: its answer begins with `{}`",
            weir_client::other::shown(&greeting[..end])
        )
    };
    Some(io::Error::other(NotTls(words)))
}

/// Gives the socket all encrypted bytes that wait.
fn write_all_tls(tls: &mut ClientConnection, socket: &mut Socket<'_>) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(socket)?;
    }
    Ok(())
}

/// Decrypts what was received and tells whether the other side ended the session; on failure the alert that says why
/// still goes out.
fn process(tls: &mut ClientConnection, socket: &mut Socket<'_>) -> io::Result<bool> {
    match tls.process_new_packets() {
        Ok(state) => Ok(state.peer_has_closed()),
        Err(error) => {
            // The first error is the one to tell of; whether the alert arrives changes nothing.
            let _ = write_all_tls(tls, socket);
            Err(io::Error::other(error))
        }
    }
}

fn pass_blocked<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

/// The socket as the TLS session sees it, its bytes counted.
struct Socket<'a> {
    fd: RawFd,
    kernel: &'a mut Kernel,
    sent: &'a mut u64,
    received: &'a mut u64,
    ahead: Option<&'a mut ReadAhead>,
    room_to_read: usize,
    room_to_write: usize,
    /// Whether the last reception took less than there was room for.
    short: bool,
    /// Where the next reception's first bytes are kept, in a handshake.
    greeting: Option<&'a mut [u8; GREETING_BYTES]>,
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.room_to_read == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let most = buffer.len().min(self.room_to_read);
        let buffer = &mut buffer[..most];
        let count = match &mut self.ahead {
            Some(ahead) => ahead.read(buffer)?,
            None => self.kernel.receive(self.fd, buffer)?,
        };
        self.room_to_read -= count;
        *self.received += count as u64;
        self.short = count < buffer.len();
        if let Some(greeting) = self.greeting.take_if(|_| count > 0) {
            let kept = count.min(GREETING_BYTES);
            *greeting = [0; GREETING_BYTES];
            greeting[..kept].copy_from_slice(&buffer[..kept]);
        }
        Ok(count)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.room_to_write == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = self.kernel.send(self.fd, &bytes[..bytes.len().min(self.room_to_write)])?;
        self.room_to_write -= count;
        *self.sent += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
