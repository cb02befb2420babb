//! A connection with a peer: bytes in both directions, by TLS or in the clear. No call waits.

use crate::trust::{Trust, Untrusted};
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

/// Bytes in the clear that are read at once.
const READ_BYTES: usize = 64 << 10;

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Received {
    Bytes,
    /// There is nothing now.
    Nothing,
    /// The peer sends nothing more.
    End,
}

/// A connection with a peer.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: TcpStream,
    layer: Layer,
}

#[derive(Debug)]
enum Layer {
    Tls(Box<ServerConnection>),
    /// What the socket has not taken yet.
    Clear(Vec<u8>),
}

impl Channel {
    /// The socket must not block.
    pub(crate) fn new(socket: TcpStream, trust: Option<&Trust>) -> Result<Self, Untrusted> {
        let layer = match trust {
            Some(trust) => {
                let mut tls = ServerConnection::new(Arc::clone(&trust.config)).map_err(Untrusted::Library)?;
                // The relay reads nothing further while anything is held.
                tls.set_buffer_limit(None);
                Layer::Tls(Box::new(tls))
            }
            None => Layer::Clear(Vec::new()),
        };
        Ok(Self { socket, layer })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Goes on with the handshake as far as is possible; whether it is over.
    pub(crate) fn shake_hands(&mut self, trust: Option<&Trust>) -> Result<bool, Untrusted> {
        let (Layer::Tls(tls), Some(trust)) = (&mut self.layer, trust) else { return Ok(true) };
        while tls.is_handshaking() {
            push(tls, &mut self.socket).map_err(|_| Untrusted::Gone)?;
            if !tls.is_handshaking() {
                break;
            }
            match tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(Untrusted::Gone),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Err(Untrusted::Gone),
            }
            if let Err(error) = tls.process_new_packets() {
                // The alert tells the peer why.
                let _ = push(tls, &mut self.socket);
                return Err(Untrusted::of(error));
            }
        }
        trust.check_name(tls)?;
        push(tls, &mut self.socket).map_err(|_| Untrusted::Gone)?;
        Ok(true)
    }

    /// Appends what came in the same records as the end of the handshake: no event tells of it later.
    pub(crate) fn take_early(&mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let Layer::Tls(tls) = &mut self.layer else { return Ok(()) };
        let state = tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let start = into.len();
        into.resize(start + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut into[start..])
    }

    /// Reads once, and appends what has come.
    pub(crate) fn receive(&mut self, into: &mut Vec<u8>) -> io::Result<Received> {
        let tls = match &mut self.layer {
            Layer::Clear(_) => return read(&mut self.socket, into),
            Layer::Tls(tls) => tls,
        };
        let has_come = match tls.read_tls(&mut self.socket) {
            Ok(bytes) => bytes > 0,
            Err(error) if is_later(&error) => return Ok(Received::Nothing),
            Err(error) => return Err(error),
        };
        let state = tls.process_new_packets().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        let start = into.len();
        into.resize(start + state.plaintext_bytes_to_read(), 0);
        tls.reader().read_exact(&mut into[start..])?;
        match (into.len() > start, has_come && !state.peer_has_closed()) {
            (true, _) => Ok(Received::Bytes),
            (false, true) => Ok(Received::Nothing),
            (false, false) => Ok(Received::End),
        }
    }

    /// Takes bytes that are to be sent; [`Self::push`] sends them.
    pub(crate) fn queue(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.layer {
            Layer::Tls(tls) => tls.writer().write_all(bytes),
            Layer::Clear(held) => {
                held.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Whether something is to be sent.
    pub(crate) fn holds_output(&self) -> bool {
        match &self.layer {
            Layer::Tls(tls) => tls.wants_write(),
            Layer::Clear(held) => !held.is_empty(),
        }
    }

    /// Sends what the socket takes; how many bytes.
    pub(crate) fn push(&mut self) -> io::Result<usize> {
        match &mut self.layer {
            Layer::Tls(tls) => push(tls, &mut self.socket),
            Layer::Clear(held) => {
                let mut sent = 0;
                while sent < held.len() {
                    match self.socket.write(&held[sent..]) {
                        Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                        Ok(bytes) => sent += bytes,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                        Err(error) => return Err(error),
                    }
                }
                held.drain(..sent);
                Ok(sent)
            }
        }
    }

    /// Says that nothing more follows, as far as there is room for it.
    pub(crate) fn end(&mut self) {
        if let Layer::Tls(tls) = &mut self.layer {
            tls.send_close_notify();
        }
        let _ = self.push();
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Reads and forgets what has come; whether more may come. Bytes are not even decrypted.
    pub(crate) fn discard(&mut self) -> bool {
        let mut bytes = [0; 4096];
        match self.socket.read(&mut bytes) {
            Ok(count) => count > 0,
            Err(error) => is_later(&error),
        }
    }
}

fn push(tls: &mut ServerConnection, socket: &mut TcpStream) -> io::Result<usize> {
    let mut sent = 0;
    while tls.wants_write() {
        match tls.write_tls(socket) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(bytes) => sent += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}

/// Reads once from a socket that does not block.
pub(crate) fn read(from: &mut impl Read, into: &mut Vec<u8>) -> io::Result<Received> {
    let start = into.len();
    into.resize(start + READ_BYTES, 0);
    let got = from.read(&mut into[start..]);
    into.truncate(start + *got.as_ref().unwrap_or(&0));
    match got {
        Ok(0) => Ok(Received::End),
        Ok(_) => Ok(Received::Bytes),
        Err(error) if is_later(&error) => Ok(Received::Nothing),
        Err(error) => Err(error),
    }
}

fn is_later(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
