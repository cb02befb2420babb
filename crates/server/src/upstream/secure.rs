//! TLS of one connection with an upstream.

use super::trust::Trust;
use crate::io::epoll;
use rustls::{AlertDescription, CertificateError, ClientConnection, HandshakeKind};
use rustls_pki_types::ServerName;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::RawFd;
use std::sync::Arc;
use thiserror::Error;

/// Bytes that are made into records at once; what the socket does not take of them stays in memory.
const SEALED_BYTES_MAX: usize = 64 << 10;
/// What a server begins with that speaks HTTP in the clear.
const IN_THE_CLEAR: &[u8] = b"HTTP/";

/// What is offered (RFC 7301).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Offer {
    /// HTTP/2, and HTTP/1.1.
    Both,
    Http1,
    Http2,
    /// Nothing: what speaks FastCGI has no name of a protocol there.
    Nothing,
}

/// Why TLS with a server failed.
#[derive(Debug, Error)]
#[error("TLS with {server}: {why}")]
pub(crate) struct TlsFailure {
    /// The server as the configuration has it.
    pub(crate) server: String,
    pub(crate) why: Why,
}

/// What went wrong in a handshake.
#[derive(Debug, Error)]
pub(crate) enum Why {
    #[error("its certificate has expired; renew it")]
    Expired,
    #[error("its certificate is not valid yet; look at the clocks of both machines")]
    NotValidYet,
    #[error("its certificate is not for the name {0}; give its name by server_name = \"NAME\"")]
    WrongName(String),
    #[error("its certificate is of an authority that is not trusted; give that by ca = \"FILE\"")]
    UnknownAuthority,
    #[error("its certificate cannot be believed: {0}")]
    Certificate(CertificateError),
    #[error("it speaks HTTP in the clear; write http:// in place of https://")]
    InTheClear,
    #[error("it sent what is no TLS")]
    NoTls,
    #[error("it wants a client certificate that it believes; give one by client_certificate and client_key")]
    ClientCertificate,
    #[error("it speaks none of the protocols that were offered; see `protocol`")]
    NoProtocol,
    #[error("it speaks HTTP/1.1, and protocol = \"2\" was asked for")]
    NotHttp2,
    #[error("it ended the connection in the handshake")]
    Ended,
    #[error("{0}")]
    Library(rustls::Error),
}

impl Why {
    fn of(error: rustls::Error, name: &ServerName<'_>, begins: &[u8]) -> Self {
        use rustls::Error;
        match error {
            Error::InvalidCertificate(error) => Self::of_certificate(error, name),
            Error::AlertReceived(
                AlertDescription::CertificateRequired
                | AlertDescription::BadCertificate
                | AlertDescription::CertificateExpired
                | AlertDescription::CertificateRevoked
                | AlertDescription::CertificateUnknown
                | AlertDescription::UnknownCA,
            ) => Self::ClientCertificate,
            Error::NoApplicationProtocol | Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                Self::NoProtocol
            }
            Error::InvalidMessage(_) if begins == IN_THE_CLEAR => Self::InTheClear,
            Error::InvalidMessage(_) => Self::NoTls,
            error => Self::Library(error),
        }
    }

    fn of_certificate(error: CertificateError, name: &ServerName<'_>) -> Self {
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => Self::Expired,
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => Self::NotValidYet,
            CertificateError::UnknownIssuer => Self::UnknownAuthority,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                Self::WrongName(name.to_str().into_owned())
            }
            // The library has no kind of its own for what is its own authority.
            CertificateError::Other(error) if error.0.to_string() == "CaUsedAsEndEntity" => Self::UnknownAuthority,
            error => Self::Certificate(error),
        }
    }
}

/// The TLS of one connection.
#[derive(Debug)]
pub(super) struct Session {
    tls: ClientConnection,
    name: ServerName<'static>,
    /// As the configuration has it.
    server: String,
    /// The first bytes that the server has sent.
    begins: Vec<u8>,
    state: State,
    /// The last reception has taken all that there was.
    is_drained: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Handshake,
    Open,
    /// The socket has ended.
    Ended,
    Failed,
}

/// What was agreed on once a handshake is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Agreed {
    pub(crate) is_http2: bool,
    pub(crate) is_resumed: bool,
}

impl Session {
    /// Begins with a connection to a server of this name.
    ///
    /// # Errors
    ///
    /// Those of the library for what it cannot use.
    pub(super) fn new(
        trust: &Trust,
        name: ServerName<'static>,
        server: String,
        offer: Offer,
    ) -> Result<Self, rustls::Error> {
        let offered: &[&[u8]] = match offer {
            Offer::Both => &[b"h2", b"http/1.1"],
            Offer::Http1 => &[b"http/1.1"],
            Offer::Http2 => &[b"h2"],
            Offer::Nothing => &[],
        };
        let offered = offered.iter().map(|protocol| protocol.to_vec()).collect();
        let mut tls = ClientConnection::new_with_alpn(Arc::clone(&trust.config), name.clone(), offered)?;
        // `send` bounds it: it adds nothing beyond SEALED_BYTES_MAX while anything is held.
        tls.set_buffer_limit(None);
        Ok(Self { tls, name, server, begins: Vec::new(), state: State::Handshake, is_drained: false })
    }

    /// Whether records wait for room in the socket.
    pub(super) fn holds_output(&self) -> bool {
        self.state != State::Failed && self.tls.wants_write()
    }

    /// Goes on with the handshake; none = it waits for the server.
    ///
    /// # Errors
    ///
    /// Why it failed: a [`TlsFailure`] within.
    pub(super) fn handshake(&mut self, fd: RawFd) -> io::Result<Option<Agreed>> {
        while self.tls.is_handshaking() {
            match self.push(fd) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                pushed => pushed?,
            }
            match self.take_records(fd) {
                Ok(0) => return Err(self.failure(Why::Ended)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        if self.state == State::Handshake {
            self.state = State::Open;
        }
        // The last flight of the handshake goes before the request.
        match self.push(fd) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let is_resumed = self.tls.handshake_kind() == Some(HandshakeKind::Resumed);
        Ok(Some(Agreed { is_http2: self.tls.alpn_protocol() == Some(b"h2"), is_resumed }))
    }

    /// Why the connection is of no use though the handshake was good.
    pub(super) fn failure(&mut self, why: Why) -> io::Error {
        self.state = State::Failed;
        io::Error::new(io::ErrorKind::InvalidData, TlsFailure { server: self.server.clone(), why })
    }

    /// Receives records once and opens them; 0 = the socket has ended.
    fn take_records(&mut self, fd: RawFd) -> io::Result<usize> {
        let mut input = Input { fd, begins: &mut self.begins };
        let taken = loop {
            match self.tls.read_tls(&mut input) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                taken => break taken?,
            }
        };
        if taken == 0 {
            return Ok(0);
        }
        if let Err(error) = self.tls.process_new_packets() {
            // The alert that says what was wrong; if it does not fit, the end of the connection says enough.
            let _ = self.push(fd);
            let why = Why::of(error, &self.name, &self.begins);
            return Err(self.failure(why));
        }
        Ok(taken)
    }

    /// Receives and decrypts until nothing more is there or `buffer` is full; 0 is the end.
    ///
    /// # Errors
    ///
    /// `WouldBlock` if there is nothing now; `UnexpectedEof` for an end that TLS did not announce, which anyone on the
    /// way can make.
    pub(super) fn receive(&mut self, fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        self.is_drained = false;
        loop {
            match self.tls.reader().read(&mut buffer[filled..]) {
                Ok(0) => return Ok(filled),
                Ok(read) => {
                    filled += read;
                    if filled == buffer.len() {
                        return Ok(filled);
                    }
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.state != State::Ended => {}
                Err(_) if filled > 0 => return Ok(filled),
                Err(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            match self.take_records(fd) {
                Ok(0) => self.state = State::Ended,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_drained = true;
                    return if filled > 0 { Ok(filled) } else { Err(error) };
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the last reception has taken all that there was, so that an event tells of more.
    pub(super) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Encrypts pieces and sends them, as far as the socket takes the records: what does not fit of the last ones is
    /// held.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while records of before are held.
    pub(super) fn send(&mut self, fd: RawFd, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        self.push(fd)?;
        let mut taken = 0;
        for piece in pieces {
            for part in piece.chunks(SEALED_BYTES_MAX) {
                if self.holds_output() {
                    return Ok(taken);
                }
                self.tls.writer().write_all(part)?;
                taken += part.len();
                match self.push(fd) {
                    Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                    _ => {}
                }
            }
        }
        Ok(taken)
    }

    /// Hands records to the socket.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while the socket has no room for all of them.
    pub(super) fn push(&mut self, fd: RawFd) -> io::Result<()> {
        while self.holds_output() {
            match self.tls.write_tls(&mut Output { fd }) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that nothing more follows, as far as there is room for it.
    pub(super) fn end_side(&mut self, fd: RawFd) {
        if matches!(self.state, State::Open | State::Ended) {
            self.tls.send_close_notify();
            // What does not fit is not waited for.
            let _ = self.push(fd);
        }
    }
}

/// A socket as rustls reads it.
struct Input<'s> {
    fd: RawFd,
    begins: &'s mut Vec<u8>,
}

impl Read for Input<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = epoll::receive(self.fd, buffer)?;
        let missing = IN_THE_CLEAR.len().saturating_sub(self.begins.len());
        self.begins.extend_from_slice(&buffer[..got.min(missing)]);
        Ok(got)
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
