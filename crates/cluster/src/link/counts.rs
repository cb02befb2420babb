//! Counts of links.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// What the links of a member have counted.
        #[derive(Debug, Default)]
        pub struct LinkCounts { $(pub(super) $name: AtomicU64,)* }

        /// The counts at one time.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct LinkCountsNow { $($(#[$doc])* pub $name: u64,)* }

        impl LinkCounts {
            /// What was counted until now.
            pub fn now(&self) -> LinkCountsNow {
                LinkCountsNow { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counts! {
    /// Links that were opened by others.
    accepted
    /// Links that were opened to others.
    connected
    /// Tries to connect that failed.
    connect_failed
    /// Peers without a certificate.
    refused_no_certificate
    /// Peers with a certificate of another authority, or one that is not valid.
    refused_untrusted
    /// Peers that were removed from the cluster.
    refused_removed
    /// Peers that are not the member that was asked for.
    refused_other_member
    /// Handshakes that failed otherwise, or took too long.
    handshake_failed
    /// Links that were refused as too many are open.
    refused_too_many
    /// Requests that were taken.
    requests
    /// Requests that were refused as too many are being answered.
    requests_busy
    /// Messages that did not fit into the queue.
    queue_full
    /// Messages above the bound, or that could not be understood.
    bad_messages
    /// Requests without an answer in time.
    timed_out
}

pub(super) fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
