//! What is asked next.

use crate::engine::state::Engine;
use crate::http3::state::Http3;
use crate::http3::streams::Exchange;

impl Engine<'_, Http3<'_>> {
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
            if self.has_room(slot as usize) {
                return Some(slot as usize);
            }
            self.connections[slot as usize].http.listed_roomy = false;
            self.http.roomy.pop();
        }
        None
    }

    /// Whether another request may begin on a connection; where only the server's limit on streams forbids it, that is
    /// noted.
    #[inline]
    pub(crate) fn has_room(&mut self, slot: usize) -> bool {
        let connection = &mut self.connections[slot];
        if !connection.has_place() {
            return false;
        }
        let Some(link) = &mut connection.http.link else { return false };
        if link.has_stream() {
            return true;
        }
        let is_wanted = !self.scheduler.is_open_loop() || !self.http.queue.is_empty() || !self.http.held.is_empty();
        let at_first = link.streams_used == u64::from(connection.http.active);
        if is_wanted && connection.http.held_since_ns == 0 {
            connection.http.held_since_ns = self.now_ns;
        }
        if at_first {
            // None is over yet: so many may be under way at a time.
            let allowed = connection.http.active;
            self.http.streams_known = Some(allowed);
            self.tally.streams_allowed = self.tally.streams_allowed.min(allowed);
        }
        false
    }

    /// What is to be sent next, if anything is.
    #[inline]
    pub(crate) fn next_exchange(&mut self) -> Option<Exchange> {
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
        if self.scheduler.is_used_up(self.now_ns) {
            return None;
        }
        self.scheduler.issued += 1;
        self.scheduler.outstanding += 1;
        let now_ns = self.now_ns;
        Some(Exchange { intended_ns: now_ns, started_ns: now_ns, request: self.choose(), ..Exchange::default() })
    }
}
