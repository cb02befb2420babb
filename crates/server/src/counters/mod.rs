//! The counters of a server: what it did, and what it dropped.

pub(crate) mod census;
pub(crate) mod counter;
pub(crate) mod host_counts;
pub(crate) mod php_watch;
pub(crate) mod rounds;
pub(crate) mod upstream_counts;
pub(crate) mod waits;

use crate::counters::census::{Board, Census, State};
use crate::counters::waits::{WaitCounters, Waits};
use crate::io::clock;
pub(crate) use counter::Counter;
use std::sync::Arc;

const NS_PER_MS: u64 = 1_000_000;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one loop; only that loop writes them, so that an addition needs no locked instruction. No
        /// two loops' counts share a cache line, or the pair of lines that is fetched together.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct LoopCounters {
            $(pub(crate) $name: Counter,)*
            /// What there is at the moment.
            pub(crate) board: Board,
            /// What requests have waited for.
            pub(crate) waits: WaitCounters,
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
                    $(sum.$name += of_loop.$name.read();)*
                }
                sum
            }
        }
    };
}

impl LoopCounters {
    /// Counts a response by its status.
    #[inline]
    pub(crate) fn count(&self, status: u16) {
        self.requests.add(1);
        self.count_class(status);
    }

    /// The same of a response whose request was counted before its status was known.
    #[inline]
    pub(crate) fn count_class(&self, status: u16) {
        match status {
            300..=399 => self.redirections.add(1),
            400..=499 => self.client_errors.add(1),
            500..=599 => self.server_errors.add(1),
            _ => {}
        }
    }
}

counters! {
    /// Connections accepted, those refused included.
    connections,
    /// Connections closed with 503 because `connections_max` was reached, or the share of their address.
    connections_refused,
    /// Connections closed to make room for others, because their clients were idle or slow.
    connections_displaced,
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
    /// Requests that came over HTTP/2.
    http2_streams,
    /// Connections of HTTP/2 closed because the client broke the protocol.
    http2_errors,
    /// Connections of HTTP/2 closed because the client asked for much work in vain: resets, pings, settings.
    http2_abuses,
    /// Connections that spoke HTTP/3.
    http3_connections,
    /// Requests that came over HTTP/3.
    http3_streams,
    /// Responses of HTTP/3 that were cut off, because their file changed under way or could not be read.
    http3_streams_broken,
    /// Connections of HTTP/3 closed because the client broke the protocol.
    http3_errors,
    /// Connections of HTTP/3 closed because the client asked for much work in vain.
    http3_abuses,
    /// Clients of QUIC that had to show first that their address is their own (Retry).
    quic_retries,
    /// Datagrams of QUIC that the system refused to send, or had no room for and that the server does not keep.
    quic_unsent,
    /// Datagrams of QUIC that were handed on to the server whose sockets were taken over.
    quic_handed_on,
    /// Responses of HTTP/2 that were cut off, because their file changed under way or could not be read.
    http2_streams_broken,
    /// Requests that applications answered, those included that they gave up or whose clients went away.
    applications,
    /// Those of them that an application gave up, broke off, or kept waiting for too long.
    applications_failed,
    /// Those of them whose client went away, or did not do its part, before the response was over.
    applications_cancelled,
    /// Connections given to other servers in the middle of what they were about.
    sessions_given,
    /// Those of them that came back, as they had not moved.
    sessions_given_back,
    /// Connections taken in from other servers.
    sessions_adopted,
    /// Responses that this server goes on making while another one sends them.
    relays_begun,
    /// Those of them that were not made to their end: what they come from broke off, or the other server took no more.
    relays_broken,
    /// Connections lost to an error, or closed by the client in the middle of a response.
    connections_broken,
    /// Connections and requests that were ended by order at the admin address.
    stopped_by_order,
    /// Connections closed at the end of the stop timeout with their response unfinished.
    stop_aborted,
    /// Connections that went over to io_uring.
    ring_joined,
    /// Those that went back to epoll.
    ring_left,
    /// Receptions by io_uring that had to begin anew, because all buffers were in use.
    ring_starved,
    /// Responses by io_uring that a socket had no room for at once.
    ring_blocked,
    /// Requests answered, with any status.
    requests,
    /// Requests answered with 3xx.
    redirections,
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
    /// Requests told as business transactions (ARM).
    arm_told,
    /// Directives of pages that could not be carried out, includes that lead nowhere or in a circle among them.
    include_errors,
    /// Pages assembled from their parts.
    pages_assembled,
    /// Requests answered with 429 because their network made too many.
    rate_refused,
    /// Requests that no rate was held against, because its table was full.
    rate_untracked,
    /// Requests answered with 503 because too many passwords were to be checked.
    auth_busy,
    /// Requests that an adviser was asked about.
    advised,
    /// Those of them that were refused with 503.
    advice_refused,
    /// Those that were answered from the cache without a look at the file that was due, or with a page as it was
    /// assembled before.
    stale_allowed,
    /// Responses with a variant of the file.
    variants_served,
    /// Variants that were asked for and are not there.
    variants_missing,
    /// Responses that can go on in another variant.
    swappable,
    /// Times that one did.
    swaps,
    /// Variants that none could go on in: of another format, shorter, or not there.
    swaps_refused,
    /// Requests that waited for others of the same paths to be over.
    throttle_queued,
    /// Requests that were refused because too many of the same paths were under way, or waited.
    throttle_refused,
    /// Requests whose client went away while they waited.
    throttle_gone,
    /// Files that were loaded by order, before the first request for them; of each loop.
    warmed,
    /// Files and directories that were to be looked at for that, and were left out as too many waited.
    warm_dropped,
    /// Times that a loop of the reserve began to serve, and gave its part back.
    loops_begun,
    /// The same of the end.
    loops_given_back,
    /// Looks at how fast clients take what there is for them.
    link_looks,
    /// Connections whose readings were given up for those of others.
    links_evicted,
    /// Times that a loop could not take up a new configuration, because descriptors had run out.
    reload_failed,
    /// Access log lines written.
    log_lines,
    /// Access log lines dropped because the disk was full or the reader too slow.
    log_dropped,
}

/// A view on the counts of a server, also while it runs; see [`crate::Server::counters`].
#[derive(Debug, Clone)]
pub struct Counters(pub(crate) Arc<[LoopCounters]>);

impl Counters {
    /// Requests that are being answered, as of half a second ago at most: connections with a response under way or a
    /// password to be checked, or streams of HTTP/2 and HTTP/3: the larger of the two numbers.
    #[must_use]
    pub fn active(&self) -> u64 {
        let census = self.census();
        let connections = census.states[State::Sending as usize] + census.states[State::Password as usize];
        let streams = census.http2_streams + census.http3_streams;
        connections.max(streams)
    }

    /// Connections that are open, as of half a second ago at most.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.census().states.iter().sum()
    }

    /// What requests have waited for so far.
    #[must_use]
    pub fn waits(&self) -> Waits {
        let now_ms = clock::now_ms();
        let mut sum = Waits::default();
        for of_loop in self.0.iter() {
            let waits = &of_loop.waits;
            sum.queued_ns = sum.queued_ns.saturating_add(waits.queued_ns.read());
            sum.looked_ns = sum.looked_ns.saturating_add(waits.looked_ns.read());
            sum.parked_ns = sum.parked_ns.saturating_add(waits.parked_ms(now_ms).saturating_mul(NS_PER_MS));
        }
        sum
    }

    /// What all loops have at the moment.
    pub(crate) fn census(&self) -> Census {
        let mut sum = Census::default();
        self.0.iter().for_each(|of_loop| sum.add(&of_loop.board.read()));
        sum
    }
}

impl Counts {
    /// Responses by the class of their status: 2xx, 3xx, 4xx, 5xx.
    #[must_use]
    pub fn classes(&self) -> [u64; 4] {
        let others = [self.redirections, self.client_errors, self.server_errors];
        // The counts are not read at one moment, so that the rest may be behind.
        let good = self.requests.saturating_sub(others.iter().sum());
        [good, others[0], others[1], others[2]]
    }

    /// Responses with 503 that are no errors: rules refused a share, or a bound was reached.
    pub fn refused_by_choice(&self) -> u64 {
        self.advice_refused + self.throttle_refused
    }
}
