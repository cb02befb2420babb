//! The client of a request, for code that treats clients differently, and the advice that its connection keeps.

use crate::files::resource::Resource;
use crate::policy::lease::Lease;
use crate::policy::policy_client::PolicyClient;
use std::cell::Cell;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;

/// The client of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientPeer<'a> {
    pub(crate) client: IpAddr,
    /// The connection, by a number that is never given to another one.
    pub(crate) connection: u64,
    /// Its socket of TCP, or of the Unix domain; none with QUIC.
    pub(crate) socket: Option<RawFd>,
    /// Whether what is sent to it is encrypted.
    pub(crate) is_secure: bool,
    /// What it was advised last; none where nothing of it is kept.
    pub(crate) leased: Option<&'a Leased>,
}

impl ClientPeer<'_> {
    /// The client's address, with the port of its socket if it is that one's.
    pub(crate) fn address(&self, socket: SocketAddr) -> SocketAddr {
        if self.client == socket.ip() { socket } else { SocketAddr::new(self.client, 0) }
    }

    /// The same where what it was advised last is not at hand.
    pub(crate) fn alone(&self) -> ClientPeer<'static> {
        ClientPeer { leased: None, ..*self }
    }
}

/// The place of a connection for it.
#[derive(Default)]
pub(crate) struct Leased(pub(super) Cell<Option<Rc<Kept>>>);

/// Advice that a connection has for one path, which is to answer with the file itself.
#[derive(Debug)]
// In this order: what each request looks at stands together.
#[repr(C)]
pub(crate) struct Kept {
    /// Where the content lies that it is about.
    pub(crate) place: *const Resource,
    pub(crate) lease: Arc<Lease>,
    /// When another look at the connection is due, by the loop's clock.
    pub(crate) until_ms: u64,
    /// It may be another one for another client.
    pub(crate) is_chosen: bool,
    /// So that no other content has that place. What nothing else keeps is not kept by this either.
    pub(crate) resource: Weak<Resource>,
    pub(crate) policy_client: Rc<PolicyClient>,
    pub(crate) peer: ClientPeer<'static>,
}

impl fmt::Debug for Leased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leased").finish_non_exhaustive()
    }
}

impl Leased {
    /// From now on it is this.
    pub(crate) fn keep(&self, kept: Kept) {
        self.0.set(Some(Rc::new(kept)));
    }
}
