//! What a loop has at the moment: its connections by what they wait for, streams, what is in memory.
//!
//! A loop takes the census when it checks deadlines, twice a second and once more before it sleeps without a timeout:
//! so it costs requests nothing, and is half a second old at most.

use crate::counters::counter::Counter;

/// What a connection is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// A handshake or the head of a request is awaited.
    Reading,
    /// Nothing is asked.
    Idle,
    /// A request's body is read past.
    Body,
    /// Responses are under way.
    Sending,
    /// A password is being checked.
    Password,
    /// It ends when the client has noticed.
    Closing,
}

impl State {
    /// All of them with the names under which they are told, in the order of their numbers.
    pub(crate) const ALL: [(Self, &str); 6] = [
        (Self::Reading, "reading"),
        (Self::Idle, "idle"),
        (Self::Body, "body"),
        (Self::Sending, "sending"),
        (Self::Password, "password"),
        (Self::Closing, "closing"),
    ];
}

/// A count of what there is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Census {
    /// Connections by [`State`].
    pub(crate) states: [u64; State::ALL.len()],
    /// Of them those of HTTP/2, and the streams on them.
    pub(crate) http2_connections: u64,
    pub(crate) http2_streams: u64,
    /// The same of HTTP/3.
    pub(crate) http3_connections: u64,
    pub(crate) http3_streams: u64,
    /// Connections and streams that became tunnels.
    pub(crate) tunnels: u64,
    /// Responses under way, those of tunnels left out.
    pub(crate) responses: u64,
    /// What caches hold: bytes, entries.
    pub(crate) cache_bytes: u64,
    pub(crate) cache_entries: u64,
    /// Of it what is kept by order.
    pub(crate) pinned_bytes: u64,
    pub(crate) pinned_entries: u64,
}

impl Census {
    /// Counts a connection; `streams` are those of HTTP/2.
    pub(crate) fn count(&mut self, state: State, streams: Option<usize>) {
        self.states[state as usize] += 1;
        if let Some(streams) = streams {
            self.http2_connections += 1;
            self.http2_streams += streams as u64;
        }
    }

    /// Counts a connection of HTTP/3 with its streams.
    pub(crate) fn count_http3(&mut self, state: State, streams: usize) {
        self.states[state as usize] += 1;
        self.http3_connections += 1;
        self.http3_streams += streams as u64;
    }

    /// Counts what a connection has under way.
    pub(crate) fn count_under_way(&mut self, tunnels: usize, responses: usize) {
        self.tunnels += tunnels as u64;
        self.responses += responses as u64;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.states.iter_mut().zip(other.states).for_each(|(to, from)| *to += from);
        self.http2_connections += other.http2_connections;
        self.http2_streams += other.http2_streams;
        self.http3_connections += other.http3_connections;
        self.http3_streams += other.http3_streams;
        self.tunnels += other.tunnels;
        self.responses += other.responses;
        self.cache_bytes += other.cache_bytes;
        self.cache_entries += other.cache_entries;
        self.pinned_bytes += other.pinned_bytes;
        self.pinned_entries += other.pinned_entries;
    }
}

/// The last census of a loop, which others read.
#[derive(Debug, Default)]
pub(crate) struct Board {
    states: [Counter; State::ALL.len()],
    http2_connections: Counter,
    http2_streams: Counter,
    http3_connections: Counter,
    http3_streams: Counter,
    tunnels: Counter,
    responses: Counter,
    cache_bytes: Counter,
    cache_entries: Counter,
    pinned_bytes: Counter,
    pinned_entries: Counter,
}

impl Board {
    pub(crate) fn put(&self, census: &Census) {
        self.states.iter().zip(census.states).for_each(|(to, from)| to.set(from));
        self.http2_connections.set(census.http2_connections);
        self.http2_streams.set(census.http2_streams);
        self.http3_connections.set(census.http3_connections);
        self.http3_streams.set(census.http3_streams);
        self.tunnels.set(census.tunnels);
        self.responses.set(census.responses);
        self.cache_bytes.set(census.cache_bytes);
        self.cache_entries.set(census.cache_entries);
        self.pinned_bytes.set(census.pinned_bytes);
        self.pinned_entries.set(census.pinned_entries);
    }

    pub(crate) fn read(&self) -> Census {
        Census {
            states: std::array::from_fn(|state| self.states[state].read()),
            http2_connections: self.http2_connections.read(),
            http2_streams: self.http2_streams.read(),
            http3_connections: self.http3_connections.read(),
            http3_streams: self.http3_streams.read(),
            tunnels: self.tunnels.read(),
            responses: self.responses.read(),
            cache_bytes: self.cache_bytes.read(),
            cache_entries: self.cache_entries.read(),
            pinned_bytes: self.pinned_bytes.read(),
            pinned_entries: self.pinned_entries.read(),
        }
    }
}
