//! The epoch of a pair's orders: its lowest bit is the seat of the director that is active.
//!
//! So nodes know from a heartbeat's epoch which of the two to ask, and two directors that begin at the same moment never
//! begin the same epoch.

/// Where the epoch of a lock stands in that of orders: epochs that were begun by hand meanwhile fit below, and both are
/// above the milliseconds since 1970 that a director without a second one counts.
const LOCK_SHIFT: u32 = 16;

/// Which of the two directors one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Seat {
    /// `[director]` of the members.
    First,
    /// `[standby]`.
    Second,
}

impl Seat {
    /// The seat of the director that has begun an epoch.
    pub fn of(epoch: u64) -> Self {
        if epoch & 1 == 0 { Self::First } else { Self::Second }
    }

    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }

    fn bit(self) -> u64 {
        u64::from(self == Self::Second)
    }

    /// The epoch of orders that belongs to an epoch of the lock.
    pub fn of_lock(self, lock_epoch: u64) -> u64 {
        (lock_epoch << LOCK_SHIFT) | self.bit()
    }

    /// The epoch that this seat begins without a lock: above the newest that is known, and not below the time.
    pub fn by_hand(self, newest: u64, now_unix_ms: u64) -> u64 {
        let above = newest.saturating_add(1).max(now_unix_ms).min(u64::MAX - 1);
        if above & 1 == self.bit() { above } else { above + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_grow_and_name_their_seat() {
        let now_ms = 1_790_000_000_000;
        let mut newest = 0;
        for (lock, seat) in [(1_790_000_000, Seat::First), (1_790_000_001, Seat::Second), (1_790_000_002, Seat::Second)]
        {
            let epoch = seat.of_lock(lock);
            assert!(epoch > newest && epoch > now_ms && Seat::of(epoch) == seat);
            newest = epoch;
            for seat in [Seat::First, Seat::First, Seat::Second, Seat::Second] {
                let by_hand = seat.by_hand(newest, now_ms);
                assert!(by_hand > newest && Seat::of(by_hand) == seat);
                newest = by_hand;
            }
        }
        assert_eq!(Seat::First.by_hand(0, now_ms + 1), now_ms + 2);
        assert_eq!(Seat::of(Seat::Second.by_hand(u64::MAX, 0)), Seat::Second);
    }
}
