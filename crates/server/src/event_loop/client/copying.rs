//! A client's connection that is copied while it goes on.

use super::{Client, Protocol};
use crate::files::resource::Resource;
use crate::io::connection_facts::ConnectionFacts;
use crate::io::ends::Ends;
use crate::loop_state::LoopState;
use crate::policy::session_copies::{NotCopied, TlsKeys};
use crate::process::session::{ContentName, Session};
use crate::tls::{FixedRecords, TlsSession};
use std::net::SocketAddr;
use std::rc::Rc;

/// How far the response under way came, and all of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Client {
    /// What it sends now, if it does: a response that can be followed, or why it cannot.
    pub(crate) fn progress(&self) -> Option<Result<Progress, NotCopied>> {
        match &self.protocol {
            Protocol::Http1(connection) => {
                let (offset, bytes) = connection.progress()?;
                Some(Ok(Progress { offset, bytes }))
            }
            Protocol::Http2(_) => self.is_sending().then_some(Err(NotCopied::Http2)),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => None,
        }
    }

    /// Whether a copy of it says all that another node needs, and what the kernel tells of its socket.
    pub(crate) fn check_copyable(&self, keys: TlsKeys) -> Result<ConnectionFacts, NotCopied> {
        match &self.protocol {
            Protocol::Http1(connection) => connection.check_copyable(keys)?,
            Protocol::Http2(_) => return Err(NotCopied::Http2),
            Protocol::PassedOn(_) | Protocol::Relaying(_) | Protocol::Changing => return Err(NotCopied::Busy),
        }
        let facts = ConnectionFacts::of(self.fd).map_err(|_| NotCopied::Busy)?;
        if facts.has_unread { Err(NotCopied::Pipelined) } else { Ok(facts) }
    }

    /// As [`Connection::fix_records`]; nothing has come of the client or gone to it since these facts were read.
    ///
    /// # Errors
    ///
    /// [`NotCopied`].
    ///
    /// [`Connection::fix_records`]: crate::http1::connection::Connection::fix_records
    pub(crate) fn fix_records(&mut self, facts: &ConnectionFacts) -> Result<Option<FixedRecords>, NotCopied> {
        let Protocol::Http1(connection) = &mut self.protocol else { return Err(NotCopied::Busy) };
        connection.fix_records(facts.written - facts.acknowledged)
    }

    /// It as a session, with both ends of its socket; it is copyable.
    pub(crate) fn copy(
        &self,
        name: Option<ContentName>,
        tls: Option<TlsSession>,
        state: &LoopState,
    ) -> Option<(Session, SocketAddr, SocketAddr)> {
        let (peer, client) = match &self.proxy {
            Some(proxy) => (**proxy, Some(self.peer)),
            None => (self.peer, None),
        };
        let Protocol::Http1(connection) = &self.protocol else { return None };
        Some((connection.copy((peer, client), name, tls, state), peer, Ends::of(self.fd).local?))
    }

    /// The content of the response under way.
    pub(crate) fn first_content(&self) -> Option<Rc<Resource>> {
        let Protocol::Http1(connection) = &self.protocol else { return None };
        connection.contents().next().map(Rc::clone)
    }
}
