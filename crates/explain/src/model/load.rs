//! How a run's load was made.

/// How a run's load was made, as its command line tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Load {
    /// Requests came by a schedule.
    pub(super) is_open: bool,
    /// Connections that it had at most.
    pub(super) connections: Option<u32>,
}
