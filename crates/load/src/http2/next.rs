//! What is asked next.

use super::connection::Exchange;
use super::engine::Engine;
use crate::engine::NEVER;

impl Engine<'_> {
    /// Issues every arrival whose time has come: on a stream, with a connection that is made for it, or through the queue.
    pub(super) fn issue_due(&mut self) {
        while self.next_arrival_ns <= self.now_ns {
            let intended_ns = self.next_arrival_ns;
            self.issued += 1;
            self.next_arrival_ns = match &mut self.arrivals {
                Some(arrivals) if self.issued < self.limit => arrivals.following(self.end_ns),
                _ => NEVER,
            };
            if self.users.is_some() {
                self.session_arrives(intended_ns);
                continue;
            }
            let exchange = Exchange { intended_ns, ..Exchange::default() };
            if let Some(slot) = self.roomy_one() {
                self.outstanding += 1;
                let ask = self.choose();
                self.begin(slot, Exchange { ask, ..exchange });
            } else if self.held.len() < self.connecting as usize * self.wire.streams as usize {
                self.outstanding += 1;
                self.hold_new(exchange);
            } else if self.live < self.live_max {
                self.outstanding += 1;
                self.hold_new(exchange);
                self.open(0);
            } else if self.queue.len() < self.queue_max {
                self.queue.push_back(intended_ns);
                self.tally.queued += 1;
            } else {
                // It would have asked for this one: those after it ask for theirs.
                self.choose();
                self.tally.dropped += 1;
                self.events.dropped(self.now_ns, 1, intended_ns);
            }
            self.tally.taken_up(intended_ns, self.now_ns);
        }
        self.flush_touched();
    }

    /// Keeps an arrival for the connection that is being made.
    fn hold_new(&mut self, exchange: Exchange) {
        let ask = self.choose();
        self.held.push_back(Exchange { started_ns: self.now_ns, ask, ..exchange });
    }

    /// A connection that can take a request: the one that was used last, so that one is filled before another is opened.
    #[inline]
    fn roomy_one(&mut self) -> Option<usize> {
        while let Some(slot) = self.roomy.last().copied() {
            let connection = &mut self.connections[slot as usize];
            if connection.has_room() {
                return Some(slot as usize);
            }
            connection.listed_roomy = false;
            self.roomy.pop();
        }
        None
    }

    /// What is to be sent next on a connection, if anything is.
    #[inline]
    pub(super) fn next_exchange(&mut self, slot: usize) -> Option<Exchange> {
        if self.users.is_some() {
            return self.next_of_session(self.connections[slot].session);
        }
        if let Some(exchange) = self.held.pop_front() {
            return Some(exchange);
        }
        if self.arrivals.is_some() { self.next_queued() } else { self.next_new() }
    }

    #[inline]
    pub(super) fn choose(&mut self) -> u32 {
        self.plan.asks.choose(&mut self.chooser)
    }

    /// An arrival that waited for a stream.
    pub(super) fn next_queued(&mut self) -> Option<Exchange> {
        let intended_ns = self.queue.pop_front()?;
        self.outstanding += 1;
        Some(Exchange { intended_ns, started_ns: self.now_ns, ask: self.choose(), ..Exchange::default() })
    }

    /// A request without an arrival: in a closed loop a request is wanted when it can be sent.
    #[inline]
    pub(super) fn next_new(&mut self) -> Option<Exchange> {
        if self.issued >= self.limit || self.now_ns >= self.end_ns {
            return None;
        }
        self.issued += 1;
        self.outstanding += 1;
        let now_ns = self.now_ns;
        Some(Exchange { intended_ns: now_ns, started_ns: now_ns, ask: self.choose(), ..Exchange::default() })
    }
}
