//! Sockets of which it is not known that they are the server's: held back until a task of the server deals with them.
//!
//! Sockets that are older than the recording are all told by the probes, for among them are the server's connections to
//! what it asks. Most are other services', and who their clients are is none of a run's business.

use rustc_hash::{FxHashMap, FxHashSet};
use weir_wire::socket::{SocketOpen, SocketState};
use weir_wire::{Kind, Record};

/// Sockets that are held back; what finds no room is never told.
const MOST_HELD: usize = 1 << 16;
/// Connections that the server's tasks have begun and that have not been told yet.
const MOST_BEGUN: usize = 1 << 14;

/// The sockets that are held back.
#[derive(Debug, Default)]
pub(crate) struct Strangers {
    held: FxHashMap<u32, SocketOpen>,
    begun: FxHashSet<u32>,
    dropped: u64,
}

impl Strangers {
    /// Holds a socket back, unless a task of the server has begun to connect it; whether it is held back.
    pub(crate) fn hold(&mut self, open: SocketOpen) -> bool {
        if self.begun.remove(&open.socket) {
            return false;
        }
        if self.held.len() < MOST_HELD || self.held.contains_key(&open.socket) {
            self.held.insert(open.socket, open);
        } else {
            self.dropped += 1;
        }
        true
    }

    /// What the socket of an event is, if that was held back until now: only the server's events are told.
    pub(crate) fn met(&mut self, record: &Record) -> Option<SocketOpen> {
        let (socket, _) = record.a_halves();
        if let Some(state) = SocketState::read(record) {
            let held = self.held.remove(&socket);
            if state.begins_to_connect() {
                // Its opening may stand in a ring that is read later.
                if held.is_none() && self.begun.len() < MOST_BEGUN {
                    self.begun.insert(socket);
                }
                return held;
            }
            // Anybody's closing is told.
            self.begun.remove(&socket);
            return None;
        }
        let is_dealing = [Kind::SocketReady, Kind::SocketRecv, Kind::SocketSend].map(|kind| kind as u16);
        if self.held.is_empty() || !is_dealing.contains(&record.kind) {
            return None;
        }
        self.held.remove(&socket)
    }

    /// How many found no room since this was last asked.
    pub(crate) fn take_dropped(&mut self) -> u64 {
        std::mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(socket: u32) -> SocketOpen {
        let address = "192.0.2.1:5432".parse().expect("an address");
        let cookie = u64::from(socket);
        SocketOpen { socket, receive_base: 1, send_base: 2, cookie, netns: 0, local: address, remote: address }
    }

    fn event(kind: Kind, socket: u32, state: u64) -> Record {
        Record { kind: kind as u16, a: u64::from(socket) | 77 << 32, b: state << 8, ..Record::default() }
    }

    const SYN_SENT: u64 = 2;
    const CLOSE: u64 = 7;

    #[test]
    fn a_socket_is_told_when_the_server_deals_with_it_and_not_before() {
        let mut strangers = Strangers::default();
        for kind in [Kind::SocketReady, Kind::SocketRecv, Kind::SocketSend] {
            assert!(strangers.hold(open(1)) && strangers.hold(open(2)));
            assert_eq!(strangers.met(&event(Kind::Waking, 1, 0)), None, "no event of a socket");
            assert_eq!(strangers.met(&event(kind, 1, 0)), Some(open(1)));
            assert_eq!(strangers.met(&event(kind, 1, 0)), None, "it is told once");
        }
        assert_eq!(strangers.met(&event(Kind::SocketState, 2, CLOSE)), None);
        assert_eq!(strangers.met(&event(Kind::SocketSend, 2, 0)), None, "it was another's, and is no more");
    }

    #[test]
    fn a_connection_that_the_server_makes_is_never_held_back() {
        let mut strangers = Strangers::default();
        assert_eq!(strangers.met(&event(Kind::SocketState, 1, SYN_SENT)), None);
        assert!(!strangers.hold(open(1)));
        // Its opening was read before its beginning.
        assert!(strangers.hold(open(2)));
        assert_eq!(strangers.met(&event(Kind::SocketState, 2, SYN_SENT)), Some(open(2)));
        // It came to nothing; the number is another's.
        strangers.met(&event(Kind::SocketState, 3, SYN_SENT));
        strangers.met(&event(Kind::SocketState, 3, CLOSE));
        assert!(strangers.hold(open(3)));
    }

    #[test]
    fn the_room_is_bounded_and_what_found_none_is_counted() {
        let mut strangers = Strangers::default();
        (0..MOST_HELD as u32 + 3).for_each(|socket| assert!(strangers.hold(open(socket))));
        assert_eq!((strangers.held.len(), strangers.take_dropped(), strangers.take_dropped()), (MOST_HELD, 3, 0));
        for socket in 0..2 * MOST_BEGUN as u32 {
            strangers.met(&event(Kind::SocketState, MOST_HELD as u32 + 10 + socket, SYN_SENT));
        }
        assert_eq!(strangers.begun.len(), MOST_BEGUN);
    }
}
