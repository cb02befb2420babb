//! What is asked next.

use super::connection::Exchange;
use super::engine::Engine;

impl Engine<'_> {
    /// An arrival that waited for a stream.
    pub(super) fn next_queued(&mut self) -> Option<Exchange> {
        let intended_ns = self.queue.pop_front()?;
        self.outstanding += 1;
        Some(Exchange { intended_ns, started_ns: self.now_ns, ask: self.choose(), ..Exchange::default() })
    }

    /// A request that nobody waited for: in a closed loop it is wanted when it can be sent.
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
