//! What a joiner counts beside the responses that it tells.

use crate::messages::LongLived;
use crate::notes::SourceCost;
use crate::served::Exchanges;
use weir_wire::client::Outcome;

/// Why a request could not be joined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unjoinable {
    /// No socket of the server has its addresses: another server, a proxy between, or an earlier connection.
    NoSocket,
    /// The arrival of its first byte is missing.
    NoArrival,
    /// No task was seen to take it: HTTP by other means than recv, or events were lost.
    NoPickUp,
    /// No send reaches the end of its response.
    NoSend,
    /// The answer was given before the request had all arrived, or before any of it was taken.
    EarlyAnswer,
    /// One of these is missing, and so are other events of the same moment: the recording has a gap there.
    Gap,
    /// HTTP/2: responses of one connection are sent in pieces between each other, so that no position tells them apart.
    Http2,
    /// The recording, or one of its windows, began or ended in the middle of it; told from the server's side only.
    Edge,
}

impl Unjoinable {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::NoSocket,
        Self::NoArrival,
        Self::NoPickUp,
        Self::NoSend,
        Self::EarlyAnswer,
        Self::Gap,
        Self::Http2,
        Self::Edge,
    ];

    /// Its name in JSON and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        ["no_socket", "no_arrival", "no_pick_up", "no_send", "early_answer", "gap", "http2", "edge"][self as usize]
    }
}

/// What of the time on the CPU could be divided.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunDivision {
    /// Time in `run` of which interrupts were recorded, nanoseconds.
    pub watched_ns: u64,
    /// What interrupts took of it, nanoseconds.
    pub interrupt_ns: u64,
    /// What the hypervisor took of it, nanoseconds; when within a turn on the CPU is not known, so that it is set at
    /// the turn's end.
    pub stolen_ns: u64,
}

/// Counts of a joiner.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Requests that were answered.
    pub requests: u64,
    /// Those that were joined.
    pub joined: u64,
    /// Those that were not, by reason.
    pub unjoinable: [u64; Unjoinable::ALL.len()],
    /// Requests that failed, by outcome's number.
    pub failed: [u64; Outcome::ALL.len()],
    /// Those of the answered requests that the client had sent before, on a connection that ended without answering.
    pub retried: u64,
    /// Arrivals that the generator dropped.
    pub dropped: u64,
    /// Boundaries that two clocks put in the wrong order, and that were moved to fit.
    pub moved: u64,
    /// Switches that must be missing.
    pub gaps: u64,
    /// Events that the kernel's recording lost.
    pub lost: u64,
    /// First and last event of a client.
    pub client_ns: Option<(u64, u64)>,
    /// Bytes of responses.
    pub bytes: u64,
    /// How far `run` could be divided.
    pub run: RunDivision,
    /// What the optional sources have cost.
    pub sources: Vec<SourceCost>,
    /// What the hypervisor took of the CPUs: (stolen, of so much time), nanoseconds, the sum over CPUs.
    pub stolen_ns: (u64, u64),
    /// What sockets showed beside the responses, where these are told from the server's side.
    pub exchanges: Exchanges,
    /// What stayed open and carried messages, and is no response among the others, by kind and name.
    pub long_lived: Vec<LongLived>,
    /// Waits that a runtime told of what its threads carry, and those of them of which it is not known for whose request.
    pub carried_waits: (u64, u64),
    /// What came to the server, whether or not a response became of it.
    pub seen: Seen,
}

/// Events at the server's sockets, whether or not a response came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections that came to a listening port.
    pub connections: u64,
    /// Arrivals of data at recorded ports.
    pub arrivals: u64,
    /// Data taken from clients' connections.
    pub received: u64,
    /// Data taken from sockets of which no connection is known.
    pub received_unknown: u64,
    /// Data given to clients' connections.
    pub sent: u64,
}
