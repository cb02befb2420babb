//! Room for a new client when all places are taken: the loop closes a connection that is idle or makes no progress, so
//! that clients which hold connections without asking for anything do not keep out clients that ask.

use crate::event_loop::client::Client;
use crate::event_loop::driver::EventLoop;
use crate::exchange::eviction::Yields;
use std::cmp::Ordering;

/// Places looked for at once: one look at all connections in so many of them that are closed.
const AT_ONCE: std::ops::Range<usize> = 16..1024;
const AT_ONCE_SHARE: usize = 16;
/// After a look that found fewer, how long the next one waits.
const PAUSE_MS: u64 = 10;

impl EventLoop {
    /// Closes the connection of this loop that can be spared most; whether there was one.
    pub(super) fn make_room(&mut self) -> bool {
        if self.state.stopping {
            return false;
        }
        let now_ms = self.state.clock.now_ms;
        loop {
            while let Some((was, token)) = self.eviction.found.pop() {
                // It may have asked for something since, or be gone.
                let yields = self.connections.get(token).and_then(|client| client.yields(now_ms, &self.state.timeouts));
                if yields == Some(was) {
                    self.state.counts().connections_displaced.add(1);
                    self.close(token);
                    return true;
                }
            }
            if now_ms < self.eviction.next_look_ms {
                return false;
            }
            self.look_for_room(now_ms);
        }
    }

    fn look_for_room(&mut self, now_ms: u64) {
        let timeouts = &self.state.timeouts;
        let mut found = self.connections.each(|client: &Client| client.yields(now_ms, timeouts));
        let wanted = (self.connections.len() / AT_ONCE_SHARE).clamp(AT_ONCE.start, AT_ONCE.end);
        let last_first = |a: &(Yields, u64), b: &(Yields, u64)| -> Ordering { b.cmp(a) };
        if found.len() > wanted {
            // The wanted ones are the last ones in this order.
            let at = found.len() - wanted;
            found.select_nth_unstable_by(at, last_first);
            found.drain(..at);
        } else {
            self.eviction.next_look_ms = now_ms + PAUSE_MS;
        }
        found.sort_unstable_by(last_first);
        self.eviction.found = found;
    }
}
