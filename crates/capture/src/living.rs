//! The sockets that are open, to be told again when the segments in which they were told are gone.

use std::collections::{BTreeMap, HashMap, VecDeque};
use weir_wire::socket::{SocketOpen, SocketState};
use weir_wire::{Kind, Record, Slot};

/// Sockets that are remembered; beyond, the one told longest ago is forgotten.
const MOST_SOCKETS: usize = 1 << 16;

/// Connections of Unix sockets that are remembered, the latest of them.
const MOST_PEERS: usize = 1 << 14;

/// Open sockets.
#[derive(Debug, Default)]
pub(crate) struct Living {
    sockets: HashMap<u32, (u64, SocketOpen)>,
    by_age: BTreeMap<u64, u32>,
    told: u64,
    /// Closed in this look at the rings. A socket may close on a CPU whose ring is read before the one it opened on.
    closed: Vec<u32>,
    /// Unix sockets' connections, the latest last: nothing tells when they close.
    peers: VecDeque<(u64, u8)>,
}

impl Living {
    /// Takes note of an event of any kind.
    pub(crate) fn see(&mut self, record: &Record, slots: &[Slot]) {
        if let Some(open) = SocketOpen::read(record, slots) {
            self.forget(open.socket);
            self.told += 1;
            self.sockets.insert(open.socket, (self.told, open));
            self.by_age.insert(self.told, open.socket);
            if self.sockets.len() > MOST_SOCKETS
                && let Some((_, oldest)) = self.by_age.first_key_value()
            {
                self.forget(*oldest);
            }
        } else if record.kind == Kind::SocketPeer as u16 {
            if self.peers.len() >= MOST_PEERS {
                self.peers.pop_front();
            }
            self.peers.push_back((record.a, record.flags));
        } else if let Some(state) = SocketState::read(record).filter(|state| !state.begins_to_connect()) {
            self.closed.push(state.socket);
        }
    }

    /// All rings were looked at: what closed is over.
    pub(crate) fn settle(&mut self) {
        for socket in std::mem::take(&mut self.closed) {
            self.forget(socket);
        }
    }

    /// The open sockets, as they were first told.
    pub(crate) fn open(&self) -> impl Iterator<Item = SocketOpen> {
        self.sockets.values().map(|(_, open)| *open)
    }

    /// The connections of Unix sockets, as they were told.
    pub(crate) fn peers(&self) -> impl Iterator<Item = Record> {
        let told = |(a, flags): &(u64, u8)| Record {
            kind: Kind::SocketPeer as u16,
            flags: *flags,
            a: *a,
            ..Record::default()
        };
        self.peers.iter().map(told)
    }

    fn forget(&mut self, socket: u32) {
        if let Some((told, _)) = self.sockets.remove(&socket) {
            self.by_age.remove(&told);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(living: &mut Living, socket: u32) {
        let address = "127.0.0.1:80".parse().expect("an address");
        let cookie = u64::from(socket);
        let open =
            SocketOpen { socket, receive_base: 1, send_base: 2, cookie, netns: 0, local: address, remote: address };
        let (record, slots) = open.write(5, 0);
        living.see(&record, &slots);
    }

    fn close(living: &mut Living, socket: u32) {
        living.see(&Record { kind: Kind::SocketState as u16, a: u64::from(socket), ..Record::default() }, &[]);
    }

    #[test]
    fn what_closed_is_forgotten_though_its_opening_is_read_later() {
        let mut living = Living::default();
        open(&mut living, 1);
        close(&mut living, 2);
        open(&mut living, 2);
        assert_eq!(living.open().count(), 2);
        living.settle();
        assert_eq!(living.open().map(|open| open.socket).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn beyond_the_bound_the_oldest_is_forgotten() {
        let mut living = Living::default();
        for socket in 0..=MOST_SOCKETS as u32 {
            open(&mut living, socket);
        }
        assert_eq!(living.open().count(), MOST_SOCKETS);
        assert!(living.open().all(|open| open.socket != 0));
    }
}
