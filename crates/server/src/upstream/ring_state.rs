//! What is known of connections with upstreams that the loop's io_uring receives for, and what waits for its next call.

use crate::transport::Lane;
use std::cell::{Cell, RefCell};
use std::os::fd::{OwnedFd, RawFd};

/// What a connection has beside its socket while the ring receives for it.
#[derive(Debug)]
pub(super) struct OnRing {
    pub(super) fd: Cell<RawFd>,
    pub(super) lane: Cell<Lane>,
    /// Whether there may be anything here in place of the socket.
    pub(super) is_used: Cell<bool>,
    /// A request waits for the ring's next call.
    pub(super) is_staged: Cell<bool>,
    /// The socket did not take a request, and never will.
    pub(super) is_refused: Cell<bool>,
    /// Why nothing more comes; 0 = its end.
    pub(super) ended: Cell<Option<i32>>,
    /// Requests until it joins.
    pub(super) joins_in: Cell<u8>,
    /// Input that came and was not taken. Its bound is what the ring has buffers for.
    pub(super) input: RefCell<Vec<u8>>,
    /// Output that was staged and not taken.
    pub(super) output: RefCell<Vec<u8>>,
}

/// What waits for the ring's next call.
#[derive(Debug, Default)]
pub(super) struct Submissions {
    pub(super) has_ring: Cell<bool>,
    /// Whether there is anything to be handed over, and any socket to be closed: what each round looks at.
    pub(super) has_any: Cell<bool>,
    pub(super) has_closing: Cell<bool>,
    pub(super) orders: RefCell<Vec<Order>>,
    pub(super) staged: RefCell<Staged>,
    /// Sockets that are closed once the ring has nothing more to do with them.
    pub(super) closing: RefCell<Vec<OwnedFd>>,
    pub(super) arrived: Cell<Arrived>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Arm(u64),
    Cancel(u64),
}

/// Requests, and their bytes.
#[derive(Debug, Default)]
pub(super) struct Staged {
    /// Tokens of connections, with where their bytes end.
    pub(super) ends: Vec<(u64, usize)>,
    pub(super) bytes: Vec<u8>,
}

/// Bytes in the loop's memory for input which the ring has received for a connection, and which were not taken.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) token: u64,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Submissions {
    pub(super) fn order(&self, order: Order) {
        self.orders.borrow_mut().push(order);
        self.has_any.set(true);
    }
}

impl OnRing {
    pub(super) fn new() -> Self {
        Self {
            fd: Cell::new(-1),
            lane: Cell::new(Lane::Socket),
            is_used: Cell::new(false),
            is_staged: Cell::new(false),
            is_refused: Cell::new(false),
            ended: Cell::new(None),
            joins_in: Cell::new(0),
            input: RefCell::default(),
            output: RefCell::default(),
        }
    }

    pub(super) fn set_fd(&self, fd: RawFd) {
        self.fd.set(fd);
    }

    pub(super) fn fd(&self) -> RawFd {
        self.fd.get()
    }

    /// Whether input may be here in place of the socket.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.is_used.get()
    }

    /// Whether epoll knows of the socket.
    pub(super) fn is_with_epoll(&self) -> bool {
        self.lane.get() == Lane::Socket
    }

    /// Whether output waits that counts as sent.
    pub(super) fn has_output(&self) -> bool {
        self.is_used.get() && !self.output.borrow().is_empty()
    }
}
