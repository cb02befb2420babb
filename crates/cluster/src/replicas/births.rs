//! The births of sockets that were restored here: the director knows only those of sockets that began their connections.

use socket2::SockRef;
use std::collections::{HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use weir_keeper::{Birth, TcpState};

/// Sockets that are remembered; a connection of an older one is not replicated.
const SOCKETS_MAX: usize = 1 << 16;

/// The births of restored sockets, by the kernel's own names of them (`SO_COOKIE`, socket(7)).
#[derive(Debug, Default)]
pub struct Births(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    births: HashMap<u64, Birth>,
    order: VecDeque<u64>,
}

impl Births {
    /// Notes a socket that was restored with this state.
    pub fn note(&self, socket: BorrowedFd<'_>, tcp: &TcpState) {
        // Without a name it is not replicated: the director says that it was steered.
        let Ok(cookie) = SockRef::from(&socket).cookie() else { return };
        let receive = tcp.receive_next.wrapping_sub(tcp.unread_bytes);
        let mut known = self.known();
        if known.births.insert(cookie, Birth { send: tcp.first_unacknowledged(), receive }).is_none() {
            known.order.push_back(cookie);
        }
        while known.order.len() > SOCKETS_MAX {
            let Some(oldest) = known.order.pop_front() else { break };
            known.births.remove(&oldest);
        }
    }

    /// The birth of a restored socket, by its name.
    pub fn of(&self, cookie: u64) -> Option<Birth> {
        self.known().births.get(&cookie).copied()
    }

    /// Each change is whole before the lock is given back.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
