//! How the bytes of a connection come and go.

/// How bytes come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// By a call each, told by epoll when there is something to do.
    Socket,
    /// A reception is armed in the ring, and small responses go out by it.
    Ring,
    /// That reception is being ended; what it still brings is not lost.
    Leaving,
}
