//! What a loop may answer again without asking, and what it was answered for since that was told last.

use std::sync::Arc;
use weir_server::{Lease, LeaseCounts};

/// Leases of one loop at a time; whoever gets none asks each time.
const LEASES_MAX: usize = 1024;
/// Leases that are refused for want of room from one search for some that are over to the next.
const REFUSED_BETWEEN: u32 = 256;

/// Those that a loop has.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    all: Vec<Let>,
    refused: u32,
}

/// To whom a lease was let.
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
    /// Lets one more, after which what is over at `now` may make room; `false`: there is none. Only the loop itself may
    /// ask, as its leases must not count meanwhile.
    pub(crate) fn add(&mut self, lease: &Arc<Lease>, tenant: Tenant) -> bool {
        if self.all.len() >= LEASES_MAX {
            if self.refused > 0 {
                self.refused -= 1;
                return false;
            }
            self.refused = REFUSED_BETWEEN;
            let now = lease.holds_at();
            // Nothing begins any more by one that does not hold, and nothing is to be told of it.
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

    /// Tells what has been counted since the last time. After what they depend on has changed, `at_last` waits for those
    /// that are just beginning.
    pub(crate) fn tell(&mut self, at_last: bool, mut tell: impl FnMut(&Tenant, LeaseCounts)) {
        self.all.retain_mut(|one| {
            // Whose loop has given it back counts nothing more.
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
