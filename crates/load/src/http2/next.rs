//! What is asked next.

use crate::engine::state::Engine;
use crate::http2::state::Http2;
use crate::http2::streams::Exchange;

impl Engine<'_, Http2<'_>> {
    /// Keeps an arrival for the connection that is being made.
    pub(crate) fn hold_new(&mut self, exchange: Exchange) {
        let request = self.choose();
        let exchange = self.with_patience(Exchange { started_ns: self.now_ns, request, ..exchange });
        self.http.held.push_back(exchange);
    }

    /// A connection that can take a request: the one that was used last, so that one is filled before another is opened.
    #[inline]
    pub(crate) fn roomy_one(&mut self) -> Option<usize> {
        while let Some(slot) = self.http.roomy.last().copied() {
            let connection = &mut self.connections[slot as usize];
            if connection.has_room() {
                return Some(slot as usize);
            }
            connection.http.listed_roomy = false;
            self.http.roomy.pop();
        }
        None
    }

    /// What is to be sent next on a connection, if anything is.
    #[inline]
    pub(crate) fn next_exchange(&mut self, slot: usize) -> Option<Exchange> {
        if self.http.users.is_some() {
            return self.next_of_session(self.connections[slot].http.session);
        }
        if let Some(exchange) = self.http.held.pop_front() {
            return Some(exchange);
        }
        if self.scheduler.is_open_loop() { self.next_queued() } else { self.next_new() }
    }

    #[inline]
    pub(crate) fn choose(&mut self) -> u32 {
        self.plan.requests.choose(&mut self.chooser)
    }

    /// An arrival that waited for a stream.
    pub(crate) fn next_queued(&mut self) -> Option<Exchange> {
        let wanted = self.http.queue.pop_front()?;
        self.scheduler.outstanding += 1;
        Some(Exchange {
            intended_ns: wanted.intended_ns,
            started_ns: self.now_ns,
            held_us: wanted.held_us(self.now_ns),
            request: self.choose(),
            ..Exchange::default()
        })
    }

    /// A request without an arrival: in a closed loop a request is wanted when it can be sent.
    #[inline]
    pub(crate) fn next_new(&mut self) -> Option<Exchange> {
        let (request, now_ns) = (self.next_request()?, self.now_ns);
        Some(Exchange { intended_ns: now_ns, started_ns: now_ns, request, ..Exchange::default() })
    }

    /// Which request it is, if one is wanted.
    #[inline]
    pub(crate) fn next_request(&mut self) -> Option<u32> {
        if self.scheduler.is_used_up(self.now_ns) {
            return None;
        }
        self.scheduler.issued += 1;
        self.scheduler.outstanding += 1;
        Some(self.choose())
    }
}
