//! What a loop's connections share: the kernel, the slots, and how many may be open.

use crate::connect::kernel::Kernel;
use crate::connect::spread::Spread;

/// How soon a connection that could not be made is tried again.
pub(crate) const REOPEN_NS: u64 = 10_000_000;
/// How long a server that is to close may take for it before we do.
pub(crate) const LINGER_NS: u64 = 1_000_000_000;

/// The means by which a loop makes connections.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) kernel: Kernel,
    /// Slots that are closed; always at least as many as connections may still be opened.
    pub(crate) free: Vec<u32>,
    /// Connections that are open or being opened, lingering ones apart.
    pub(crate) live: u32,
    /// The most that may be open to one host, and in a closed loop the most that may be at work.
    pub(crate) live_max: u32,
    /// Connections made so far.
    pub(crate) numbered: u64,
    pub(crate) lane: u32,
    /// Until when no connection is opened, because this host has run out of something.
    pub(crate) hold_until_ns: u64,
    /// Which of each host's addresses connections go to.
    pub(crate) addresses: Vec<Spread>,
}

impl Connector {
    pub(crate) fn new(kernel: Kernel, slots: u32, live_max: u32, lane: u32, addresses: Vec<Spread>) -> Self {
        Self {
            kernel,
            free: (0..slots).rev().collect(),
            live: 0,
            live_max,
            numbered: 0,
            lane,
            hold_until_ns: 0,
            addresses,
        }
    }

    /// Whether this host has what another connection needs, as far as is known.
    #[inline]
    pub(crate) fn may_open(&self, now_ns: u64) -> bool {
        now_ns >= self.hold_until_ns
    }

    /// Takes a slot for another connection, and a number that is unique in the loop.
    ///
    /// # Panics
    /// Where no slot is free: the loop opens fewer connections than there are slots.
    pub(crate) fn begin(&mut self) -> usize {
        // `live` is below its maximum wherever a connection is opened, and a slot stays free for each such one.
        let slot = self.free.pop().expect("a free slot for each connection that may be opened") as usize;
        self.live += 1;
        self.numbered += 1;
        slot
    }
}
