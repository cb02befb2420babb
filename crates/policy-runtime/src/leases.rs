//! Leases: what a loop may answer again without asking, and the requests that it answered so since the last report.

use std::sync::Arc;
use weir_server::{Lease, LeaseCounts};

/// Leases of one loop at a time; a connection without a lease asks with each request.
const LEASES_MAX: usize = 1024;
/// After a search for ended leases, so many requests for a lease are refused before the next search.
const REFUSED_BETWEEN: u32 = 256;

/// The leases of one loop.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    all: Vec<Let>,
    refused: u32,
}

/// What the requests of a lease are counted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tenant {
    /// The place of the path.
    pub(crate) place: u32,
    pub(crate) client: u64,
    pub(crate) network: u64,
    /// The kind as which its sessions are counted, if they are.
    pub(crate) kind: Option<u32>,
}

#[derive(Debug)]
struct Let {
    lease: Arc<Lease>,
    tenant: Tenant,
    /// What was told of it.
    told: LeaseCounts,
}

impl Leases {
    /// Adds a lease; if the table is full, it first removes those that have ended. `false`: there is no room. Only the
    /// loop itself may call this, as its leases must not count meanwhile.
    pub(crate) fn add(&mut self, lease: &Arc<Lease>, tenant: Tenant) -> bool {
        if self.all.len() >= LEASES_MAX {
            if self.refused > 0 {
                self.refused -= 1;
                return false;
            }
            self.refused = REFUSED_BETWEEN;
            let now = lease.holds_at();
            // Keep a lease that still holds, that has responses under way, or whose counts are not reported yet.
            self.all.retain(|one| {
                let counts = one.lease.counts();
                counts != one.told || counts.begun != counts.over || one.lease.holds_at() == now
            });
            if self.all.len() >= LEASES_MAX {
                return false;
            }
        }
        self.all.push(Let { lease: Arc::clone(lease), tenant, told: LeaseCounts::default() });
        true
    }

    /// Reports what was counted since the last call. With `at_last`, after the leases have ended, it waits for requests
    /// that are just beginning.
    pub(crate) fn tell(&mut self, at_last: bool, mut tell: impl FnMut(&Tenant, LeaseCounts)) {
        self.all.retain_mut(|one| {
            // A lease that the loop has given back counts nothing more.
            let is_over = Arc::get_mut(&mut one.lease).is_some();
            let now = if at_last { one.lease.counts_at_last() } else { one.lease.counts() };
            let LeaseCounts { begun, over, failed } = std::mem::replace(&mut one.told, now);
            if now != (LeaseCounts { begun, over, failed }) {
                let more = LeaseCounts {
                    begun: now.begun.wrapping_sub(begun),
                    over: now.over.wrapping_sub(over),
                    failed: now.failed.wrapping_sub(failed),
                };
                tell(&one.tenant, more);
            }
            !is_over
        });
    }
}
