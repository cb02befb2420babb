//! What a keeper has counted.

use crate::encoding::{DecodeError, put_u64, take_u64};

/// What a keeper has counted since it began, and what it holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeeperCounts {
    /// Connections that are held now.
    pub holds: u64,
    /// Connections that have left and whose late packets are dropped now.
    pub tombstones: u64,
    /// Connections that were frozen.
    pub frozen: u64,
    /// Frozen connections that went on here.
    pub thawed: u64,
    /// Connections that another node took, and that were discarded here.
    pub discarded: u64,
    /// Connections that were restored here.
    pub restored: u64,
    /// Restored connections that went on.
    pub activated: u64,
    /// Holds that were dropped, as they were not released in time.
    pub expired: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Clients that were turned away: of another user, or too many.
    pub turned_away: u64,
    /// Packets that came in on held connections, as far as their hold is over.
    pub dropped_packets: u64,
    /// Sockets of servers that are guarded now.
    pub guarded: u64,
    /// Sockets that were not guarded, as there was no room; their connections end with their server.
    pub not_guarded: u64,
    /// Connections whose server ended, and that were ended here without a word to their clients.
    pub orphaned: u64,
}

impl KeeperCounts {
    fn numbers(&self) -> [u64; 14] {
        [
            self.holds,
            self.tombstones,
            self.frozen,
            self.thawed,
            self.discarded,
            self.restored,
            self.activated,
            self.expired,
            self.refused,
            self.turned_away,
            self.dropped_packets,
            self.guarded,
            self.not_guarded,
            self.orphaned,
        ]
    }

    /// Appends its encoding.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.numbers().into_iter().for_each(|number| put_u64(number, out));
    }

    /// Takes one from the front of the bytes.
    ///
    /// # Errors
    /// [`DecodeError`], if they are no encoding.
    pub fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            holds: take_u64(bytes)?,
            tombstones: take_u64(bytes)?,
            frozen: take_u64(bytes)?,
            thawed: take_u64(bytes)?,
            discarded: take_u64(bytes)?,
            restored: take_u64(bytes)?,
            activated: take_u64(bytes)?,
            expired: take_u64(bytes)?,
            refused: take_u64(bytes)?,
            turned_away: take_u64(bytes)?,
            dropped_packets: take_u64(bytes)?,
            guarded: take_u64(bytes)?,
            not_guarded: take_u64(bytes)?,
            orphaned: take_u64(bytes)?,
        })
    }
}
