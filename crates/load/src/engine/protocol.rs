//! What a version of HTTP does of its own.

use crate::LoadError;
use crate::schedule::scheduler::NEVER;
use rustls::ClientConfig;
use std::sync::Arc;
use weir_wire::client::Outcome;

/// What became of an arrival whose time has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakenUp {
    /// Its request has begun.
    Begun,
    /// It waits for a connection.
    Queued,
    /// There was no room for it to wait.
    Dropped,
    /// The version of HTTP counts it itself, when it goes out.
    Elsewhere,
}

/// The part of a loop that depends on the version of HTTP: how requests go out, how responses are read, and how many
/// are under way on a connection.
///
/// The loop itself implements it, so that a call is one of the loop's own; nothing here is called through a pointer.
pub(crate) trait ProtocolLoop {
    /// What a connection is opened for.
    type Purpose;

    /// The run begins.
    fn begins(&mut self, _start_ns: u64) {}

    /// Whether something is due at times that no event tells of, arrivals apart.
    fn is_timed(&self) -> bool {
        false
    }

    /// Does what such times ask for.
    #[inline]
    fn wake(&mut self) {}

    /// When the next such time is.
    #[inline]
    fn next_wake_ns(&self) -> u64 {
        NEVER
    }

    /// Waits until this time at the latest, and deals with what happened.
    fn turn(&mut self, events: &mut [libc::epoll_event], until_ns: u64) -> Result<(), LoadError>;

    /// Whether events are held back for a while.
    #[inline]
    fn holds_events_back(&self) -> bool {
        false
    }

    /// Holds an event back, and tells whether it does.
    #[inline]
    fn hold_back(&mut self, _token: u64, _flags: u32) -> bool {
        false
    }

    /// An event of a connection, or of a former use of its slot.
    fn on_event(&mut self, token: u64, flags: u32);

    /// The time of an arrival has come.
    fn take_up(&mut self, intended_ns: u64) -> TakenUp;

    /// All arrivals that are due were taken up.
    fn took_up(&mut self);

    /// How many arrivals wait for a connection.
    fn queued(&self) -> usize;

    /// Gives up what waits for a connection.
    fn abandon_queued(&mut self);

    /// How many sessions are under way.
    fn sessions_under_way(&self) -> usize {
        0
    }

    /// Which of the plan's hosts a connection goes to.
    fn host_of(&self, purpose: &Self::Purpose) -> u32;

    /// Which of the source addresses it comes from, if the loop does not take them in turn.
    fn network_of(&self, purpose: &Self::Purpose) -> Option<u64>;

    /// The connection in a slot is about to be made.
    fn opening(&mut self, slot: usize, purpose: Self::Purpose);

    /// How a connection is encrypted, if not as all others to its host.
    fn own_encryption(&mut self, slot: usize) -> Option<Arc<ClientConfig>>;

    /// Whether what both sides agreed on in the handshake is this version; if not, the connection has failed.
    fn agrees(&mut self, slot: usize) -> bool;

    /// A connection can carry its first requests.
    fn ready(&mut self, slot: usize);

    /// The requests that a connection was to be made for fail with it, for a reason in words if it says more than the
    /// outcome; the connection is closed.
    fn not_made(&mut self, slot: usize, outcome: Outcome, words: Option<&str>);

    /// A connection was not made in time.
    fn not_made_in_time(&mut self, slot: usize);

    /// What the handshake's failure makes of the run where no handshake ever succeeded.
    fn no_handshake(&self, host: String, cause: String, error: &std::io::Error) -> LoadError;

    /// Takes back what a connection was to be opened for.
    fn take_purpose(&mut self, slot: usize) -> Self::Purpose;

    /// A connection is closed next; `was_counted` if it counted among those that are open until now.
    fn closing(&mut self, slot: usize, was_counted: bool);

    /// A connection counts as closed; its socket is closed next.
    fn closed(&mut self, slot: usize);

    /// Since when the first requests of a connection that is being made wait for it.
    fn waits_since_ns(&self, slot: usize) -> u64;

    /// Looks for requests without a connection that are overdue.
    fn look_at_held(&mut self, now_ns: u64);

    /// Looks for what is overdue on a connection that is made.
    fn look_at(&mut self, slot: usize, now_ns: u64);

    /// Begins what there is room for.
    fn begin_more(&mut self, now_ns: u64);

    /// The loop is over: what is left is counted.
    fn finished(&mut self);
}
