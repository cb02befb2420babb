//! How long a governed request had to wait for a place and for its file, for the adviser.

use crate::counters::LoopCounters;
use crate::exchange::life::Exchange;
use crate::files::resource::Resource;
use crate::io::clock::Clock;
use crate::policy::throttle::Place;
use crate::site::destination::Destination;
use crate::site::state::Site;
use std::rc::Rc;
use std::time::Instant;

const NS_PER_MS: u64 = 1_000_000;

impl Site {
    /// Looks at the file of a path, of which the cache may have had something. Where waits are counted the time of the
    /// look is one.
    // Within its callers it would make the way of what is in memory longer.
    #[inline(never)]
    pub(super) fn look(
        &mut self,
        path: &[u8],
        stale: Option<Rc<Resource>>,
        clock: &Clock,
        counters: &LoopCounters,
    ) -> Destination {
        // Content that is in memory passes none of this.
        let began = self.times_looks.then(Instant::now);
        let found = self.look_now(path, stale, clock, counters);
        let took_ns = began.map_or(0, |began| u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        if self.policy_client.is_some() {
            self.looked_ns = self.looked_ns.saturating_add(took_ns);
        }
        counters.waits.looked_ns.add(took_ns);
        found
    }

    /// Tells how long the request waited for a place among those under way and for its file, where it did.
    #[inline]
    pub(super) fn tell_waits(&self, out: &Exchange) {
        if self.looked_ns > 0 || out.record.place.is_some() {
            self.tell_what_waited(out);
        }
    }

    #[cold]
    fn tell_what_waited(&self, out: &Exchange) {
        let waited_ms = out.record.place.as_ref().map_or(0, Place::waited_ms);
        let waited_ns = self.looked_ns.saturating_add(waited_ms.saturating_mul(NS_PER_MS));
        if waited_ns > 0
            && let Some(advised) = &out.record.advised
        {
            advised.waited(waited_ns);
        }
    }
}
