//! What a server counts: everything that it did, and everything that it dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one loop; only that loop writes them, so that an addition needs no locked instruction.
        #[derive(Debug, Default)]
        pub(crate) struct LoopCounters {
            $(pub(crate) $name: Counter,)*
        }

        /// A sum over all loops, as of the moment it was read; every count only grows.
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Reads the counts; possible at any time and from any thread.
            pub fn read(&self) -> Counts {
                let mut sum = Counts::default();
                for of_loop in self.0.iter() {
                    $(sum.$name += of_loop.$name.0.load(Ordering::Relaxed);)*
                }
                sum
            }
        }
    };
}

counters! {
    /// Connections accepted, those refused included.
    connections,
    /// Connections closed with 503 because `connections_max` was reached.
    connections_refused,
    /// Times that a loop stopped accepting for a while because descriptors or memory had run out.
    accept_pauses,
    /// Connections closed because a client was too slow, idle ones between two requests included.
    timeouts,
    /// Handshakes of TLS that succeeded.
    tls_handshakes,
    /// Those of them that resumed a session.
    tls_resumed,
    /// Handshakes of TLS that failed.
    tls_failed,
    /// Connections that spoke HTTP/2.
    http2_connections,
    /// Connections of HTTP/2 closed because the client broke the protocol.
    http2_errors,
    /// Connections of HTTP/2 closed because the client asked for much work in vain: resets, pings, settings.
    http2_abuses,
    /// Connections that spoke HTTP/3.
    http3_connections,
    /// Connections of HTTP/3 closed because the client broke the protocol.
    http3_errors,
    /// Connections of HTTP/3 closed because the client asked for much work in vain.
    http3_abuses,
    /// Clients of QUIC that had to show first that their address is their own (Retry).
    quic_retries,
    /// Datagrams of QUIC that the system refused to send, or had no room for where nobody waits for them.
    quic_unsent,
    /// Connections lost to an error, or closed by the client in the middle of a response.
    connections_broken,
    /// Connections closed at the end of the stop timeout with their response unfinished.
    stop_aborted,
    /// Requests answered, with whatever status.
    requests,
    /// Requests answered with 4xx.
    client_errors,
    /// Requests answered with 5xx.
    server_errors,
    /// Bytes handed to sockets, heads included.
    bytes_sent,
    /// Requests for content that was in the cache.
    cache_hits,
    /// Requests for content that had to be opened.
    cache_misses,
    /// Files read into memory; of many loops that want one, one reads it.
    cache_fills,
    /// Cache entries removed to make room.
    cache_evictions,
    /// Cache entries removed because the file had changed or gone.
    cache_stale,
    /// Responses with a compressed form.
    coded_responses,
    /// Compressed forms that were put off, because too many waited to be made.
    forms_refused,
    /// Changes in watched directories that the kernel has told.
    watch_events,
    /// Times that it could not tell all of them, so that every file was looked at again.
    watch_overflows,
    /// Directories that could not be watched for a lack of watches.
    watches_refused,
    /// Directives of pages that could not be carried out, includes that lead nowhere or in a circle among them.
    include_errors,
    /// Requests answered with 429 because their network made too many.
    rate_refused,
    /// Requests that no rate was held against, because its table was full.
    rate_untracked,
    /// Requests answered with 503 because too many passwords were to be checked.
    auth_busy,
    /// Times that a loop could not take up a new configuration, because descriptors had run out.
    reload_failed,
    /// Access log lines written.
    log_lines,
    /// Access log lines dropped because the disk was full or the reader too slow.
    log_dropped,
}

/// A count with one writer.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// For the few counts that several threads write.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
}

/// A view on the counts of a server, also while it runs; see [`crate::Server::counters`].
#[derive(Debug, Clone)]
pub struct Counters(pub(crate) Arc<[LoopCounters]>);
