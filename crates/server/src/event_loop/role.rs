//! A loop of the reserve: it serves when it is ordered to, and rests otherwise. Its sockets stay bound, and listen only
//! while it serves.
//!
//! When it begins it joins the loops that share the port. When it stops it accepts the connections that wait at its
//! sockets, then stops listening, so that the kernel chooses among the other loops; it finishes what is under way. The
//! kernel resets a client that arrives between these two steps, which are some microseconds apart.

/// Whether a loop serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoopRole {
    /// Always.
    Steady,
    /// It is the reserve's loop of this number, from 0, and rests.
    Resting(u32),
    /// The same, and serves.
    Serving(u32),
    /// The same, and finishes what is under way.
    Leaving(u32),
}

impl LoopRole {
    /// Whether it takes connections.
    pub(super) fn serves(self) -> bool {
        matches!(self, Self::Steady | Self::Serving(_))
    }

    pub(super) fn is_leaving(self) -> bool {
        matches!(self, Self::Leaving(_))
    }
}
