//! The TLS sessions that can be resumed, shared by the loops of a run.

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// As many tickets as connections may be open at a time, so that each finds one when it is made anew; the library's own
/// store keeps eight for a server.
#[derive(Debug)]
pub(crate) struct Sessions {
    tickets_max: usize,
    servers: Mutex<HashMap<ServerName<'static>, Known>>,
}

/// What is known of a server.
#[derive(Debug, Default)]
struct Known {
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
}

/// The most servers that are remembered.
const SERVERS_MAX: usize = 1024;

impl Sessions {
    pub(crate) fn new(tickets_max: usize) -> Self {
        Self { tickets_max: tickets_max.clamp(1, 65_536), servers: Mutex::default() }
    }

    fn servers(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, Known>> {
        // No entry can be half written, so the map is sound even if a thread panicked while it held the lock.
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Known)) {
        let mut servers = self.servers();
        if servers.len() < SERVERS_MAX || servers.contains_key(&name) {
            change(servers.entry(name).or_default());
        }
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.change(name, |known| known.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.servers().get(&name.to_owned())?.group
    }

    fn set_tls12_session(&self, name: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.change(name, |known| known.session = Some(session));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.servers().get(&name.to_owned())?.session.clone()
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.change(name.clone(), |known| known.session = None);
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        let most = self.tickets_max;
        self.change(name, |known| {
            // The oldest goes first: it is the one that the server forgets first.
            if known.tickets.len() >= most {
                known.tickets.pop_front();
            }
            known.tickets.push_back(ticket);
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.servers().get_mut(name)?.tickets.pop_back()
    }
}
