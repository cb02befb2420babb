//! Calls of other threads for requests of a loop.

use crate::io::epoll::Waker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The requests of one loop that other threads want to go on. Each stands here at most once, so that there are never
/// more than handlers.
#[derive(Debug)]
pub(crate) struct Wakes {
    waked: Mutex<Vec<Arc<Waked>>>,
    waker: Arc<Waker>,
}

impl Wakes {
    pub(crate) fn new(waker: Arc<Waker>) -> Arc<Self> {
        Arc::new(Self { waked: Mutex::default(), waker })
    }

    fn waked(&self) -> MutexGuard<'_, Vec<Arc<Waked>>> {
        // A thread that panicked with the lock held left whole entries.
        self.waked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, waked: Arc<Waked>) {
        let mut all = self.waked();
        all.push(waked);
        let is_first = all.len() == 1;
        drop(all);
        if is_first {
            self.waker.wake();
        }
    }

    /// Takes all of them, in the order of the calls.
    pub(crate) fn take(&self) -> Vec<Address> {
        let all = std::mem::take(&mut *self.waked());
        let address = |waked: Arc<Waked>| {
            // Before its handler is called: a call from then on counts anew.
            waked.is_waked.swap(false, Ordering::AcqRel);
            waked.address
        };
        all.into_iter().map(address).collect()
    }
}

/// Which request is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Address {
    /// The token of its connection with the loop; none over QUIC.
    pub(crate) token: Option<u64>,
    /// The connection's number.
    pub(crate) connection: u64,
}

#[derive(Debug)]
pub(crate) struct Waked {
    pub(crate) wakes: Arc<Wakes>,
    pub(crate) address: Address,
    /// It stands among the wakes already.
    pub(crate) is_waked: AtomicBool,
}
