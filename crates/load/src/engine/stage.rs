//! A director under way.

use crate::connect::trust::with_own_sessions;
use crate::directed::director::{Directed, Orders};
use rustls::ClientConfig;
use std::collections::HashMap;
use std::sync::Arc;

/// A director under way.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) given: Directed,
    pub(crate) orders: Orders,
    /// Arrivals that are not over.
    pub(crate) under_way: usize,
    /// Arrivals of the closed loop that this turn began.
    pub(crate) begun: u32,
    /// Whether orders are being carried out: what is ordered meanwhile comes after them.
    pub(crate) busy: bool,
    /// What came behind the head of an answer that switches protocols, until the director knows of that.
    pub(crate) behind: Vec<u8>,
    /// How users encrypt that resume their own TLS sessions, by user and host.
    encryption: HashMap<(u32, u32), Arc<ClientConfig>>,
}

impl Stage {
    pub(crate) fn new(given: Directed) -> Self {
        Self {
            given,
            orders: Orders::default(),
            under_way: 0,
            begun: 0,
            busy: false,
            behind: Vec::new(),
            encryption: HashMap::new(),
        }
    }

    /// A response came on the link that a batch's session number stands for.
    pub(crate) fn answered(&mut self, session: u32, connection: u64, status: u16) {
        self.given.director.answered(session - 1, connection, status);
    }

    /// How the user of a link encrypts, where the host's way is `common` but for the sessions that may be resumed.
    pub(crate) fn encryption(&mut self, link: u32, host: u32, common: &ClientConfig) -> Option<Arc<ClientConfig>> {
        let user = link.checked_div(self.given.links_of_a_user)?;
        let own = || with_own_sessions(common, self.given.links_of_a_user);
        Some(Arc::clone(self.encryption.entry((user, host)).or_insert_with(own)))
    }

    pub(crate) fn forget(&mut self, link: u32, hosts: u32) {
        if let Some(user) = link.checked_div(self.given.links_of_a_user) {
            (0..hosts).for_each(|host| drop(self.encryption.remove(&(user, host))));
        }
    }

    /// The connection of a link is gone while nothing was under way on it.
    pub(crate) fn lose_connection(&mut self, session: u32) {
        self.orders.links[session as usize - 1].slot = None;
    }
}
