//! Requests without a client: a cache has stale responses fetched anew while it gives them.

use super::cache::fetch::Fetch;
use super::fetching::{Fetching, Origin, Went};
use super::links::{LINK_BIT, Links};
use crate::exchange::wakes::Address;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

/// The token of these requests: that of a link with a generation that no link has.
pub(crate) const BACKGROUND: u64 = LINK_BIT;
/// Requests of one loop; what is stale beyond that is fetched anew for a later request.
const REQUESTS_MAX: usize = 64;

/// The requests of one loop that have no client.
#[derive(Debug)]
pub(crate) struct Background {
    links: Rc<Links>,
    requests: RefCell<HashMap<u64, Box<Fetching>>>,
    next: Cell<u64>,
}

impl Background {
    pub(crate) fn new(links: Rc<Links>) -> Rc<Self> {
        Rc::new(Self { links, requests: RefCell::default(), next: Cell::new(0) })
    }

    /// Begins one, which goes on in the next round.
    pub(super) fn begin(&self, origin: Origin, fetch: Box<Fetch>) {
        if self.requests.borrow().len() >= REQUESTS_MAX {
            return;
        }
        let number = self.next.replace(self.next.get().wrapping_add(1));
        let at = Address { token: Some(BACKGROUND), connection: number };
        if let Some(fetching) = Fetching::of(origin, &self.links, fetch, (at, false)) {
            self.requests.borrow_mut().insert(number, Box::new(fetching));
            self.links.wake(at);
        }
    }

    /// Lets one go on, if it is still there. Each of its waits has a deadline with the upstream.
    pub(crate) fn go_on(&self, number: u64) {
        // It is not there while it goes on, as it may wake others.
        let Some(mut fetching) = self.requests.borrow_mut().remove(&number) else { return };
        if matches!(fetching.go_on(None), Went::On) {
            self.requests.borrow_mut().insert(number, fetching);
        }
    }

    /// Whether there are any.
    pub(crate) fn is_busy(&self) -> bool {
        !self.requests.borrow().is_empty()
    }
}
