//! A connection that a proxy passes on and that begins with a header of the PROXY protocol: nothing else is read of it
//! before that header says whose connection it is.

use crate::http::proxy_protocol::{self, Beginning, Passed};
use crate::io::epoll;
use crate::loop_state::LoopState;
use crate::tls::Session;
use crate::transport::Transport;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::Arc;

/// Bytes that are looked at for the header.
const LOOKED_AT: usize = 4096;

/// A connection of which the header has not come.
#[derive(Debug)]
pub(crate) struct PassedOn {
    socket: OwnedFd,
    tls: Option<Arc<rustls::ServerConfig>>,
    deadline_ms: u64,
}

/// What became of it.
pub(crate) enum Began {
    /// The header is not there yet.
    NotYet(PassedOn),
    /// It is a connection, of this client if the header names one.
    Connection(Transport, Option<SocketAddr>),
    /// It ended, or begins with something else.
    Ended,
}

impl PassedOn {
    pub(crate) fn new(socket: OwnedFd, tls: Option<Arc<rustls::ServerConfig>>, state: &LoopState) -> Self {
        let time_ms = u64::try_from(state.timeouts.head.as_millis()).unwrap_or(u64::MAX);
        Self { socket, tls, deadline_ms: state.clock.now_ms.saturating_add(time_ms) }
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(crate) fn is_due(&self, now_ms: u64) -> bool {
        self.deadline_ms <= now_ms
    }

    /// Reads the header if it is there, and nothing behind it.
    pub(crate) fn begin(self, state: &LoopState) -> Began {
        let mut looked_at = [0; LOOKED_AT];
        let bytes = match epoll::peek(self.fd(), &mut looked_at) {
            Ok(0) => return Began::Ended,
            Ok(bytes) => bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                return Began::NotYet(self);
            }
            Err(_) => return Began::Ended,
        };
        let (header_bytes, passed) = match proxy_protocol::read(&looked_at[..bytes]) {
            Ok(Beginning::Partial) if bytes < LOOKED_AT => return Began::NotYet(self),
            Ok(Beginning::Header(bytes, passed)) => (bytes, passed),
            Ok(Beginning::Partial) => return Began::Ended,
            Err(error) => {
                tracing::debug!(%error, "a connection does not begin with a header of the PROXY protocol");
                return Began::Ended;
            }
        };
        if !matches!(epoll::receive(self.fd(), &mut looked_at[..header_bytes]), Ok(bytes) if bytes == header_bytes) {
            return Began::Ended;
        }
        let client = if let Passed::Between { client, .. } = passed { Some(client) } else { None };
        let session = match &self.tls {
            None => None,
            Some(config) => match Session::new(config, &state.counters, state.index) {
                Ok(session) => Some(Box::new(session)),
                Err(_) => return Began::Ended,
            },
        };
        Began::Connection(Transport::new(self.socket, session), client)
    }
}
